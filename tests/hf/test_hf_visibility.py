"""Who sees whom, by Jacobian: inside a segment exactly the specified mask, across segments memory alone."""

import pytest
import torch
from torch import Tensor

from rmt.core.spans import Spans
from rmt.hf.cell import Cell
from rmt.hf.segments import TextSegment
from tests.hf.zoo import answer, main_output, of_kind, over, plain, remembering, texts

DECODERS = pytest.mark.parametrize("name", of_kind("decoder"))
ATTENTION = pytest.mark.parametrize("attention", ["eager", "sdpa"])


@pytest.mark.covering
@DECODERS
@ATTENTION
def test_a_decoder_has_exactly_the_papers_mask(name, attention):
    seen = influence_inside(remembering(name, attention=attention, memory=3), tokens=4)
    assert torch.equal(seen, Spans(0, 3, 4, 3).mask())


@pytest.mark.covering
@DECODERS
@ATTENTION
def test_a_decoder_of_layout_causal_is_causal_throughout(name, attention):
    seen = influence_inside(remembering(name, attention=attention, memory=3, layout="causal"), tokens=4)
    assert torch.equal(seen, torch.ones(10, 10).tril().bool())


@pytest.mark.covering
@pytest.mark.parametrize("layout", ["paper", "prefix"])
@pytest.mark.parametrize("name", of_kind("encoder", "seq2seq"))
def test_an_encoder_sees_everything(name, layout):
    assert influence_inside(remembering(name, memory=3, layout=layout), tokens=6).all()


@pytest.mark.covering
@over(kinds=("encoder", "decoder"), heads=("Model", "ForTokenClassification", "ForCausalLM", "ForMaskedLM"))
def test_a_token_reaches_its_own_segment_and_later_ones_only(name, head, attention):
    model = remembering(name, head, attention, memory=2, length=4, alignment="left")
    edges = model.settings.prefix + model.settings.suffix
    seen = influence(model, texts(name, 12 + edges))  # (T, T): what token p does at q
    first = model.settings.prefix
    segment = torch.arange(12) // 4
    text = seen[first : first + 12, first : first + 12]
    expected = segment[:, None] <= segment[None]
    if model.family.kind == "decoder":
        expected &= torch.ones(12, 12).triu().bool()
    assert torch.equal(text, expected)


@over(kinds=("encoder", "decoder"), heads=("Model",))
def test_without_memory_segments_know_nothing_of_each_other(name, head, attention):
    model = remembering(name, head, attention, memory=0, length=4, alignment="left")
    first = model.settings.prefix
    seen = influence(model, texts(name, 8 + first + model.settings.suffix))
    assert not seen[first : first + 4, first + 4 : first + 8].any()
    assert not seen[first + 4 : first + 8, first : first + 4].any()


@pytest.mark.covering
@over(heads=("ForSequenceClassification", "ForConditionalGeneration"))
def test_the_first_segment_reaches_the_answer_through_memory_alone(name, head, attention):
    for memory, expected in ((2, True), (0, False)):
        model = remembering(name, head, attention, memory=memory, length=4, alignment="left")
        inputs = texts(name, 12 + model.settings.prefix + model.settings.suffix)
        other = {key: value.clone() for key, value in inputs.items()}
        other["input_ids"][:, 1] = (other["input_ids"][:, 1] - 3 + 1) % 30 + 3
        with torch.no_grad():
            first, second = main_output(answer(model, inputs)), main_output(answer(model, other))
        assert (not torch.equal(first, second)) == expected


def test_a_local_layer_sees_its_surroundings_and_memory():
    base = plain("modernbert", num_hidden_layers=1, layer_types=["sliding_attention"], local_attention=4)
    import rmt

    model = rmt.add_memory(base, memory=2, segment_length=12)
    seen = influence_inside(model, tokens=14)
    memory = torch.zeros(16, dtype=torch.bool)
    memory[1:3] = True  # [CLS] mem mem [SEP] …
    place = torch.arange(16)
    near = (place - place[:, None]).abs() <= 2
    assert torch.equal(seen, near | memory | memory[:, None])


def influence_inside(model, tokens: int) -> Tensor:
    """Which places of a whole segment depend on which, (Q, Q), by the backbone's Jacobian."""
    more = {"use_cache": False} if model.family.kind == "decoder" else {}
    cell = Cell(model, {"return_dict": True, **more})
    ids = torch.randint(3, 30, (1, tokens))
    segment = TextSegment({"input_ids": ids}, torch.ones_like(ids).bool(), torch.ones(1).bool())
    packed = cell.pack(segment, model.initial_state(1))

    def run(embedded: Tensor) -> Tensor:
        return cell.run(segment, packed._replace(embedded=embedded)).last_hidden_state[0]

    jacobian = torch.autograd.functional.jacobian(run, packed.embedded.detach())  # (Q, D, 1, Q, D)
    return jacobian.abs().amax(dim=(1, 2, 4)) > 0


def influence(model, inputs) -> Tensor:
    """What changing each token does at each place: (T, T) bool."""
    ids = inputs["input_ids"]
    total = ids.shape[1]
    many = ids.repeat(1 + total, 1)
    for place in range(total):
        many[1 + place, place] = (many[1 + place, place] - 3 + 1) % 30 + 3
    with torch.no_grad():
        output = main_output(model(input_ids=many, attention_mask=torch.ones_like(many)))
    return (output[1:] - output[:1]).abs().amax(dim=-1) > 0
