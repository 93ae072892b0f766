"""What a wrapped model is called with: wrong tokens, masks and states are answered in one line."""

import pytest
import torch

import rmt
from rmt.errors import ConfigError
from tests.hf.zoo import plain

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


def test_a_wrapped_model_says_the_size_of_its_memory(model):
    first, sizes, *_ = repr(model).splitlines()
    parameters = sum(parameter.numel() for parameter in model.parameters())
    assert first.startswith("RMTBert")
    assert (
        sizes.strip()
        == f"memory 2 (tokens), segments of {model.settings.segment_length}, {parameters:,} parameters"
    )
