"""Checkpoints of the original code, imported: segment for segment what the reference computes."""

# S tokens of a segment · B batch · C cache · D width

from collections.abc import Iterable
from itertools import product
from typing import NamedTuple

import pytest
import torch
from torch import Tensor

from rmt.compat.lm_rmt import load, renamed
from rmt.errors import CheckpointError, ConfigError
from tests.golden import lm_rmt_reference as reference
from tests.golden.lm_rmt_words import with_adaptive_softmax

BATCH, TOKENS, SEGMENTS, VOCABULARY, WIDTH, LAYERS, MEMORY = 2, 4, 3, 12, 8, 2, 3
BUFFER = "pos_emb.inv_freq"


class Setting(NamedTuple):
    """What a state dict does not tell, and its number of memory tokens."""

    memory: int
    cache: int
    write: bool
    memory_sees_cache: bool
    cutoffs: tuple[int, ...] = ()
    div_val: int = 1

    def __str__(self) -> str:
        words = [f"memory-{self.memory}", f"cache-{self.cache}"]
        words += ["read-only"] if not self.write else []
        words += ["memory-sees-cache"] if self.memory_sees_cache else []
        words += [f"{len(self.cutoffs)}-cutoffs-div-val-{self.div_val}"] if self.cutoffs else []
        return "-".join(words)


# the cache: none, one that a segment overfills, one that is half full after a segment
CACHES, SWITCH = (0, 4, 20), (True, False)
SETTINGS = [Setting(0, cache, write=True, memory_sees_cache=False) for cache in CACHES]
SETTINGS += [
    Setting(MEMORY, cache, write, sees)
    for cache, write, sees in product(CACHES, SWITCH, SWITCH)
    if cache or not sees
]
CUTOFFS = (4, 7, 9)
SETTINGS += [
    Setting(memory, 4, True, False, cutoffs, div_val)
    for memory, cutoffs, div_val in product((0, MEMORY), (CUTOFFS, (5,)), (1, 2))
]
ONE_TABLE, FOUR_TABLES = (Setting(MEMORY, 4, True, False, CUTOFFS, div_val) for div_val in (1, 2))
RMT, TRANSFORMER_XL = Setting(MEMORY, 4, True, False), Setting(0, 4, True, False)


class Run(NamedTuple):
    """What three segments in a row give, batch first."""

    logits: list[Tensor]  # (B, S, V) each
    memory: list[Tensor]  # (B, M, D) each
    cache: list[list[Tensor]]  # valid rows only, (B, ≤ C, D) of each layer, after each segment
    gradients: dict[str, Tensor]  # of a functional of all logits and the last memory, under our names


@pytest.fixture(scope="module", params=SETTINGS, ids=str)
def runs(request) -> tuple[Run, Run]:
    """The imported model's run and the reference's, in float64."""
    return run_imported(request.param), run_reference(request.param)


def test_the_imported_model_gives_the_logits_of_the_original(runs):
    assert_close(runs[0].logits, runs[1].logits)


def test_the_imported_model_carries_the_memory_of_the_original(runs):
    assert_close(runs[0].memory, runs[1].memory)


def test_the_imported_model_caches_what_the_original_caches(runs):
    for ours, theirs in zip(runs[0].cache, runs[1].cache, strict=True):
        assert_close(ours, theirs)


def test_the_imported_model_has_all_gradients_of_the_original(runs):
    ours, theirs = (run.gradients for run in runs)
    assert ours.keys() == theirs.keys()
    assert_close([ours[name] for name in theirs], list(theirs.values()))


@pytest.mark.parametrize("setting", [RMT, ONE_TABLE, FOUR_TABLES], ids=str)
def test_in_float32_the_imported_model_is_the_original_to_rounding(setting):
    ours, theirs = run_imported(setting, torch.float32), run_reference(setting, torch.float32)
    assert_close(ours.logits + ours.memory, theirs.logits + theirs.memory, tolerance=1e-5)
    assert_close(
        [ours.gradients[name] for name in theirs.gradients], list(theirs.gradients.values()), tolerance=1e-5
    )


def test_the_imported_model_has_the_precision_of_its_checkpoint_and_is_in_evaluation_mode():
    model = load(checkpoint(RMT))
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float64}
    assert not any(module.training for module in model.modules())


def test_a_transformer_xl_checkpoint_has_no_memory():
    state_dict = checkpoint(TRANSFORMER_XL)
    assert "mem_tokens" not in state_dict
    model = load(state_dict, cache=4)
    assert model.initial_state(1).memory.shape == (1, 0, WIDTH)


@pytest.mark.parametrize("name", [reference.OUTPUT_WEIGHT, BUFFER])
def test_tied_copies_and_buffers_may_be_absent(name):
    whole = checkpoint(RMT)
    partial = {key: tensor for key, tensor in whole.items() if key != name}
    torch.testing.assert_close(load(partial).state_dict(), load(whole).state_dict(), rtol=0, atol=0)


@pytest.mark.parametrize(
    ("lost", "named"),
    [
        pytest.param("layers.1.pos_ff.layer_norm.bias", "layers.1.feed_forward_norm.bias", id="of-a-layer"),
        pytest.param("r_r_bias", "position_bias", id="of-all-layers"),
        pytest.param("crit.out_layers.0.bias", "embedding.bias", id="of-the-output"),
        pytest.param(reference.EMBEDDING, reference.EMBEDDING, id="that-tells-a-size"),
    ],
)
def test_a_missing_tensor_is_named(lost, named):
    state_dict = checkpoint(RMT)
    del state_dict[lost]
    with pytest.raises(CheckpointError, match=named.replace(".", r"\.")):
        load(state_dict)


def test_a_tensor_of_another_shape_is_named_and_never_reshaped():
    state_dict = checkpoint(RMT)
    name = "layers.0.dec_attn.qkv_net.weight"
    state_dict[name] = state_dict[name].T.contiguous()
    with pytest.raises(CheckpointError, match="qkv"):
        load(state_dict)


@pytest.mark.parametrize(
    "foreign",
    [
        pytest.param({}, id="empty"),
        pytest.param(
            {"transformer.wte.weight": torch.zeros(4, 4), "lm_head.weight": torch.zeros(4, 4)}, id="gpt-2"
        ),
    ],
)
def test_a_foreign_state_dict_is_refused(foreign):
    with pytest.raises(CheckpointError, match="not a state dict of LM-RMT or Transformer-XL"):
        load(foreign)


def test_an_unexpected_tensor_is_named():
    state_dict = checkpoint(RMT) | {"layers.0.adapter.weight": torch.zeros(1)}
    with pytest.raises(CheckpointError, match=r"unexpected tensor 'layers\.0\.adapter\.weight'"):
        load(state_dict)


@pytest.mark.parametrize("name", [reference.OUTPUT_WEIGHT, "crit.out_layers.2.weight", "crit.out_projs.1"])
def test_an_untied_output_layer_is_refused(name):
    untied = checkpoint(FOUR_TABLES)
    untied[name] = untied[name] + 1
    with pytest.raises(CheckpointError, match=f"'{name}' is not .* untied output layers cannot be imported"):
        load(untied)


def test_the_cutoffs_of_several_tables_are_read_off_them():
    model = load(checkpoint(FOUR_TABLES))
    assert (model.config.vocabulary, model.config.cutoffs, model.config.div_val) == (VOCABULARY, CUTOFFS, 2)
    given = load(checkpoint(FOUR_TABLES), cutoffs=CUTOFFS)
    torch.testing.assert_close(given.state_dict(), model.state_dict(), rtol=0, atol=0)


@pytest.mark.parametrize("div_val", [3, 5, 8], ids="div-val-{}".format)
def test_a_div_val_that_does_not_divide_the_width_is_read_off_the_tables(div_val):
    model = load(checkpoint(FOUR_TABLES._replace(cutoffs=(5,), div_val=div_val)))
    assert model.config.width // model.config.div_val == WIDTH // div_val


def test_the_cutoffs_of_one_table_must_be_given():
    with pytest.raises(ConfigError, match=r"cutoffs=\(\) must be the 3 .*=\(20000, 40000, 200000\)"):
        load(checkpoint(ONE_TABLE))
    assert load(checkpoint(ONE_TABLE), cutoffs=CUTOFFS).config.cutoffs == CUTOFFS


@pytest.mark.parametrize(
    ("setting", "cutoffs", "message"),
    [
        pytest.param(ONE_TABLE, (4, 7), r"cutoffs=\(4, 7\) must be the 3 word numbers", id="too-few"),
        pytest.param(ONE_TABLE, (4, 7, 12), r"cutoffs=\(4, 7, 12\) must be", id="beyond-the-vocabulary"),
        pytest.param(FOUR_TABLES, (4, 7, 8), "are not the checkpoint's, .4, 7, 9.;", id="others"),
        pytest.param(RMT, CUTOFFS, "the checkpoint has no adaptive softmax; leave them out", id="needless"),
    ],
)
def test_cutoffs_that_cannot_be_the_checkpoints_are_refused(setting, cutoffs, message):
    with pytest.raises(ConfigError, match=message):
        load(checkpoint(setting), cutoffs=cutoffs)


def test_tables_that_no_div_val_makes_are_refused():
    state_dict = checkpoint(FOUR_TABLES)
    for name in ("word_emb.emb_layers.2.weight", "crit.out_layers.2.weight"):
        state_dict[name] = state_dict[name].repeat(1, 2)
    with pytest.raises(CheckpointError, match=r"embedding tables \[8, 4, 4, 1\] wide: no div_val makes them"):
        load(state_dict)


def test_a_missing_table_of_a_cluster_is_named():
    state_dict = checkpoint(FOUR_TABLES)
    del state_dict["word_emb.emb_layers.3.weight"]
    with pytest.raises(CheckpointError, match="3 embedding tables for 3 tail clusters: it is not whole"):
        load(state_dict)


def checkpoint(setting: Setting, dtype: torch.dtype = torch.float64) -> dict[str, Tensor]:
    sizes = {"heads": 2, "head_width": 4, "inner": 12, "layers": LAYERS, "memory": setting.memory}
    plain = reference.random_state_dict(0, VOCABULARY, WIDTH, **sizes, dtype=dtype)
    return with_adaptive_softmax(plain, setting.cutoffs, setting.div_val) if setting.cutoffs else plain


def segments() -> list[Tensor]:
    """Tokens (B, S) of each segment."""
    ids = torch.randint(VOCABULARY, (SEGMENTS, BATCH, TOKENS), generator=torch.Generator().manual_seed(1))
    return list(ids.unbind(0))


def run_imported(setting: Setting, dtype: torch.dtype = torch.float64) -> Run:
    options = {"memory_sees_cache": setting.memory_sees_cache, "write": setting.write}
    if setting.div_val == 1:
        options["cutoffs"] = setting.cutoffs
    model = load(checkpoint(setting, dtype), cache=setting.cache, **options)
    state, logits, memory, cache = model.initial_state(BATCH), [], [], []
    for tokens in segments():
        output = model(tokens, state)
        state = output.state
        logits.append(output.logits)
        memory.append(state.memory)
        assert state.cached[0] == state.cached[1]
        valid = slice(setting.cache - int(state.cached[0]), None)
        cache.append([layer[:, valid] for layer in state.cache])
    names, parameters = zip(*model.named_parameters(), strict=True)
    gradients = dict(zip(names, gradients_of(functional([*logits, memory[-1]]), parameters), strict=True))
    if not setting.memory:
        del gradients["memory.tokens.weight"]
    return Run(logits, memory, cache, gradients)


def run_reference(setting: Setting, dtype: torch.dtype = torch.float64) -> Run:
    state_dict = checkpoint(setting, dtype)
    first_names = {id(tensor): name for name, tensor in reversed(state_dict.items())}  # of tied tensors
    learned = set(first_names.values()) - {BUFFER}
    leaves = {name: state_dict[name].requires_grad_() for name in sorted(learned)}
    carried, rows = reference.initial_memory(state_dict, BATCH), reference.empty_cache(state_dict, BATCH)
    options = {
        "memory_sees_cache": setting.memory_sees_cache,
        "write": setting.write,
        "cutoffs": setting.cutoffs,
    }
    logits, memory, cache = [], [], []
    for tokens in segments():
        output = reference.forward(state_dict, tokens.T, carried, rows, mem_len=setting.cache, **options)
        carried, rows = output.memory, output.cache
        logits.append(output.logits.transpose(0, 1))
        memory.append(carried.transpose(0, 1))
        cache.append([layer.transpose(0, 1) for layer in rows[:LAYERS]])
    found = gradients_of(functional([*logits, memory[-1]]), leaves.values())
    gradients = dict(renamed(dict(zip(leaves, found, strict=True))))
    if setting.memory:
        gradients["memory.tokens.weight"] = gradients["memory.tokens.weight"].squeeze(1)
    return Run(logits, memory, cache, gradients)


def functional(tensors: list[Tensor]) -> Tensor:
    """A fixed random linear functional of all tensors together."""
    generator = torch.Generator().manual_seed(2)
    weights = (torch.randn(tensor.shape, generator=generator).to(tensor.dtype) for tensor in tensors)
    return sum((weight * tensor).sum() for weight, tensor in zip(weights, tensors, strict=True))


def gradients_of(loss: Tensor, inputs: Iterable[Tensor]) -> tuple[Tensor, ...]:
    return torch.autograd.grad(loss, list(inputs), allow_unused=True, materialize_grads=True)


def assert_close(actual: list[Tensor], expected: list[Tensor], tolerance: float = 1e-9) -> None:
    """Equal shapes, and no difference above `tolerance` of the largest number expected."""
    for ours, theirs in zip(actual, expected, strict=True):
        assert ours.shape == theirs.shape
        if theirs.numel():
            assert (ours - theirs).abs().max() <= tolerance * theirs.abs().max()
