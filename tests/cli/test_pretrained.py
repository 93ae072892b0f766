"""Without the extra [hf], the commands that need it say so in a line."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import rmt as package

# a machine on which transformers was never installed
WITHOUT = """
import importlib.metadata, sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "transformers":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

def version(name, known=importlib.metadata.version):
    if name == "transformers":
        raise importlib.metadata.PackageNotFoundError(name)
    return known(name)

sys.meta_path.insert(0, Missing())
importlib.metadata.version = version
from rmt.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize(
    "command", ["finetune data.jsonl --backbone bert", "predict run letter.txt", "info bert"]
)
def test_a_missing_extra_is_one_line_that_names_it(tmp_path, command):
    (tmp_path / "letter.txt").write_text("good film")
    (tmp_path / "data.jsonl").write_text('{"text": "good", "label": "true"}\n')
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, *command.split()],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(package.__file__).parent.parent)},
    )
    line = "rmt: memory for pretrained models needs transformers: pip install 'recurrent-memory[hf]'\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", line)
