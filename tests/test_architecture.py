"""The house: calls point downwards, only the command prints, names are clear, no file outgrows its idea."""

import ast
import os
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

import rmt
from tests.covering import quick
from tests.source import (
    FILES,
    HOMES,
    PUBLIC_PAGE,
    SOURCE,
    assigned_names,
    commands_named,
    function_names,
    imports,
    own_imports,
    strings,
    tree,
)

# folder: the folders below it
MODEL = {"core", "nn"}
ENGINE = {"gpu", *MODEL}
EVALUATION = {"infer", "text", "tasks", *ENGINE}
TRAINING = {"evaluate", *EVALUATION}
EVERYTHING = {"train", "analysis", "bench", "documents", "hf", "compat", *TRAINING}
BELOW = {
    "__main__": {"cli"},
    "cli": {"experiments", *EVERYTHING},
    "experiments": EVERYTHING,
    "train": TRAINING,
    "analysis": TRAINING,
    "bench": {"analysis", "hf", "train", *TRAINING},
    "evaluate": EVALUATION,
    "infer": ENGINE,
    "documents": {"hf", "train", *TRAINING},
    "text": {"tasks"},
    "tasks": set(),
    "hf": ENGINE,
    "compat": MODEL,
    "gpu": MODEL,
    "core": {"nn"},
    "nn": set(),
}
GROUND = {
    "config": {"errors"},
    "jsonfile": set(),
    "location": {"errors"},
    "precision": {"errors"},
    "stopping": {"errors"},
    "textfile": {"errors"},
    "yamlfile": {"errors"},
    "errors": set(),
    "seal": {"jsonfile", "errors"},
    "partial": set(),
    "store": {"errors", "partial"},
}  # files below everything, and what is below them
HEAVY = ("torch", "transformers", "matplotlib", "numpy")
# What no training run of one process on a CPU needs: it would load for seconds before the first update.
NEEDLESS = (
    "lightning",
    "lightning_fabric",
    "lightning_utilities",
    "matplotlib",
    "pandas",
    "scipy",
    "sklearn",
    "sympy",
    "torch._dynamo",
    "torch._inductor",
    "torch.distributed.fsdp",
    "torch.distributed.tensor",
    "torchmetrics",
    "transformers",
    "triton",
)
LONGEST_FILE, LONGEST_FUNCTION = 300, 60
PRONOUNS = {
    "one",
    "found",
    "made",
    "given",
    "own",
    "place",
    "said",
    "some",
    "there",
    "told",
    "these",
}  # they do not say what they hold
CONFIGS = ("CacheConfig", "MemoryConfig", "ModelConfig")
CONTRACT = (*CONFIGS, "SegmentModel", "Session", "State", "bptt", "load", "presets")
KERNELS = SOURCE / "gpu" / "kernels"
TUNABLE = SOURCE / "bench" / "tunable.py"  # times kernels by themselves
INSIDE = [file for file in FILES if file != PUBLIC_PAGE]
BELOW_THE_COMMAND = [file for file in INSIDE if file.relative_to(SOURCE).parts[0] != "cli"]
READS = {"read_block", "read_size", "read_first"}  # the paper's read block; nothing else reads


def folder_of(file: Path) -> str:
    """The folder of rmt that a file is in, or its own name if it is in none."""
    return file.relative_to(SOURCE).parts[0].removesuffix(".py")


def in_files(find: Callable[[Path], Iterable[str]], files: Iterable[Path] = FILES) -> dict[str, list[str]]:
    """What a search finds in files, by their names; files in which it finds nothing are left out."""
    findings = {str(file.relative_to(SOURCE)): sorted(find(file)) for file in files}
    return {name: finding for name, finding in findings.items() if finding}


def above(file: Path, modules: Iterable[str]) -> set[str]:
    """Those of the package's modules that are not below a file."""
    home = folder_of(file)
    allowed = GROUND[home] if home in GROUND else {home, *BELOW[home], *GROUND}
    return {module for module in modules if module.split(".")[1] not in allowed}


def test_imports_point_downwards():
    assert in_files(lambda file: above(file, own_imports(file)), INSIDE) == {}


def test_nothing_below_the_command_names_it_or_starts_it():
    assert in_files(lambda file: commands_named(tree(file)), BELOW_THE_COMMAND) == {}


def test_modules_named_as_text_are_below_too():
    def named(file: Path) -> set[str]:
        return {text for text in strings(tree(file)) if re.fullmatch(r"rmt(\.\w+)+", text)}

    assert in_files(lambda file: above(file, named(file)), INSIDE) == {}


def test_every_folder_has_its_floor():
    assert {folder_of(file) for file in FILES} <= {*BELOW, *GROUND, "__init__"}


def test_tests_have_the_folders_of_the_package():
    tests = {folder.name for folder in Path(__file__).parent.iterdir() if any(folder.glob("test_*.py"))}
    assert tests - {"laws", "golden", "packages", "release", "soak"} == {*BELOW} - {"__main__"}


def test_floors_have_no_circle():
    for folder, below in BELOW.items():
        assert folder not in below
        for lower in below:
            assert folder not in BELOW[lower]


@pytest.mark.parametrize("folder", ["tasks", "text", "config.py", "location.py", "textfile.py", "errors.py"])
def test_tasks_and_the_ground_know_no_model(folder):
    models = {
        "core",
        "nn",
        "gpu",
        "train",
        "evaluate",
        "infer",
        "hf",
        "compat",
        "documents",
        "experiments",
        "analysis",
        "bench",
        "cli",
    }
    for file in FILES:
        if file.relative_to(SOURCE).parts[0] == folder:
            assert not {module.split(".")[1] for module in own_imports(file)} & models


@pytest.mark.parametrize("folder", ["core", "nn", "gpu"])
def test_the_paper_needs_torch_only_and_kernels_triton_too(folder):
    for file in (SOURCE / folder).rglob("*.py"):
        outside = {module.split(".")[0] for module in imports(file)} - {"rmt", *sys.stdlib_module_names}
        assert outside <= ({"torch", "triton"} if file.parent == KERNELS else {"torch"})


def test_the_engine_alone_loads_the_kernels_when_there_is_a_gpu():
    engine = SOURCE / "gpu" / "engine.py"
    for file in FILES:
        loaded = {module for module in imports(file) if module.startswith("rmt.gpu.kernels")}
        assert not loaded or file.parent == KERNELS or file in (engine, TUNABLE)
    names = kernel_imports(tree(engine))
    assert names == ["operations_for"]
    assert not {file for file in FILES if file not in (engine, TUNABLE) and kernel_imports(tree(file))}


def kernel_imports(module: ast.Module) -> list[str]:
    """The functions, or "" for the file itself, that load `operations` from `rmt.gpu.kernels`."""
    inside = {
        id(node): function.name
        for function in ast.walk(module)
        if isinstance(function, ast.FunctionDef)
        for node in ast.walk(function)
    }
    return [
        inside.get(id(node), "")
        for node in ast.walk(module)
        if isinstance(node, ast.ImportFrom) and node.module == "rmt.gpu.kernels"
        if "operations" in {alias.name for alias in node.names}
    ]


def test_the_engine_is_there_without_triton():
    blocked = "import sys; sys.modules['triton'] = None"
    use = (
        "from rmt.gpu.engine import operations_for; import torch; print(operations_for(torch.device('cpu')))"
    )
    assert "rmt.gpu.naive" in python(f"{blocked}; {use}")


def test_only_kernels_need_triton():
    for file in (SOURCE / "gpu").rglob("*.py"):
        outside = {module.split(".")[0] for module in imports(file)} - {"rmt", *sys.stdlib_module_names}
        assert outside <= ({"torch", "triton"} if file.parent.name == "kernels" else {"torch"})


def test_only_the_command_prints():
    assert in_files(printed, [PUBLIC_PAGE, *BELOW_THE_COMMAND]) == {}


def printed(file: Path) -> Iterator[str]:
    """Where a file prints, and what for."""
    for node in ast.walk(tree(file)):
        is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
        is_stream = isinstance(node, ast.Attribute) and node.attr in ("stdout", "stderr")
        if is_call or (is_stream and is_sys(node.value)):
            yield f"line {node.lineno}"
    yield from (module for module in imports(file) if module.split(".")[0] == "rich")


def test_no_file_and_no_function_is_too_long():
    assert in_files(lambda file: ["too long"][: len(file.read_text().splitlines()) > LONGEST_FILE]) == {}
    assert in_files(long_functions) == {}


def long_functions(file: Path) -> Iterator[str]:
    for node in ast.walk(tree(file)):
        is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if is_function and node.end_lineno - node.lineno + 1 > LONGEST_FUNCTION:
            yield node.name


def test_every_file_says_its_idea_in_a_sentence():
    for file in FILES:
        text = ast.get_docstring(tree(file))
        assert text, file
        assert text.splitlines()[0].endswith("."), file


def test_a_class_name_is_in_one_module():
    homes = defaultdict(set)
    for file in FILES:
        for node in ast.walk(tree(file)):
            if isinstance(node, ast.ClassDef):
                homes[node.name].add(str(file.relative_to(SOURCE)))
    doubled = {name: sorted(files) for name, files in homes.items() if len(files) > 1}
    assert doubled == {}


def test_a_name_says_what_it_holds():
    assert in_files(lambda file: PRONOUNS & set(assigned_names(tree(file)))) == {}


def test_read_is_the_read_block_only():
    def readers(file: Path) -> set[str]:
        named = {name for name in function_names(tree(file)) if re.fullmatch("read(_.*)?", name)}
        return named - READS - ({"read"} if file.name == "textfile.py" else set())  # as an opened file has

    assert in_files(readers) == {}


def test_no_file_is_a_drawer():
    assert not {file.stem for file in FILES} & {"utils", "common", "helpers", "experimental"}


def test_the_public_page_is_a_page():
    assert len(PUBLIC_PAGE.read_text().splitlines()) <= 40


@pytest.mark.parametrize("name", CONTRACT)
def test_the_contract_is_on_the_public_page(name):
    assert name in rmt.__all__


@pytest.mark.parametrize("name", rmt.__all__)
def test_every_public_name_is_there_and_at_the_home_that_type_checkers_see(name):
    found = getattr(rmt, name)
    assert found is not None
    assert found is getattr(sys.modules[HOMES[name]], name)


def test_dir_lists_the_public_names_and_nothing_beside_them():
    assert [name for name in dir(rmt) if not name.startswith("_")] == sorted(rmt.__all__)


def test_a_name_that_is_not_public_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'rmt' has no attribute 'SegmentModle'"):
        rmt.SegmentModle  # noqa: B018


def test_checkpoints_of_the_original_code_have_their_loader():
    from rmt.compat.lm_rmt import load

    assert callable(load)


@pytest.mark.parametrize(
    "statement",
    [
        "import rmt",
        "from rmt.cli.main import main; main(['--help'])",
        "from rmt.cli.main import main; main(['--version'])",
    ],
    ids=["import-rmt", "rmt-help", "rmt-version"],
)
def test_a_first_look_is_light(statement):
    loaded = python(f"{statement}; import sys; print(*sys.modules)").split()
    assert "rmt" in loaded
    assert not set(HEAVY) & set(loaded)


RUNS = {
    "one": ("tests.train.runs:Echo --segments 2 --length 3", set()),
    "seeds": ("tests.train.runs:Echo --segments 2 --length 3 --seeds 2", {"sympy"}),  # by torch's vmap
    "paper": ("tests.train.runs:Echo --segments 2 --length 3 --recipe paper", set()),
    "text": ("text --data book.txt --task.segment_length 3", set()),
}


@pytest.mark.parametrize("run", quick(RUNS, "text"))
def test_training_loads_nothing_that_it_does_not_need(tmp_path, monkeypatch, run):
    task, needed = run
    monkeypatch.chdir(tmp_path)
    Path("book.txt").write_text("ab" * 500)
    command = (
        f"train {task} --steps 2 --batch 2 --device cpu --quiet --train.evaluate_every 1 --out run "
        "--model.layers 1 --model.heads 1 --model.head_width 4 --model.width 4 --model.inner_width 4"
    ).split()
    code = f"from rmt.cli.main import main; assert main({command}) == 0"
    *_, modules = python(f"{code}; import sys; print(*sys.modules)").splitlines()
    loaded = set(modules.split())
    assert "rmt.train.loop" in loaded
    assert set(NEEDLESS) & loaded == needed


def test_models_and_trained_runs_work_without_the_optional_packages():
    blocked = "import sys; sys.modules.update(dict.fromkeys(['transformers', 'matplotlib']))"
    use = "import rmt; model = rmt.SegmentModel(rmt.presets.rmt(2, vocabulary=4)); print(rmt.load.__name__)"
    assert python(f"{blocked}; {use}") == "load\n"


def is_sys(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "sys"


def python(code: str) -> str:
    """What a fresh interpreter prints."""
    path = os.pathsep.join(map(str, (SOURCE.parent, Path(__file__).parents[1])))
    environment = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout
