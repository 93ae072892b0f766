"""The wheel and the sdist, built and tried: `make test-packages`, `python tests/packages/check.py [--full]`.

The wheel is installed with its base dependencies only, into an environment of its own in a temporary folder.
The tests of the unpacked sdist run on the installed wheel by this interpreter, which has their libraries:
a quick sample, or with --full all but the slow ones.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

Result = TypeVar("Result")
ROOT = Path(__file__).parents[2]
PIP = ("-m", "pip", "--disable-pip-version-check", "--quiet", "--quiet")
SIZES = "--model.layers 1 --model.heads 1 --model.head_width 4 --model.width 8 --model.inner_width 8"
TRAIN = f"train copy --length 4 --segments 2 --batch 4 --steps 3 --device cpu --out run {SIZES}"
TRAIN_TEXT = (
    f"train text --data tale.txt --batch 2 --steps 3 --device cpu --out text --task.segment_length 8 {SIZES}"
)
NATIVE = (TRAIN, "evaluate run", TRAIN_TEXT, "stream text tale.txt", "runs .")
# commands that need an extra, and what installs it
EXTRAS = {
    "info gpt2": "[hf]",
    "finetune table.csv --backbone gpt2": "[hf]",
    "data prepare tale.txt --tokenizer tokenizer.json --out prepared": "[tokenizers]",
}
PROGRAM = """\
import rmt

model = rmt.SegmentModel(rmt.presets.rmt(2, vocabulary=4))
state: rmt.State = model.initial_state(1)
wrong: int = model.initial_state(1)
"""
# what looks at the repository around the package, and a little of everything else
SAMPLE = (
    "tests/test_readme.py",
    "tests/test_examples.py",
    "tests/test_benchmarks.py",
    "tests/test_config.py",
    "tests/analysis/test_gallery.py",
    "tests/experiments/test_report.py",
    "tests/hf/test_hf_docs.py",
    "tests/infer/test_saved.py",
    "tests/packages",
    "tests/release",
    "tests/train/test_checkpoint.py",
)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--full", action="store_true", help="all tests of the sdist but the slow ones")
    full = parser.parse_args(arguments).full
    with tempfile.TemporaryDirectory(prefix="rmt-packages-") as name:
        folder = Path(name)
        wheel, sdist = timed("build", lambda: build(folder))
        check_wheel(wheel)
        (folder / "empty").mkdir()
        python = timed("install the base", lambda: install(wheel, folder / "venv"))
        timed("base dependencies only", lambda: check_base(python, folder / "empty"))
        timed("types", lambda: check_types(python, folder / "empty"))
        timed("tests of the sdist", lambda: check_sdist(wheel, sdist, folder, full))
    return 0


def timed(what: str, action: Callable[[], Result]) -> Result:
    """What an action returns; says how long it took."""
    begin = time.monotonic()
    result = action()
    print(f"{what}: {time.monotonic() - begin:.0f} s", flush=True)
    return result


def build(folder: Path) -> tuple[Path, Path]:
    """The wheel and the sdist of this tree; the wheel is made of the sdist, as by `python -m build`."""
    builder = folder / "builder"
    run([sys.executable, "-m", "venv", str(builder)])
    pip_install(builder / "bin" / "python", "build")
    run([str(builder / "bin" / "python"), "-m", "build", "--outdir", str(folder / "dist"), str(ROOT)])
    (wheel,), (sdist,) = (list((folder / "dist").glob(pattern)) for pattern in ("*.whl", "*.tar.gz"))
    return wheel, sdist


def check_wheel(wheel: Path) -> None:
    """The wheel says that it is typed, under which licence, and which command it brings."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        require("rmt/py.typed" in names, "the wheel has no rmt/py.typed")
        require(any(name.endswith("licenses/LICENSE") for name in names), "the wheel has no LICENSE")
        require(not any(name.startswith("tests") for name in names), "the wheel has tests")
        (entry_points,) = [name for name in names if name.endswith("entry_points.txt")]
        require("rmt = rmt.cli.main:program" in archive.read(entry_points).decode(), "no command rmt")


def install(wheel: Path, environment: Path) -> Path:
    """The interpreter of a new environment that has the wheel and its base dependencies."""
    run([sys.executable, "-m", "venv", str(environment)])
    python = environment / "bin" / "python"
    pip_install(python, str(wheel))
    return python


def check_base(python: Path, folder: Path) -> None:
    """Import, help, version, a native run; commands that need an extra name it in a line."""
    for package in ("transformers", "matplotlib", "tokenizers"):
        missing = run([str(python), "-c", f"import {package}"], cwd=folder, fails=True)
        require("ModuleNotFoundError" in missing.stderr, f"{package} is among the base dependencies")
    printed = run([str(python), "-c", "import rmt; print(rmt.__version__, rmt.__file__)"], cwd=folder).stdout
    version, file = printed.split()
    require(file.startswith(str(python.parents[1])), f"import rmt finds {file}")
    command = str(python.parent / "rmt")
    require(run([command, "--version"], cwd=folder).stdout == f"rmt {version}\n", "another --version")
    (folder / "tale.txt").write_text("Once upon a time there was a memory.\n" * 30)
    (folder / "table.csv").write_text("text,label\n" + "a tale,good\nanother tale,bad\n" * 20)
    (folder / "tokenizer.json").write_text('{"version": "1.0", "model": {}}')
    for line in ("--help", "train --help", *NATIVE):
        run([command, *line.split()], cwd=folder)
    for line, extra in EXTRAS.items():
        refused = run([command, *line.split()], cwd=folder, fails=True)
        last = refused.stderr.strip().splitlines()[-1]
        require(refused.returncode == 2 and last.startswith("rmt: "), f"rmt {line}: {refused.stderr}")
        require(f"recurrent-memory{extra}" in last, f"rmt {line} does not name {extra}: {last}")
        require("Traceback" not in refused.stderr, f"rmt {line}: {refused.stderr}")


def check_types(python: Path, folder: Path) -> None:
    """mypy finds the wheel's types (PEP 561): of a small program it accepts all but the wrong line."""
    (folder / "program.py").write_text(PROGRAM)
    options = ["--strict", "--no-error-summary", "--python-executable", str(python)]
    report = run([sys.executable, "-m", "mypy", *options, "program.py"], cwd=folder, fails=True).stdout
    (line,) = report.splitlines()
    require(line.startswith("program.py:5: error: Incompatible types") and '"State"' in line, report)


def check_sdist(wheel: Path, sdist: Path, folder: Path, full: bool) -> None:
    """The tests of the unpacked sdist pass on the wheel, with no repository around them."""
    with tarfile.open(sdist) as archive:
        archive.extractall(folder / "unpacked", filter="data")
    (tree,) = (folder / "unpacked").iterdir()
    installed = folder / "installed"
    run([sys.executable, *PIP, "install", "--no-deps", "--target", str(installed), str(wheel)])
    tests = ["-n", "2", "--dist", "worksteal"] if full else ["-n", "2", *SAMPLE]
    run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not slow", *tests],
        cwd=tree,
        path=str(installed),
    )


def pip_install(python: Path, *packages: str) -> None:
    run([str(python), *PIP, "install", "-c", str(ROOT / "constraints.txt"), *packages])


def run(
    command: Sequence[str], cwd: Path | None = None, fails: bool = False, path: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run a command that has to end well, or to fail, with no modules in sight but its own and `path`."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment |= {"OMP_NUM_THREADS": "1"} | ({"PYTHONPATH": path} if path else {})
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True)
    line = " ".join(command)
    require((done.returncode != 0) == fails, f"{line}: exit {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done


def require(holds: bool, otherwise: str) -> None:
    if not holds:
        sys.exit(f"error: {otherwise}")


if __name__ == "__main__":
    sys.exit(main())
