"""One model, many threads: no call changes a module, so what a thread computes is what it computes alone."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
import torch

from tests.hf.zoo import answer, main_output, remembering, texts

THREADS, CALLS = 8, 50
MODELS = pytest.mark.parametrize(
    ("name", "head"),
    [
        ("bert", "ForSequenceClassification"),
        pytest.param("gpt2", "ForCausalLM", marks=pytest.mark.slow),
        pytest.param("opt", "ForCausalLM", marks=pytest.mark.slow),
    ],
    ids=lambda value: value,
)

FEW_AND_MANY = pytest.mark.parametrize("calls", [5, pytest.param(CALLS, marks=pytest.mark.slow)])


def inputs(name, number):
    """The input of one of a thread's calls: one to four segments, another text each time."""
    return texts(name, 4 + number % 15, 9, seed=number)


def logits(model, name, number):
    """What a call computes, without gradients."""
    with torch.no_grad():
        return [main_output(answer(model, inputs(name, number)))]


def gradients(model, name, number):
    """What a call computes, and its gradient."""
    output = main_output(answer(model, inputs(name, number)))
    parameters = list(model.parameters())
    gradients = torch.autograd.grad(
        output.square().sum(), parameters, allow_unused=True, materialize_grads=True
    )
    return [output.detach(), *gradients]


def written(model, name, number):
    """What a call generates, over the border of a segment."""
    prompt = texts(name, 4 + number % 5, seed=number)["input_ids"]
    return [model.generate(prompt, max_new_tokens=4, do_sample=False, pad_token_id=0)]


def assert_same_in_threads(work, threads=THREADS, calls=CALLS):
    """`work` of a number gives in every thread, all at once, bit for bit what it gives in one thread."""
    expected = [work(number) for number in range(calls)]
    start = Barrier(threads)

    def run(_):
        start.wait()
        return [work(number) for number in range(calls)]

    with ThreadPoolExecutor(threads) as pool:
        for results in pool.map(run, range(threads)):
            for result, reference in zip(results, expected, strict=True):
                assert all(torch.equal(*pair) for pair in zip(result, reference, strict=True))


@pytest.mark.slow
@MODELS
def test_eight_threads_compute_what_one_computes(name, head):
    model = remembering(name, head, "sdpa")
    assert_same_in_threads(lambda number: logits(model, name, number))


@MODELS
@FEW_AND_MANY
def test_eight_threads_differentiate_as_one_does(name, head, calls):
    model = remembering(name, head, "sdpa", bptt=1)
    assert_same_in_threads(lambda number: gradients(model, name, number), calls=calls)


@pytest.mark.slow
@FEW_AND_MANY
def test_eight_threads_generate_what_one_generates(calls):
    model = remembering("gpt2", "ForCausalLM", "sdpa")
    assert_same_in_threads(lambda number: written(model, "gpt2", number), calls=calls)
