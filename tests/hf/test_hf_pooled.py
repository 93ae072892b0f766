"""A decoder's head that pools takes the last token that was encoded, wherever it looks for it."""

import pytest
import torch

from rmt.errors import ConfigError, DataError, RMTError
from rmt.hf import SegmentCache, add_memory, register
from tests.hf.zoo import plain

DECODERS = ("gpt2", "llama")


def classifier(name, **settings):
    model = plain(name, "ForSequenceClassification").double()
    return add_memory(model, memory=3, segment_length=5, **settings)


@pytest.mark.parametrize("name", DECODERS)
def test_a_long_text_is_answered_as_the_part_of_it_that_is_kept(name):
    model = classifier(name, max_segments=2, overlong="truncate")
    ids = torch.randint(3, 30, (2, 13))
    logits = model(input_ids=ids).logits
    kept = model(input_ids=ids[:, :10]).logits
    torch.testing.assert_close(logits, kept, rtol=1e-12, atol=1e-12)
    logits.sum().backward()
    assert model.get_input_embeddings().weight.grad.abs().sum() > 0


@pytest.mark.parametrize("name", DECODERS)
@pytest.mark.parametrize("prefix", [0, 1])
def test_the_segment_of_the_pooled_token_learns_where_only_padding_comes_behind_it(name, prefix):
    """Padding without a mask is text, but the class's own head looks for the last token that is none."""
    ids = torch.randint(3, 30, (2, 15 + prefix), generator=torch.Generator().manual_seed(0))
    ids[1, 7:] = 0
    gradients = []
    for rows in (ids, ids[:1], ids[1:]):
        torch.manual_seed(0)
        model = classifier(name, bptt=1, special_tokens=(prefix, 0), kind="tokens")
        model(input_ids=rows).logits.pow(2).sum().backward()
        gradients.append(model.get_input_embeddings().weight.grad)
    together, first, second = gradients
    torch.testing.assert_close(together, first + second, rtol=1e-9, atol=1e-12)
    assert second[ids[1, :7]].abs().sum(1).gt(0).all()


@pytest.mark.parametrize("name", DECODERS)
@pytest.mark.parametrize("prefix", [0, 1])
def test_segments_of_padding_behind_a_text_change_no_answer(name, prefix):
    model = classifier(name, special_tokens=(prefix, 0))
    ids = torch.randint(3, 30, (1, 17))
    ids[:, 7:] = 0
    with torch.no_grad():
        torch.testing.assert_close(model(input_ids=ids).logits, model(input_ids=ids[:, :7]).logits)


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("name", DECODERS)
def test_a_padded_row_of_embeddings_is_answered_as_that_row_alone(name, side):
    model = classifier(name)
    embedded = model.get_input_embeddings()(torch.randint(3, 30, (2, 12))).detach()
    mask = torch.ones(2, 12, dtype=torch.long)
    mask[1, :5] = 0
    if side == "right":
        mask = mask.flip(1)
    row = embedded[1:, mask[1].bool()]
    alone = model(inputs_embeds=row, attention_mask=torch.ones(1, 7, dtype=torch.long)).logits
    batch = model(inputs_embeds=embedded, attention_mask=mask).logits
    torch.testing.assert_close(batch[1:], alone, rtol=1e-12, atol=1e-12)


def test_special_tokens_in_each_segment_cannot_be_encoded_token_by_token():
    model = add_memory(plain("gpt2", "ForCausalLM"), memory=3, segment_length=5, special_tokens=(1, 0))
    with pytest.raises(ConfigError, match=r"special_tokens=\(1, 0\) are repeated in each segment"):
        SegmentCache(model)


def test_ids_that_a_backbone_does_not_know_are_named_behind_a_cache_too():
    model = add_memory(plain("gpt2", "ForCausalLM"), memory=3, segment_length=5)
    ids = torch.full((1, 4), 10_000)
    with pytest.raises(RMTError, match="vocabulary"):
        model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=3)


def test_a_prompt_that_ends_with_padding_is_refused():
    model = add_memory(plain("gpt2", "ForCausalLM"), memory=3, segment_length=5)
    ids, mask = torch.randint(3, 30, (2, 6)), torch.ones(2, 6, dtype=torch.long)
    mask[1, 4:] = 0
    with pytest.raises(DataError, match="row 1 of attention_mask ends with padding"):
        model.generate(ids, attention_mask=mask, max_new_tokens=3)


@pytest.mark.parametrize("text", [torch.ones(1, 4, 32, dtype=torch.long), [[1.0]]], ids=["integers", "list"])
def test_embeddings_that_are_none_are_refused(text):
    model = add_memory(plain("bert", "ForSequenceClassification"), memory=3, segment_length=5)
    with pytest.raises(ConfigError, match=r"inputs_embeds of .* are no embeddings"):
        model(inputs_embeds=text)


def test_a_family_is_said_by_what_makes_one():
    with pytest.raises(
        ConfigError, match=r"family='decoder' says nothing of a model; give rmt.hf.decoder\(\)"
    ):
        register("gpt2", "decoder")
