"""Code that a file names runs only where the user said so; what stands on the command line runs."""

import json
import sys
from pathlib import Path

import pytest

import rmt
from rmt.cli.main import main
from rmt.errors import ConfigError
from rmt.location import trusting
from tests.cli.command import TINY

MODULE = """
from pathlib import Path
from rmt.core.token_memory import TokenMemory
from rmt.tasks.copy import Copy
from rmt.tasks.tokenizer import SymbolTokenizer

Path({marker!r}).touch()

class Task(Copy):
    name = "stranger"

class Tokenizer(SymbolTokenizer):
    kind = "strange"

class TokenizedTask(Copy):
    name = "stranger"

    def tokenizer(self):
        return Tokenizer.restore(super().tokenizer().content())

class Memory(TokenMemory):
    pass
"""
OPENING = {
    "task.name": ("stranger:Task", "--model rmt", ["evaluate", "attention"]),
    "model.memory.kind": (
        "copy",
        "--model.memory.kind stranger:Memory",
        ["evaluate", "attention", "stream", "generate"],
    ),
    "tokens": ("stranger:TokenizedTask", "--model rmt", ["stream", "generate"]),
}
WORDS = {
    "evaluate": "RUN --samples 4 --quiet",
    "attention": "RUN --examples 1 --quiet",
    "stream": "RUN book.txt --quiet",
    "generate": "RUN --prompt 1 --tokens 1",
}
CASES = [(field, command) for field, (_, _, commands) in OPENING.items() for command in commands]


@pytest.fixture
def stranger(tmp_path, monkeypatch):
    """A module that leaves a mark when it runs, beside the user; forgets that it ran."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    marker = tmp_path / "ran"
    Path("stranger.py").write_text(MODULE.format(marker=str(marker)))
    Path("book.txt").write_text("1 2 3 1 2 3")
    yield marker
    forget(marker)


def forget(marker: Path) -> None:
    sys.modules.pop("stranger", None)
    marker.unlink(missing_ok=True)


def trained(field: str, marker: Path) -> None:
    """A run whose folder names a class in this field; a user's own command line may."""
    task, settings, _ = OPENING[field]
    assert main(f"train {task} {TINY} {settings} --out RUN --quiet".split()) == 0
    assert marker.exists()
    forget(marker)


@pytest.mark.covering
@pytest.mark.parametrize(("field", "command"), CASES)
def test_a_class_that_a_run_folder_names_runs_only_with_trust(field, command, stranger, capsys):
    trained(field, stranger)
    capsys.readouterr()
    words = [command, *WORDS[command].split()]
    assert main(words) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert all(word in error for word in ("RUN", f"{field}='stranger:", "--trust"))
    assert not stranger.exists()
    assert main([*words, "--trust"]) == 0
    assert stranger.exists()


def test_a_model_is_loaded_with_the_memory_that_its_folder_names_only_with_trust(stranger):
    trained("model.memory.kind", stranger)
    with pytest.raises(ConfigError, match=r"model\.memory\.kind='stranger:Memory'.*trust=True"):
        rmt.load("RUN")
    assert not stranger.exists()
    assert type(rmt.load("RUN", trust=True).memory).__name__ == "Memory"


def test_the_same_command_line_resumes_without_trust(stranger, capsys):
    trained("task.name", stranger)
    line = f"train stranger:Task {TINY} --out RUN --quiet".split()
    assert main(line) == 0
    assert "already finished" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("field", "text"),
    [
        ("task.name", "task: {name: 'stranger:Task'}"),
        ("model.memory.kind", "task: {name: copy}\nmodel: {memory: {kind: 'stranger:Memory'}}"),
    ],
)
@pytest.mark.parametrize("command", ["train", "bench --updates 1 --paths eager"])
def test_a_class_that_a_config_file_names_runs_only_with_trust(command, field, text, stranger, capsys):
    Path("theirs.yaml").write_text(text)
    assert main([*command.split(), "--config", "theirs.yaml"]) == 2
    error = capsys.readouterr().err
    assert all(word in error for word in ("theirs.yaml", field, "--trust"))
    assert not stranger.exists()


def test_a_task_that_a_config_file_names_is_shown_only_with_trust(stranger, capsys):
    Path("theirs.yaml").write_text("task: {name: 'stranger:Task'}")
    assert main(["data", "show", "--config", "theirs.yaml"]) == 2
    error = capsys.readouterr().err
    assert all(word in error for word in ("theirs.yaml", "task.name='stranger:Task'", "--trust"))
    assert not stranger.exists()
    assert main(["data", "show", "--config", "theirs.yaml", "--trust"]) == 0
    assert stranger.exists()
    assert "example 1" in capsys.readouterr().out


def test_a_class_of_a_config_file_runs_if_the_command_line_names_it_too_or_trusts(stranger, capsys):
    Path("theirs.yaml").write_text("task: {name: 'stranger:Task'}")
    assert main(["train", "--config", "theirs.yaml", "--trust", "--print_config"]) == 0
    assert stranger.exists()
    forget(stranger)
    assert main(["train", "stranger:Task", "--config", "theirs.yaml", "--print_config"]) == 0
    assert "trust: true" not in capsys.readouterr().out


def test_a_file_cannot_trust_itself(stranger, capsys):
    Path("theirs.yaml").write_text("trust: true\ntask: {name: 'stranger:Task'}")
    assert main(["train", "--config", "theirs.yaml"]) == 2
    assert "--trust on the command line" in capsys.readouterr().err
    assert not stranger.exists()


def test_a_class_of_the_package_needs_no_trust_and_opens_no_folder(tmp_path, monkeypatch):
    from rmt.tasks.registry import task_class

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path not in ("", str(tmp_path))])
    assert task_class("rmt.tasks.copy:Copy").name == "copy"
    assert str(tmp_path) not in sys.path


def test_trust_ends_with_its_block_and_is_not_lessened_inside():
    from rmt.location import trusts

    with trusting(True), trusting(False):
        assert trusts()
    assert not trusts()


@pytest.fixture
def backbone(tmp_path, monkeypatch):
    """A backbone with code of its own, which leaves a mark; a `y` waits on standard input."""
    pytest.importorskip("transformers")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_MODULES_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("builtins.input", lambda *_: "y")
    folder, marker = tmp_path / "theirs", tmp_path / "ran"
    folder.mkdir()
    classes = {"AutoConfig": "strange.StrangeConfig", "AutoModel": "strange.StrangeModel"}
    (folder / "config.json").write_text(json.dumps({"model_type": "strange", "auto_map": classes}))
    (folder / "strange.py").write_text(
        f"from pathlib import Path\nPath({str(marker)!r}).touch()\n"
        "from transformers import BertConfig\nclass StrangeConfig(BertConfig):\n    model_type = 'strange'\n"
    )
    Path("data.jsonl").write_text(
        "".join(json.dumps({"text": f"{n} words", "label": str(n % 2)}) + "\n" for n in range(20))
    )
    return marker


@pytest.mark.parametrize("command", ["info theirs", "finetune data.jsonl --backbone theirs --device cpu"])
def test_code_of_a_backbone_runs_only_with_trust_whatever_stands_on_standard_input(command, backbone, capsys):
    assert main(command.split()) == 2
    error = capsys.readouterr().err
    assert all(word in error for word in ("theirs", "auto_map.AutoConfig='strange.StrangeConfig'", "--trust"))
    assert not backbone.exists()
    main([*command.split(), "--trust"])
    assert backbone.exists()


def test_a_kind_of_memory_that_a_config_file_names_for_fine_tuning_runs_only_with_trust(stranger, capsys):
    Path("theirs.yaml").write_text("kind: 'stranger:Memory'\nbackbone: bert\n")
    assert main(["finetune", "data.jsonl", "--config", "theirs.yaml"]) == 2
    error = capsys.readouterr().err
    assert all(word in error for word in ("theirs.yaml", "kind='stranger:Memory'", "--trust"))
    assert not stranger.exists()


def test_a_kind_of_memory_that_a_wrapped_model_names_runs_only_with_trust(stranger):
    transformers = pytest.importorskip("transformers")
    config = transformers.BertConfig(
        vocab_size=9, hidden_size=8, num_hidden_layers=1, num_attention_heads=1, intermediate_size=8
    )
    rmt.add_memory(transformers.BertModel(config), memory=2, kind="stranger:Memory").save_pretrained("theirs")
    forget(stranger)
    with pytest.raises(ConfigError, match=r"'theirs'.*config\.rmt\.kind='stranger:Memory'.*trust"):
        transformers.AutoModel.from_pretrained("theirs")
    assert not stranger.exists()
    transformers.AutoModel.from_pretrained("theirs", trust_remote_code=True)
    assert stranger.exists()


def test_weights_that_are_a_pickle_are_not_loaded(tmp_path, monkeypatch):
    transformers, torch = pytest.importorskip("transformers"), pytest.importorskip("torch")
    from rmt.documents.pretrained import PretrainedSource, model_options

    config = transformers.BertConfig(
        vocab_size=9, hidden_size=8, num_hidden_layers=1, num_attention_heads=1, intermediate_size=8
    )
    config.save_pretrained(tmp_path)
    torch.save(transformers.BertModel(config).state_dict(), tmp_path / "pytorch_model.bin")
    source = PretrainedSource("backbone", str(tmp_path))
    with pytest.raises(ConfigError, match=r"safetensors"):
        source.load(transformers.AutoModel, **model_options())
