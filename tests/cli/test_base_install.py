"""With nothing but the base dependencies, every command works or names the extra that it needs, in a line."""

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.cli.command import TINY

EXTRAS = ("transformers", "accelerate", "peft", "tokenizers", "matplotlib", "zstandard", "compression")
# a Python that has no such packages
BARE = """
import importlib.metadata, sys
from importlib.machinery import PathFinder

missing, version = set(sys.argv.pop(1).split(",")), importlib.metadata.version

class BareFinder(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] in missing else PathFinder.find_spec(name, path, target)

def bare_version(name):
    if name in missing:
        raise importlib.metadata.PackageNotFoundError(name)
    return version(name)

sys.meta_path[sys.meta_path.index(PathFinder)] = BareFinder
importlib.metadata.version = bare_version
"""
# a Python that has them, and cannot load them
BROKEN = """
import sys

sys.modules.update(dict.fromkeys(sys.argv.pop(1).split(",")))
"""
MAIN = """
from rmt.cli.main import main
sys.exit(main(sys.argv[1:]))
"""
ROOT = Path(__file__).parents[2]
NEEDING = {
    "finetune data.jsonl --backbone bert": "pip install 'recurrent-memory[hf]'",
    "predict run letter.txt": "pip install 'recurrent-memory[hf]'",
    "info bert": "pip install 'recurrent-memory[hf]'",
    "data prepare book.txt --tokenizer tokenizer.json": "pip install 'recurrent-memory[tokenizers]'",
    "stream run book.txt.zst": "pip install zstandard",
    "data prepare book.txt.zst": "pip install zstandard",
    "finetune data.parquet --backbone bert": "pip install",
    "predict run data.parquet": "pip install",
}


def bare(
    command: str, python: str = BARE, missing: Iterable[str] = EXTRAS
) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    environment = {**os.environ, "PYTHONPATH": path}
    words = [sys.executable, "-c", python + MAIN, ",".join(missing), *command.split()]
    return subprocess.run(words, env=environment, capture_output=True, text=True, timeout=120)


@pytest.fixture
def files():
    Path("data.jsonl").write_text(
        "".join(json.dumps({"text": f"{n} words", "label": str(n % 2)}) + "\n" for n in range(20))
    )
    Path("data.parquet").write_bytes(b"PAR1")
    Path("letter.txt").write_text("Dear")
    Path("book.txt").write_text("It was the best of times.\n" * 400)
    Path("book.txt.zst").write_bytes(b"(\xb5/\xfd")
    Path("tokenizer.json").write_text('{"model": {}}')
    Path("run").mkdir()


@pytest.mark.covering
@pytest.mark.parametrize("command", NEEDING)
@pytest.mark.parametrize("python", [BARE, BROKEN], ids=["missing", "broken"])
def test_a_command_names_the_extra_that_is_missing(python, command, files):
    done = bare(command, python)
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert done.stderr.count("\n") == 1
    assert NEEDING[command] in done.stderr


@pytest.mark.slow  # tests/packages/check.py does it in an environment that really has no extras
def test_a_run_is_trained_measured_and_looked_at_without_extras(files):
    for command in (f"train copy {TINY} --out made", "evaluate made --samples 4", "attention made --quiet"):
        done = bare(command)
        assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_fine_tuning_names_a_part_of_the_extra_that_is_missing(files):
    done = bare("finetune data.jsonl --backbone bert", missing=["accelerate"])
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert "needs accelerate: pip install 'recurrent-memory[hf]'" in done.stderr


def test_help_and_the_public_page_need_no_extra():
    assert bare("--help").returncode == 0
    assert bare("finetune --help").returncode == 0
