"""`python -m tests.soak`: kills, hostile systems, damaged files and odd options, with counts at the end."""

import argparse
import os
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # odd names are not asked for on the network
os.environ.setdefault("RMT_COMMIT", "soak")  # the same in all results, without asking git

from tests.soak.attempts import BAD, Attempt
from tests.soak.damaged import damaged_attempts
from tests.soak.kills import killed_attempts
from tests.soak.odd_options import odd_attempts
from tests.soak.shares import Cases, make_whole, shared
from tests.soak.systems import system_attempts

PARTS: dict[str, Cases] = {
    "kills": killed_attempts,
    "system": system_attempts,
    "damaged": damaged_attempts,
    "options": odd_attempts,
}
COUNTS = {"kills": 200, "system": 70, "damaged": 5_000, "options": 15_000}
PAUSE_SECONDS = 30.0  # between two lines of progress


def soak(counts: dict[str, int], seed: int, jobs: int, folder: Path) -> tuple[Counter[str], list[Attempt]]:
    """Outcomes counted, and what should not have been, of so many cases of each part.

    The folder has a workspace, `whole`, from which those of the processes are copied.
    """
    outcomes: Counter[str] = Counter()
    cases: Counter[str] = Counter()
    bad, told = [], time.monotonic()
    for part, attempt in shared(counts, PARTS, seed, jobs, folder):
        outcomes[attempt.outcome] += 1
        cases[part] += 1
        if not attempt.is_good:
            bad.append(attempt)
            print(f"{attempt.outcome}: rmt {' '.join(attempt.words)!r}\n{attempt.detail}", flush=True)
        if time.monotonic() - told > PAUSE_SECONDS:
            told = time.monotonic()
            print(*(f"{name} {number:,}" for name, number in cases.items()), flush=True)
    return outcomes, bad


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    for part, count in COUNTS.items():
        parser.add_argument(f"--{part}", type=int, help=f"so many; {count:,} unless a part is named")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    asked = vars(parser.parse_args())
    named = {part: asked[part] for part in PARTS if asked[part] is not None}
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        make_whole(Path(folder, "whole"))
        outcomes, bad = soak(named or COUNTS, asked["seed"], asked["jobs"], Path(folder))
    print(
        f"{(time.monotonic() - begin) / 60:.1f} minutes: kills {outcomes['killed']:,}, "
        f"stops {outcomes['stopped']:,}, resumed {outcomes['resumed']:,}, cases {outcomes.total():,} "
        f"(done {outcomes['done']:,}, refused {outcomes['refused']:,}, failed {outcomes['failed']:,})"
    )
    labels = ("silently wrong", "tracebacks", "hangs", "different after resume", "untidy")
    print(", ".join(f"{label} {outcomes[name]}" for label, name in zip(labels, BAD, strict=True)))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
