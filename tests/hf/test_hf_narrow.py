"""Decoders whose embeddings are narrower than their layers, such as OPT-350M, have memory as all others."""

import pytest
import torch

import rmt
from rmt.core.config import MEMORY_KINDS
from rmt.core.token_memory import TokenMemory
from rmt.errors import ConfigError
from tests.hf.zoo import WIDTH, main_output, plain, texts
from tests.laws import layer_memory  # noqa: F401  # the toy kind

MEMORY, LENGTH, NARROW = 2, 5, WIDTH // 2


class TokensInLayers(TokenMemory):
    """Hands on what the last layer gives, and looks into the layers as well."""

    def before(self, layer, hidden, carried):
        return hidden + carried["tokens"].mean(1, keepdim=True)


def narrow(head="ForCausalLM"):
    return plain("opt", head, word_embed_proj_dim=NARROW).double()


def with_memory(base, **settings):
    return rmt.add_memory(base, memory=MEMORY, segment_length=LENGTH, **settings)


def test_the_default_kind_is_that_of_every_decoder_and_changes_nothing_before_it_is_trained():
    base, inputs = narrow(), texts("opt", 3 * LENGTH, 3 * LENGTH)
    model = with_memory(base)
    assert model.settings.kind == "associative"
    windows = [base(input_ids=ids).logits for ids in inputs["input_ids"].split(LENGTH, dim=1)]
    torch.testing.assert_close(model(**inputs).logits, torch.cat(windows, dim=1), rtol=1e-12, atol=1e-12)


def test_every_parameter_of_memory_learns_the_one_that_narrows_it_too():
    model, inputs = with_memory(narrow()), texts("opt", 3 * LENGTH)
    torch.nn.init.ones_(model.memory.gate)
    model(**inputs).logits.logsumexp(-1).mean().backward()
    gradients = {name: weight.grad for name, weight in model.memory.named_parameters()}
    assert gradients["entrance.weight"].shape == (NARROW, WIDTH)
    assert all(gradient.any() for gradient in gradients.values())


@pytest.mark.parametrize("kind", ["associative", "layer_average", "tokens"])
def test_a_saved_model_gives_the_same_answers_and_generates_what_it_says(kind, tmp_path):
    model, inputs = with_memory(narrow(), kind=kind), texts("opt", 7, 7)
    with torch.no_grad():
        for parameter in model.memory.parameters():
            parameter.normal_()
        expected = main_output(model(**inputs))
    model.save_pretrained(tmp_path)
    loaded = type(model).from_pretrained(tmp_path, dtype=torch.float64, attn_implementation="eager").eval()
    torch.testing.assert_close(main_output(loaded(**inputs)), expected, rtol=1e-12, atol=1e-12)
    options = {"max_new_tokens": 9, "min_new_tokens": 9, "pad_token_id": 0, "do_sample": False}
    cached, anew = (model.generate(**inputs, **options, use_cache=use_cache) for use_cache in (True, False))
    assert torch.equal(cached, anew)


def test_a_kind_in_the_layers_that_hands_on_narrower_outputs_is_refused(monkeypatch):
    monkeypatch.setitem(MEMORY_KINDS, "tokens_in_layers", f"{__name__}:TokensInLayers")
    message = "kind='tokens_in_layers' lives in layers of width 16 and hands on outputs of width 8; use kind="
    with pytest.raises(ConfigError, match=message):
        with_memory(narrow(), kind="tokens_in_layers")
