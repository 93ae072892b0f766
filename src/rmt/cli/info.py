"""`rmt info BACKBONE`: what memory would be for a pretrained model, without loading its weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from rmt.cli.front import Command, TrustOptions
from rmt.cli.pretrained import quiet_transformers
from rmt.config import at_least, option, required
from rmt.location import trusting

EXAMPLES = """examples:
  rmt info roberta-base
  rmt info ./my-gpt2 --memory 32 --layout causal"""


@dataclass(frozen=True, kw_only=True)
class InfoOptions(TrustOptions):
    """The options of `rmt info`."""

    backbone: str = required("folder or name on the hub; only config.json is read", argument="BACKBONE")
    memory: int | None = option(None, "memory tokens; none = ten", at_least(0))
    cache: int | None = option(
        None, "tokens before a segment that every layer of a decoder sees; none = no cache", at_least(0)
    )
    layout: Literal["paper", "prefix", "causal"] | None = option(
        None, "paper, prefix (encoders) or causal (decoders); none = paper"
    )


COMMAND = Command(
    "info", "Layout, limits and parameters of memory for a pretrained model.", EXAMPLES, InfoOptions
)


def main(argv: Sequence[str]) -> int:
    options = COMMAND.parse(argv)
    if options is None:
        return 0
    quiet_transformers()
    from rmt.documents.describe import describe

    with trusting(options.trust):
        lines = describe(options.backbone, memory=options.memory, layout=options.layout, cache=options.cache)
    for name, value in lines.items():
        print(f"{name:12} {value}")
    return 0
