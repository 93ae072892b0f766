"""One segment of fixed length and batch as a file: (tokens, state) -> (logits, state), without this package.

A `.pt2` file is torch.export's, for torch and for C++; an `.onnx` file is for any runtime of ONNX. Beside it
stand `NAME.json`, which names inputs, outputs and sizes, and `NAME.safetensors` with the initial state.
"""

# B batch · L tokens · V vocabulary

from __future__ import annotations

import contextlib
import io
import json
import logging
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors.torch import save
from torch import Tensor, nn

from rmt.core.inputs import whole_number
from rmt.core.state import State
from rmt.errors import ConfigError
from rmt.infer.session import length_of
from rmt.infer.work import evaluation_mode

INSTALL = "pip install 'recurrent-memory[export]'"


class ExportedFiles(NamedTuple):
    """What was written."""

    program: Path
    description: Path
    initial_state: Path


class FlatSegment(nn.Module):
    """A segment model whose state is a row of tensors; those of no numbers are left out."""

    def __init__(self, model: Any, batch: int):
        super().__init__()
        self.model = model
        self.form: State = model.initial_state(batch).map(lambda tensor: tensor.detach().clone())

    @property
    def names(self) -> list[str]:
        """The names of the state's tensors, in their order."""
        return [name for name, tensor in self.form.named().items() if tensor.numel()]

    @property
    def initial(self) -> tuple[Tensor, ...]:
        """The state before the first segment."""
        return tuple(tensor for tensor in self.form.flat() if tensor.numel())

    def forward(self, tokens: Tensor, *tensors: Tensor) -> tuple[Tensor, ...]:
        """Logits (B, L, V) of tokens (B, L), and the next state."""
        rest = iter(tensors)
        state = self.form.unflatten(next(rest) if part.numel() else part for part in self.form.flat())
        output = self.model(tokens, state)
        after = [tensor for tensor in output.state.flat() if tensor.numel()]
        return output.logits, *(tensor.clone() for tensor in after)


def export(model: Any, path: str | Path, segment_length: int | None = None, batch: int = 1) -> ExportedFiles:
    """Write one segment of a native or wrapped model to `path`, a .pt2 or an .onnx file."""
    path = Path(path)
    if path.suffix not in WRITERS:
        raise ConfigError(f"out={str(path)!r} is neither .pt2 nor .onnx; name one of them")
    if not path.parent.is_dir():
        raise ConfigError(
            f"out={str(path)!r}: there is no folder {str(path.parent)!r}; make it, or name another"
        )
    files = ExportedFiles(path, path.with_suffix(".json"), path.with_suffix(".safetensors"))
    refuse_other_files(files)
    length, batch = length_of(model, segment_length), whole_number("batch", batch)
    segments = model.exportable() if hasattr(model, "exportable") else model
    segment = FlatSegment(segments, batch)
    tokens = torch.zeros(batch, length, dtype=torch.long, device=segment.form.cached.device)
    with evaluation_mode(segments), torch.no_grad(), quiet():
        try:
            program = torch.export.export(segment, (tokens, *segment.initial), strict=False)
            WRITERS[path.suffix](program, segment, path)
        except ConfigError:
            raise
        except Exception as error:  # exporters raise whatever an operation makes them stumble over
            raise ConfigError(f"{type(model).__name__} cannot be exported: {first_line(error)}") from error
        logits = segment(tokens, *segment.initial)[0]
    describe(files, segment, tokens, logits)
    return files


def refuse_other_files(files: ExportedFiles) -> None:
    """Raise where a file of this name stands beside the program and no export wrote it, such as weights."""
    try:
        described = json.loads(files.description.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        described = None
    if isinstance(described, dict) and described.get("initial_state") == files.initial_state.name:
        return
    for file in files[1:]:
        if file.exists():
            raise ConfigError(
                f"out={str(files.program)!r} would replace {str(file)!r}, which no export wrote; name another"
            )


def write_pt2(program: Any, segment: FlatSegment, path: Path) -> None:
    """The program as torch saves it."""
    torch.export.save(program, path)


def write_onnx(program: Any, segment: FlatSegment, path: Path) -> None:
    """The program as ONNX, weights included."""
    try:
        import onnxscript  # noqa: F401
    except ImportError:
        raise ConfigError(f"an .onnx file needs onnxscript: {INSTALL}") from None
    names = segment.names
    converted = torch.onnx.export(
        program,
        dynamo=True,
        verbose=False,
        input_names=["tokens", *names],
        output_names=["logits", *(f"next.{name}" for name in names)],
    )
    if converted is None:
        raise ConfigError("torch.onnx made no program")
    converted.save(str(path), external_data=False)


WRITERS: dict[str, Callable[[Any, FlatSegment, Path], None]] = {".pt2": write_pt2, ".onnx": write_onnx}


def describe(files: ExportedFiles, segment: FlatSegment, tokens: Tensor, logits: Tensor) -> None:
    """Write what a caller has to know beside the program."""
    state = dict(zip(segment.names, segment.initial, strict=True))
    contents = {
        "inputs": {"tokens": form_of(tokens), **{name: form_of(tensor) for name, tensor in state.items()}},
        "outputs": {
            "logits": form_of(logits),
            **{f"next.{name}": form_of(tensor) for name, tensor in state.items()},
        },
        "initial_state": files.initial_state.name,
    }
    files.description.write_text(json.dumps(contents, indent=2) + "\n", encoding="utf-8")
    files.initial_state.write_bytes(save({name: part.contiguous().cpu() for name, part in state.items()}))


def form_of(tensor: Tensor) -> dict[str, Any]:
    """The shape and the number format of a tensor."""
    return {"shape": list(tensor.shape), "type": str(tensor.dtype).removeprefix("torch.")}


def first_line(error: Exception) -> str:
    """The first line of an error that says something."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[0] if lines else type(error).__name__)[:200]


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Without the exporters' progress and their advice to users of older releases."""
    log = logging.getLogger("torch.onnx")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        log.setLevel(level)
