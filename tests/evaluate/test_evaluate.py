"""The metrics of a model whose every prediction is known: it counts, `… 3 4 5 …`, and knows nothing else."""

# B batch · T tokens of the whole sequence · V vocabulary

import math
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn

from rmt.core.state import State
from rmt.evaluate.evaluate import evaluate
from rmt.evaluate.generate import generate
from rmt.tasks.task import Batch
from tests.laws.models import PRESETS, build, configuration

V = 10


class Counter(nn.Module):
    """After token n comes n + 1, with a logit of 2 where all others have 0."""

    def __init__(self) -> None:
        super().__init__()
        self.nothing = nn.Parameter(torch.zeros(()))

    def initial_state(self, batch: int) -> State:
        return State(memory=torch.zeros(batch, 0, 1))

    def forward(self, tokens: Tensor, state: State) -> SimpleNamespace:
        return SimpleNamespace(logits=2.0 * nn.functional.one_hot((tokens + 1) % V, V).double(), state=state)

    def open(self, state: State, room: int = 0) -> SimpleNamespace:
        return SimpleNamespace(step=lambda tokens: self(tokens, state).logits, close=lambda: state)


class Given:
    """A task of hand-made rows of T + 1 tokens; the last `under_loss` targets are under the loss."""

    name = "given"

    def __init__(
        self, rows: list[list[int]], under_loss: int, answer: int, original: int, exact: bool = False
    ):
        whole = torch.tensor(rows)
        tokens, targets = whole[:, :-1], whole[:, 1:]
        place = torch.arange(tokens.shape[1], 0, -1).expand_as(tokens)
        self.batch = Batch(tokens, targets, place <= under_loss, place <= answer)
        self.window = place <= original
        self.original_exact = exact

    def split(self, name: str, samples: int | None = None) -> Batch:
        assert name == "test"
        return Batch(*(column[:samples] for column in self.batch))

    def original_answer(self, batch: Batch) -> Tensor:
        return self.window[: len(batch.tokens)]


ROWS = [
    [5, 1, 2, 3, 4, 5],  # from the given 1 on it counts: all right
    [5, 1, 2, 9, 0, 1],  # free-running: 2 3 4 5, so the first of 2 9 0 1; forced: 9 -> 0, 0 -> 1 too
    [5, 1, 7, 3, 4, 5],  # free-running: 2 3 4 5, the last three; forced: 7 -> 8, 3 -> 4, 4 -> 5
    [5, 1, 7, 7, 7, 8],  # free-running: nothing; forced: 7 -> 8 at the end
]
LOSS_RIGHT = math.log(math.exp(2) + V - 1) - 2
LOSS_WRONG = math.log(math.exp(2) + V - 1)


def test_strict_accuracy_counts_characters_generated_freely():
    metrics = measure(under_loss=4, answer=4)
    assert metrics["accuracy"] == (4 + 1 + 3 + 0) / 16
    assert metrics["sequence_accuracy"] == 1 / 4
    assert metrics["samples"] == 4


def test_teacher_forced_accuracy_counts_predictions_from_true_inputs():
    assert measure(under_loss=4, answer=4)["teacher_forced_accuracy"] == (4 + 3 + 2 + 1) / 16


def test_the_loss_is_the_mean_over_everything_under_it():
    right, wrong = 4 + 3 + 2 + 1, 0 + 1 + 2 + 3
    assert measure(under_loss=4, answer=4)["loss"] == pytest.approx(
        (right * LOSS_RIGHT + wrong * LOSS_WRONG) / 16
    )


def test_only_the_answer_counts_though_more_is_under_the_loss():
    metrics = measure(under_loss=4, answer=2)
    assert metrics["accuracy"] == (2 + 0 + 2 + 0) / 8
    assert metrics["sequence_accuracy"] == 2 / 4
    assert metrics["teacher_forced_accuracy"] == (2 + 2 + 2 + 1) / 8
    assert metrics["loss"] == pytest.approx((10 * LOSS_RIGHT + 6 * LOSS_WRONG) / 16)


def test_a_sequence_without_an_answer_is_neither_right_nor_wrong():
    task = Given(ROWS, under_loss=4, answer=4, original=4)
    task.batch.answer[1:3] = False
    metrics = evaluate(Counter(), task, 2)
    assert metrics["sequence_accuracy"] == 1 / 2
    assert metrics["accuracy"] == (4 + 0) / 8


def test_everything_under_the_loss_is_generated_even_where_only_the_answer_counts():
    assert measure(under_loss=4, answer=1)["accuracy"] == 2 / 4
    assert measure(under_loss=1, answer=1)["accuracy"] == 4 / 4


def test_the_strict_metric_does_not_see_segment_borders():
    found = [measure(length=length)["accuracy"] for length in (1, 2, 3, 5)]
    assert found == [8 / 16] * 4


def test_the_original_metric_is_teacher_forced_where_the_answer_is_shorter_than_a_segment():
    assert measure(under_loss=4, answer=4, length=5)["original_accuracy"] == (4 + 3 + 2 + 1) / 16
    assert measure(under_loss=3, answer=3, length=4)["original_accuracy"] == (3 + 2 + 2 + 1) / 12


def test_the_original_metric_generates_with_true_borders_where_the_answer_fills_a_segment():
    # the true tokens at places 2 and 4, its own at place 3; then the true one at place 3, its own at place 4
    assert measure(under_loss=4, answer=4, length=2)["original_accuracy"] == (4 + 2 + 1 + 1) / 16
    assert measure(under_loss=3, answer=3, length=3)["original_accuracy"] == (3 + 2 + 2 + 0) / 12


def test_the_original_metric_has_its_own_window():
    assert measure(under_loss=4, answer=4, original=2, length=5)["original_accuracy"] == (2 + 2 + 2 + 1) / 8


def test_the_original_metric_of_exact_tasks_generates_whatever_the_length_and_counts_sequences():
    assert measure(under_loss=4, answer=4, length=5, exact=True)["original_accuracy"] == 1 / 4
    assert measure(under_loss=4, answer=4, original=2, length=5, exact=True)["original_accuracy"] == 2 / 4


def test_without_thoroughness_there_is_no_original_metric_and_no_second_generation():
    task, model, passes = Given(ROWS, 4, 4, 4), Counter(), []
    model.register_forward_hook(lambda *_: passes.append(1))
    quick = evaluate(model, task, 4, thorough=False)
    assert "original_accuracy" not in quick
    once = len(passes)
    assert {**evaluate(model, task, 4), **quick} == evaluate(model, task, 4)
    assert len(passes) > 2 * once


def test_what_comes_before_the_answer_is_encoded_once_and_only_rows_with_other_inputs_generated_again():
    rows = torch.tensor(ROWS).repeat(1, 2) % 9  # 11 inputs, the last four made by the model
    model, calls = build(configuration("rmt")), []
    generated = generate(model, rows[:, :-1], Given(rows.tolist(), 5, 5, 5).batch.loss_mask, 3)
    rows[0, 9] = generated[0, 8]  # the other rows are wrong at the border
    assert (generated[1:, 8] != rows[1:, 9]).all()
    model.embedding.register_forward_hook(lambda module, inputs, output: calls.append(inputs[0].shape))
    evaluate(model, Given(rows.tolist(), 5, 5, 5), 3)
    forced = [(4, 3), (4, 3), (4, 3), (4, 2)]
    strict = [(4, 1), (4, 1), (4, 1), (4, 1), (4, 1)]  # inputs 6 … 10, of which 7 … 10 are made
    again = [(3, 1), (3, 1), (3, 1), (3, 1), (3, 1)]
    assert list(map(tuple, calls)) == forced + strict + again


@pytest.mark.parametrize("kind", PRESETS)
def test_the_original_metric_is_generated_apart_to_the_same_counts(kind):
    model, task = build(configuration(kind)), Given([[token % 9 for token in row] for row in ROWS], 4, 4, 4)
    batch = task.batch
    right = generate(model, batch.tokens, batch.loss_mask, 2, true_borders=True) == batch.targets
    assert evaluate(model, task, 2)["original_accuracy"] == float(right[batch.answer].double().mean())
    right = generate(model, batch.tokens, batch.loss_mask, 2) == batch.targets
    assert evaluate(model, task, 2)["accuracy"] == float(right[batch.answer].double().mean())


def test_in_mixed_precision_metrics_are_those_of_float32_to_rounding():
    model, task = build(configuration("rmt")).float(), Given([[t % 9 for t in row] for row in ROWS], 4, 4, 4)
    exact, mixed = (evaluate(model, task, 2, precision=name) for name in ("32-true", "bf16-mixed"))
    assert mixed["loss"] == pytest.approx(exact["loss"], rel=0.05)
    assert mixed["loss"] != exact["loss"]
    assert list(mixed) == list(exact)


def test_metrics_do_not_depend_on_the_batch():
    expected = measure(batch=500)
    for batch in (1, 3, 4):
        assert measure(batch=batch) == pytest.approx(expected)


def test_the_first_samples_of_a_split_are_measured():
    assert measure(samples=1)["accuracy"] == 1.0
    assert measure(samples=2)["accuracy"] == 5 / 8
    assert measure(samples=2)["samples"] == 2


def test_progress_is_told_sequence_by_sequence():
    told = []
    task = Given(ROWS, 4, 4, 4)
    evaluate(Counter(), task, 5, batch=3, progress=lambda done, total: told.append((done, total)))
    assert told == [(0, 4), (3, 4), (4, 4)]


@pytest.mark.parametrize("training", [False, True], ids=["evaluating", "training"])
def test_a_model_is_measured_without_dropout_and_left_in_the_mode_it_was_in(training):
    model = build(configuration("rmt", dropout=0.5)).train(training)
    task = Given([[row[0] % 9, *row[1:]] for row in ROWS], 4, 4, 4)
    first, second = (evaluate(model, task, 2) for _ in range(2))
    assert first == second
    assert model.training is training


@pytest.mark.parametrize("kind", PRESETS)
def test_real_models_are_measured_by_the_same_arithmetic(kind):
    model, task = build(configuration(kind)), Given(ROWS, 4, 4, 4)
    state, right, losses = model.initial_state(4), [], []
    for tokens, targets in zip(
        task.batch.tokens.split(2, dim=1), task.batch.targets.split(2, dim=1), strict=True
    ):
        output = model(tokens, state)
        state = output.state
        right.append(output.logits.argmax(-1) == targets)
        losses.append(-output.logits.log_softmax(-1).gather(-1, targets[..., None])[..., 0])
    metrics = evaluate(model, task, 2)
    assert metrics["teacher_forced_accuracy"] == float(torch.cat(right, dim=1)[:, 1:].double().mean())
    assert metrics["loss"] == pytest.approx(float(torch.cat(losses, dim=1)[:, 1:].detach().mean()), rel=1e-9)


def measure(
    under_loss: int = 4,
    answer: int = 4,
    original: int | None = None,
    length: int = 5,
    exact: bool = False,
    **options: int,
) -> dict[str, float]:
    task = Given(ROWS, under_loss, answer, answer if original is None else original, exact)
    return evaluate(Counter(), task, length, **options)
