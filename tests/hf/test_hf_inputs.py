"""What a wrapped model is called with: wrong tokens, masks and states are answered in one line."""

import pytest
import torch

import rmt
from rmt.errors import ConfigError, RMTError
from rmt.hf import SegmentCache
from tests.hf.zoo import VOCABULARY, WIDTH, plain, remembering, texts

IDS = torch.randint(10, 20, (1, 6))


@pytest.fixture(scope="module")
def model():
    return rmt.add_memory(plain("bert"), memory=2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"input_ids": torch.rand(1, 6)}, "input_ids of type torch.float32 are not ids"),
        ({"input_ids": IDS[0]}, r"input_ids of shape \(6,\) are not rows; give ids \(batch, length\)"),
        ({"input_ids": IDS.tolist()}, "is no tensor"),
        (
            {"input_ids": IDS, "attention_mask": torch.ones(1, 7)},
            r"shape \(1, 7\) does not fit input_ids of \(1, 6\)",
        ),
        ({"input_ids": IDS, "state": torch.zeros(1, 2, 8)}, "state=Tensor is not a State"),
        ({"input_ids": IDS + 30}, "an id that is not in the vocabulary; ids are 0 to 39"),
    ],
    ids=["floats", "a-row", "lists", "other-mask", "memory-alone", "unknown-id"],
)
def test_what_is_no_text_or_no_state_is_refused_in_one_line(model, arguments, message):
    with pytest.raises(ConfigError, match=message) as error:
        model(**arguments)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["llama", "t5"])
def test_what_is_no_prompt_is_refused_in_one_line(name):
    head = "ForCausalLM" if name == "llama" else "ForConditionalGeneration"
    model = rmt.add_memory(plain(name, head), memory=2, segment_length=8)
    with pytest.raises(ConfigError, match=r"^inputs='once upon a time' is no tensor; give ids"):
        model.generate("once upon a time")


@pytest.mark.parametrize("name", ["bert", "gpt2", "t5"])
def test_surplus_positional_arguments_and_arguments_given_twice_are_python_errors(name):
    base = plain(name)
    for model in (base, rmt.add_memory(base, memory=2, segment_length=5)):
        with pytest.raises(TypeError, match=r"positional arguments|multiple values for argument"):
            model(IDS, *[None] * 40)
        with pytest.raises(TypeError, match="multiple values for argument 'input_ids'"):
            model(IDS, input_ids=IDS)


def test_a_surplus_positional_argument_is_counted_and_the_last_one_is_taken_by_its_name():
    base = plain("gpt2", "ForCausalLM")
    model = rmt.add_memory(base, memory=0)
    places = [IDS, *[None] * 9, 1]  # the last one is logits_to_keep
    torch.testing.assert_close(model(*places).logits, base(*places).logits, rtol=0, atol=0)
    message = r"GPT2LMHeadModel.forward\(\) takes at most 11 positional arguments but 12 were given"
    with pytest.raises(TypeError, match=message):
        model(*places, None)


def test_surplus_positional_arguments_of_generate_are_python_errors():
    model = remembering("gpt2", "ForCausalLM")
    with pytest.raises(
        TypeError, match=r"generate\(\) takes at most 11 positional arguments but 13 were given"
    ):
        model.generate(IDS, *[None] * 12)
    with pytest.raises(TypeError, match="multiple values for argument 'generation_config'"):
        model.generate(IDS, None, generation_config=None)


CACHES = {
    "none": lambda model, before: {"use_cache": False},
    "to be left": lambda model, before: {"use_cache": True},
    "fresh": lambda model, before: {"past_key_values": SegmentCache(model)},
    "of a call": lambda model, before: {"past_key_values": model(input_ids=before).past_key_values},
}


@pytest.mark.parametrize("cache", CACHES)
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"attention_mask": torch.ones(2, 5)}, r"attention_mask of shape \(2, 5\) does not fit input_ids of"),
        ({"attention_mask": torch.zeros(2, 1, 9, 9)}, r"attention_mask must be \(batch, tokens\)"),
        ({"attention_mask": [[1] * 9] * 2}, r"attention_mask=\[\[1, .* is no tensor; give \(batch, tokens\)"),
        ({"token_type_ids": [[1] * 9] * 2}, r"token_type_ids=\[\[1, .* is no tensor; give \(batch, tokens\)"),
        ({"input_ids": torch.ones(2, 3, 9).long()}, r"input_ids of shape \(2, 3, 9\) are not rows"),
        ({"input_ids": torch.full((2, 9), VOCABULARY)}, "an id that is not in the vocabulary"),
        (
            {"input_ids": None, "inputs_embeds": torch.ones(2, 9, 7)},
            rf"inputs_embeds of shape \(2, 9, 7\) are not {WIDTH} wide; give \(batch, tokens, {WIDTH}\)",
        ),
        (
            {"input_ids": None, "inputs_embeds": torch.ones(2, 3, 9, WIDTH)},
            r"inputs_embeds of shape \(2, 3, 9, 16\) are not rows; give \(batch, tokens, width\)",
        ),
        (
            {"position_ids": torch.arange(9)[None]},
            "position_ids are counted anew in each segment; leave them",
        ),
        ({"output_router_logits": True}, "output_router_logits=True would weigh the experts"),
    ],
    ids=[
        *("short mask", "wide mask", "list as mask", "list as types", "choices", "unknown id"),
        *("narrow embeddings", "choices of embeddings", "positions", "experts"),
    ],
)
def test_a_call_with_a_cache_says_what_a_call_without_says(cache, arguments, message):
    model, ids = remembering("gpt2", "ForCausalLM"), texts("gpt2", 9, 9)["input_ids"]
    with torch.no_grad(), pytest.raises(RMTError, match=f"^[^\n]*{message}"):
        model(**{"input_ids": ids, **CACHES[cache](model, ids), **arguments})


def test_a_cache_goes_on_with_its_own_rows_only():
    model, ids = remembering("gpt2", "ForCausalLM"), texts("gpt2", 9, 9)["input_ids"]
    with torch.no_grad():
        cache = model(input_ids=ids).past_key_values
        model(input_ids=ids, past_key_values=cache)
        for rows in (1, 3):
            with pytest.raises(
                ConfigError, match=rf"{rows} rows do not fit a cache of 2; give the same rows"
            ):
                model(input_ids=ids[:1].expand(rows, -1), past_key_values=cache)


def test_memory_alone_is_no_state_to_generate_from():
    model = remembering("gpt2", "ForCausalLM")
    with pytest.raises(ConfigError, match="state=Tensor is not a State"):
        model.generate(IDS, state=model.initial_state(1).memory, max_new_tokens=2)


def test_token_types_leave_no_cache_that_would_forget_them():
    model, inputs = remembering("gpt2", "ForCausalLM"), texts("gpt2", 9)
    inputs["token_type_ids"] = torch.ones_like(inputs["input_ids"])
    with torch.no_grad():
        assert model(**inputs).past_key_values is None
        with pytest.raises(ConfigError, match="token_type_ids cannot be had with a cache of segments"):
            model(**inputs, use_cache=True)


def test_a_wrapped_model_says_the_size_of_its_memory(model):
    first, sizes, *_ = repr(model).splitlines()
    parameters = sum(parameter.numel() for parameter in model.parameters())
    assert first.startswith("RMTBert")
    assert (
        sizes.strip()
        == f"memory 2 (tokens), segments of {model.settings.segment_length}, {parameters:,} parameters"
    )
