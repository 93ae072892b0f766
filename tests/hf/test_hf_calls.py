"""Calls as in plain transformers: a cache that goes on, and one clear line for what cannot be computed."""

import copy

import pytest
import torch

from rmt.errors import ConfigError, DataError, RMTError
from rmt.hf import SegmentCache, add_memory
from tests.hf.zoo import WIDTH, answer, main_output, of_kind, plain, remembering, texts

DECODERS = pytest.mark.parametrize("name", of_kind("decoder"))
GPT2 = ("gpt2", "ForCausalLM")


def continued(model, ids, pieces, **first):
    """Logits of a text given piece by piece, each with the cache that the piece before it left."""
    cache, logits = None, []
    with torch.no_grad():
        for piece in ids.split(pieces, dim=1):
            output = model(input_ids=piece, past_key_values=cache, **first)
            logits.append(output.logits)
            cache = output.past_key_values
    return torch.cat(logits, dim=1)


@pytest.mark.covering
@DECODERS
@pytest.mark.parametrize("use_cache", [True, None], ids=["asked for", "by default"])
def test_the_cache_of_a_call_continues_its_text(name, use_cache):
    model = remembering(name, "ForCausalLM")
    ids = texts(name, 19, 19)["input_ids"]
    with torch.no_grad():
        expected = model(input_ids=ids).logits
    for pieces in ([7, 1, 1, 5, 5], [10, 9], [5, 1, 13]):  # inside a segment, at a border, over several
        got = continued(model, ids, pieces, use_cache=use_cache)
        torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-5)


def test_rows_of_a_ragged_batch_continue_each_from_its_own_end():
    model = remembering(*GPT2)
    lengths, more = (12, 3, 5), texts("gpt2", 4, 4, 4, seed=3)["input_ids"]
    inputs = texts("gpt2", *lengths)
    with torch.no_grad():
        cache = model(**inputs, use_cache=True).past_key_values
        got = model(input_ids=more, past_key_values=cache).logits
        for row, length in enumerate(lengths):
            alone = torch.cat([inputs["input_ids"][row : row + 1, :length], more[row : row + 1]], dim=1)
            expected = model(input_ids=alone).logits[0, length:]
            torch.testing.assert_close(got[row], expected, rtol=1e-5, atol=1e-5)


def test_a_bare_decoder_leaves_a_cache_too_and_a_copied_cache_goes_its_own_way():
    model = remembering("llama")
    ids, first, second = (texts("llama", 7, seed=seed)["input_ids"] for seed in range(3))
    with torch.no_grad():
        cache = model(input_ids=ids).past_key_values
        for other in (first, second):
            got = model(input_ids=other, past_key_values=copy.deepcopy(cache)).last_hidden_state
            expected = model(input_ids=torch.cat([ids, other], dim=1)).last_hidden_state[:, 7:]
            torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-5)
    assert cache.get_seq_length() == 7


def test_the_state_after_a_call_with_a_cache_is_that_of_the_whole_text():
    model = remembering(*GPT2)
    ids = texts("gpt2", 13)["input_ids"]
    with torch.no_grad():
        cache = model(input_ids=ids[:, :8], use_cache=True).past_key_values
        got = model(input_ids=ids[:, 8:], past_key_values=cache, return_state=True).state
        expected = model(input_ids=ids, return_state=True).state
    torch.testing.assert_close(got.memory, expected.memory, rtol=1e-5, atol=1e-5)


def test_no_cache_is_left_where_none_is_wanted_or_none_can_be():
    ids = texts("gpt2", 7)["input_ids"]
    model = remembering(*GPT2)
    with torch.no_grad():
        assert model(input_ids=ids, use_cache=False).past_key_values is None
        right = remembering(*GPT2, alignment="right")
        assert right(input_ids=ids).past_key_values is None
        with pytest.raises(ConfigError, match="alignment='right' cannot be decoded"):
            right(input_ids=ids, use_cache=True)
    assert model(input_ids=ids).past_key_values is None  # a training step keeps no keys
    shallow = remembering(*GPT2, bptt=1)
    with pytest.raises(ConfigError, match=r"use_cache=True knows nothing of bptt=1; .*torch\.no_grad"):
        shallow(input_ids=ids, use_cache=True)


def test_a_cache_counts_the_segments_before_it():
    model = remembering(*GPT2, max_segments=2)
    with torch.no_grad():
        cache = model(**texts("gpt2", 9), use_cache=True).past_key_values
        model(input_ids=torch.tensor([[5]]), past_key_values=cache)
        with pytest.raises(DataError, match="beyond max_segments=2"):
            model(input_ids=torch.tensor([[5]]), past_key_values=cache)


@pytest.mark.parametrize(("name", "head"), [("bert", "ForTokenClassification"), GPT2], ids=["bert", "gpt2"])
@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ({"attention_mask": (2, 5)}, r"attention_mask of shape \(2, 5\) does not fit input_ids of \(2, 9\)"),
        ({"attention_mask": (3, 9)}, r"attention_mask of shape \(3, 9\) does not fit input_ids of \(2, 9\)"),
        ({"attention_mask": (9,)}, r"attention_mask of shape \(9,\) does not fit input_ids of \(2, 9\)"),
        ({"token_type_ids": (2, 4)}, r"token_type_ids of shape \(2, 4\) does not fit input_ids of \(2, 9\)"),
        ({"input_ids": (9,)}, r"input_ids of shape \(9,\) are not rows"),
        ({"input_ids": (0, 9)}, r"input_ids of shape \(0, 9\) have nothing to encode"),
        ({"input_ids": (2, 0)}, r"input_ids of shape \(2, 0\) have nothing to encode"),
    ],
    ids=str,
)
def test_inputs_of_another_shape_are_one_clear_line(name, head, shapes, message):
    model = remembering(name, head)
    inputs = {"input_ids": texts(name, 9, 9)["input_ids"]}
    wrong = {key: torch.ones(shape, dtype=torch.long) for key, shape in shapes.items()}
    with pytest.raises(RMTError, match=message):
        model(**{**inputs, **wrong})


@pytest.mark.parametrize("name", ["bert", "gpt2", "t5"])
def test_exactly_one_of_ids_and_embeddings_is_the_text(name):
    model = remembering(name)
    inputs = texts(name, 9, 9)
    embedded = model.get_input_embeddings()(inputs["input_ids"])
    with pytest.raises(ConfigError, match="input_ids and inputs_embeds are both given; give either"):
        model(**inputs, inputs_embeds=embedded)
    with pytest.raises(ConfigError, match="there is no text; give either input_ids or inputs_embeds"):
        model(attention_mask=inputs["attention_mask"])
    got = answer(model, inputs)
    del inputs["input_ids"]
    decoder = {"decoder_input_ids": torch.tensor([[0, 5, 6]] * 2)} if name == "t5" else {}
    other = model(**inputs, inputs_embeds=embedded, **decoder)
    torch.testing.assert_close(main_output(other), main_output(got))


@pytest.mark.parametrize("name", ["bert", "gpt2", "t5"])
def test_a_row_without_tokens_is_refused_unless_it_goes_on_from_a_state(name):
    model = remembering(name)
    inputs = texts(name, 9, 9)
    inputs["attention_mask"][1] = 0
    with pytest.raises(DataError, match="row 1 has no tokens: its attention_mask is 0 everywhere"):
        answer(model, inputs)
    if name == "gpt2":
        state = model.initial_state(2)
        after = answer(model, inputs, state=state, return_state=True).state
        assert torch.equal(after.memory[1], state.memory[1])
        with pytest.raises(DataError, match="row 1 has no tokens"):
            remembering(*GPT2).generate(**inputs, max_new_tokens=2)


@pytest.mark.parametrize("name", ["bert", "gpt2"])
def test_masks_of_any_type_and_of_one_row_for_all_are_taken_as_plain_classes_take_them(name):
    model = remembering(name)
    inputs = texts(name, 9, 9)
    mask = torch.ones(1, 9, dtype=torch.long)
    expected = main_output(answer(model, inputs))
    for same in (mask.bool(), mask.double(), mask.expand(2, -1), mask):
        got = answer(model, {**inputs, "attention_mask": same})
        assert torch.equal(main_output(got), expected)


@pytest.mark.parametrize("asked", ["output_hidden_states", "output_attentions"])
def test_what_a_cache_cannot_give_is_refused(asked):
    model = remembering(*GPT2)
    cache = SegmentCache(model)
    with pytest.raises(
        ConfigError, match=f"{asked} cannot be had with a cache of segments; .*use_cache=False"
    ):
        model.generate(**texts("gpt2", 7), max_new_tokens=2, **{asked: True}, return_dict_in_generate=True)
    with pytest.raises(ConfigError, match="token_type_ids cannot be had with a cache"):
        model(**texts("gpt2", 7), token_type_ids=torch.zeros(1, 7).long(), past_key_values=cache)
    with pytest.raises(ConfigError, match="state= has no effect beside past_key_values"):
        model(**texts("gpt2", 7), state=model.initial_state(1), past_key_values=SegmentCache(model))


@pytest.mark.parametrize("name", ["deberta-v2"])
@pytest.mark.parametrize("head", ["Model", "ForMaskedLM", "ForSequenceClassification"])
def test_embeddings_may_be_narrower_than_the_layers(name, head, tmp_path):
    base = plain(name, head, embedding_size=8)
    inputs = texts(name, 14, 9)
    bare = add_memory(base, memory=0, segment_length=20)
    torch.testing.assert_close(main_output(bare(**inputs)), main_output(base(**inputs)), rtol=0, atol=0)
    model = add_memory(base, memory=2, segment_length=5)
    state = model(**inputs, return_state=True).state
    assert state.memory.shape == (2, 2, WIDTH)
    model.save_pretrained(tmp_path)
    loaded = type(model).from_pretrained(tmp_path, dtype=torch.float64).eval()
    assert torch.equal(main_output(loaded(**inputs)), main_output(model(**inputs)))
    main_output(model(**inputs)).square().sum().backward()
    assert model.memory.entrance.weight.grad.any()
    assert model.memory.tokens.weight.grad.any()


@pytest.mark.parametrize("special", [3, (1,), (1, -1), ("a", "b"), (1, 2, 3), "12"], ids=str)
def test_special_tokens_that_are_no_pair_of_numbers_are_refused(special):
    with pytest.raises(ConfigError, match=r"special_tokens=.* is no pair of numbers; name those"):
        add_memory(plain("bert"), memory=2, special_tokens=special)
