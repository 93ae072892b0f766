"""A cache in front of a wrapped decoder's segments: what it holds is seen as if it were in the segment."""

# B rows · T tokens of a text · L of a segment

import warnings

import pytest
import torch
from torch import Tensor

import rmt
from rmt import Session
from rmt.core.spans import Spans
from rmt.core.tree import tree_items
from rmt.errors import ConfigError
from rmt.hf import AttentionView
from rmt.hf.families import FAMILIES
from tests.hf.tiny import tiny_config, tiny_model
from tests.hf.zoo import plain, texts

LENGTH, TOTAL = 5, 17
CACHE, SINK, MEMORY = 4, 2, 2
LEARNED = [
    "gpt2",
    "gpt_bigcode",
    "gpt_neo",
    "opt",
    "biogpt",
]  # positions; what is cached would bring them along
ROTARY = ["llama", "qwen3", "gpt_neox"]
SLIDING = ["gemma2", "gemma3_text", "mistral", "qwen2"]
LIKELY = pytest.mark.parametrize("name", ROTARY)
KINDS = pytest.mark.parametrize("kind", ["associative", "tokens"])
ALL_DECODERS = [name for name, family in FAMILIES.items() if family.kind == "decoder"]
SIDES = pytest.mark.parametrize("side", ["right", "left"])


@pytest.fixture(autouse=True)
def double():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def ids(rows: int = 2, seed: int = 0) -> Tensor:
    return torch.randint(3, 40, (rows, TOTAL), generator=torch.Generator().manual_seed(seed))


def base(name: str, attention: str = "eager") -> object:
    return tiny_model(tiny_config(name), "AutoModelForCausalLM", attention)


def remembering(name: str, kind: str = "associative", cache: int = CACHE, sink: int = SINK) -> object:
    """A model with a cache and with memory whose parameters, gates too, are drawn at random."""
    model = rmt.add_memory(
        base(name), memory=MEMORY, segment_length=LENGTH, kind=kind, cache=cache, sink=sink
    )
    generator = torch.Generator().manual_seed(4)
    with torch.no_grad():
        for parameter in model.memory.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
    return model


def cached_only(name: str, cache: int, attention: str = "eager", sink: int = 0) -> object:
    return rmt.add_memory(base(name, attention), memory=0, segment_length=LENGTH, cache=cache, sink=sink)


def close(actual: Tensor, expected: Tensor, tolerance: float = 1e-9) -> None:
    torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance)


def tolerance_of(name: str) -> float:
    """Rounding; of experts that are chosen in float32, and of norms that are computed there, theirs."""
    return 1e-9 if name in (*ROTARY, *SLIDING) else 1e-5


@pytest.mark.covering
@pytest.mark.parametrize("name", [name for name in ALL_DECODERS if name not in LEARNED])
@torch.no_grad()
def test_segments_behind_a_cache_of_all_that_came_before_are_the_whole_text_at_once(name):
    for sink in (0, SINK):
        model = cached_only(name, TOTAL, sink=sink)
        close(model(ids()).logits, base(name)(ids()).logits, tolerance_of(name))


@pytest.mark.covering
@pytest.mark.parametrize("name", LEARNED)
def test_learned_positions_have_no_cache(name):
    with pytest.raises(ConfigError, match=r"cache=4: \w+ adds learned positions to its embeddings \(\w+"):
        cached_only(name, CACHE)


@LIKELY
@torch.no_grad()
def test_a_token_sees_its_segment_and_as_many_before_it_as_the_cache_holds(name):
    whole = base(name)
    segment = torch.arange(TOTAL) // LENGTH
    first = (segment * LENGTH - CACHE)[:, None]  # the earliest place that a token's layers see
    place = torch.arange(TOTAL)
    sees = (place <= place[:, None]) & (place >= first)
    mask = torch.where(sees, 0.0, torch.finfo(torch.float64).min)[None, None]
    expected = whole(ids(), attention_mask=mask.expand(2, -1, -1, -1)).logits
    for attention in ("eager", "sdpa"):
        close(
            cached_only(name, CACHE, attention)(ids()).logits, expected, 1e-5
        )  # eager softmax is in float32


@LIKELY
@torch.no_grad()
def test_a_sink_keeps_the_first_tokens_of_a_text_however_long_it_is(name):
    model, embed = cached_only(name, CACHE, sink=SINK), base(name).get_input_embeddings()
    state = None
    for count, piece in enumerate(ids().split(LENGTH, dim=1), start=1):
        state = model(piece, state=state, return_state=True).state
        seen = ids()[:, : count * LENGTH]
        kept = torch.cat([seen[:, :SINK], seen[:, SINK:][:, -CACHE:]], dim=1)
        assert state.cached.tolist() == [kept.shape[1]] * 2
        assert torch.equal(state.cache[0][:, -kept.shape[1] :], embed(kept))


@KINDS
@pytest.mark.parametrize("name", [*ROTARY, *SLIDING])
@torch.no_grad()
def test_token_by_token_is_the_whole_text(name, kind):
    model = remembering(name, kind)
    whole = model(ids(), return_state=True, use_cache=False)
    output = model(ids()[:, :3], use_cache=True)
    logits, past = [output.logits], output.past_key_values
    for token in ids()[:, 3:].split(1, dim=1):
        output = model(token, past_key_values=past, use_cache=True, return_state=True)
        logits.append(output.logits)
    close(torch.cat(logits, dim=1), whole.logits)
    same_state(output.state, whole.state)


def same_state(actual: rmt.State, expected: rmt.State) -> None:
    assert torch.equal(actual.cached, expected.cached)
    for (_, mine), (_, theirs) in zip(tree_items(actual.carried), tree_items(expected.carried), strict=True):
        close(mine, theirs)
    for mine, theirs in zip(actual.cache, expected.cache, strict=True):
        valid = torch.arange(mine.shape[1]) >= mine.shape[1] - actual.cached[:, None]
        close(mine[valid], theirs[valid])


@KINDS
@SIDES
@LIKELY
@torch.no_grad()
def test_a_row_of_a_ragged_batch_is_that_row_alone(name, side, kind):
    model, lengths = remembering(name, kind), (17, 3, 11, 5)
    rows = ids(4)
    place = torch.arange(TOTAL) if side == "right" else torch.arange(TOTAL).flip(0)
    mask = (place < torch.tensor(lengths)[:, None]).long()
    padded = torch.zeros_like(rows).masked_scatter(
        mask.bool(), torch.cat([row[:length] for row, length in zip(rows, lengths, strict=True)])
    )
    for use_cache in (False, True):
        output = model(padded, attention_mask=mask, return_state=True, use_cache=use_cache)
        for number, length in enumerate(lengths):
            alone = model(rows[number : number + 1, :length], return_state=True, use_cache=False)
            close(output.logits[number][mask[number].bool()], alone.logits[0])
            row = output.state.map(lambda tensor, number=number: tensor[number : number + 1])
            same_state(row, alone.state)


@LIKELY
@torch.no_grad()
def test_texts_in_pieces_are_the_whole_text(name):
    model = remembering(name)
    whole, state, logits = model(ids(), return_state=True), None, []
    for piece in ids().split(LENGTH, dim=1):
        output = model(piece, state=state, return_state=True)
        state = output.state
        logits.append(output.logits)
    close(torch.cat(logits, dim=1), whole.logits)
    session = Session(model, batch=2)
    hidden = torch.cat([session.feed(piece, "hidden") for piece in ids().split(4, dim=1)], dim=1)
    close(model.embedding.logits(hidden), whole.logits)
    same_state(session.close(), whole.state)


@LIKELY
def test_generation_is_the_same_with_keys_and_values_and_without(name):
    model = remembering(name)
    settings = {"max_new_tokens": 9, "do_sample": False, "pad_token_id": 0, "eos_token_id": None}
    expected = model.generate(ids(), use_cache=False, **settings)
    assert torch.equal(model.generate(ids(), **settings), expected)
    beams = {**settings, "num_beams": 3}
    assert torch.equal(model.generate(ids(), **beams), model.generate(ids(), use_cache=False, **beams))


@LIKELY
def test_no_gradient_goes_through_a_cache(name):
    model = cached_only(name, TOTAL)
    rows = model.get_input_embeddings()(ids()).detach().requires_grad_()
    model(inputs_embeds=rows).logits[:, -2:].sum().backward()
    last = TOTAL // LENGTH * LENGTH
    assert not rows.grad[:, :last].any()
    assert rows.grad[:, last:].any()
    output = remembering(name)(ids(), return_state=True)
    assert not any(tensor.requires_grad for tensor in output.state.cache)


@LIKELY
@pytest.mark.parametrize("depth", [0, 1, "full"])
def test_gradients_with_checkpoints_and_truncation_are_those_of_the_same_cuts_without(name, depth):
    def gradients(checkpoint: bool) -> list[Tensor]:
        model = rmt.add_memory(
            base(name), MEMORY, LENGTH, bptt=depth, cache=CACHE, checkpoint=checkpoint, kind="tokens"
        )
        model.memory.tokens.weight.data.normal_(generator=torch.Generator().manual_seed(2))
        model.train()(ids()).logits.logsumexp(-1).sum().backward()
        return [parameter.grad for parameter in model.parameters()]

    assert any(gradient.any() for gradient in gradients(False))
    for plain_gradient, recomputed in zip(gradients(False), gradients(True), strict=True):
        close(recomputed, plain_gradient)


@torch.no_grad()
def test_a_saved_model_has_its_cache_again(tmp_path):
    model = remembering("llama")
    model.save_pretrained(tmp_path)
    import transformers

    loaded = transformers.AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float64).eval()
    assert loaded.settings == model.settings
    assert (loaded.settings.cache, loaded.settings.sink) == (CACHE, SINK)
    close(loaded(ids()).logits, model(ids()).logits, 1e-5)  # eager softmax is in float32
    session = Session(model)
    session.feed(ids(1))
    session.save(tmp_path / "half.session")
    again = Session.load(tmp_path / "half.session", model)
    assert torch.equal(again.feed(ids(1), "hidden"), session.feed(ids(1), "hidden"))


@torch.no_grad()
def test_attention_to_the_cache_is_shown():
    model = remembering("llama", "tokens")
    view, state = AttentionView(model), model.initial_state(1)
    for count, piece in enumerate(ids(1)[:, : 3 * LENGTH].split(LENGTH, dim=1)):
        output = view(piece, state, attention=True)
        state = output.state
        spans = view.spans(LENGTH)
        assert spans == Spans(CACHE + SINK, MEMORY, LENGTH, MEMORY)
        for weights in output.attention:
            assert weights.shape[2:] == (spans.queries, spans.keys)
            cached = weights[..., : spans.cache].sum(-1)
            close(weights.sum(-1), torch.ones_like(cached), 1e-6)
            assert bool((cached[:, :, MEMORY:] > 0).all()) == (count > 0)


def test_what_cannot_be_is_told_in_a_line():
    with pytest.raises(ConfigError, match="cache=4 is for decoders: in BertModel a token sees"):
        rmt.add_memory(plain("bert"), cache=4)
    with pytest.raises(ConfigError, match="sink=3 has no effect without a cache; leave it out"):
        rmt.add_memory(plain("llama"), sink=3)
    with pytest.raises(ConfigError, match="cache='8' is not"):
        rmt.add_memory(plain("llama"), cache="8")
    long = (
        "segment_length=50 is too long: the model has 64 positions, 26 of them for memory, cache and special"
    )
    with pytest.raises(ConfigError, match=long):
        rmt.add_memory(plain("llama"), memory=2, segment_length=50, cache=20)
    room = "memory=2, cache=60 and sink=4 leave no room for text: they take 66 of the model's 64 positions"
    with pytest.raises(ConfigError, match=room):
        rmt.add_memory(plain("llama"), memory=2, cache=60)
    with pytest.raises(ConfigError, match="cache=8 would hold the special tokens of every segment; use"):
        rmt.add_memory(plain("llama"), cache=8, special_tokens=(1, 0))
    other = cached_only("llama", 6).initial_state(2)
    with pytest.raises(ConfigError, match=r"state with cache.0 of shape \(2, 6, 16\) does not fit"):
        cached_only("llama", 4)(ids(), state=other)
    assert rmt.add_memory(plain("llama"), cache=8).settings.sink == 4
    assert "cache 8 + 4" in repr(rmt.add_memory(plain("llama"), cache=8))


@torch.no_grad()
def test_a_model_without_a_cache_carries_none():
    model = rmt.add_memory(plain("llama"), memory=MEMORY, segment_length=LENGTH)
    inputs = texts("llama", 12)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert model(**inputs, return_state=True).state.cache == ()
