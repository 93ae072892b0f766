"""The source tree as text: what its files import, start, and call things."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path

import rmt
from rmt.cli.main import COMMANDS

SOURCE = Path(rmt.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))
PUBLIC_PAGE = SOURCE / "__init__.py"  # names what is above it, and loads it when asked
HOMES = {  # where the public page says that its names live
    alias.name: node.module
    for node in ast.walk(ast.parse(PUBLIC_PAGE.read_text()))
    if isinstance(node, ast.ImportFrom)
    for alias in node.names
}


@cache
def tree(file: Path) -> ast.Module:
    return ast.parse(file.read_text(), str(file))


def imports(file: Path) -> Iterator[str]:
    """Every module that a file imports, wherever in it; a name from the public page counts as its home."""
    for node in ast.walk(tree(file)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: a relative import"
            names = [alias.name for alias in node.names if alias.name != "__version__"]
            yield from (
                (HOMES.get(name, f"rmt.{name}") for name in names) if node.module == "rmt" else [node.module]
            )


def strings(module: ast.Module) -> Iterator[str]:
    """Every text of a module but its docstrings; of a formatted one, the parts that stand there."""
    lines = {id(node.value) for node in ast.walk(module) if isinstance(node, ast.Expr)}
    for node in ast.walk(module):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in lines:
            yield node.value


def commands_named(module: ast.Module) -> Iterator[str]:
    """Texts of a module by which the command would be started or imported."""
    yield from (text for text in strings(module) if "rmt.cli" in text)
    for node in ast.walk(module):
        if isinstance(node, ast.List | ast.Tuple) and is_command_line(node.elts):
            yield ast.unparse(node)
        if isinstance(node, ast.Call) and starts_a_process(node.func):
            words = [item.value for item in node.args if isinstance(item, ast.Constant)]
            yield from (word for word in words if str(word).split(" ")[0] == "rmt")


def is_command_line(items: list[ast.expr]) -> bool:
    """Whether a list is `rmt COMMAND …`, or `… -m rmt …`; a model may be called rmt, too."""
    words = [item.value if isinstance(item, ast.Constant) else "*" for item in items]
    pairs = list(pairwise(words))
    first = [(str(program).rsplit("/", 1)[-1], word) for program, word in pairs[:1]]
    return ("-m", "rmt") in pairs or any(("rmt", word) in first for word in (*COMMANDS, "*"))


def starts_a_process(function: ast.expr) -> bool:
    name = getattr(function, "attr", getattr(function, "id", ""))
    return bool(re.fullmatch("run|call|check_call|check_output|Popen|system|exec[lv].*|spawn.*", name))


def assigned_names(module: ast.Module) -> Iterator[str]:
    """Every name that a module binds to a value: variables, attributes, parameters."""
    for node in ast.walk(module):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr
        if isinstance(node, ast.arg):
            yield node.arg
        if isinstance(node, ast.ExceptHandler) and node.name:
            yield node.name


def function_names(module: ast.Module) -> Iterator[str]:
    """Every function and method of a module, also inside others."""
    for node in ast.walk(module):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name


def own_imports(file: Path) -> list[str]:
    return [module for module in imports(file) if module.split(".")[0] == "rmt"]
