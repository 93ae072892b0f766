"""Every command of `rmt` as the front end declares it, with words that make a whole command line."""

import importlib
from typing import Any

from rmt.cli.front import Command
from rmt.cli.main import COMMANDS

# what a command cannot do without
NEEDED = {
    "train": "copy",
    "evaluate": "RUN",
    "attention": "RUN",
    "finetune": "data.jsonl --backbone bert",
    "predict": "RUN letter.txt",
    "info": "bert",
    "stream": "RUN book.txt",
    "generate": "RUN --prompt text",
    "export": "RUN",
    "bench": "copy --device cpu",
    "reproduce": "figure-3",
    "data show": "copy",
    "data get": "enwik8",
    "data prepare": "book.txt",
    "data check": "folder",
    "completion": "bash",
}


def all_commands() -> dict[str, Command[Any]]:
    """Commands by name, those of `rmt data` one by one."""
    modules = [importlib.import_module(f"rmt.cli.{name}") for name in COMMANDS]
    commands = [each for module in modules for each in getattr(module, "COMMANDS", None) or (module.COMMAND,)]
    return {command.name: command for command in commands}


def line(name: str) -> list[str]:
    """A command line that says no more than it has to."""
    return [*name.split(), *NEEDED.get(name, "").split()]
