"""A decoder that learns a text behind a cache: what it takes and measures, and folders of former releases."""

import functools

import pytest
import torch
import transformers

from rmt.cli.main import main
from rmt.core.config import CacheConfig
from rmt.documents.language import tune_language
from rmt.documents.language_arms import load_decoder
from rmt.documents.language_test import cache_alone, everything, nothing, perplexity_of
from rmt.documents.language_text import load_language_text
from rmt.errors import ConfigError
from rmt.seal import SEAL, sealed
from rmt.yamlfile import load_yaml, write_yaml
from tests.documents import tiny_language
from tests.documents.tiny import FinetuneWatcher
from tests.documents.tiny_language import SETTINGS, write_decoder, write_novel

ROOM = 20  # positions of the tiny Llama
config_of = functools.partial(tiny_language.config_of, family="llama")


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder with a tiny Llama of few positions, a GPT-2 and a text."""
    folder = tmp_path_factory.mktemp("cached")
    write_decoder(folder, "llama", max_position_embeddings=ROOM)
    write_decoder(folder, "gpt2")
    write_novel(folder)
    return folder


@pytest.fixture(scope="module")
def finished(home):
    """A run with the cache that is taken by default, beside the plain decoder."""
    torch.set_default_dtype(torch.float32)
    return tune_language(config_of(home, compare="plain"), home / "whole", FinetuneWatcher())[0]


def loaded(home):
    return transformers.AutoModelForCausalLM.from_pretrained(home / "whole" / "model")


def test_the_usual_cache_is_as_long_as_a_segment(home, finished):
    model = loaded(home)
    assert (model.settings.segment_length, model.settings.cache, model.settings.sink) == (6, 6, 4)
    assert finished["model"] == "rmt_llama, 2 segments of 6 tokens, a cache of 6 + 4"
    assert finished["config"]["cache"] is None


@pytest.mark.parametrize(
    ("settings", "arm"),
    [
        ({"segment_length": 11}, (11, 3)),  # 2 write tokens, 11 of text and 4 of the sink leave 3 of 20
        ({"segment_length": 11, "sink": 0}, (11, 7)),
        ({"segment_length": 16}, (16, 0)),
        ({"segment_length": None}, (7, 7)),
        ({"segment_length": None, "sink": 1}, (9, 8)),
        ({"segment_length": None, "cache": 0}, (18, 0)),
        ({"segment_length": None, "cache": 3}, (11, 3)),
        ({"segment_length": None, "family": "gpt2"}, (62, 0)),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_segment_and_cache_share_the_positions_that_there_are(home, settings, arm):
    config = config_of(home, **settings)
    taken = load_decoder(config).with_memory(config)
    assert (taken.length, taken.cache.size) == arm


def test_state_is_measured_whole_without_memory_and_not_at_all(home, finished):
    torch.set_default_dtype(torch.float32)
    model = loaded(home)
    words = transformers.AutoTokenizer.from_pretrained(home / "whole" / "model")
    rows = load_language_text(str(home / "novel.txt"), words).rows("test", 18, 40)
    carries = {"carried": everything, "memory_reset": cache_alone(model), "reset": nothing}
    measured = {
        name: perplexity_of(model, rows, 6, carry=carry, precision="32-true")
        for name, carry in carries.items()
    }
    assert measured == pytest.approx({name: finished["metrics"]["test"][name] for name in carries}, rel=1e-5)
    assert len(set(measured.values())) == 3


def test_before_training_memory_changes_nothing_behind_the_cache(finished):
    before = finished["metrics"]["test"]
    assert before["carried_untrained"] == pytest.approx(before["memory_reset_untrained"], rel=1e-6)
    assert before["carried_untrained"] != pytest.approx(before["reset_untrained"], rel=1e-6)


def test_the_command_says_what_each_perplexity_is_of(home, finished, capsys):
    settings = {**SETTINGS, "backbone": home / "llama", "out": home / "whole", "task": "lm"}
    words = [word for name, value in settings.items() for word in (f"--{name}", str(value))]
    assert main(["finetune", str(home / "novel.txt"), *words, "--compare", "plain"]) == 0
    printed = capsys.readouterr().out
    tested = finished["metrics"]["test"]
    assert f"perplexity {tested['memory_reset']:.2f}  memory reset at every segment, the cache" in printed
    assert f"perplexity {tested['reset']:.2f}  state reset at every segment" in printed


def test_learned_positions_go_without_a_cache(home, tmp_path):
    torch.set_default_dtype(torch.float32)
    result, _ = tune_language(config_of(home, family="gpt2"), tmp_path / "run", FinetuneWatcher())
    assert result["model"] == "rmt_gpt2, 2 segments of 6 tokens, no cache"
    assert not [name for name in result["metrics"]["test"] if "memory_reset" in name]
    with pytest.raises(ConfigError, match=r"cache=4: GPT2LMHeadModel adds learned positions"):
        tune_language(config_of(home, family="gpt2", cache=4), tmp_path / "cached", FinetuneWatcher())
    with pytest.raises(ConfigError, match=r"sink=2 has no effect without"):
        tune_language(config_of(home, family="gpt2", sink=2), tmp_path / "sink", FinetuneWatcher())


def test_the_cache_alone_and_windows_as_wide_are_compared_with_memory(home):
    config = config_of(home, compare="all", segment_length=5, cache=4, sink=1, segments=3)
    memory, *others = load_decoder(config).arms(config)
    kept = CacheConfig(size=4, sink=1)
    assert memory == ("memory", 2, 5, kept)
    assert others[0] == ("cache", 0, 5, kept)
    assert others[1:] == [("plain", 0, 9, CacheConfig()), ("full_attention", 0, 15, CacheConfig())]
    without = config_of(home, compare="all", cache=0)
    assert [arm.name for arm in load_decoder(without).arms(without)] == ["memory", "plain", "full_attention"]


def test_the_cache_alone_is_trained_and_measured(home, tmp_path):
    torch.set_default_dtype(torch.float32)
    result, _ = tune_language(config_of(home, compare="all", test_segments=2), tmp_path, FinetuneWatcher())
    tested = result["metrics"]["test"]
    assert {"carried", "memory_reset", "reset", "cache", "plain", "full_attention"} <= tested.keys()
    assert tested["cache"] not in (tested["carried"], tested["plain"])


def test_a_sink_of_no_cache_is_refused(home):
    with pytest.raises(ConfigError, match=r"sink=2 has no effect with cache=0; leave it out"):
        config_of(home, cache=0, sink=2)


def test_a_folder_from_before_there_was_a_cache_is_a_run_without_one(home, tmp_path):
    torch.set_default_dtype(torch.float32)
    result, _ = tune_language(config_of(home, cache=0), tmp_path, FinetuneWatcher())
    now = load_yaml(tmp_path / "config.yaml")
    former = {name: value for name, value in now.items() if name not in ("cache", "sink", SEAL)}
    assert len(former) + 3 == len(now)
    (tmp_path / "config.yaml").write_text(write_yaml(sealed({**former, "format": 5})))
    again, was_finished = tune_language(config_of(home, cache=0), tmp_path, FinetuneWatcher())
    assert (was_finished, again) == (True, result)
    with pytest.raises(ConfigError, match="with cache=0, not None; name another --out, go on with --cache 0"):
        tune_language(config_of(home), tmp_path, FinetuneWatcher())
