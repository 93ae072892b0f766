"""`python -m tests.soak`: odd options and damaged files by the thousand, with counts at the end."""

import argparse
import os
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import chdir
from importlib.util import find_spec
from itertools import chain, islice
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # odd names are not asked for on the network

from tests.soak.attempts import Attempt, attempt
from tests.soak.damage import damages
from tests.soak.odd_options import odd_options
from tests.soak.workspace import add_backbone, add_other_formats, make_workspace

BAD = ("traceback", "hang", "untidy")


def odd_attempts(count: int, seed: int, with_backbone: bool) -> Iterator[Attempt]:
    """Command lines with odd values; what one leaves behind is gone before the next."""
    for words in islice(odd_options(seed, with_backbone), count):
        yield attempt(words)
        restore(Path())


def damaged_attempts(count: int, seed: int) -> Iterator[Attempt]:
    """Commands on damaged files, each of which is whole again before the next."""
    from rmt.tasks.babi import open_library

    for damage in islice(damages(seed), count):
        damage.file.write_bytes(damage.content)
        open_library.cache_clear()
        result = attempt(damage.words)
        yield result._replace(detail=f"{damage.file} {damage.kind}: {result.detail}")
        restore(damage.file, "run", "tuned")


def restore(*changed: str | Path) -> None:
    """The workspace as it was: what is new goes, what was changed comes back."""
    whole = Path("..", "whole")
    names = {path.name for path in whole.iterdir()}
    for path in Path().iterdir():
        if path.name not in names:
            remove(path)
    for name in {Path(path).parts[0] for path in changed if Path(path).parts} & names:
        remove(Path(name))
        copy = shutil.copytree if (whole / name).is_dir() else shutil.copy
        copy(whole / name, name)


def remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def soak(options: int, damaged: int, seed: int) -> tuple[Counter[str], list[Attempt]]:
    """Counts by outcome, and what should not have been, of so many cases of each kind."""
    counts: Counter[str] = Counter()
    bad = []
    with tempfile.TemporaryDirectory() as folder:
        workspace = Path(folder, "a", "b", "workspace")  # odd paths such as ../.. stay inside
        workspace.mkdir(parents=True)
        with chdir(workspace):
            make_workspace()
            with_backbone = find_spec("transformers") is not None
            if with_backbone:
                add_backbone()
            add_other_formats()
            shutil.copytree(".", "../whole")
            for result in chain(odd_attempts(options, seed, with_backbone), damaged_attempts(damaged, seed)):
                counts[result.outcome] += 1
                if not result.is_good:
                    bad.append(result)
                    print(f"{result.outcome}: rmt {' '.join(result.words)!r}\n{result.detail}", flush=True)
    return counts, bad


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--options", type=int, default=15_000, help="command lines with odd values")
    parser.add_argument("--damaged", type=int, default=5_000, help="damaged files")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    counts, bad = soak(asked.options, asked.damaged, asked.seed)
    print(
        f"cases {counts.total():,}", *(f"{name} {counts[name]:,}" for name in ("done", "refused", "failed"))
    )
    print(*(f"{name} {counts[name]}" for name in BAD))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
