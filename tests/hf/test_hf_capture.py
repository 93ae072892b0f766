"""Captured attention of wrapped models is what the plain backbone computes on memory and tokens together."""

import pytest
import torch
from torch import Tensor

from rmt.analysis.capture import capture, capture_mean
from rmt.analysis.operations import findings
from rmt.errors import ConfigError
from rmt.hf import AttentionView
from rmt.hf.families import FAMILIES, layers_path
from tests.hf.test_hf_threads import assert_same_in_threads
from tests.hf.tokens import WORDS, tokenizer
from tests.hf.zoo import CLS, EAGER_ONLY, MAIN, SEP, of_kind, plain, remembering, texts

MEMORY, TEXT = 2, 13  # segments of 5, 5 and 3 tokens of text
HEADS = [
    ("bert", "Model"),
    ("bert", "ForSequenceClassification"),
    ("gpt2", "Model"),
    ("gpt2", "ForCausalLM"),
    ("t5", "Model"),
    ("t5", "ForConditionalGeneration"),
]
MODELS = pytest.mark.parametrize(("name", "head"), HEADS, ids=["-".join(pair) for pair in HEADS])
FAMILY = pytest.mark.parametrize("name", MAIN)


def text(name: str, rows: int = 1) -> Tensor:
    """Rows of 13 tokens of text, with the special tokens of the family around them."""
    family = FAMILIES[name]
    return texts(name, *[family.prefix + TEXT + family.suffix] * rows)["input_ids"]


def seen(name: str, head: str = "Model", attention: str = "eager", **options):
    """The segments of one text, as captured."""
    model = remembering(name, head, attention, alignment="left", **options)
    return capture(AttentionView(model), text(name)[0])


def packed_by_hand(name: str, ids: Tensor) -> list[tuple[list[int], int]]:
    """The tokens of each segment as they are packed, and how many of them stand before the read block."""
    parts = ids[FAMILIES[name].prefix : FAMILIES[name].prefix + TEXT].split(5)
    if name == "bert":
        return [([CLS, SEP, *part.tolist(), SEP], 1) for part in parts]
    return [([*part.tolist(), *([SEP] if name == "t5" else [])], 0) for part in parts]


def causal_by_hand(tokens: int) -> Tensor:
    """[read ∘ tokens ∘ write] of a decoder, True = visible, one row after the other."""
    size = 2 * MEMORY + tokens
    visible = torch.zeros(size, size, dtype=torch.bool)
    for row in range(size):
        visible[row, : max(row + 1, MEMORY) if row < MEMORY + tokens else size] = True
    return visible


def attended_by_hand(name: str, head: str, ids: Tensor) -> list[Tensor]:
    """The plain backbone's own eager attention (N, H, Q, K), special tokens moved behind the read block."""
    whole = plain(name, head)
    backbone = whole.get_encoder() if name == "t5" else whole.base_model
    memory, maps = remembering(name, head).memory.tokens.weight.detach(), []
    for tokens, before in packed_by_hand(name, ids):
        embedded = backbone.get_input_embeddings()(torch.tensor(tokens))
        parts, mask = [embedded[:before], memory, embedded[before:]], None
        if name == "gpt2":
            parts.append(memory)
            hidden = ~causal_by_hand(len(tokens))
            mask = torch.zeros(hidden.shape).masked_fill(hidden, torch.finfo(torch.float64).min)[None, None]
        with torch.no_grad():
            output = backbone(
                inputs_embeds=torch.cat(parts)[None], attention_mask=mask, output_attentions=True
            )
        read = range(before, before + MEMORY)
        order = [*read, *range(before), *range(before + MEMORY, sum(map(len, parts)))]
        maps.append(torch.cat(output.attentions)[:, :, order][..., order])
        written = output.last_hidden_state[0]
        memory = written[-MEMORY:] if name == "gpt2" else written[before : before + MEMORY]
    return maps


@pytest.mark.covering
@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@MODELS
def test_the_maps_are_the_eager_attention_of_the_plain_backbone(name, head, attention):
    by_hand = attended_by_hand(name, head, text(name)[0])
    for segment, expected in zip(seen(name, head, attention), by_hand, strict=True):
        torch.testing.assert_close(segment.weights, expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", ["bert", "gpt2", "t5"])
def test_rows_sum_to_one_and_masked_cells_are_exactly_zero(name):
    for segment in seen(name):
        size = segment.weights.shape[-1]
        visible = causal_by_hand(segment.spans.tokens) if name == "gpt2" else torch.ones(size, size).bool()
        visible = visible.expand_as(segment.weights)
        torch.testing.assert_close(segment.weights.sum(-1), torch.ones(segment.weights.shape[:-1]))
        assert (segment.weights[~visible] == 0).all()
        assert (segment.weights[visible] > 0).all()
    if name == "gpt2":
        assert (segment.block("tokens", "write") == 0).all()
        assert (segment.block("read", "tokens") == 0).all()
        assert (segment.block("write", "write") > 0).all()


@pytest.mark.covering
@pytest.mark.parametrize("memory", [0, MEMORY])
@FAMILY
def test_spans_line_up_in_whole_and_ragged_segments(name, memory):
    layout, family = FAMILIES[name].layouts["paper"], FAMILIES[name]
    special = family.prefix + family.suffix + (layout.separator if memory else 0)
    segments = seen(name, memory=memory)
    assert [segment.spans.tokens - special for segment in segments] == [5, 5, 3]
    for segment in segments:
        cache, read, tokens, write = segment.spans
        assert (cache, read, write) == (0, memory, memory if layout.write else 0)
        assert segment.weights.shape == (2, 2, read + tokens + write, read + tokens + write)
        assert len(segment.tokens) == tokens
        torch.testing.assert_close(segment.weights.sum(-1), torch.ones(segment.weights.shape[:-1]))
    if name in ("bert", "gpt2", "t5") and memory:
        by_hand = [tokens for tokens, _ in packed_by_hand(name, text(name)[0])]
        assert [segment.tokens.tolist() for segment in segments] == by_hand


@pytest.mark.parametrize("alignment", ["right", "even"])
def test_segments_are_those_the_model_cuts(alignment):
    view = AttentionView(remembering("t5", alignment=alignment))
    lengths = {"right": [3, 5, 5], "even": [4, 4, 5]}[alignment]
    assert [segment.spans.tokens - 1 for segment in capture(view, text("t5")[0])] == lengths


@MODELS
def test_the_state_after_the_segments_is_that_of_an_ordinary_call(name, head):
    model = remembering(name, head)
    view, ids = AttentionView(model), text(name, rows=2)
    state = view.initial_state(2)
    for segment in view.segments(ids):
        state = view(segment, state, attention=True).state
    more = {"decoder_input_ids": ids[:, :1]} if name == "t5" else {}
    expected = model(input_ids=ids, return_state=True, **more).state.memory
    torch.testing.assert_close(state.memory, expected)


@pytest.mark.parametrize("name", of_kind("decoder"))
def test_a_language_model_tells_its_predictions_and_others_tell_none(name):
    model, ids = remembering(name, "ForCausalLM"), text(name)
    predicted = torch.cat([segment.predicted for segment in capture(AttentionView(model), ids[0])])
    assert torch.equal(predicted, model(input_ids=ids).logits[0].argmax(-1))
    assert all(segment.predicted.shape == (0,) for segment in seen(name))


@pytest.mark.parametrize("name", ["bert", "gpt2", "t5"])
def test_the_mean_is_the_mean_of_single_captures(name):
    view, ids = AttentionView(remembering(name)), text(name, rows=3)
    alone = [capture(view, row) for row in ids]
    for number, segment in enumerate(capture_mean(view, ids)):
        mean = torch.stack([segments[number].weights for segments in alone]).mean(0)
        torch.testing.assert_close(segment.weights, mean)


@pytest.mark.parametrize("name", ["bert", "gpt2", "t5"])
def test_nothing_is_kept_when_not_asked(name):
    view = AttentionView(remembering(name))
    segment = view.segments(text(name))[0]
    assert view(segment, view.initial_state(1)).attention == ()
    assert all(not segment.weights.requires_grad for segment in capture(view, text(name)[0]))


@pytest.mark.parametrize("name", [name for name in MAIN if name not in EAGER_ONLY])
def test_the_model_that_is_looked_into_never_attends_otherwise(name):
    model, during = remembering(name, attention="sdpa"), []

    def implementations(*_):
        during.append(
            (model.config._attn_implementation, model.segment_backbone().config._attn_implementation)
        )

    view, unknown = AttentionView(model), torch.full_like(text(name)[0], 99)
    backbone = model.segment_backbone()
    layers = backbone.get_submodule(layers_path(backbone, model.family))
    layers[0].register_forward_hook(implementations)
    capture(view, text(name)[0])
    with pytest.raises(ConfigError):
        capture(view, unknown)
    implementations()
    assert set(during) == {("sdpa", "sdpa")}
    assert len(during) == 3 + 1  # segments, and after them


@pytest.mark.parametrize("name", ["bert", "gpt2", "t5"])
def test_looking_again_adds_no_hook(name):
    model = remembering(name)
    view, counts = AttentionView(model), []
    for _ in range(3):
        capture(view, text(name)[0])
        counts.append(sum(len(module._forward_hooks) for module in model.modules()))
    assert len(set(counts)) == 1


def test_eight_threads_see_what_one_sees():
    model = remembering("bert", "ForSequenceClassification", "sdpa")

    def work(number):
        ids = texts("bert", 4 + number % 9, seed=number)["input_ids"][0]
        with torch.no_grad():
            plain = model(input_ids=ids[None]).logits
        return [plain, *(segment.weights for segment in capture(AttentionView(model), ids))]

    assert_same_in_threads(work, calls=10)


@pytest.mark.parametrize(
    ("name", "operations"),
    [("bert", {"read", "mix"}), ("gpt2", {"write", "read", "rewrite", "mix"}), ("t5", {"read", "mix"})],
)
def test_operations_are_found_in_them(name, operations):
    results = findings(seen(name))
    assert {finding.operation for finding in results} == operations
    assert len(results) == len(operations) * 3 * 2 * 2  # segments, layers, heads


def test_rows_are_labelled_by_slots_and_by_the_words_of_a_tokenizer():
    words = tokenizer()
    ids = words("the film was very very dull", return_tensors="pt")["input_ids"][0]
    first, second = capture(AttentionView(remembering("bert", alignment="left")), ids)
    spelled = [words.convert_ids_to_tokens(segment.tokens.tolist()) for segment in (first, second)]
    assert first.labels(spelled[0]) == [
        *["read 1", "read 2", "[CLS]", "[SEP]"],
        *["the", "film", "was", "very", "very", "[SEP]"],
    ]
    assert second.labels(spelled[1]) == ["read 1", "read 2", "[CLS]", "[SEP]", "dull", "[SEP]"]
    assert set(spelled[0]) <= set(WORDS)
    behind = seen("gpt2")[-1].labels(["a", "b", "c"])
    assert behind == ["read 1", "read 2", "a", "b", "c", "write 1", "write 2"]


def test_what_cannot_be_captured_is_refused():
    model, ids = remembering("bert"), text("bert")[0]
    with pytest.raises(ConfigError, match=r"RMTBertModel tells no spans; .* rmt.hf.AttentionView\(model\)"):
        capture(model, ids)
    with pytest.raises(ConfigError, match="length=5 has no effect, AttentionView cuts texts itself"):
        capture(AttentionView(model), ids, 5)
    with pytest.raises(ConfigError, match=r"BertModel has no memory; wrap it with rmt.add_memory"):
        AttentionView(plain("bert"))
