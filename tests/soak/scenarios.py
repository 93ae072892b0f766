"""Commands that can be ended and started again, and what they leave."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.cli.command import TRAIN, varied
from tests.soak.workspace import FINETUNE, TINY_TEXT

OFTEN = "--train.save_every 2 --train.evaluate_every 3 --train.log_every 1"

OUT = "out"  # where everything goes that they make


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A command that goes on where it was ended."""

    name: str
    line: str
    left: str = OUT  # the file or folder whose being there says that it was begun
    resumed: Callable[[str], str] = str  # the line that goes on, made of the first
    needs: tuple[str, ...] = ()  # of the workspace
    is_quick: bool = True  # no processes of its own

    def words(self, folder: Path) -> list[str]:
        """The command line that starts it, or goes on."""
        goes_on = (folder / self.left).exists()
        return varied(self.resumed(self.line) if goes_on else self.line)


SCENARIOS = [
    Scenario(
        name="train",
        line=f"{TRAIN} --steps 9 --model.dropout 0.2 {OFTEN} --out {OUT}",
    ),
    Scenario(
        name="train in windows",
        line=f"{TRAIN} --steps 9 --schedule sliding --depth 1 {OFTEN} --on_nan back --out {OUT}",
    ),
    Scenario(
        name="train text",
        needs=("book.txt",),
        line=f"train text --data book.txt --out {OUT} {TINY_TEXT} --steps 8 {OFTEN}",
    ),
    Scenario(
        name="seeds",
        line=f"{TRAIN} --steps 8 --seeds 3 {OFTEN} --out {OUT}",
    ),
    Scenario(
        name="stream",
        needs=("book.txt", "book-run"),
        line=f"stream book-run book.txt --save {OUT}/saved --save_every 8 --quiet --device cpu",
        left=f"{OUT}/saved",
        resumed=lambda line: line.replace("--save ", "--resume "),
    ),
    Scenario(
        name="reproduce",
        is_quick=False,
        line=f"reproduce figure-8 --scale tiny --steps 2 --seeds 1 --workers 2 --device cpu --out {OUT}",
    ),
    Scenario(
        name="finetune",
        needs=("documents.jsonl", "bert"),
        line=f"finetune documents.jsonl {FINETUNE} --epochs 2 --evaluate_every 2 --out {OUT} --quiet",
    ),
]


def possible() -> list[Scenario]:
    """The scenarios for which the workspace has all; without an extra, it lacks some."""
    return [scenario for scenario in SCENARIOS if all(Path(name).exists() for name in scenario.needs)]
