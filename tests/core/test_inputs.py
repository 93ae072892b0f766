"""What a segment model is called with: anything but ids and its own state is answered in one line."""

import numpy as np
import pytest
import torch

import rmt
from rmt.errors import ConfigError

IDS = torch.zeros(2, 3, dtype=torch.long)


@pytest.fixture(scope="module")
def model() -> rmt.SegmentModel:
    return rmt.SegmentModel(rmt.presets.rmt(memory=2, vocabulary=8, layers=1, width=4, inner_width=4))


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        (torch.rand(2, 3), r"tokens of type torch.float32 are not ids; give whole numbers"),
        (torch.zeros(2, 3, dtype=torch.bool), "tokens of type torch.bool are not ids"),
        (torch.zeros(2, 3, dtype=torch.uint8), "tokens of type torch.uint8 are not ids; .* int64 or int32"),
        (IDS[0], r"tokens of shape \(3,\) are not rows; give ids \(batch, length\)"),
        (IDS[None], r"tokens of shape \(1, 2, 3\) are not rows"),
        ([[1, 2], [3, 4]], r"tokens=\[\[1, 2\], \[3, 4\]\] is no tensor"),
        (IDS[:1], r"tokens of shape \(1, 3\) do not fit a state of 2 rows"),
        (IDS + 8, "an id that is not in the vocabulary; ids are 0 to 7"),
        (IDS - 1, "an id that is not in the vocabulary"),
    ],
    ids=["floats", "bools", "bytes", "a-row", "three-axes", "lists", "another-batch", "beyond", "negative"],
)
@pytest.mark.parametrize("way", ["whole", "stepped"])
def test_tokens_that_are_no_ids_are_refused_in_one_line(model, tokens, message, way):
    state = model.initial_state(2)
    with pytest.raises(ConfigError, match=message) as error:
        model(tokens, state) if way == "whole" else model.open(state).step(tokens)
    assert "\n" not in str(error.value)


def test_ids_of_32_bits_are_ids(model):
    tokens = torch.randint(8, (2, 3))
    whole, short = (model(ids, model.initial_state(2)).logits for ids in (tokens, tokens.int()))
    assert torch.equal(whole, short)


@pytest.mark.parametrize(
    ("state", "message"),
    [
        (None, "state=NoneType is not a State; start with model.initial_state"),
        (torch.zeros(2, 2, 4), "state=Tensor is not a State"),
        (rmt.State(memory=torch.zeros(2, 3, 4), cache=[torch.zeros(2, 0, 4)]), "memory of 3 × 4 .* 2 × 4"),
        (rmt.State(memory=torch.zeros(2, 2, 4), cache=[torch.zeros(2, 5, 4)]), r"cache is \[\(5, 4\)\] .* 0"),
        (rmt.State(memory=torch.zeros(2, 2, 4)), r"cache is \[\] .* 1 × 0 × 4"),
    ],
    ids=["nothing", "memory-alone", "other-memory", "other-cache", "other-layers"],
)
def test_what_is_not_a_state_of_the_model_is_refused(model, state, message):
    with pytest.raises(ConfigError, match=message):
        model(IDS, state)


@pytest.mark.parametrize(
    "lengths", [[1, 2], torch.tensor([1.0, 2.0]), torch.tensor([1]), torch.tensor([1, 4])], ids=str
)
def test_lengths_are_a_whole_number_for_each_row(model, lengths):
    with pytest.raises(ConfigError, match="lengths="):
        model(IDS, model.initial_state(2), lengths=lengths)


@pytest.mark.parametrize(
    ("targets", "message"),
    [
        (IDS.T, r"targets of shape \(3, 2\) do not fit tokens of shape \(2, 3\)"),
        (IDS.flatten(), r"targets of shape \(6,\) are not rows"),
        (IDS[:, :2], r"targets of shape \(2, 2\) do not fit"),
        (IDS.float(), "targets of type torch.float32 are not ids"),
        (IDS.tolist(), "is no tensor"),
        (IDS + 1000, "targets hold an id that is not in the vocabulary"),
    ],
)
def test_targets_are_an_id_for_each_token(model, targets, message):
    with pytest.raises(ConfigError, match=message):
        model(IDS, model.initial_state(2), targets=targets)


def test_targets_of_32_bits_have_the_same_losses(model):
    state = model.initial_state(2)
    assert torch.equal(*(model(IDS, state, targets=ids).losses for ids in (IDS, IDS.int())))


def test_a_segment_of_no_tokens_is_judged_as_any_other(model):
    state, none = model.initial_state(2), IDS[:, :0]
    assert model(none, state, targets=none).losses.shape == (2, 0)
    with pytest.raises(ConfigError, match="lengths="):
        model(none, state, lengths=torch.tensor([5, 5]))
    with pytest.raises(ConfigError, match="padding='middle' is not right or left"):
        model(none, state, padding="middle")


def test_a_batch_of_no_rows_has_lengths_of_none(model):
    none = torch.zeros(0, dtype=torch.long)
    assert model(IDS[:0], model.initial_state(0), lengths=none).logits.shape[:2] == IDS[:0].shape


@pytest.mark.parametrize("batch", ["2", 2.5, True, -1, None], ids=repr)
def test_a_batch_is_a_number_of_rows(model, batch):
    with pytest.raises(ConfigError, match=r"batch=.* (is not a whole number|must be at least 0)"):
        model.initial_state(batch)


def test_numbers_of_numpy_are_numbers(model):
    assert len(model.initial_state(np.int64(2)).cached) == 2


@pytest.mark.parametrize("config", [{"vocabulary": 8}, 8, None, "rmt"], ids=repr)
def test_a_model_is_made_of_a_model_configuration(config):
    with pytest.raises(ConfigError, match=r"is not a ModelConfig; give rmt.ModelConfig\(…\), or one of"):
        rmt.SegmentModel(config)


@pytest.mark.parametrize("memory", ["2", 2.5])
def test_the_sizes_of_a_preset_are_whole_numbers(memory):
    with pytest.raises(ConfigError, match=r"memory=.* is not a whole number"):
        rmt.presets.rmt(memory=memory, vocabulary=8)


def test_a_depth_is_a_number_or_full(model):
    with pytest.raises(ConfigError, match="depth='all' is not a whole number or full"):
        list(rmt.bptt(model, [IDS], model.initial_state(2), lambda _, output: output.logits.sum(), "all"))


def test_a_model_and_its_state_say_their_sizes(model):
    first, sizes, *_ = repr(model).splitlines()
    parameters = sum(parameter.numel() for parameter in model.parameters())
    assert first == "SegmentModel("
    assert sizes.strip() == f"1 layers × 4, vocabulary 8, memory 2, cache 0, {parameters:,} parameters"
    assert repr(model.initial_state(3)) == "State(batch 3, memory 2 × 4, 96 bytes)"


def test_a_state_names_its_cache_and_what_another_kind_of_memory_carries():
    cached = rmt.SegmentModel(rmt.presets.transformer_xl(cache=5, vocabulary=8, layers=3, width=4))
    assert repr(cached.initial_state(2)) == "State(batch 2, memory 0 × 4, cache 3 × 5 × 4, 480 bytes)"
    other = rmt.State({"bank": torch.zeros(2, 3, 4, 5), "used": torch.zeros(2)})
    assert repr(other) == "State(batch 2, bank 3 × 4 × 5, used 1, 488 bytes)"
    layers = rmt.State({"A": tuple(torch.zeros(2, 3, 4) for _ in range(12)), "z": (torch.zeros(2, 3),) * 12})
    assert repr(layers) == "State(batch 2, A 12 × 3 × 4, z 12 × 3, 1,440 bytes)"


def test_a_state_of_what_only_stands_for_tensors_has_a_repr():
    assert repr(rmt.State({"tokens": 0}, (), 0)) == "State(carried={'tokens': 0}, cache=(), cached=0)"


@pytest.mark.parametrize("reset", [[True, False], torch.tensor([1, 0]), torch.tensor([True])])
def test_what_does_not_say_which_rows_start_anew_is_one_line(model, reset):
    with pytest.raises(ConfigError, match=r"is not a truth value per row; give a tensor \(2,\) of bool$"):
        model(IDS, model.initial_state(2), reset=reset)


def of_kind(kind: str) -> rmt.SegmentModel:
    memory = rmt.MemoryConfig(size=2, kind=kind)
    config = rmt.ModelConfig(
        vocabulary=7, layers=2, heads=1, head_width=4, width=4, inner_width=4, memory=memory
    )
    return rmt.SegmentModel(config)


@pytest.mark.parametrize(("kind", "other"), [("tokens", "associative"), ("associative", "tokens")])
def test_a_state_of_another_kind_of_memory_is_one_line(kind, other):
    model, tokens = of_kind(kind), torch.zeros(2, 3, dtype=torch.long)
    with pytest.raises(
        ConfigError, match=r"a state that carries .* is not this model's, whose memory carries"
    ):
        model(tokens, of_kind(other).initial_state(2))
    with pytest.raises(ConfigError, match="is not this model's"):
        model.open(of_kind(other).initial_state(2)).step(tokens)


def test_memory_of_other_rows_than_its_state_is_one_line():
    model = of_kind("tokens")
    state = model.initial_state(2)._replace(carried={"tokens": torch.zeros(1, 2, 4)})
    with pytest.raises(ConfigError, match=r"a state with memory of 1 rows is of 2; give model.initial_state"):
        model(torch.zeros(2, 3, dtype=torch.long), state)
