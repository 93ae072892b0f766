"""A kind of memory that lives in the layers obeys its laws around pretrained models as in native ones."""

import copy
import pickle
from functools import partial

import pytest
import torch
import transformers

import rmt
from rmt.analysis.capture import capture
from rmt.core.tree import tree_items
from rmt.errors import ConfigError
from rmt.hf import AttentionView
from rmt.hf.families import FAMILIES
from tests.hf.test_hf_threads import assert_same_in_threads, gradients, logits, written
from tests.hf.zoo import MAIN, answer, main_output, of_kind, plain, texts
from tests.laws import layer_memory  # noqa: F401  # the toy kind

KINDS = ("layer_average", "associative")
MEMORY, LENGTH = 2, 5
TOKENWISE = [("bert", "ForTokenClassification"), ("gpt2", "ForCausalLM")]
PER_TOKEN = pytest.mark.parametrize(("name", "head"), TOKENWISE, ids=["bert", "gpt2"])
DEPTHS = pytest.mark.parametrize("depth", [0, 1, "full"])
FAMILY = pytest.mark.parametrize("name", MAIN)
DECODERS = pytest.mark.parametrize("name", of_kind("decoder"))


@pytest.fixture(params=KINDS)
def layered(request):
    """Makes models with a kind that lives in the layers."""
    return partial(with_memory, kind=request.param)


def with_memory(name, head="Model", attention="eager", gates=None, kind="layer_average", **options):
    """A model with memory in its layers, drawn at random; `gates` sets the parameters that open it."""
    base = plain(name, head, attention)
    model = rmt.add_memory(base, memory=MEMORY, segment_length=LENGTH, kind=kind, **options)
    generator = torch.Generator().manual_seed(4)
    with torch.no_grad():
        for parameter in model.memory.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
        if gates is not None:
            model.memory.gate.fill_(gates)
    return model


def text(name, segments=3, rows=1, seed=0):
    """Rows of so many whole segments."""
    family = FAMILIES[name]
    return texts(name, *[family.prefix + LENGTH * segments + family.suffix] * rows, seed=seed)


def changed(inputs, place):
    """The same rows with another token at a place."""
    ids = inputs["input_ids"].clone()
    ids[:, place] = (ids[:, place] - 3 + 1) % 30 + 3
    return {**inputs, "input_ids": ids}


def carried(state):
    return [tensor for _, tensor in tree_items(state.carried)]


def close(actual, expected, tolerance=1e-9):
    torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.covering
@FAMILY
@torch.no_grad()
def test_what_the_first_segment_says_reaches_later_ones_through_open_gates_only(layered, name):
    first, later = FAMILIES[name].prefix + 1, slice(FAMILIES[name].prefix + LENGTH, None)
    for gates, reaches in ((None, True), (0.0, False)):
        model = layered(name, gates=gates, alignment="left")
        outputs = [
            answer(model, inputs, return_state=True) for inputs in (text(name), changed(text(name), first))
        ]
        kept = [main_output(output)[:, later] for output in outputs]
        if model.family.kind == "seq2seq":
            kept = [main_output(output) for output in outputs]
        assert torch.equal(*kept) != reaches
        assert not torch.equal(*(carried(output.state)[0] for output in outputs))


@DECODERS
@torch.no_grad()
def test_a_decoder_with_closed_gates_is_the_plain_one_segment_by_segment(layered, name):
    model, base, inputs = layered(name, gates=0.0), plain(name), text(name)
    expected = [base(input_ids=ids).last_hidden_state for ids in inputs["input_ids"].split(LENGTH, dim=1)]
    close(model(**inputs).last_hidden_state, torch.cat(expected, dim=1))


@torch.no_grad()
def test_an_encoder_with_closed_gates_is_the_plain_one_with_the_write_block_behind_each_segment(layered):
    model, base, inputs = layered("bert", gates=0.0, alignment="left"), plain("bert"), text("bert")
    ids, embeddings = inputs["input_ids"][0], base.get_input_embeddings()
    expected = []
    for part in ids[1:-1].split(LENGTH):
        tokens = embeddings(torch.cat([ids[:1], part, ids[-1:]]))
        whole = base(inputs_embeds=torch.cat([tokens, model.memory.tokens.weight])[None])
        expected.append(whole.last_hidden_state[0, 1 : 1 + LENGTH])
    close(model(**inputs).last_hidden_state[0, 1:-1], torch.cat(expected))


@PER_TOKEN
@torch.no_grad()
def test_memory_is_added_before_every_layer_and_learns_behind_every_layer(layered, name, head):
    model, calls = layered(name, head), []

    class Noted(type(model.memory)):
        def before(self, layer, hidden, carried):
            calls.append(("before", layer, hidden.shape[1]))
            return super().before(layer, hidden, carried)

        def after(self, layer, hidden, spans, carried):
            calls.append(("after", layer, hidden.shape[1]))
            return super().after(layer, hidden, spans, carried)

    model.memory.__class__ = Noted
    model(**text(name, segments=1))
    size = LENGTH + model.settings.prefix + model.settings.suffix + MEMORY
    assert calls == [("before", 0, size), ("after", 0, size), ("before", 1, size), ("after", 1, size)]


@PER_TOKEN
@DEPTHS
def test_the_gradient_reaches_as_many_segments_as_bptt_says_and_is_exactly_zero_beyond(
    layered, name, head, depth
):
    model = layered(name, head, bptt=depth, alignment="left")
    inputs, embedding = text(name), model.get_input_embeddings()
    embedded = embedding(inputs["input_ids"]).detach().requires_grad_()
    output = model(inputs_embeds=embedded, attention_mask=inputs["attention_mask"]).logits
    first = model.settings.prefix
    last = slice(first + 2 * LENGTH, first + 3 * LENGTH)
    (gradient,) = torch.autograd.grad(output[:, last].square().sum(), embedded)
    for segment in range(3):
        start = first + segment * LENGTH
        reached = bool(gradient[:, start : start + LENGTH].any())
        assert reached == (depth == "full" or 2 - segment <= depth)


@PER_TOKEN
@torch.no_grad()
def test_a_ragged_row_is_that_row_alone(layered, name, head):
    model = layered(name, head)
    for side in ("right", "left"):
        inputs = texts(name, 14, 8, 4, side=side)
        together = model(**inputs, return_state=True)
        for row, length in enumerate((14, 8, 4)):
            exists = inputs["attention_mask"][row].bool()
            alone = model(input_ids=inputs["input_ids"][row : row + 1, exists], return_state=True)
            close(together.logits[row, exists], alone.logits[0])
            close([tensor[row] for tensor in carried(together.state)], [x[0] for x in carried(alone.state)])
            assert alone.logits.shape[1] == length


@DECODERS
@torch.no_grad()
def test_stepping_is_the_whole_segment(layered, name):
    model = layered(name, "ForCausalLM")
    ids = text(name, segments=1, rows=2)["input_ids"]
    state = model(**text(name, segments=2, rows=2, seed=1), return_state=True).state
    whole = model(input_ids=ids, state=state, return_state=True)
    segment = model.open(state)
    pieces = [segment.step(piece) for piece in ids.split([1, 3, 1], dim=1)]
    close(torch.cat(pieces, dim=1), whole.logits, 1e-6)  # some families normalise in float32
    close(carried(segment.close()), carried(whole.state), 1e-6)


@torch.no_grad()
def test_generation_is_the_naive_recomputation(layered):
    model, inputs = layered("gpt2", "ForCausalLM"), texts("gpt2", 7, 4, side="left")
    steps = 2 * LENGTH + 1
    greedy = {"do_sample": False, "max_new_tokens": steps, "min_new_tokens": steps, "pad_token_id": 0}
    for search in (greedy, {**greedy, "num_beams": 3}):
        naive = model.generate(**inputs, **search, use_cache=False)
        assert torch.equal(model.generate(**inputs, **search), naive)


def test_a_session_of_pieces_is_one_unroll_and_goes_on_after_saving(layered, tmp_path):
    model, ids = layered("gpt2", "ForCausalLM", "sdpa"), text("gpt2")["input_ids"]
    session = rmt.Session(model)
    session.feed(ids[:, :7])
    session.save(tmp_path / "session")
    loaded = rmt.Session.load(tmp_path / "session", model)
    hidden = loaded.feed(ids[:, 7:], "hidden")
    with torch.no_grad():
        whole = model(input_ids=ids, return_state=True)
        close(model.embedding.logits(hidden), whole.logits[:, 7:])
    close(carried(loaded.close()), carried(whole.state))


@PER_TOKEN
def test_saving_and_loading_keeps_the_kind_and_the_numbers(layered, name, head, tmp_path):
    model, inputs = layered(name, head, "sdpa"), text(name)
    expected = model(**inputs).logits
    model.save_pretrained(tmp_path)
    auto = {"bert": "AutoModelForTokenClassification", "gpt2": "AutoModelForCausalLM"}[name]
    loaded = getattr(transformers, auto).from_pretrained(tmp_path, dtype=torch.float64).eval()
    assert loaded.settings.kind == model.settings.kind in KINDS
    assert type(loaded.memory) is type(model.memory)
    for key, weight in model.state_dict().items():
        assert torch.equal(loaded.state_dict()[key], weight)
    close(loaded(**inputs).logits, expected, 1e-12)
    for duplicate in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert torch.equal(duplicate(**inputs).logits, expected)


@pytest.mark.covering
@pytest.mark.parametrize("name", ["bert", "gpt2", "t5"])
@pytest.mark.parametrize("how", ["layers", "segments"])
def test_what_is_computed_again_in_the_backward_pass_has_the_same_gradient(layered, name, how):
    kept = layered(name, "ForSequenceClassification")
    again = layered(name, "ForSequenceClassification", checkpoint=how == "segments")
    if how == "layers":
        again.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    for model in (kept, again):
        main_output(answer(model.train(), texts(name, 14, 9))).square().sum().backward()
    expected, recomputed = (
        {key: weight.grad for key, weight in model.named_parameters() if weight.grad is not None}
        for model in (kept, again)
    )
    close(recomputed, expected)
    assert expected["memory.gate"].any()


@pytest.mark.slow
@pytest.mark.parametrize(("name", "head"), TOKENWISE[:2])
def test_eight_threads_compute_differentiate_and_generate_as_one_does(name, head):
    model = with_memory(name, head, "sdpa", bptt=1)
    assert_same_in_threads(lambda number: logits(model, name, number), calls=10)
    assert_same_in_threads(lambda number: gradients(model, name, number), calls=5)
    if name == "gpt2":
        assert_same_in_threads(lambda number: written(model, name, number), calls=2)


@pytest.mark.covering
@pytest.mark.parametrize("name", ["bert", "gpt2", "modernbert", "t5"])
def test_attention_and_hidden_states_are_recorded_again_and_again(layered, name):
    model, inputs = layered(name, alignment="left"), text(name, segments=1)
    for _ in range(2):
        (segment,) = capture(AttentionView(model), inputs["input_ids"][0])
        assert segment.spans.write == MEMORY
        assert segment.weights.shape[0] == 2
    if name != "t5":
        for _ in range(2):
            states = model(**inputs, output_hidden_states=True).hidden_states
            assert len(states) == 3
            close(states[-1], model(**inputs).last_hidden_state)


def test_an_adapter_trains_and_saves_the_memory(layered, tmp_path):
    import peft

    def adapted():
        return layered("bert", "ForSequenceClassification")

    config = peft.LoraConfig(
        task_type="SEQ_CLS", r=2, target_modules=["query"], modules_to_save=["memory", "classifier"]
    )
    model = peft.get_peft_model(adapted(), config)
    with torch.no_grad():
        for key, weight in model.named_parameters():
            if weight.requires_grad:
                assert "memory" in key or "classifier" in key or "lora" in key
                weight.add_(0.1)
    expected = model.eval()(**text("bert")).logits
    model.save_pretrained(tmp_path)
    assert torch.equal(
        peft.PeftModel.from_pretrained(adapted(), tmp_path).eval()(**text("bert")).logits, expected
    )


def test_blocks_take_the_positions_they_need():
    for name, taken in (("bert", 2 + MEMORY), ("gpt2", MEMORY)):  # no read block, and nothing to set it apart
        model = rmt.add_memory(plain(name), memory=MEMORY, kind="associative")
        assert model.settings.segment_length == 64 - taken
        answer(
            model, texts(name, model.settings.segment_length + model.settings.prefix + model.settings.suffix)
        )


def test_an_unknown_kind_and_a_state_of_another_kind_are_refused():
    with pytest.raises(ConfigError, match=r"unknown kind 'layer_avrage'; did you mean 'layer_average'"):
        rmt.add_memory(plain("bert"), kind="layer_avrage")
    tokens = rmt.add_memory(plain("gpt2"), memory=MEMORY, segment_length=LENGTH, kind="tokens")
    with pytest.raises(ConfigError, match="state with memory of shape none does not fit this"):
        tokens(**text("gpt2"), state=with_memory("gpt2").initial_state(1))


@DECODERS
def test_a_decoder_starts_as_the_plain_one_on_the_same_segments_and_learns_to_remember(name):
    base, inputs = plain(name, "ForCausalLM"), text(name, rows=2)
    model = rmt.add_memory(base, memory=MEMORY, segment_length=LENGTH)
    windows = [base(input_ids=ids).logits for ids in inputs["input_ids"].split(LENGTH, dim=1)]
    logits = model(**inputs).logits
    close(logits, torch.cat(windows, dim=1), 1e-12)
    optimizer = torch.optim.SGD(model.memory.parameters(), lr=1.0)
    for _ in range(2):  # the first opens the gates, the second teaches what stands behind them
        optimizer.zero_grad()
        model(**inputs).logits.logsumexp(-1).mean().backward()
        optimizer.step()
    assert all(parameter.grad.any() for parameter in model.memory.parameters())
    with torch.no_grad():
        trained = model(**inputs).logits
    close(trained[:, :LENGTH], logits[:, :LENGTH], 1e-12)  # before the first border, nothing is remembered
    assert (trained - logits)[:, LENGTH:].abs().amin() > 1e-9


@FAMILY
def test_only_decoders_with_memory_start_associative(name):
    kind = "associative" if FAMILIES[name].kind == "decoder" else "tokens"
    assert rmt.add_memory(plain(name), memory=MEMORY, segment_length=LENGTH).settings.kind == kind
    assert rmt.add_memory(plain(name), memory=0, segment_length=LENGTH).settings.kind == "tokens"
