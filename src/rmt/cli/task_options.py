"""The options of the built-in tasks, told from their source, so that a page of help does not load torch."""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from rmt.cli.help import line
from rmt.tasks.registry import TASKS

DECLARING = ("field", "option", "required")  # the functions that make a field
REQUIRED = object()  # the default of a field that has none


class TaskOption(NamedTuple):
    """A field of a task's class."""

    name: str
    help: str
    default: Any

    def __str__(self) -> str:
        if self.default is REQUIRED:
            return f"{self.help} (no default)"
        return self.help if self.default in (None, "") else f"{self.help} (default: {self.default})"


def section() -> str:
    """A line per option of every task, for the end of a page of help."""
    lines = ["options of the tasks, as --task.options KEY=VALUE (length as --length):"]
    for name, location in TASKS.items():
        lines += [line(f"{name}: {option.name}", str(option)) for option in task_options(location)]
    return "\n".join(lines)


def task_options(location: str) -> list[TaskOption]:
    """The fields of the class at "module:Class" and of the classes of rmt that it extends."""
    module, _, name = location.partition(":")
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        return []
    tree = ast.parse(Path(spec.origin).read_text(encoding="utf-8"))
    names, homes = dict(constants(tree)), dict(imported(tree))
    options: list[TaskOption] = []
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name == name:
            options += fields_of(node, names)
            for base in (base.id for base in node.bases if isinstance(base, ast.Name)):
                home = homes.get(base, module)
                options += task_options(f"{home}:{base}") if home.startswith("rmt.") else []
    return options


def imported(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """The names that a module imports, each with the module it comes from."""
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from ((alias.asname or alias.name, node.module) for alias in node.names)


def constants(tree: ast.Module) -> Iterator[tuple[str, Any]]:
    """The names that a module gives to plain values."""
    for node in tree.body:
        if not isinstance(node, ast.Assign):
            continue
        for target in node.targets:
            pairs = [(target, node.value)]
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                pairs = list(zip(target.elts, node.value.elts, strict=False))
            for name, value in pairs:
                if isinstance(name, ast.Name) and isinstance(value, ast.Constant):
                    yield name.id, value.value


def fields_of(node: ast.ClassDef, names: Mapping[str, Any]) -> Iterator[TaskOption]:
    """The fields that a class declares with a text: field(…, metadata={"help": …}) or option(default, …)."""
    for item in node.body:
        if not (isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)):
            continue
        call = item.value
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in DECLARING:
            yield TaskOption(item.target.id, help_of(call), default_of(call, names))


def help_of(call: ast.Call) -> str:
    """The text of a field: the value of "help", or the string behind the default."""
    for keyword in call.keywords:
        if keyword.arg == "metadata" and isinstance(keyword.value, ast.Dict):
            texts = zip(keyword.value.keys, keyword.value.values, strict=True)
            return next((plain(text, {}) for key, text in texts if plain(key, {}) == "help"), "")
    return str(plain(call.args[-1], {})) if call.args else ""


def default_of(call: ast.Call, names: Mapping[str, Any]) -> Any:
    """The default of a field, where it can be told without running anything."""
    if isinstance(call.func, ast.Name) and call.func.id == "option":
        return plain(call.args[0], names)
    values = [keyword.value for keyword in call.keywords if keyword.arg == "default"]
    return plain(values[0], names) if values else REQUIRED


def plain(node: ast.AST | None, names: Mapping[str, Any]) -> Any:
    """A constant, or what a name stands for."""
    if isinstance(node, ast.Name):
        return names.get(node.id)
    return node.value if isinstance(node, ast.Constant) else None
