"""Generation carries memory across segments, and equals reading everything anew at each step."""

import pytest
import torch

from rmt.errors import ConfigError, DataError
from rmt.hf import SegmentCache
from tests.hf.zoo import PAD, of_kind, over, plain, remembering, texts

DECODERS = pytest.mark.parametrize("name", of_kind("decoder"))
STEPS = 13  # over more than two borders of segments of 5
GREEDY = {"do_sample": False, "max_new_tokens": STEPS, "min_new_tokens": STEPS, "pad_token_id": PAD}


@pytest.mark.covering
@over(kinds=("decoder",), heads=("ForCausalLM",))
@pytest.mark.parametrize("layout", ["paper", "causal"])
def test_a_decoder_generates_what_the_unrolled_model_says_step_by_step(name, head, attention, layout):
    model = remembering(name, head, attention, layout=layout)
    inputs = texts(name, 7, 7)
    generated = model.generate(**inputs, **GREEDY, output_logits=True, return_dict_in_generate=True)
    ids = inputs["input_ids"]
    for step, logits in enumerate(generated.logits):
        with torch.no_grad():
            expected = model(input_ids=ids).logits[:, -1]  # all segments again
        torch.testing.assert_close(logits.double(), expected, rtol=1e-5, atol=1e-5)
        ids = torch.cat([ids, generated.sequences[:, 7 + step : 8 + step]], dim=1)
    assert torch.equal(ids, generated.sequences)


@DECODERS
def test_rows_of_a_ragged_prompt_cross_their_borders_each_at_its_own_time(name):
    model = remembering(name, "ForCausalLM")
    lengths = (7, 1, 10, 5)
    inputs = texts(name, *lengths, side="left")
    together = model.generate(**inputs, **GREEDY, output_logits=True, return_dict_in_generate=True)
    for row, length in enumerate(lengths):
        alone = {key: value[row : row + 1, -length:] for key, value in inputs.items()}
        single = model.generate(**alone, **GREEDY, output_logits=True, return_dict_in_generate=True)
        assert torch.equal(together.sequences[row, -STEPS:], single.sequences[0, -STEPS:])
        for mine, theirs in zip(together.logits, single.logits, strict=True):
            torch.testing.assert_close(mine[row], theirs[0], rtol=1e-4, atol=1e-4)


@DECODERS
def test_without_a_cache_generation_is_the_same(name):
    model = remembering(name, "ForCausalLM")
    inputs = texts(name, 8, 3, side="left")
    assert torch.equal(
        model.generate(**inputs, **GREEDY), model.generate(**inputs, **GREEDY, use_cache=False)
    )


@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_beams_take_their_memory_along(name):
    model = remembering(name, "ForCausalLM")
    inputs = texts(name, 8, 6, side="left")
    beams = {**GREEDY, "num_beams": 3}
    assert torch.equal(model.generate(**inputs, **beams), model.generate(**inputs, **beams, use_cache=False))


@DECODERS
def test_rows_in_another_order_keep_what_they_have_read(name):
    model = remembering(name, "ForCausalLM")
    ids, rest = texts(name, 7, 7, 7)["input_ids"], texts(name, 6, 6, 6, seed=9)["input_ids"]
    order, cache = torch.tensor([2, 0, 0]), SegmentCache(model)
    with torch.no_grad():
        model(input_ids=ids, past_key_values=cache)
        cache.reorder_cache(order)
        got = model(input_ids=rest, past_key_values=cache).logits
        expected = model(input_ids=torch.cat([ids[order], rest], dim=1)).logits[:, 7:]
    torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.covering
@DECODERS
@pytest.mark.parametrize("memory", [0, 2])
def test_the_cache_stays_as_small_as_a_segment(name, memory):
    model = remembering(name, "ForCausalLM", memory=memory)
    cache = SegmentCache(model)
    ids = texts(name, 4, 4)["input_ids"]
    largest = 0
    with torch.no_grad():
        for _ in range(12):
            model(input_ids=ids, past_key_values=cache)
            largest = max(largest, cache.exists.shape[1])
    assert cache.get_seq_length() == 48
    assert largest <= 5 + 2 * memory


@DECODERS
def test_a_segment_read_piece_by_piece_is_the_segment_at_once(name):
    model = remembering(name, "ForCausalLM")
    ids = texts(name, 5, 5)["input_ids"]
    with torch.no_grad():
        state = model(input_ids=texts(name, 5, 5, seed=4)["input_ids"], return_state=True).state
        whole = model(input_ids=ids, state=state, return_state=True)
        segment = model.open(state)
        logits = torch.cat([segment.step(piece) for piece in ids.split([2, 1, 2], dim=1)], dim=1)
        after = segment.close()
    torch.testing.assert_close(logits, whole.logits, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(after.memory, whole.state.memory, rtol=1e-5, atol=1e-5)


def test_the_state_goes_into_generation_and_comes_out_of_it():
    model = remembering("gpt2", "ForCausalLM")
    whole = texts("gpt2", 15, 15)["input_ids"]
    with torch.no_grad():
        before = model(input_ids=whole[:, :10], return_state=True).state
    expected = model.generate(input_ids=whole, **GREEDY)[:, 15:]
    generated = model.generate(input_ids=whole[:, 10:], state=before, **GREEDY, return_dict_in_generate=True)
    assert torch.equal(generated.sequences[:, 5:], expected)
    with torch.no_grad():
        read = torch.cat([whole, expected[:, :-1]], dim=1)  # the last token was not read
        after = model(input_ids=read, return_state=True).state
    torch.testing.assert_close(generated.past_key_values.close().memory, after.memory, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", of_kind("seq2seq"))
@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_an_encoder_decoder_generates_what_the_unrolled_model_says_step_by_step(name, attention):
    model = remembering(name, "ForConditionalGeneration", attention)
    for side in ("right", "left"):
        inputs = texts(name, 18, 9, side=side)
        options = {**GREEDY, "max_new_tokens": 5, "min_new_tokens": 5}
        generated = model.generate(**inputs, **options, output_logits=True, return_dict_in_generate=True)
        for step, logits in enumerate(generated.logits):
            with torch.no_grad():
                answer = model(**inputs, decoder_input_ids=generated.sequences[:, : step + 1])
            torch.testing.assert_close(logits.double(), answer.logits[:, -1], rtol=1e-5, atol=1e-5)
        beams = model.generate(**inputs, **options, num_beams=2)
        alone = [
            model.generate(**{k: v[r : r + 1] for k, v in inputs.items()}, **options, num_beams=2)
            for r in (0, 1)
        ]
        assert torch.equal(beams, torch.cat(alone))


@pytest.mark.parametrize("name", of_kind("seq2seq"))
def test_what_an_encoder_decoder_generates_depends_on_the_first_segment(name):
    model = remembering(name, "ForConditionalGeneration")
    inputs, other = texts(name, 18), texts(name, 18)
    other["input_ids"][0, 1:5] = torch.tensor([9, 8, 7, 6])
    options = {
        **GREEDY,
        "max_new_tokens": 2,
        "output_logits": True,
        "return_dict_in_generate": True,
        "min_new_tokens": 2,
    }
    first, second = (model.generate(**text, **options).logits[0] for text in (inputs, other))
    assert not torch.equal(first, second)


def test_only_segments_filled_from_the_left_can_be_decoded():
    model = remembering("gpt2", "ForCausalLM", alignment="right")
    with pytest.raises(ConfigError, match=r"alignment='right' cannot be decoded.*use alignment='left'"):
        model.generate(**texts("gpt2", 7), **GREEDY)


def test_a_cache_of_another_kind_is_refused():
    from transformers import DynamicCache

    model = remembering("gpt2", "ForCausalLM")
    with pytest.raises(ConfigError, match="past_key_values=DynamicCache knows no segments"):
        model(**texts("gpt2", 7), past_key_values=DynamicCache())


def test_generation_beyond_max_segments_is_an_error():
    model = remembering("gpt2", "ForCausalLM", max_segments=2)
    assert model.generate(
        **texts("gpt2", 7), **{**GREEDY, "max_new_tokens": 3, "min_new_tokens": 3}
    ).shape == (1, 10)
    with pytest.raises(DataError, match="beyond max_segments=2"):
        model.generate(**texts("gpt2", 7), **GREEDY)


def test_a_segment_longer_than_its_length_is_refused():
    model = remembering("gpt2", "ForCausalLM")
    segment = model.open(model.initial_state(1))
    segment.step(torch.tensor([[3, 4, 5]]))
    with pytest.raises(ConfigError, match="segment of 6 tokens is longer than segment_length=5"):
        segment.step(torch.tensor([[3, 4, 5]]))


def test_sampling_is_that_of_the_class_itself():
    base = plain("gpt2", "ForCausalLM")
    import rmt

    model = rmt.add_memory(base, memory=0)
    inputs = texts("gpt2", 6, 6)
    drawn = []
    for either in (base, model):
        torch.manual_seed(5)
        drawn.append(either.generate(**inputs, do_sample=True, max_new_tokens=20, top_k=5, pad_token_id=PAD))
    assert torch.equal(*drawn)
