"""What Triton 3.6, which torch 2.11 brings, cannot compile, and newer ones can."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from rmt.gpu import kernels

FILES = sorted(Path(kernels.__path__[0]).glob("*.py"))


def compiled(tree: ast.AST) -> Iterator[ast.FunctionDef]:
    """Functions that Triton compiles."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and "triton.jit" in map(ast.unparse, node.decorator_list):
            yield node


def may_be_missing(function: ast.FunctionDef) -> set[str]:
    """Names that a function compares with None."""
    compares = (node for node in ast.walk(function) if isinstance(node, ast.Compare))
    return {
        ast.unparse(node.left)
        for node in compares
        if any(isinstance(other, ast.Constant) and other.value is None for other in node.comparators)
    }


def returned(function: ast.FunctionDef) -> set[str]:
    """Names that a function hands back, by themselves or in a tuple."""
    values = [node.value for node in ast.walk(function) if isinstance(node, ast.Return) and node.value]
    return {ast.unparse(part) for value in values for part in getattr(value, "elts", [value])}


def handed_back(source: str) -> list[str]:
    """Functions that hand back what may be None."""
    functions = compiled(ast.parse(source))
    return [function.name for function in functions if may_be_missing(function) & returned(function)]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_no_function_of_a_kernel_hands_back_what_may_be_missing(file):
    assert handed_back(file.read_text()) == []


def test_what_hands_back_a_mask_that_may_be_missing_is_found():
    source = "@triton.jit\ndef at_site(drop):\n    if drop is not None:\n        drop = 1\n    return drop\n"
    assert handed_back(source) == ["at_site"]
    assert handed_back(source.replace("return drop", "return 1, drop")) == ["at_site"]
    assert handed_back(source.replace("return drop", "return 1")) == []
