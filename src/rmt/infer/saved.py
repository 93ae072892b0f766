"""A session as one file: safetensors with a checksum and the fingerprint of its model, written whole."""

# B batch · T ids of the open segment · D width

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from rmt.core.state import State
from rmt.errors import CheckpointError

FORMAT = "rmt-session-1"


class Held(NamedTuple):
    """What a session holds between two calls, without what can be computed from it."""

    state: State  # before the open segment
    open: Tensor  # (B, T) ids of the open segments, left-aligned
    length: Tensor  # (B,) how many of them a row has
    last: Tensor  # (B, D) hidden state of the last token
    seen: Tensor  # (B,) tokens read
    scored: Tensor  # (B,) tokens predicted
    loss: Tensor  # (B,) sum of their losses

    def to(self, device: torch.device) -> Held:
        """Memory, cache, last state and loss on a device; ids and counts stay on the CPU."""
        state = State(
            self.state.memory.to(device),
            tuple(rows.to(device) for rows in self.state.cache),
            self.state.cached.to(device),
        )
        return self._replace(state=state, last=self.last.to(device), loss=self.loss.to(device))


def write_session(path: Path, held: Held, model: Any, segment_length: int, note: dict[str, Any]) -> None:
    """Write under another name, flush, then rename: whoever looks sees the old session or the new one."""
    tensors = {
        name: tensor.cpu().clone(memory_format=torch.contiguous_format)
        for name, tensor in named(held).items()
    }
    about = {
        "format": FORMAT,
        "model": fingerprint(model),
        "segment_length": str(segment_length),
        "note": json.dumps(note, sort_keys=True),
    }
    partial = path.with_name(f".{path.name}.partial")
    try:
        save_file(tensors, partial, about | {"sha256": digest(tensors, about)})
        with partial.open("rb") as file:
            os.fsync(file.fileno())
        os.replace(partial, path)
    except (OSError, SafetensorError) as error:
        reason = getattr(error, "strerror", None) or error
        raise CheckpointError(
            f"session {str(path)!r} cannot be written ({reason}); name another place"
        ) from None


def read_session(path: Path, model: Any) -> tuple[Held, int, dict[str, Any]]:
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
    if about.get("format") != FORMAT:
        raise CheckpointError(f"{str(path)!r} is not a session (format {about.get('format')!r})")
    if digest(tensors, about) != expected:
        raise damaged(path, "its content does not match its checksum")
    if about["model"] != fingerprint(model):
        raise CheckpointError(
            f"session {str(path)!r} is of another model: {about['model']}, not {fingerprint(model)}; "
            "load the model it was saved with"
        )
    cache = tuple(tensors[name] for name in sorted(tensors, key=number_of) if name.startswith("cache."))
    state = State(tensors["memory"], cache, tensors["cached"])
    held = Held(state, *(tensors[name] for name in Held._fields[1:]))
    return held, int(about["segment_length"]), json.loads(about["note"])


def named(held: Held) -> dict[str, Tensor]:
    """The tensors of a session by their names in the file."""
    cache = {f"cache.{layer}": rows for layer, rows in enumerate(held.state.cache)}
    own = dict(zip(Held._fields[1:], held[1:], strict=True))
    return {"memory": held.state.memory, "cached": held.state.cached, **cache, **own}


def number_of(name: str) -> int:
    return int(name.rpartition(".")[2]) if name.startswith("cache.") else -1


def digest(tensors: dict[str, Tensor], about: dict[str, str]) -> str:
    """A checksum of all tensors and of what is said about them."""
    found = hashlib.sha256(json.dumps(about, sort_keys=True).encode())
    for name in sorted(tensors):
        found.update(f"{name} {tensors[name].dtype} {tuple(tensors[name].shape)}".encode())
        found.update(content(tensors[name]))
    return found.hexdigest()


def fingerprint(model: Any) -> str:
    """What two models have to share to be the same: settings, and every weight to the last bit.

    It is computed again only after a weight was written to.
    """
    weights = model.state_dict(keep_vars=True)
    key = tuple((name, weight.data_ptr(), weight._version) for name, weight in weights.items())
    known = model.__dict__.get("_fingerprint")
    if known is not None and known[0] == key:
        return str(known[1])
    found = hashlib.sha256(repr(getattr(model, "settings", model.config)).encode())
    for name, weight in weights.items():
        found.update(f"{name} {weight.dtype} {tuple(weight.shape)}".encode())
        found.update(content(weight.detach().cpu()))
    model.__dict__["_fingerprint"] = (key, found.hexdigest()[:16])
    return found.hexdigest()[:16]


def content(tensor: Tensor) -> bytes:
    """The bytes of a tensor on the CPU, of any number format."""
    return tensor.contiguous().flatten().view(torch.uint8).numpy().tobytes()


def damaged(path: Path, how: str) -> CheckpointError:
    return CheckpointError(f"session {str(path)!r} is damaged: {how}; go on from another copy")
