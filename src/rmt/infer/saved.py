"""A session as one file: safetensors with a checksum and the fingerprint of its model, written whole."""

# B batch · T ids of the open segment · D width

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from rmt.config import changed
from rmt.core.state import State
from rmt.errors import CheckpointError
from rmt.jsonfile import parse_json
from rmt.nn.widest import widest
from rmt.store import write_whole

FORMAT = "rmt-session-2"
FIRST_FORMAT = "rmt-session-1"  # of releases before memory had kinds


class SessionContents(NamedTuple):
    """What a session holds between two calls, without what can be computed from it."""

    state: State  # before the open segment
    open: Tensor  # (B, T) ids of the open segments, left-aligned
    length: Tensor  # (B,) how many of them a row has
    last: Tensor  # (B, D) hidden state of the last token
    seen: Tensor  # (B,) tokens so far
    scored: Tensor  # (B,) tokens predicted
    loss: Tensor  # (B,) sum of their losses

    def to(self, device: torch.device) -> SessionContents:
        """Memory, cache, last state and loss on a device; ids and counts stay on the CPU."""
        loss = self.loss.to(widest(device)).to(device)
        return self._replace(state=self.state.to(device), last=self.last.to(device), loss=loss)


def write_session(
    path: Path, contents: SessionContents, model: Any, segment_length: int, note: dict[str, Any]
) -> None:
    """Write a session whole: whoever looks sees the old one or the new one."""
    tensors = {
        name: tensor.cpu().clone(memory_format=torch.contiguous_format)
        for name, tensor in named(contents).items()
    }
    about = {
        "format": FORMAT,
        "model": fingerprint(model),
        "segment_length": str(segment_length),
        "note": json.dumps(note, sort_keys=True),
    }
    data = save(tensors, about | {"sha256": digest(tensors, about)})
    try:
        write_whole(path, data)
    except OSError as error:
        raise CheckpointError(f"session {error}") from None


def load_session(path: Path, model: Any) -> tuple[SessionContents, int, dict[str, Any]]:
    """What a file holds, its segment length and its note; damage and other models are refused."""
    if not path.is_file():
        raise CheckpointError(
            f"session {str(path)!r} does not exist; name a file that a session was saved to"
        )
    try:
        with safe_open(path, "pt") as file:
            about = dict(file.metadata() or {})
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError) as error:
        raise damaged(path, f"it cannot be read ({error})") from None
    expected = about.pop("sha256", "")
    if about.get("format") not in (FORMAT, FIRST_FORMAT):
        raise CheckpointError(f"{str(path)!r} is not a session (format {about.get('format')!r})")
    if digest(tensors, about) != expected:
        raise damaged(path, "its content does not match its checksum")
    identity = fingerprint(model) if about["format"] == FORMAT else first_fingerprint(model)
    if about["model"] != identity:
        raise CheckpointError(
            f"session {str(path)!r} is of another model: {about['model']}, not {identity}; "
            "load the model it was saved with"
        )
    with torch.no_grad():
        form = model.initial_state(len(tensors["length"]))
    state = form.unflatten(tensors[name] for name in form.named())
    contents = SessionContents(state, *(tensors[name] for name in SessionContents._fields[1:]))
    return contents, int(about["segment_length"]), parse_json(about["note"])


def named(contents: SessionContents) -> dict[str, Tensor]:
    """The tensors of a session by their names in the file."""
    rest = dict(zip(SessionContents._fields[1:], contents[1:], strict=True))
    return {**contents.state.named(), **rest}


def digest(tensors: dict[str, Tensor], about: dict[str, str]) -> str:
    """A checksum of all tensors and of what is said about them."""
    checksum = hashlib.sha256(json.dumps(about, sort_keys=True).encode())
    add_tensors(checksum, dict(sorted(tensors.items())))
    return checksum.hexdigest()


def fingerprint(model: Any) -> str:
    """What two models have to share to be the same: settings, and every weight to the last bit.

    It is computed again only after a setting has changed or a weight was written to. A setting at its
    default does not count, so a later release may have more of them.
    """
    weights = model.state_dict(keep_vars=True)
    settings = json.dumps(changed(getattr(model, "settings", model.config)), sort_keys=True)
    key = settings, *((name, *written_state(weight)) for name, weight in weights.items())
    known = model.__dict__.get("_fingerprint")
    if known is not None and known[0] == key:
        return str(known[1])
    checksum = hashlib.sha256(settings.encode())
    add_tensors(checksum, weights)
    model.__dict__["_fingerprint"] = (key, checksum.hexdigest()[:16])
    return checksum.hexdigest()[:16]


def written_state(weight: Tensor) -> tuple[float, ...]:
    """What changes when a weight is written to, also through `.data`, of which its version does not know."""
    version = 0 if weight.is_inference() else weight._version
    return weight.data_ptr(), version, float(weight.detach().sum(dtype=widest(weight.device)))


def first_fingerprint(model: Any) -> str:
    """The fingerprint as it was in the first format: of the settings as they were written then."""
    settings = repr(getattr(model, "settings", model.config)).replace("MemorySettings(", "Settings(")
    for newer in ("kind='tokens', ", "output='tied', ", "cache=0, sink=0, ", ", sink=0"):
        settings = settings.replace(newer, "")
    checksum = hashlib.sha256(settings.encode())
    tokens = "memory.weight" if hasattr(model, "settings") else "memory.tokens"
    names = {"memory.tokens.weight": tokens}
    add_tensors(checksum, {names.get(name, name): weight for name, weight in model.state_dict().items()})
    return checksum.hexdigest()[:16]


def add_tensors(checksum: Any, tensors: dict[str, Tensor]) -> None:
    """Count names, number formats, shapes and contents."""
    for name, tensor in tensors.items():
        checksum.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        checksum.update(content(tensor.detach().cpu()))


def content(tensor: Tensor) -> bytes:
    """The bytes of a tensor on the CPU, of any number format."""
    return tensor.contiguous().flatten().view(torch.uint8).numpy().tobytes()


def damaged(path: Path, how: str) -> CheckpointError:
    return CheckpointError(f"session {str(path)!r} is damaged: {how}; go on from another copy")
