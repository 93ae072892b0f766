"""A decoder learns a text: harmless at first, resumed to the bit, measured as it says, and saved whole."""

import functools
import json

import pytest
import torch
import transformers

from rmt.cli.main import main
from rmt.documents import language, language_training
from rmt.documents.language import tune_language
from rmt.documents.language_config import LanguageConfig
from rmt.documents.language_test import everything, nothing, perplexity_of
from rmt.documents.language_text import LanguageText, TrainingSpans, load_language_text
from rmt.documents.language_training import losses, segments_read
from rmt.errors import ConfigError, DataError
from rmt.train.divergence import Diverged
from tests.documents import tiny_language
from tests.documents.tiny import FinetuneWatcher, finetune_end
from tests.documents.tiny_language import SETTINGS, write_decoder, write_novel


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder with a tiny GPT-2 with dropout and a text of a few words."""
    folder = tmp_path_factory.mktemp("language")
    write_decoder(folder, "gpt2", resid_pdrop=0.1)
    write_novel(folder)
    return folder


config_of = functools.partial(tiny_language.config_of, family="gpt2")


class Killed(Exception):
    pass


class KillingWatcher(FinetuneWatcher):
    """Ends a run while it is being told of its second evaluation."""

    evaluations = 0

    def evaluated(self, record):
        self.evaluations += 1
        if self.evaluations == 2:
            raise Killed


@pytest.fixture(scope="module")
def finished(home):
    """A run that nothing stopped, beside what it is compared with."""
    torch.set_default_dtype(torch.float32)
    result, was_finished = tune_language(config_of(home, compare="all"), home / "whole", FinetuneWatcher())
    assert not was_finished
    return result


def test_a_run_starts_harmless_and_compares_memory_with_the_plain_decoder(home, finished):
    perplexities = finished["metrics"]["test"]
    assert perplexities["carried_untrained"] == pytest.approx(perplexities["reset_untrained"], rel=1e-6)
    assert {"carried", "reset", "plain", "full_attention"} < set(perplexities)
    assert all(
        value < perplexities["reset_untrained"]
        for name, value in perplexities.items()
        if "untrained" not in name
    )
    assert perplexities["carried"] != perplexities["reset"]
    curve = [json.loads(line) for line in (home / "whole" / "metrics.jsonl").read_text().splitlines()]
    assert [line["tokens"] for line in curve if "split" in line] == [96, 192, 240]
    result, was_finished = tune_language(config_of(home, compare="all"), home / "whole", FinetuneWatcher())
    assert (was_finished, result) == (True, finished)


def test_a_killed_run_ends_with_the_bits_of_one_that_was_never_stopped(home, finished):
    torch.set_default_dtype(torch.float32)
    with pytest.raises(Killed):
        tune_language(config_of(home, compare="all"), home / "killed", KillingWatcher())
    tune_language(config_of(home, compare="all"), home / "killed", FinetuneWatcher())
    assert finetune_end(home / "killed") == finetune_end(home / "whole")


def test_a_line_of_the_log_is_the_mean_since_the_line_before_also_of_a_killed_run(
    home, finished, tmp_path, monkeypatch
):
    torch.set_default_dtype(torch.float32)
    monkeypatch.setattr(language_training, "LOGS", 3)  # a line every three updates, saved every four
    with pytest.raises(Killed):
        tune_language(config_of(home), tmp_path, KillingWatcher())
    tune_language(config_of(home), tmp_path, FinetuneWatcher())
    each, means = (losses_of(folder) for folder in (home / "whole", tmp_path))
    spans = {3: (1, 2, 3), 6: (4, 5, 6), 9: (7, 8, 9), 10: (10,)}
    assert means == {last: sum(each[step] for step in steps) / len(steps) for last, steps in spans.items()}


def test_a_restart_trains_what_memory_is_compared_with_anew(home, tmp_path):
    class KilledInPlain(FinetuneWatcher):
        def evaluated(self, record):
            if record["arm"] == "plain":
                raise Killed

    torch.set_default_dtype(torch.float32)
    with pytest.raises(Killed):
        tune_language(config_of(home, compare="plain"), tmp_path / "run", KilledInPlain())
    config = config_of(home, compare="plain", lr=0.03)
    again, _ = tune_language(config, tmp_path / "run", FinetuneWatcher(), restart=True)
    fresh, _ = tune_language(config, tmp_path / "fresh", FinetuneWatcher())
    assert again["metrics"] == fresh["metrics"]


def test_a_run_says_which_model_is_trained_to_compare(home, tmp_path):
    torch.set_default_dtype(torch.float32)
    watcher = FinetuneWatcher()
    tune_language(config_of(home, compare="plain"), tmp_path, watcher)
    assert [message for message in watcher.messages if message.startswith("plain, to compare: segments of ")]


def test_each_model_of_a_run_says_how_many_steps_it_has(home, tmp_path):
    torch.set_default_dtype(torch.float32)
    watcher = FinetuneWatcher()
    tune_language(config_of(home, compare="plain"), tmp_path, watcher)
    assert watcher.messages.count("10 steps of 24 tokens") == 2


def test_files_of_others_beside_checkpoints_outlive_a_restart_and_the_end_of_a_run(home, tmp_path):
    torch.set_default_dtype(torch.float32)
    with pytest.raises(Killed):
        tune_language(config_of(home, compare="plain"), tmp_path, KillingWatcher())
    notes = [tmp_path / arm / "checkpoints" / "notes.txt" for arm in (".", "plain")]
    for file in notes:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("mine")
    tune_language(config_of(home, compare="plain"), tmp_path, FinetuneWatcher(), restart=True)
    assert [list(file.parent.iterdir()) for file in notes] == [[file] for file in notes]


def test_checkpoints_that_a_kill_behind_the_result_has_left_go_at_the_next_command(
    home, tmp_path, monkeypatch
):
    def killed(self):
        raise Killed

    torch.set_default_dtype(torch.float32)
    config = config_of(home, compare="plain")
    with monkeypatch.context() as patch:
        patch.setattr(language.Checkpoints, "clear", killed)
        with pytest.raises(Killed):
            tune_language(config, tmp_path, FinetuneWatcher())
    folders = {folder.parent for folder in tmp_path.rglob("checkpoints")}
    assert folders == {tmp_path, tmp_path / "plain"}
    assert tune_language(config, tmp_path, FinetuneWatcher())[1]
    assert not list(tmp_path.rglob("checkpoints"))


def losses_of(folder):
    """The losses in a log, by their steps."""
    lines = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
    return {line["step"]: line["loss"] for line in lines if "loss" in line}


def test_the_saved_model_is_the_one_that_was_measured(home, finished):
    torch.set_default_dtype(torch.float32)
    model = transformers.AutoModelForCausalLM.from_pretrained(home / "whole" / "model")
    words = transformers.AutoTokenizer.from_pretrained(home / "whole" / "model")
    rows = load_language_text(str(home / "novel.txt"), words).rows("test", 18, 40)
    assert model.settings.kind == "associative"
    for name, carry in (("carried", everything), ("reset", nothing)):
        measured = perplexity_of(model, rows, 6, carry=carry, precision="32-true")
        assert measured == pytest.approx(finished["metrics"]["test"][name], rel=1e-5)


@torch.no_grad()
def test_perplexity_with_memory_carried_is_that_of_the_whole_text_at_once(home, finished):
    model = transformers.AutoModelForCausalLM.from_pretrained(home / "whole" / "model", dtype=torch.float64)
    rows = torch.randint(3, 17, (3, 19), generator=torch.Generator().manual_seed(0))
    whole = losses(model.eval()(input_ids=rows[:, :-1]).logits, rows[:, 1:]).mean().exp()
    assert perplexity_of(model, rows, 6, precision="64-true") == pytest.approx(whole.item())


def test_spans_come_once_in_a_pass_in_an_order_that_the_seed_decides():
    spans = TrainingSpans(torch.arange(100), length=8, seed=3)
    starts = [spans.start(number) for number in range(2 * spans.count)]
    for part in (starts[: spans.count], starts[spans.count :]):
        assert len({start // 8 for start in part}) == spans.count == 11
        assert len({start % 8 for start in part}) == 1
    assert torch.equal(spans.rows(4, 2), TrainingSpans(torch.arange(100), 8, 3).rows(4, 2))
    assert starts != [TrainingSpans(torch.arange(100), 8, 4).start(number) for number in range(22)]
    with pytest.raises(DataError, match="train: 9 tokens are fewer than two sequences of 8"):
        TrainingSpans(torch.arange(9), 8, 0)


def test_tested_rows_stand_side_by_side():
    text = LanguageText({"test": torch.arange(20)})
    assert text.rows("test", 6, None).tolist() == [list(range(start, start + 7)) for start in (0, 6, 12)]
    assert len(text.rows("test", 6, 13)) == 2
    with pytest.raises(DataError, match="test: 20 tokens are fewer than the 31 of one sequence"):
        text.rows("test", 30, None)


def test_a_curriculum_goes_through_the_divisors_in_the_first_half():
    config = LanguageConfig(backbone="any", segments=4, curriculum="segments")
    assert [segments_read(config, step / 8) for step in range(8)] == [1, 1, 2, 2, 4, 4, 4, 4]
    assert segments_read(LanguageConfig(backbone="any", segments=4), 0.0) == 4


def test_mistakes_are_told_in_a_line(home, finished, tmp_path):
    with pytest.raises(ConfigError, match=r"lora_lr=2\.0 has no effect without --lora"):
        config_of(home, lora=0, lora_lr=2.0)
    with pytest.raises(ConfigError, match="tokens=10 are fewer than the 24 of one update"):
        tune_language(config_of(home, tokens=10), tmp_path / "few", FinetuneWatcher())
    with pytest.raises(
        ConfigError, match="full attention over 2 × 60 tokens needs more than the decoder's 64"
    ):
        tune_language(config_of(home, compare="all", segment_length=60), tmp_path / "far", FinetuneWatcher())
    with pytest.raises(ConfigError, match="holds a run with seed=0, not 1; name another --out"):
        tune_language(config_of(home, compare="all", seed=1), home / "whole", FinetuneWatcher())


@pytest.mark.parametrize("command", ["predict", "export"])
def test_a_language_model_that_is_taken_for_another_run_says_what_it_is_for(
    home, finished, capsys, tmp_path, command
):
    (tmp_path / "letter.txt").write_text("good\n")
    run, letter = home / "whole", str(tmp_path / "letter.txt")
    words = [letter] if command == "predict" else ["-o", str(tmp_path / "x.pt2")]
    assert main([command, str(run), *words]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert f"rmt export {run / 'model'}" in said


@pytest.mark.parametrize("logs", [100, 1], ids=["logged-at-once", "logged-at-the-end"])
def test_a_run_that_diverges_says_so_and_saves_nothing(home, tmp_path, monkeypatch, logs):
    monkeypatch.setattr(language_training, "LOGS", logs)
    with pytest.raises(Diverged, match=r"loss=nan at step \d+: training diverged"):
        tune_language(config_of(home, lr=1e6, clip=0.0, tokens=20 * 24), tmp_path / "wild", FinetuneWatcher())
    assert list((tmp_path / "wild").glob("checkpoints/*")) == []


def test_the_command_prints_what_was_measured(home, finished, capsys):
    settings = {**SETTINGS, "backbone": home / "gpt2", "out": home / "whole", "task": "lm"}
    words = [word for name, value in settings.items() for word in (f"--{name}", str(value))]
    assert main(["finetune", str(home / "novel.txt"), *words, "--compare", "all"]) == 0
    printed = capsys.readouterr().out
    assert f"perplexity {finished['metrics']['test']['carried']:.2f}  state carried" in printed
    assert "full attention over a training sequence" in printed
