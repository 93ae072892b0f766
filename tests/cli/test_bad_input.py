"""A mistake: exit code 2, one line naming field, value and remedy, and nothing left behind."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import rmt as package
from tests.cli.command import TINY, TRAIN, rmt

RELEASE = Path(__file__).parents[1] / "release" / "17fc2a8"

# command: what the line has to say, in this order
COMMAND_LINES = {
    # sizes and numbers
    "train copy --segments 7": ["segments=7", "24 tokens", "nearest: 6, 8"],
    "train copy --threads 2147483648": ["threads=2147483648", "at least 0 and below 4096"],
    "train copy --model.layers 2147483648": ["model.layers=2147483648", "must be 1 to 4096"],
    "train copy --seeds 2147483648": ["seeds=2147483648", "must be 1 to 4096"],
    "train copy --segments 0": ["segments=0", "must be at least 1"],
    "train copy --segments -2": ["segments=-2", "must be at least 1"],
    "train copy --segments 99": ["segments=99", "choose 1 to 24", "nearest: 24"],
    "train copy --memory -3": ["memory=-3", "must be 0 to 1048576"],
    "train copy --memory 0": ["memory=0", "needs at least 1"],
    "train copy --model transformer_xl --cache -1": ["cache=-1", "must be at least 0"],
    "train copy --length 0": ["length=0", "must be at least 1"],
    "train copy --length 4611686018427387904": ["length=4611686018427387904", "at most 16777216"],
    "data show reverse --length 4611686018427387904": ["length=4611686018427387904", "at most 16777216"],
    "data show recall --task.options delay=4611686018427387904": ["delay=4611686018427387904", "at most"],
    "data show copy --task.options symbols=4611686018427387904": ["symbols=4611686018427387904", "at most"],
    "train copy --steps 0": ["steps=0", "must be above 0"],
    "train copy --batch -4": ["batch=-4", "must be above 0"],
    "train copy --depth -1": ["depth=-1", "must be at least 0"],
    "train copy --seed -1": ["seed=-1", "must be 0 to"],
    "train copy --seed 99999999999999999999": ["seed=99999999999999999999", "must be 0 to"],
    "train copy --target 1.5": ["target=1.5", "above 0 and at most 1"],
    "train copy --optimizer.lr nan": ["optimizer.lr=nan", "must be finite"],
    "train copy --optimizer.lr inf": ["optimizer.lr=inf", "must be finite"],
    "train copy --optimizer.lr 0": ["optimizer.lr=0.0", "must be above 0"],
    "train copy --optimizer.matrix_lr -1": ["optimizer.matrix_lr=-1.0", "must be above 0"],
    "train copy --optimizer.beta1 2": ["optimizer.beta1=2.0", "at least 0 and below 1"],
    "train copy --optimizer.beta2 1": ["optimizer.beta2=1.0", "at least 0 and below 1"],
    "train copy --optimizer.momentum -1": ["optimizer.momentum=-1.0", "at least 0 and below 1"],
    "train copy --rate.schedule plateau --rate.factor 2": ["rate.factor=2.0", "at least 0 and below 1"],
    "train copy --rate.schedule plateau --rate.patience -1": ["rate.patience=-1", "at least 0"],
    "train copy --rate.schedule linear --rate.minimum 1": ["rate.minimum=1.0", "at least 0 and below 1"],
    "train copy --curriculum.over length --curriculum.promote_at 7": ["promote_at=7.0", "at most 1"],
    "train copy --curriculum.over length --curriculum.start 100": ["curriculum.start=100", "1 to 8"],
    "train copy --curriculum.over length --curriculum.growth inf": ["growth=inf", "must be finite"],
    "train copy --model.dropout 1": ["model.dropout=1.0", "below 1"],
    "train copy --model.width 7": ["model.width=7", "must be even"],
    "train copy --model.vocabulary 3": ["model.vocabulary=3", "too small", "12 tokens"],
    # values of the wrong type
    "train copy --steps many": ["steps='many'", "a whole number"],
    "train copy --steps 1.5": ["steps='1.5'", "a whole number"],
    "train copy --depth two": ["depth='two'", "a whole number or full"],
    "train copy --target high": ["target='high'", "a number or none"],
    "train copy --model.memory.write maybe": ["model.memory.write='maybe'", "true or false"],
    "train copy --device tpu": ["device='tpu'", "auto, cpu, cuda"],
    "train copy --precision 16": ["precision='16'", "32-true, bf16-mixed, 64-true"],
    "train copy --model bert": ["model='bert'", "baseline, memory_transformer, transformer_xl, rmt"],
    "train copy --recipe old": ["recipe='old'", "modern, modern-1, modern-2, paper"],
    "train copy --schedule random": ["schedule='random'", "sequence, chunked, sliding"],
    "train copy --task.options symbols": ["task.options='symbols'", "KEY=VALUE"],
    "train copy --task.options symbols=many": ["symbols='many'", "int"],
    # unknown names
    "train coppy": ["unknown task 'coppy'", "did you mean 'copy'?"],
    "train": ["TASK is missing", "rmt train copy"],
    "train my_tasks:Sorting": ["'my_tasks:Sorting'", "'my_tasks' cannot be imported"],
    "train tests.train.runs:Watcher": ["'Watcher'", "is not a task", "extends rmt.tasks.Task"],
    "train copy --segmnts 3": ["unknown argument '--segmnts'", "did you mean '--segments'?"],
    "train copy --segmnts=3": ["unknown argument '--segmnts=3'", "did you mean '--segments'?"],
    "train copy --model.memory.sise 3": ["'--model.memory.sise'", "did you mean '--model.memory.size'?"],
    "train copy --zzz": ["unknown argument '--zzz'", "see rmt train --help"],
    "train copy reverse": ["unknown argument 'reverse'", "see rmt train --help"],
    "train copy --steps": ["--steps", "expected one argument", "see rmt train --help"],
    "train copy --task.options lenght=3": ["'copy' has no option 'lenght'", "did you mean 'length'?"],
    "trian copy": ["unknown command 'trian'", "did you mean 'train'?"],
    # options without effect, or against each other
    "train copy --model baseline --memory 8": ["memory=8 has no effect", "baseline", "leave it out"],
    "train copy --cache 8": ["cache=8 has no effect", "rmt model has no cache", "leave it out"],
    "train copy --model baseline --model.memory.init identical": [
        "memory.init=identical has no effect",
        "leave it",
    ],
    "train copy --model.memory.sees_cache true": [
        "model.memory.sees_cache=True has no effect",
        "leave it out",
    ],
    "train copy --model transformer_xl --model.cache.scope all": [
        "cache.scope=all has no effect",
        "leave it out",
    ],
    "train copy --bptt.replay_from latest": [
        "replay_from=latest has no effect",
        "bptt.schedule=sliding",
        "leave",
    ],
    "train copy --model transformer_xl --depth 1": [
        "bptt.depth=1 has no effect",
        "no memory",
        "leave it out",
    ],
    "train copy --model.memory.write false": ["memory.write=False", "another model", "memory_transformer"],
    "train copy --threads -1": ["threads=-1", "at least 0"],
    "train copy --depth full --schedule chunked": ["depth=full", "schedule=chunked", "give a number"],
    "train copy --schedule sliding": ["depth=full", "schedule=sliding", "give a number"],
    "train copy --task.shuffle true": [
        "task.shuffle=True has no effect",
        "task.source=fixed",
        "leave it out",
    ],
    "train copy --optimizer.name adam --optimizer.momentum 0.5": [
        "momentum=0.5 has no effect",
        "leave it out",
    ],
    "train copy --curriculum.growth 3": ["curriculum.growth=3.0 has no effect", "curriculum.over=length or"],
    "train copy --rate.schedule constant --rate.minimum 0.5": [
        "rate.minimum=0.5 has no effect",
        "leave it out",
    ],
    "train copy --task.source fixed --curriculum.over length": [
        "curriculum.over=length has no effect",
        "use",
    ],
    "train quadratic --curriculum.over length": ["curriculum.over=length", "'quadratic'", "use segments"],
    "train copy --model.memory.recurrent false": ["memory.recurrent=False", "switch write off"],
    "train copy --model.positions relative-lm-rmt": ["positions=relative-lm-rmt", "train with relative"],
    "train retrieval --length 4": ["'retrieval' has no option 'length'", "options: pairs, seed"],
    "train quadratic --size paper --length 4": ["'quadratic' has no option 'length'", "options: seed"],
    "train tests.train.runs:Echo --size paper": ["size=paper", "Echo", "use size=small"],
    "train copy --task.options length=9": ["task.options has length=9", "task.length=9"],
    # other commands
    "evaluate": ["RUN", "see rmt evaluate --help"],
    "evaluate nothing": ["run 'nothing' does not exist", "rmt runs lists"],
    "evaluate RUN --split tset": ["split='tset'", "train, valid, test", "did you mean 'test'?"],
    "evaluate RUN --samples 0": ["samples=0", "at least 1"],
    "evaluate RUN --batch ten": ["batch='ten'", "a whole number"],
    "evaluate RUN --device gpu": ["device='gpu'", "auto, cpu, cuda"],
    "attention": ["RUN", "see rmt attention --help"],
    "attention nothing": ["run 'nothing' does not exist", "rmt runs lists"],
    "attention RUN --split tset": ["split='tset'", "train, valid, test", "did you mean 'test'?"],
    "attention RUN --examples 0": ["examples=0", "at least 1"],
    "attention RUN --example 0": ["example=0", "at least 1"],
    "attention RUN --segments 0": ["segments=0", "at least 1"],
    "attention RUN --text 3 --example 2": ["text takes the place of examples", "leave"],
    "attention RUN --port 8000": ["port=8000 has no effect", "--serve", "leave it out"],
    "runs nothing": ["folder='nothing' does not exist", "name a run folder or a folder of runs"],
    "runs --compare --json": ["compare and json", "leave one out"],
    "plot --out curve.pdf": ["out='curve.pdf'", ".html, .png or .svg"],
    "report nothing": ["'nothing'", "name run folders"],
    "data": ["list|show", "see rmt data --help"],
    "data find": ["unknown data command 'find'", "check, get, list, prepare, show"],
    "data show coppy": ["unknown task 'coppy'", "did you mean 'copy'?"],
    "data show copy --examples 0": ["examples=0", "at least 1"],
    "data show copy --examples 99999": ["99999", "1 to 10000"],
    "data show copy --split tset": ["split='tset'", "train, valid, test", "did you mean 'test'?"],
    "data show copy --length 8 --segments 7": ["segments=7", "nearest: 6, 8"],
    "data show copy --length 8 --task.options length=9": ["length=8 is given twice", "leave it out"],
    "demo --steps 0": ["steps=0", "must be above 0"],
}

# content of FILE for `rmt train copy --config FILE`: what the line has to say
CONFIG_FILES = {
    "task: {segmnts: 3}": ["unknown key 'task.segmnts'", "did you mean 'task.segments'?"],
    "colour: red": ["unknown key 'colour'", "choose from: bptt, compile"],
    "model: {memory: {sise: 3}}": ["unknown key 'model.memory.sise'", "did you mean 'model.memory.size'?"],
    "- one\n- two": ["'FILE'", "must hold a mapping of settings", "such as 'seed: 1'"],
    "": ["'FILE'", "must hold a mapping of settings"],
    "task: [": ["'FILE'", "is not YAML", "line 1"],
    "task: copy": ["task='copy'", "must be a group of settings", "task.KEY"],
    "task:": ["task=None", "must be a group of settings", "task.KEY"],
    "model: {memory: 5}": ["model.memory=5", "must be a group of settings", "model.memory.KEY"],
    "task: {segments: three}": ["task.segments='three'", "a whole number"],
    "task: {segments: 3.0}": ["task.segments=3.0", "a whole number"],
    "task: {segments: true}": ["task.segments=True", "a whole number"],
    "task: {options: 5}": ["task.options=5", "a group of settings"],
    "task: {length: '8'}": ["task.length='8'", "a whole number or none"],
    "model: {memory: {size: big}}": ["model.memory.size='big'", "a whole number"],
    "model: {vocabulary: big}": ["model.vocabulary='big'", "a whole number"],
    "recipe: [modern]": ["recipe=['modern']", "modern, modern-1, modern-2, paper"],
    "preset: bert": ["preset='bert'", "baseline, memory_transformer"],
    "optimizer: {lr: high}": ["optimizer.lr='high'", "a number"],
    "train: {steps: -1}": ["train.steps=-1", "must be above 0"],
    "bptt: {depth: deep}": ["bptt.depth='deep'", "a whole number or full"],
    "bptt: {schedule: sliding}": ["bptt.depth=full", "bptt.schedule=sliding", "give a number of segments"],
}


@pytest.mark.parametrize("command", COMMAND_LINES)
def test_a_mistake_on_the_command_line_is_one_line(capsys, tmp_path, command):
    assert_refused(capsys, command, COMMAND_LINES[command])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("content", CONFIG_FILES)
def test_a_mistake_in_a_config_file_is_one_line(capsys, tmp_path, content):
    (tmp_path / "FILE").write_text(content)
    assert_refused(capsys, "train copy --config FILE", CONFIG_FILES[content])
    assert [path.name for path in tmp_path.iterdir()] == ["FILE"]


def test_a_file_in_place_of_a_task_is_called_what_it_is(capsys, tmp_path):
    (tmp_path / "book.txt").write_text("Call me Ishmael.")
    for command in ("train", "data show"):
        assert_refused(capsys, f"{command} book.txt", ["task='book.txt' is a file", "text --data PATH"])


def test_a_config_file_that_is_not_there_is_one_line(capsys):
    assert_refused(capsys, "train copy --config missing.yaml", ["'missing.yaml'", "No such file", "--config"])


def test_a_config_file_that_is_no_text_is_one_line(capsys, tmp_path):
    (tmp_path / "FILE").write_bytes(b"\xff\xfe\x00seed")
    assert_refused(capsys, "train copy --config FILE", ["'FILE'", "cannot be read", "--config"])


@pytest.mark.parametrize(
    "out", ["file/run", "file", "x" * 300], ids=["below-a-file", "a-file", "a-long-name"]
)
def test_a_folder_that_cannot_be_written_is_one_line(capsys, tmp_path, out):
    (tmp_path / "file").write_text("something")
    assert_refused(
        capsys, f"{TRAIN} --out {out}", [f"out='{out}'", "cannot be written (", "name another with --out"]
    )
    assert (tmp_path / "file").read_text() == "something"


def test_a_run_folder_that_cannot_be_written_any_more_is_one_line(capsys, tmp_path):
    (tmp_path / "run" / "metrics.jsonl").mkdir(parents=True)
    assert_refused(
        capsys, f"{TRAIN} --out run --quiet", ["run/metrics.jsonl'", "directory", "name another place"]
    )


def test_a_folder_with_another_run_is_refused_naming_what_differs(capsys):
    assert rmt(capsys, f"{TRAIN} --out run --quiet").code == 0
    said = ["out='run'", "train.steps=4, not 5", "name another --out, or start anew with --restart"]
    assert_refused(capsys, f"{TRAIN} --out run --steps 5", said)
    assert_refused(
        capsys, f"{TRAIN} --out run --depth 1", ["out='run'", "bptt.depth=full, not 1", "--restart"]
    )
    assert_refused(capsys, f"train copy {TINY} --out run", ["out='run'", "not copy", "--restart"])


def test_restart_leaves_a_folder_alone_that_is_not_a_run(capsys, tmp_path):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.tex").write_text("years of work")
    assert_refused(
        capsys, f"{TRAIN} --out thesis --restart", ["out='thesis'", "is not a run folder", "--out"]
    )
    assert (tmp_path / "thesis" / "chapter.tex").read_text() == "years of work"


def test_a_mistake_does_not_delete_the_run_that_was_to_be_restarted(capsys, tmp_path):
    assert rmt(capsys, f"{TRAIN} --out run --quiet").code == 0
    assert rmt(capsys, f"{TRAIN} --out run --restart --curriculum.over length --curriculum.start 9").code == 2
    assert (tmp_path / "run" / "result.json").exists()


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_a_device_that_is_not_there_is_one_line_and_leaves_no_run_behind(capsys, tmp_path):
    assert_refused(
        capsys, f"{TRAIN} --device cuda --out run", ["device=cuda", "no CUDA device", "use cpu or auto"]
    )
    assert not (tmp_path / "run").exists()


def test_a_mistake_about_a_run_is_one_line(capsys):
    assert rmt(capsys, f"{TRAIN} --out run --quiet").code == 0
    assert_refused(capsys, "evaluate run --segments 7", ["segments=7", "9 tokens", "nearest: 5, 9"])
    assert_refused(capsys, "evaluate run --samples 13", ["13", "'test'", "1 to 12"])
    assert_refused(capsys, "evaluate run/checkpoints", ["'run/checkpoints' is not a run", "rmt train"])
    assert_refused(capsys, "evaluate run/checkpoints/step_5", ["step_5' does not exist", "rmt runs"])
    assert_refused(capsys, "report run/config.yaml", ["'run/config.yaml'", "name run folders"])


def test_a_run_without_a_checkpoint_and_a_damaged_one_are_one_line(capsys, tmp_path):
    assert rmt(capsys, f"{TRAIN} --out run --quiet").code == 0
    for part in (tmp_path / "run" / "checkpoints").glob("step_*/model.safetensors"):
        part.write_bytes(part.read_bytes()[:-1])
    assert_refused(capsys, "evaluate run", ["is damaged", "model.safetensors", "name another"])
    for pointer in ("best", "last"):
        (tmp_path / "run" / "checkpoints" / pointer).unlink()
    assert_refused(capsys, "evaluate run", ["'run' has no checkpoint yet", "train it further"])


def test_a_hole_in_the_configuration_of_a_run_is_one_line(capsys, tmp_path, monkeypatch):
    shutil.copytree(RELEASE, tmp_path / "release")
    monkeypatch.chdir(tmp_path / "release")
    path = Path("copy-rmt/config.yaml")
    path.write_text(path.read_text().partition("train:\n")[0])
    assert_refused(capsys, "evaluate copy-rmt", ["copy-rmt/config.yaml' is damaged: train is missing"])
    monkeypatch.chdir(tmp_path)
    assert rmt(capsys, f"{TRAIN} --out run --quiet").code == 0
    path = tmp_path / "run" / "config.yaml"
    path.write_text(path.read_text().partition("train:\n")[0])
    assert_refused(capsys, "evaluate run", ["run/config.yaml' is damaged: train.batch is missing", "copy it"])


def test_a_damaged_result_is_one_line(capsys, tmp_path):
    assert rmt(capsys, f"{TRAIN} --out run --quiet").code == 0
    (tmp_path / "run" / "result.json").write_text('{"value": 0.')
    assert_refused(capsys, f"{TRAIN} --out run", ["'run/result.json' is damaged", "delete it"])


def test_results_that_are_none_are_one_line(capsys, tmp_path):
    (tmp_path / "other.jsonl").write_text('{"value": 3}\n')
    assert_refused(capsys, "report other.jsonl", ["'other.jsonl'", "name run folders"])


def test_the_process_itself_ends_with_code_2_and_without_a_traceback(tmp_path):
    source = Path(package.__file__).parent.parent
    done = subprocess.run(
        [sys.executable, "-m", "rmt.cli.main", "train", "coppy"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(source)},
    )
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("rmt: ")
    assert done.stderr.count("\n") == 1


def assert_refused(capsys: pytest.CaptureFixture[str], command: str, said: list[str]) -> None:
    """Exit code 2 and one line that says these things in this order, on stderr; nothing on stdout."""
    code, out, err = rmt(capsys, command)
    assert code == 2
    assert out == ""
    assert err.startswith("rmt: ")
    assert err.count("\n") == 1
    assert len(err) < 250 + len(command)
    place = 0
    for words in said:
        assert words in err[place:]
        place = err.index(words, place) + len(words)
