"""Recorded segments on a GPU: the graphs themselves, beside the same calls computed as they are."""

import copy

import pytest
import torch

from rmt.hf import recorder
from tests.gpus import without_waiting
from tests.hf.zoo import EAGER_ONLY, HEADS, answer, main_output, of_kind, remembering, texts

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
FAMILIES = pytest.mark.parametrize("name", of_kind("encoder", "decoder", "seq2seq"))
LENGTHS = pytest.mark.parametrize("lengths", [(17, 17), (17, 8)], ids=str)
TINY = pytest.mark.parametrize("name", ["bert", "gpt2"])


@pytest.fixture(autouse=True)
def float32():
    """Attention has no quick kernels in float64."""
    torch.set_default_dtype(torch.float32)


def model_of(name, **options):
    kind = next(kind for kind in HEADS if name in of_kind(kind))
    head = {
        "encoder": "ForSequenceClassification",
        "decoder": "ForCausalLM",
        "seq2seq": "ForConditionalGeneration",
    }
    return remembering(name, head[kind], "eager" if name in EAGER_ONLY else "sdpa", **options).cuda()


def on_gpu(*arguments, **options):
    return {name: value.cuda() for name, value in texts(*arguments, **options).items()}


def run(model, inputs):
    """The output of a call, and the gradients of all weights."""
    if model.config.is_encoder_decoder:
        start = torch.tensor([[0, 5, 6]], device="cuda").repeat(len(inputs["input_ids"]), 1)
        inputs = {**inputs, "decoder_input_ids": start}
    output = main_output(model(**inputs))
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    return [output.detach(), *torch.autograd.grad(output.float().square().sum(), trained, allow_unused=True)]


def expected_of(model, inputs):
    """The same without recordings."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recorder, "LAUNCHERS", {})
        return run(model, inputs)


def assert_same(results, expected, tolerance=1e-4):
    """The output beside its size, gradients beside the largest: those of keys' biases are rounding alone."""
    largest = max((part.abs().max() for part in expected[1:] if part is not None), default=1.0)
    for index, (result, reference) in enumerate(zip(results, expected, strict=True)):
        if reference is None:
            assert result is None or not result.any()
        else:
            scale = largest if index else reference.abs().max()
            assert ((result - reference).abs().max() / scale) < tolerance


def replays(model):
    """Whether recordings of the model are in use."""
    return model in recorder.recorders and any(slot.recordings for slot in recorder.recorders[model].slots)


@FAMILIES
@LENGTHS
def test_graphs_are_the_same_function(name, lengths):
    model = model_of(name)
    for seed in (0, 0, 0, 1):
        inputs = on_gpu(name, *lengths, seed=seed)
        assert_same(run(model, inputs), expected_of(model, inputs))
    assert replays(model) == (name not in EAGER_ONLY)  # those copy from the host in every layer


@TINY
def test_graphs_are_the_same_function_in_half_precision(name):
    model = model_of(name)
    with torch.autocast("cuda", torch.bfloat16):
        for seed in (0, 0, 1):
            inputs = on_gpu(name, 17, 17, seed=seed)
            assert_same(run(model, inputs), expected_of(model, inputs), tolerance=0.05)
    assert replays(model)


@TINY
def test_training_and_evaluation_are_recorded_apart(name):
    model = model_of(name)
    inputs = on_gpu(name, 17, 17)
    expected = expected_of(model, inputs)
    for _ in range(2):
        for training in (True, True, True, False, False, False):
            outputs = run(model.train(training), inputs)
        assert_same(outputs, expected)
        with torch.no_grad():
            assert_same([main_output(answer(model, inputs))], expected[:1])


@TINY
def test_weights_learn_as_without_graphs(name):
    model = model_of(name)
    other = copy.deepcopy(model)
    inputs = on_gpu(name, 17, 17)
    for each, step in ((model, run), (other, expected_of)):
        optimizer = torch.optim.AdamW(each.parameters(), lr=1e-3)
        for _ in range(5):
            for parameter, gradient in zip(each.parameters(), step(each, inputs)[1:], strict=True):
                parameter.grad = gradient
            optimizer.step()
    assert replays(model)
    assert not replays(other)
    assert_same([*model.parameters()], [*other.parameters()], tolerance=1e-2)


def test_every_pass_draws_its_own_dropout():
    model = model_of("bert").train()
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.5
    inputs = on_gpu("bert", 17, 17)
    outputs = []
    for _ in range(5):
        torch.manual_seed(len(outputs) % 2)
        outputs.append(run(model, inputs)[0])
    assert replays(model)
    assert not torch.equal(outputs[3], outputs[4])
    torch.manual_seed(1)
    assert torch.equal(run(model, inputs)[0], outputs[3])


def test_a_text_without_padding_never_makes_the_host_wait():
    model = model_of("bert")
    inputs = {"input_ids": on_gpu("bert", 17, 17)["input_ids"]}
    for _ in range(3):
        run(model, inputs)
    with without_waiting():
        run(model, inputs)


def test_segments_that_wait_for_their_gradient_keep_their_activations():
    model = model_of("gpt2")
    batches = [on_gpu("gpt2", 17, 17, seed=seed) for seed in range(3)]
    expected = [expected_of(model, batch) for batch in batches]
    for batch in batches:
        run(model, batch)
    trained = list(model.parameters())
    outputs = [main_output(answer(model, batch)) for batch in batches]
    for _ in range(2):
        for output, reference in zip(outputs, expected, strict=True):
            loss = output.square().sum()
            gradients = torch.autograd.grad(loss, trained, allow_unused=True, retain_graph=True)
            assert_same([output.detach(), *gradients], reference)


def test_an_adapter_learns_through_graphs():
    peft = pytest.importorskip("peft")
    config = peft.LoraConfig(target_modules=["query", "value"], modules_to_save=["memory"])
    model = peft.get_peft_model(model_of("bert"), config)
    inputs = on_gpu("bert", 17, 17)
    for _ in range(3):
        assert_same(run(model, inputs), expected_of(model, inputs))
    assert replays(model.get_base_model())
