"""Runs below folders, of `rmt train` and of `rmt finetune`, as what can be listed, filtered and compared."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rmt.config import by_name
from rmt.documents.report import INCIDENTAL as INCIDENTAL_OF_DOCUMENTS
from rmt.documents.stored import load_settings
from rmt.errors import CheckpointError, ConfigError, RMTError
from rmt.experiments.report import INCIDENTAL
from rmt.experiments.spelling import ABSENT, spellings
from rmt.train.folder import load_result
from rmt.train.names import ALIASES, SHORT, short_name
from rmt.train.stored import load_config
from rmt.yamlfile import load_yaml

EXPLORER = "explorer.html"  # what rmt attention leaves in a run folder
INCIDENTALS = {*INCIDENTAL, *INCIDENTAL_OF_DOCUMENTS, "strategy"}  # what runs of one setting may differ in
LISTED_SETTINGS = ("data", "segment_length", "segments", "memory", "depth", "seed")
OF_A_KIND = ("task.name", "preset", "backbone", "data")  # settings that all runs of a kind have
ABOUT = ("task.name", "data", "task.data")  # settings that say what is learned
SPEAKING = ("task.name", "model", "data", "backbone")  # settings whose values speak for themselves


class ListedRun(NamedTuple):
    """A run folder: what decides the run, how far it came, and what came of it."""

    folder: Path
    settings: dict[str, Any]  # by their dotted names
    result: dict[str, Any]  # nothing while it is unfinished
    steps: int

    @property
    def is_finetuned(self) -> bool:
        """Whether it is a run of `rmt finetune`."""
        return "backbone" in self.settings

    @property
    def scores(self) -> dict[str, Any]:
        """What was measured, by name; nothing while it is unfinished."""
        metric = {self.result["metric"]: self.result["value"]} if self.result else {}
        return {**self.result.get("metrics", {}), **metric}

    @property
    def explorer(self) -> Path | None:
        """The page of its attention, if there is one."""
        page = self.folder / EXPLORER
        return page if page.is_file() else None

    @property
    def setting(self) -> str:
        """All that decides it but for what seeds and machines may differ in, as text to compare."""
        decisive = {name: value for name, value in self.settings.items() if name not in INCIDENTALS}
        return json.dumps(decisive, sort_keys=True, default=str)

    def value(self, name: str) -> Any:
        """The value of a setting by its dotted or its short name; a dash where it has none."""
        return self.settings.get(ALIASES.get(name, name), self.settings.get(name, ABSENT))


def listed_runs(folders: Iterable[Path], warn: Callable[[str], None]) -> list[ListedRun]:
    """The runs in folders and below them, each once; what cannot be read as one is named and passed over."""
    runs = (run for folder in folders for run in runs_below(folder, warn))
    by_folder: dict[Path, ListedRun] = {}
    for run in runs:
        by_folder.setdefault(run.folder.resolve(), run)
    return list(by_folder.values())


def runs_below(folder: Path, warn: Callable[[str], None]) -> Iterator[ListedRun]:
    if not folder.is_dir():
        problem = "is a file" if folder.exists() else "does not exist"
        raise ConfigError(
            f"folder={str(folder)!r} {problem}; name a run folder or a folder of runs, or train one first"
        )
    for path in sorted(folder.rglob("config.yaml")):
        try:
            yield listed_run(path.parent)
        except RMTError as error:
            warn(f"{str(path.parent)!r} is passed over: {error}")
        except (KeyError, TypeError) as error:  # of a run of rmt finetune, whose settings are not all there
            warn(f"{str(path.parent)!r} is passed over: {error} is missing or wrong")


def listed_run(folder: Path) -> ListedRun:
    """One run folder of either kind."""
    result, stored = load_result(folder), load_yaml(folder / "config.yaml")
    if "backbone" in stored:
        return documents_run(folder, stored, result)
    config = load_config(folder)
    return ListedRun(folder, by_name(config), result, result.get("steps") or saved_steps(folder))


def documents_run(folder: Path, stored: dict[str, Any], result: dict[str, Any]) -> ListedRun:
    """A run of `rmt finetune`."""
    for name in LISTED_SETTINGS:
        if name not in stored:
            raise CheckpointError(f"its config.yaml is damaged: {name} is missing")
    return ListedRun(folder, load_settings(folder), result, result.get("steps") or saved_steps(folder))


def saved_steps(folder: Path) -> int:
    """The step of the newest checkpoint of an unfinished run; 0 where there is none."""
    from rmt.train.checkpoint import Checkpoints  # loads torch, which finished runs do without

    return max(Checkpoints(folder).steps(), default=0)


def by_setting(runs: Iterable[ListedRun]) -> list[list[ListedRun]]:
    """Runs that differ in their seeds only, together."""
    groups: dict[str, list[ListedRun]] = defaultdict(list)
    for run in runs:
        groups[run.setting].append(run)
    return list(groups.values())


def differing(runs: Sequence[ListedRun]) -> list[str]:
    """The settings that are not the same in all runs; those with a short name first, in its table's order."""
    names = dict.fromkeys(name for run in runs for name in run.settings if name not in INCIDENTALS)
    ranks = {name: rank for rank, name in enumerate(SHORT)}
    ordered = sorted(names, key=lambda name: ranks.get(name, len(ranks)))
    return [name for name in ordered if len(set(spelled_of(with_setting(runs, name), name))) > 1]


def with_setting(runs: Iterable[ListedRun], name: str) -> list[ListedRun]:
    """The runs that have a setting; of what makes a run one of its kind, all."""
    return [run for run in runs if name in OF_A_KIND or run.value(name) != ABSENT]


def telling(runs: Sequence[ListedRun]) -> list[str]:
    """What is learned, if it differs, and as few other settings as tell runs apart, the best known first."""
    names = differing(runs)
    chosen = {name: spelled_of(runs, name) for name in ABOUT if name in names}  # their values in all runs
    for name in names:
        further = {**chosen, name: spelled_of(runs, name)}
        if count_different(further) > count_different(chosen):
            chosen = further
    return list(chosen)


def count_different(columns: Mapping[str, Sequence[str]]) -> int:
    """How many different rows columns of one length have."""
    return len(set(zip(*columns.values(), strict=True)))


def labels(runs: Sequence[ListedRun], names: Iterable[str]) -> list[str]:
    """Each run by those of these settings that it has; the name of a model speaks for itself."""
    columns = {short_name(name): spelled_of(runs, name) for name in names}
    rows = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    return [
        ", ".join(
            value if name in SPEAKING else f"{name} {value}" for name, value in row.items() if value != ABSENT
        )
        for row in rows
    ]


def spelled_of(runs: Iterable[ListedRun], name: str) -> list[str]:
    """A setting of each run, as in a table or a legend."""
    return spellings([run.value(name) for run in runs])
