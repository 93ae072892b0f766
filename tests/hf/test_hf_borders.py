"""The borders of a call: what plain transformers means by it is done, and what has no effect is refused."""

import copy

import pytest
import torch

import rmt
from rmt.errors import ConfigError
from rmt.hf import SegmentView, add_memory
from tests.hf.zoo import answer, main_output, of_kind, plain, remembering, texts

GPT2 = ("gpt2", "ForCausalLM")
KINDS = pytest.mark.parametrize("kind", ["tokens", "associative"])
DROPPED = (
    r"gradient checkpointing in training mode keeps no keys and values: .* model\.eval\(\).*use_cache=False"
)
CLASSIFIER = "ForSequenceClassification"


def checkpointed(name, kind="tokens"):
    """A decoder whose layers are computed again in the backward pass, as it is trained."""
    model = add_memory(plain(name, "ForCausalLM"), memory=2, segment_length=5, kind=kind)
    model.gradient_checkpointing_enable()
    return model.train()


@KINDS
@pytest.mark.parametrize("name", of_kind("decoder"))
def test_layers_that_keep_no_keys_do_not_decode_token_by_token(name, kind):
    model, inputs = checkpointed(name, kind), texts(name, 7)
    with pytest.raises(ConfigError, match=f"^[^\n]*{DROPPED}"):
        model.generate(**inputs, max_new_tokens=6)
    whole = model.generate(**inputs, max_new_tokens=6, do_sample=False, use_cache=False)
    stepwise = model.eval().generate(**inputs, max_new_tokens=6, do_sample=False)
    assert torch.equal(stepwise, whole)


def test_a_call_whose_layers_keep_no_keys_leaves_no_cache():
    model, ids = checkpointed("gpt2"), texts("gpt2", 7)["input_ids"]
    with torch.no_grad():
        assert model(input_ids=ids).past_key_values is None
        with pytest.raises(ConfigError, match=DROPPED):
            model(input_ids=ids, use_cache=True)


def test_a_cache_does_not_go_on_where_layers_would_drop_it():
    model, ids = checkpointed("gpt2").eval(), texts("gpt2", 7)["input_ids"]
    with torch.no_grad():
        cache = model(input_ids=ids).past_key_values
        expected = model(input_ids=ids, past_key_values=copy.deepcopy(cache)).logits
        model.train()
        with pytest.raises(ConfigError, match=DROPPED):
            model(input_ids=ids, past_key_values=cache)
        with pytest.raises(ConfigError, match=DROPPED):
            copy.deepcopy(cache).close()
        torch.testing.assert_close(model.eval()(input_ids=ids, past_key_values=cache).logits, expected)


@pytest.mark.parametrize(
    ("name", "head"),
    [("bert", "Model"), ("bert", CLASSIFIER), GPT2, ("llama", "Model"), ("t5", "ForConditionalGeneration")],
)
def test_the_configuration_says_whether_outputs_are_tuples(name, head):
    model, inputs = remembering(name, head), texts(name, 14, 9)
    expected = main_output(answer(model, inputs))
    model.config.return_dict = False
    for asked in ({}, {"return_dict": None}):
        output = answer(model, inputs, **asked)
        assert isinstance(output, tuple)
        assert torch.equal(output[0], expected)
    assert torch.equal(main_output(answer(model, inputs, return_dict=True)), expected)


def test_a_model_that_answers_in_tuples_generates_and_is_driven_segment_by_segment():
    model, inputs = remembering(*GPT2), texts("gpt2", 5)
    expected = model.generate(**inputs, max_new_tokens=6, do_sample=False)
    view = SegmentView(model)
    logits = view(inputs["input_ids"], view.initial_state(1)).logits
    model.config.return_dict = False
    assert torch.equal(model.generate(**inputs, max_new_tokens=6, do_sample=False), expected)
    assert torch.equal(view(inputs["input_ids"], view.initial_state(1)).logits, logits)


@pytest.mark.parametrize("name", of_kind("encoder", "decoder"))
def test_hidden_states_of_heads_that_pool_stand_where_their_tokens_stand(name):
    model, lengths = remembering(name, CLASSIFIER), (14, 9)
    left, right = (texts(name, *lengths, side=side) for side in ("left", "right"))
    for ids in (left, right):
        ids["output"] = model(**ids, output_hidden_states=True)
    assert torch.equal(left["output"].logits, right["output"].logits)
    states = [ids["output"].hidden_states for ids in (left, right)]
    for on_left, on_right in zip(*states, strict=True):
        assert torch.equal(on_left[left["attention_mask"].bool()], on_right[right["attention_mask"].bool()])


def test_hidden_states_of_choices_stand_where_their_tokens_stand():
    from transformers import BertForMultipleChoice

    base = BertForMultipleChoice(plain("bert").config).eval()
    model = add_memory(base, memory=2, segment_length=5)
    padded = {side: texts("bert", 9, 14, 7, 14, side=side) for side in ("left", "right")}
    states = {
        side: model(
            **{name: value.view(2, 2, -1) for name, value in inputs.items()}, output_hidden_states=True
        ).hidden_states[-1][inputs["attention_mask"].bool()]
        for side, inputs in padded.items()
    }
    assert torch.equal(states["left"], states["right"])


def test_a_state_has_no_effect_on_what_is_encoded_already():
    model, inputs = remembering("t5", "ForConditionalGeneration"), texts("t5", 9)
    state, encoded = model.initial_state(1), model.get_encoder()(**inputs)
    message = r"^state= has no effect beside encoder_outputs=, .*; leave it out$"
    with pytest.raises(ConfigError, match=message):
        answer(model, inputs, encoder_outputs=encoded, state=state)
    with pytest.raises(ConfigError, match=message):
        model.generate(**inputs, encoder_outputs=encoded, state=state, max_new_tokens=2)


def test_a_decoder_with_cross_attention_is_refused():
    base = plain(*GPT2, add_cross_attention=True)
    message = r"^GPT2LMHeadModel with add_cross_attention=True cannot have memory: .*; [^\n]*$"
    with pytest.raises(ConfigError, match=message):
        add_memory(base, memory=2)


SETTINGS = {
    "tokens": {"kind": "tokens"},
    "associative": {"kind": "associative"},
    "none": {"memory": 0},
    "cache": {"kind": "tokens", "cache": 4, "sink": 1},
    "cache alone": {"memory": 0, "cache": 4, "sink": 1},
    "classifier": {"kind": "tokens", "head": CLASSIFIER},
}


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize("use_cache", [True, False], ids=["leaves a cache", "without a cache"])
@torch.no_grad()
def test_rows_of_no_tokens_keep_their_state_where_all_are_empty(settings, use_cache):
    settings = {"memory": 2, "head": "ForCausalLM", **settings}
    model = add_memory(plain("llama", settings.pop("head")), segment_length=5, **settings)
    text, more = texts("llama", 9, 9), texts("llama", 3, 3, seed=1)
    state = model(**text, return_state=True, use_cache=False).state
    nothing = {"input_ids": more["input_ids"], "attention_mask": torch.zeros_like(more["input_ids"])}
    output = model(**nothing, state=state, return_state=True, use_cache=use_cache)
    for name, tensor in output.state.named().items():
        assert torch.equal(tensor, state.named()[name]), name
    assert output.logits.isfinite().all()
    if use_cache:
        after = model(**more, past_key_values=output.past_key_values)
        expected = model(**more, state=state, use_cache=False)
        torch.testing.assert_close(after.logits, expected.logits, rtol=1e-5, atol=1e-5)


def test_a_view_keeps_the_state_of_rows_of_no_tokens_where_all_are_empty():
    view = SegmentView(remembering(*GPT2))
    ids = texts("gpt2", 5, 5)["input_ids"]
    state = view(ids, view.initial_state(2)).state
    after = view(ids, state, lengths=torch.tensor([0, 0]))
    assert torch.equal(after.state.memory, state.memory)
    assert after.logits.shape == (2, 5, 40)


IDS = torch.ones(2, 3, dtype=torch.long)
WRONG = {
    "lists": ([[1, 2]], None, r"tokens=\[\[1, 2\]\] is no tensor"),
    "floats": (IDS.float(), None, "tokens of type torch.float32 are not ids"),
    "a row": (IDS[0], None, r"tokens of shape \(3,\) are not rows"),
    "too long": (IDS, torch.tensor([1, 4]), r"lengths=\[1, 4\] must be 0 to 3"),
    "below zero": (IDS, torch.tensor([-1, 2]), r"lengths=\[-1, 2\] must be 0 to 3"),
    "one length": (IDS, torch.tensor([1]), r"lengths=.* is not a whole number per row"),
    "list of lengths": (IDS, [1, 2], r"lengths=\[1, 2\] is not a whole number per row"),
    "other rows": (
        IDS[:1],
        torch.tensor([1]),
        "(state with memory of|1 rows do not fit a cache of 2)",
    ),
}


WAYS = {
    "view": lambda model, *text: SegmentView(model)(text[0], model.initial_state(2), text[1]),
    "open segment": lambda model, *text: model.open(model.initial_state(2)).encode(*text),
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
@pytest.mark.parametrize("encode", WAYS.values(), ids=WAYS)
def test_a_segment_of_wrong_tokens_or_lengths_is_refused_in_one_line(encode, wrong):
    model = remembering(*GPT2)
    tokens, lengths, message = wrong
    with pytest.raises(ConfigError, match=f"^[^\n]*{message}[^\n]*$"):
        encode(model, tokens, lengths)


def test_an_open_segment_takes_no_tokens_as_a_native_one_does():
    model = remembering(*GPT2)
    segment = model.open(model.initial_state(2))
    assert segment.step(IDS[:, :0]).shape == (2, 0, 40)
    with pytest.raises(ConfigError, match="state=Tensor is not a State"):
        model.open(model.initial_state(2).memory)


@pytest.mark.parametrize("name", ["bert", "gpt2", "t5"])
def test_the_initial_state_is_of_a_number_of_rows(name):
    model = remembering(name)
    assert len(model.initial_state(0).cached) == 0
    for batch, message in ((-1, "batch=-1 must be at least 0"), ("a", "batch='a' is not a whole number")):
        with pytest.raises(ConfigError, match=message):
            model.initial_state(batch)


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama"])
def test_a_padding_id_below_zero_is_no_token_that_a_ragged_batch_is_filled_with(name):
    model, inputs = remembering(name), texts(name, 14, 6)
    expected = main_output(model(**inputs))
    for padding in (-1, None):
        model.config.pad_token_id = padding
        assert torch.equal(main_output(model(**inputs)), expected)


WITHOUT_EFFECT = [({"bptt": 1}, "bptt=1"), ({"scale": "embedding"}, "scale='embedding'")]


@pytest.mark.parametrize(("settings", "said"), WITHOUT_EFFECT, ids=["bptt", "scale"])
def test_settings_of_memory_have_no_effect_without_it(settings, said):
    with pytest.raises(ConfigError, match=f"^{said} has no effect with memory=0; leave it out$"):
        rmt.add_memory(plain(*GPT2), memory=0, **settings)
    with pytest.raises(ConfigError, match=f"^{said} has no effect with memory=0; leave it out$"):
        rmt.add_memory(plain("llama"), memory=0, cache=4, **settings)


@KINDS
def test_memory_in_float32_learns_on_a_model_in_bfloat16(kind):
    model = add_memory(plain(*GPT2).bfloat16(), memory=2, segment_length=5, kind=kind)
    model.memory.float()
    output = model(**texts("gpt2", 14), labels=texts("gpt2", 14)["input_ids"])
    assert output.logits.dtype == torch.bfloat16
    output.loss.backward()
    assert all(parameter.grad is not None for parameter in model.memory.parameters())
    assert model.generate(**texts("gpt2", 7), max_new_tokens=6, min_new_tokens=6).shape == (1, 13)
