"""Each silent trap of driving pretrained models with memory, and that it is not fallen into."""

from contextlib import contextmanager

import pytest
import torch

import rmt
from rmt.errors import ConfigError
from rmt.hf.backbone import SegmentBackbone
from rmt.hf.masks import READ, TOKEN, WRITE, additive, block_mask, causal_blocks
from tests.hf.zoo import answer, of_kind, plain, remembering, texts

BLOCK_FAMILIES = ["gpt2", "llama", "qwen3", "gpt_neox"]


def test_a_bool_mask_would_hide_nothing_from_eager_attention_and_ours_hides():
    base = plain("gpt2")
    hidden = torch.randn(1, 4, 16)
    other = hidden.clone()
    other[:, -1] += 1
    visible = torch.ones(1, 4, 4).tril().bool()

    def leaks(mask):
        first, second = (
            base(inputs_embeds=embedded, attention_mask=mask).last_hidden_state[:, 0]
            for embedded in (hidden, other)
        )
        return not torch.equal(first, second)

    assert leaks(visible[:, None])
    assert not leaks(additive(visible, torch.float64))


@pytest.mark.parametrize("name", BLOCK_FAMILIES)
@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_the_dense_mask_is_the_one_that_transformers_builds(name, attention):
    from transformers.masking_utils import create_causal_mask

    config = plain(name, attention=attention).config
    kind = torch.tensor(
        [[READ, READ, TOKEN, TOKEN, TOKEN, WRITE, WRITE], [READ, READ, TOKEN, WRITE, WRITE, TOKEN, TOKEN]]
    )
    exists = torch.tensor([[1, 1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 0, 0]]).bool()
    embedded = torch.zeros(2, 7, 16)
    theirs = create_causal_mask(
        config=config,
        inputs_embeds=embedded,
        attention_mask=exists,
        past_key_values=None,
        block_sequence_ids=kind,
    )
    ours = additive(causal_blocks(kind, exists), embedded.dtype)
    hidden = theirs if theirs.dtype == torch.bool else theirs == 0
    assert torch.equal(ours == 0, hidden)


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_the_attention_implementation_survives_wrapping(attention):
    base = plain("gpt2", "ForCausalLM", attention)
    model = rmt.add_memory(base, memory=2)
    assert base.config._attn_implementation == attention
    assert model.config._attn_implementation == attention
    assert model.transformer.config is model.config
    assert model.transformer.h[0].attn.config._attn_implementation == attention


@pytest.mark.parametrize("name", of_kind("encoder", "decoder", "seq2seq"))
def test_the_backbone_is_always_given_a_mask(name):
    model, masks = remembering(name), []
    with seeing(model, lambda inputs: masks.append(inputs["attention_mask"])):
        answer(model, {"input_ids": texts(name, 14, 14)["input_ids"]})
    assert len(masks) == 3
    assert all(mask is not None for mask in masks)


def test_attention_maps_are_refused_where_there_are_none_and_given_where_there_are():
    model = remembering("bert", attention="sdpa")
    inputs = texts("bert", 7)
    with pytest.raises(
        ConfigError, match=r"output_attentions=True gives nothing .*set_attn_implementation\('eager'\)"
    ):
        model(**inputs, output_attentions=True)
    model.set_attn_implementation("eager")
    maps = model(**inputs, output_attentions=True).attentions
    assert [weights.shape for weights in maps] == [(1, 2, 10, 10)] * 2  # [CLS] mem mem [SEP] 5 tokens [SEP]
    with pytest.raises(ConfigError, match="several segments has no one map"):
        model(**texts("bert", 14), output_attentions=True)


@pytest.mark.parametrize("layout", ["paper", "prefix"])
@pytest.mark.parametrize("name", of_kind("encoder"))
def test_heads_pool_the_first_token_of_the_last_segment_and_not_memory(name, layout):
    if name == "modernbert":
        pytest.skip("its head pools after a layer of its own: the conformance test compares it")
    model = remembering(name, "ForSequenceClassification", layout=layout)
    backbone = model.base_model
    seen = []
    pooler = getattr(backbone, "pooler", None) or getattr(model, "pooler", None) or model.classifier
    pooler.register_forward_hook(lambda module, inputs, output: seen.append(inputs[0]))
    for side in ("right", "left"):
        inputs = texts(name, 14, 9, side=side)
        with torch.no_grad():
            model(**inputs)
            pooled = seen[-1][:, 0]
            last = last_segment_hidden(model, inputs)
        torch.testing.assert_close(pooled, last[:, 0])


@pytest.mark.parametrize("name", of_kind("decoder"))
def test_a_decoders_classifier_pools_the_last_token_and_not_the_write_block(name):
    model = remembering(name, "ForSequenceClassification")
    inputs = texts(name, 14, 9)
    with torch.no_grad():
        logits = model(**inputs).logits
        hidden = rmt_backbone_hidden(model, inputs)
    last = torch.stack([hidden[0, 13], hidden[1, 8]])
    torch.testing.assert_close(logits, model.score(last), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", of_kind("encoder", "decoder"))
def test_memory_keeps_the_size_of_embeddings_if_asked(name):
    for scale in ("free", "embedding"):
        model, sizes = remembering(name, scale=scale), []
        first = model.layout.after

        def note(inputs, model=model, sizes=sizes, first=first):
            memory = inputs["inputs_embeds"][:, first : first + 2]
            sizes.append(memory.pow(2).mean(-1).sqrt())

        with seeing(model, note), torch.no_grad():
            model(**texts(name, 22))
        same = all(torch.allclose(size, torch.tensor(model.settings.embedding_rms)) for size in sizes)
        assert same == (scale == "embedding")


@pytest.mark.parametrize("name", of_kind("encoder", "decoder", "seq2seq"))
def test_initial_memory_has_the_size_of_embeddings(name):
    base = plain(name)
    model = rmt.add_memory(base, memory=30)
    ratio = model.memory.tokens.weight.std() / base.get_input_embeddings().weight.std()
    assert 0.8 < ratio < 1.25


def test_positions_of_a_text_cannot_be_given():
    model = remembering("llama")
    inputs = texts("llama", 9)
    with pytest.raises(ConfigError, match="position_ids are counted anew in each segment"):
        model(**inputs, position_ids=torch.arange(9)[None])


def test_a_wide_mask_cannot_be_given():
    model = remembering("llama")
    with pytest.raises(ConfigError, match=r"attention_mask must be \(batch, tokens\)"):
        model(input_ids=texts("llama", 9)["input_ids"], attention_mask=torch.zeros(1, 1, 9, 9))


def test_an_attention_that_cannot_show_blocks_whole_is_refused():
    config = plain("gpt2").config
    config._attn_implementation_internal = "flash_attention_2"
    kind = torch.full((1, 3), TOKEN)
    with pytest.raises(
        ConfigError, match="'flash_attention_2' cannot show memory blocks to themselves whole"
    ):
        block_mask(config, torch.zeros(1, 3, 16), kind, kind < 0)


def test_a_trainers_prediction_does_not_gather_the_state():
    assert "state" in remembering("bert").config.keys_to_ignore_at_inference


def test_nothing_stays_on_the_model_after_a_call_even_if_it_fails():
    model = remembering("bert", "ForSequenceClassification", max_segments=1)
    before = set(model.bert.__dict__)
    for length in (6, 30):
        try:
            model(**texts("bert", length))
        except rmt.RMTError:
            assert length == 30
    assert set(model.bert.__dict__) == before
    assert "forward" not in model.bert.__dict__


@contextmanager
def seeing(model, note):
    """What the backbone is called with, segment after segment."""
    original = SegmentBackbone.__call__

    def call(backbone, layers=None, **inputs):
        note(inputs)
        return original(backbone, layers, **inputs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SegmentBackbone, "__call__", call)
        yield


def last_segment_hidden(model, inputs):
    """The tokens' states in the last segment, by hand: packed inputs, the backbone, memory cut out."""
    from rmt.core.unroll import unroll
    from rmt.hf.cell import Cell
    from rmt.hf.segments import plan

    cell = Cell(model, {"return_dict": True})
    cut = plan(
        {"input_ids": inputs["input_ids"]}, inputs["attention_mask"].bool(), model.settings, model.layout
    )
    *_, output = unroll(cell, cut.segments, model.initial_state(len(inputs["input_ids"])))
    return output.hidden


def rmt_backbone_hidden(model, inputs):
    from rmt.hf.segmentwise import SegmentwiseCall

    return SegmentwiseCall(model, None)(**inputs).last_hidden_state
