"""Models of a type of one's own: registered in any order, pickled as models of known types are."""

import pickle
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import transformers

import rmt
import rmt.hf
from rmt.hf.families import FAMILIES

ROOT = Path(__file__).parents[2]
KIND = "llama_of_tests"
IDS = torch.arange(3, 17)[None]
SCRIPT = """
import pickle, sys, torch
from pathlib import Path
from rmt.errors import ConfigError
from tests.hf.test_hf_own_family import IDS, register
folder = Path(sys.argv[1])
try:
    pickle.loads((folder / "model").read_bytes())
except ConfigError as error:
    print(error)
register()
model = pickle.loads((folder / "model").read_bytes())
print(torch.equal(model(input_ids=IDS).logits, torch.load(folder / "logits")))
"""


class OwnConfig(transformers.LlamaConfig):
    model_type = KIND


class OwnForCausalLM(transformers.LlamaForCausalLM):
    config_class = OwnConfig


class MyLM(OwnForCausalLM):
    """A class whose name does not say what it is for."""


def register():
    """As the module of such a type does it; Auto classes of models are left to those who want them."""
    transformers.AutoConfig.register(KIND, OwnConfig, exist_ok=True)
    rmt.hf.register(KIND, rmt.hf.decoder())


@pytest.fixture
def base():
    register()
    sizes = {"num_key_value_heads": 2, "intermediate_size": 24, "hidden_size": 16, "num_attention_heads": 2}
    yield OwnForCausalLM(OwnConfig(vocab_size=40, num_hidden_layers=2, **sizes)).eval()
    FAMILIES.pop(KIND, None)


def wrapped(base):
    model = rmt.add_memory(base, memory=2, segment_length=5)
    torch.nn.init.ones_(model.memory.gate)
    return model


def test_auto_classes_may_learn_of_the_model_after_memory_was_added(base, tmp_path):
    model = wrapped(base)
    model.save_pretrained(tmp_path)
    assert type(type(model).from_pretrained(tmp_path)) is type(model)
    with pytest.raises(ValueError, match="Unrecognized configuration class"):
        transformers.AutoModelForCausalLM.from_pretrained(tmp_path)
    transformers.AutoModelForCausalLM.register(OwnConfig, OwnForCausalLM)
    loaded = transformers.AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float64).eval()
    assert type(loaded) is type(model)
    assert torch.equal(loaded(input_ids=IDS).logits, model(input_ids=IDS).logits)


def test_a_class_of_any_name_is_for_what_the_class_it_extends_is_for(base):
    named = MyLM(base.config).eval()
    named.load_state_dict(base.state_dict())
    torch.manual_seed(0)
    expected = wrapped(base)(input_ids=IDS).logits
    torch.manual_seed(0)
    model = wrapped(named)
    assert type(model).__name__ == "RMTMyLM"
    assert torch.equal(model(input_ids=IDS).logits, expected)
    assert model.generate(IDS, max_new_tokens=3, do_sample=False).shape == (1, 17)


def test_a_model_its_class_and_its_configuration_are_pickled(base):
    model = wrapped(base)
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        again = pickle.loads(pickle.dumps(model, protocol))
        assert type(again) is type(model)
        assert type(again.config) is type(model.config)
        assert torch.equal(again(input_ids=IDS).logits, model(input_ids=IDS).logits)
    assert pickle.loads(pickle.dumps(type(model))) is type(model)


def test_another_process_loads_a_pickled_model_once_it_has_registered_the_type(base, tmp_path):
    model = wrapped(base)
    (tmp_path / "model").write_bytes(pickle.dumps(model))
    torch.save(model(input_ids=IDS).logits, tmp_path / "logits")
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, tmp_path], cwd=ROOT, check=True, capture_output=True, text=True
    )
    refused, same = done.stdout.splitlines()
    assert (
        refused == f"model type '{KIND}' has no family; say rmt.hf.register('{KIND}', …) where its class is"
    )
    assert same == "True"


def test_a_subclass_of_a_class_with_memory_is_pickled_by_its_own_name(base):
    model = wrapped(base)
    subclass = type("Subclass", (type(model),), {"__module__": __name__})
    globals()["Subclass"] = subclass
    try:
        assert pickle.loads(pickle.dumps(subclass)) is subclass
    finally:
        del globals()["Subclass"]
