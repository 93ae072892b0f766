"""The command `rmt`, cut for a walk through the documentation: two updates of a tiny model on the CPU.

Everything else of a command line is as a page has it, also the folder that a run gets.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from rmt.cli import finetune, finetune_language
from rmt.cli.main import main
from rmt.cli.train import COMMAND as TRAIN
from rmt.config import from_dict
from rmt.documents.config import FinetuneConfig
from rmt.documents.language_config import LanguageConfig
from rmt.documents.naming import tuning_folder
from rmt.errors import RMTError
from rmt.experiments import demo
from rmt.experiments.naming import default_folder
from rmt.experiments.recipe import resolve
from rmt.tasks.registry import TASKS, task_class
from tests.cli.commands import all_commands

TINY = {
    "model.layers": "1",
    "model.heads": "1",
    "model.head_width": "4",
    "model.width": "8",
    "model.inner_width": "8",
    "train.steps": "2",
    "train.batch": "4",
    "device": "cpu",
}
CUTS: dict[str, Mapping[str, str]] = {
    "train": {**TINY, "seeds": "2"},
    "demo": {"steps": "2"},
    "finetune": {"epochs": "1", "batch": "4", "lr": "0.01", "seeds": "1", "device": "cpu"},
    "finetune lm": {"tokens": "2000", "test_tokens": "2000", "device": "cpu"},
    "bench": {"updates": "2", "device": "cpu"},
    "evaluate": {"samples": "5"},
    "generate": {"tokens": "5"},
}
TUNED: dict[str, tuple[Any, Any]] = {
    "finetune": (finetune.COMMAND, FinetuneConfig),
    "finetune lm": (finetune_language.COMMAND, LanguageConfig),
}
SPLITS = {"train": 1000, "valid": 20, "test": 20}
WHOLE = ("data",)  # what they print is on the pages


def cut(words: Sequence[str]) -> list[str]:
    """The same command line with other sizes; a switch that prints and ends leaves it as it is."""
    settings = dict(CUTS.get(kind_of(words), {}))
    if not settings or {"--print_config", "--help"} & set(words):
        return list(words)
    aliases = all_commands()[words[0]].aliases
    kept, rest = [], list(words)
    while rest:
        word = rest.pop(0)
        name = word.removeprefix("--")
        if word.startswith("--") and aliases.get(name, name) in settings:
            rest.pop(0)
        else:
            kept.append(word)
    if "--seeds" not in words:
        settings.pop("seeds", None)
    if words[0] in ("train", "finetune") and "--out" not in words:
        settings |= folder_of(words)
    if words[0] == "evaluate" and "text" in words[1]:
        settings.pop("samples")
    return kept + [part for name, value in settings.items() for part in (f"--{name}", value)]


def folder_of(words: Sequence[str]) -> dict[str, str]:
    """The run folder of a training that is not cut; the folders of others would tell how they were cut."""
    seeds = int(words[words.index("--seeds") + 1]) if "--seeds" in words else 1
    command, kind = TUNED.get(kind_of(words), (TRAIN, None))
    try:
        settings = command.collect(words[1:]).settings
        if kind:
            return {"out": str(tuning_folder(from_dict(kind, settings), seeds))}
        config = resolve(settings)
    except RMTError:  # a mistake that the page shows
        return {}
    return {"out": str(default_folder(config, "" if seeds > 1 else f"-{config.seed}"))}


def kind_of(words: Sequence[str]) -> str:
    """The command of a line; fine-tuning on a text is one of its own."""
    return "finetune lm" if words[0] == "finetune" and "lm" in words else words[0]


def run(words: Sequence[str]) -> int:
    """The exit code of a command line that was cut, with splits of a few examples."""
    with pytest.MonkeyPatch.context() as patch:
        for name in TASKS if words[0] not in WHOLE else ():
            cls = task_class(name)
            if getattr(cls, "sizes", None):
                patch.setattr(cls, "sizes", SPLITS)
        patch.setitem(demo.EVALUATION, "evaluate_samples", SPLITS["valid"])  # not more than there are
        try:
            return main(cut(words))
        except SystemExit as leaving:
            return int(leaving.code or 0)
