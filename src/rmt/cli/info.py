"""`rmt info BACKBONE`: what memory would be for a pretrained model, without loading its weights."""

from __future__ import annotations

from collections.abc import Sequence

from rmt.cli.arguments import command, parsed
from rmt.errors import ConfigError

EXAMPLES = """examples:
  rmt info roberta-base
  rmt info ./my-gpt2 --memory 32 --layout causal"""


def main(argv: Sequence[str]) -> int:
    parser = command("rmt info", "Layout, limits and parameters of memory for a pretrained model.", EXAMPLES)
    parser.add_argument(
        "backbone", metavar="BACKBONE", help="folder or name on the hub; only config.json is read"
    )
    parser.add_argument("--memory", type=int, default=10, help="memory tokens (default: 10)")
    parser.add_argument("--layout", help="paper, prefix (encoders) or causal (decoders)")
    arguments = parsed(parser, argv)
    if arguments is None:
        return 0
    if arguments.memory < 0:
        raise ConfigError(f"memory={arguments.memory} must be at least 0")
    from rmt.documents.describe import describe

    for name, value in describe(arguments.backbone, arguments.memory, arguments.layout).items():
        print(f"{name:12} {value}")
    return 0
