"""`rmt export RUN|FOLDER -o FILE`: one segment of a trained or wrapped model as a file for other programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rmt.cli.front import Command, TrustOptions
from rmt.cli.pretrained import quiet_transformers
from rmt.config import at_least, option, required
from rmt.errors import ConfigError
from rmt.location import trusting

EXAMPLES = """examples:
  rmt export runs/text-rmt-modern-0 -o model.onnx
  rmt export with-memory -o model.pt2 --batch 4      a folder of model.save_pretrained"""


@dataclass(frozen=True, kw_only=True)
class ExportOptions(TrustOptions):
    """The options of `rmt export`."""

    model: str = required("run folder or checkpoint, or folder of a wrapped model", argument="RUN|FOLDER")
    out: str = option("model.pt2", "the file to write, .pt2 or .onnx")
    segment_length: int | None = option(None, "tokens per segment; none = the model's own", at_least(1))
    batch: int = option(1, "sequences side by side", at_least(1))


COMMAND = Command(
    "export",
    "Write one segment of fixed length and batch, (tokens, state) -> (logits, state), as .pt2 or .onnx.",
    EXAMPLES,
    ExportOptions,
    aliases={"o": "out"},
)


def main(argv: Sequence[str]) -> int:
    options = COMMAND.parse(argv)
    if options is None:
        return 0
    from rmt.infer.export import export

    with trusting(options.trust):
        model, length = opened(options.model)
        files = export(model, options.out, options.segment_length or length, options.batch)
    for file in files:
        print(f"{file}  {file.stat().st_size:,} bytes")
    return 0


def opened(folder: str) -> tuple[Any, int]:
    """The model in a folder, and its tokens per segment."""
    from rmt.experiments.wrapped_look import is_wrapped

    if not is_wrapped(Path(folder)):
        from rmt.experiments.opened import open_run

        run = open_run(folder, asked="32-true")
        return run.model, run.segment_length
    quiet_transformers()
    import transformers

    from rmt.documents.pretrained import PretrainedSource, model_options
    from rmt.hf.model import WithMemory

    source = PretrainedSource("model", folder)
    if type(kind := source.config()) not in transformers.MODEL_FOR_CAUSAL_LM_MAPPING:
        raise ConfigError(
            f"model={folder!r} is of type {kind.model_type!r}: only decoders with memory, and runs of rmt "
            "train, can be exported; name one of these"
        )
    model = source.load(transformers.AutoModelForCausalLM, **model_options())
    if not isinstance(model, WithMemory):
        raise ConfigError(f"model={folder!r} has no memory; save one that rmt.add_memory made")
    return model, model.settings.segment_length
