"""Commands that are ended again and again, anywhere, and go on: they end as if nothing had happened."""

import random
import shutil
from collections.abc import Callable, Iterator
from functools import cache
from itertools import cycle
from pathlib import Path
from typing import NamedTuple

from tests.soak.attempts import Attempt
from tests.soak.children import STOPS, Ending, run
from tests.soak.compared import differences
from tests.soak.plugs import AtByte, AtEvent, AtTime, Plug
from tests.soak.scenarios import OUT, Scenario, possible

MAX_KILLS = 3  # of one run
CASE, WHOLE = Path("case"), Path("uninterrupted")


class Reference(NamedTuple):
    """A run that nothing has ended."""

    scenario: Scenario
    ending: Ending
    left: Path
    largest: int  # bytes of its longest file

    def plug(self, draw: random.Random) -> Plug:
        """A way to end it somewhere."""
        event = draw.randrange(1, self.ending.events + 1)
        moment = draw.uniform(0, self.ending.seconds)
        kinds: tuple[Callable[[], Plug], ...] = (
            lambda: AtEvent(event),
            lambda: AtTime(moment),
            lambda: AtByte(draw.randrange(1, self.largest)),
            lambda: AtEvent(event, draw.choice(STOPS)),
            lambda: AtTime(moment, draw.choice(STOPS)),
        )
        return draw.choice((*kinds[:3], *kinds))()


def killed_attempts(count: int, seed: int) -> Iterator[Attempt]:
    """So many kills and some stops, each an attempt; the run that goes on to its end is compared."""
    draw, kills = random.Random(seed), 0
    scenarios = possible()
    in_turn = sorted(draw.sample(scenarios, len(scenarios)), key=lambda scenario: not scenario.is_quick)
    for scenario in cycle(in_turn):
        for attempt in ended_often(reference(scenario), draw):
            kills += attempt.outcome == "killed"
            yield attempt
        if kills >= count:
            return


@cache
def reference(scenario: Scenario) -> Reference:
    """The scenario, run to its end."""
    fresh_case(scenario)
    ending = run(scenario.words(CASE), CASE)
    if ending.code != 0:
        raise RuntimeError(f"rmt {scenario.line}: exit code {ending.code}\n{ending.errors}")
    left = WHOLE / scenario.name
    shutil.rmtree(left, ignore_errors=True)
    WHOLE.mkdir(exist_ok=True)
    shutil.move(CASE / OUT, left)
    largest = max(path.stat().st_size for path in left.rglob("*") if path.is_file())
    return Reference(scenario, ending, left, largest)


def fresh_case(scenario: Scenario) -> None:
    """A folder with what a scenario needs, and nothing else."""
    shutil.rmtree(CASE, ignore_errors=True)
    (CASE / scenario.left).parent.mkdir(parents=True)
    for name in scenario.needs:
        (CASE / name).symlink_to(Path.cwd() / name)


def ended_often(expected: Reference, draw: random.Random) -> Iterator[Attempt]:
    """One run, ended up to three times; the last attempt says whether it ended as the uninterrupted one."""
    fresh_case(expected.scenario)
    plugs: list[Plug] = []
    for _ in range(draw.randint(1, MAX_KILLS)):
        plug = expected.plug(draw)
        plugs.append(plug)
        ending = run(words := expected.scenario.words(CASE), CASE, plug)
        outcome = judged(ending, plug)
        if outcome != "done":
            yield Attempt(tuple(words), outcome, f"{plug}: {ending.errors}")
    yield gone_on(expected, plugs)


def judged(ending: Ending, plug: Plug) -> str:
    """What came of a run that was to be ended."""
    if ending.is_hang:
        return "hang"
    if "Traceback" in ending.errors:
        return "traceback"
    if ending.was_killed:
        return "killed"
    if ending.code == 0:
        return "done"  # it came to its end before
    is_told = ending.last_line.startswith("rmt: ")
    if is_told and ending.code == 128 + getattr(plug, "number", 0):
        return "stopped"
    if is_told and ending.code == 1 and isinstance(plug, AtByte):  # workers live on, and cannot write
        return "traceback" if any("Traceback" in log for log in worker_logs()) else "failed"
    return "untidy"


def worker_logs() -> list[str]:
    """What the processes of a command have printed."""
    return [file.read_text(errors="replace") for file in (CASE / OUT).glob("*.log")]


def gone_on(expected: Reference, plugs: list[Plug]) -> Attempt:
    """The run gone on to its end, compared."""
    (CASE / expected.scenario.left).parent.mkdir(exist_ok=True)
    words = expected.scenario.words(CASE)
    ending = run(words, CASE)
    if ending.is_hang or "Traceback" in ending.errors:
        return Attempt(tuple(words), "hang" if ending.is_hang else "traceback", ending.errors)
    if ending.code:
        told = "\n".join([ending.errors, *worker_logs()])
        return Attempt(tuple(words), "different", f"{plugs}: exit code {ending.code}: {told}")
    unlike = differences(CASE / OUT, expected.left)
    return Attempt(tuple(words), "different" if unlike else "resumed", f"{plugs}: {unlike}")
