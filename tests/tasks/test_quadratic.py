"""Quadratic equations, checked by an independent reading of the text."""

import re
from itertools import chain, combinations_with_replacement

import numpy as np
import pytest
import torch

from rmt.tasks.quadratic import CHARACTERS, Quadratic, Steps, draw_coefficients, encode, solve
from rmt.tasks.regions import hash_rows

NUMBER = r"(-?\d+)"
EQUATION = re.compile(r"(-?|-?\d+\*)x\^2(?:([+-](?:\d+\*)?)x)?([+-]\d+)?=0")
UNITS = {"": 1, "+": 1, "-": -1}
DISCRIMINANT = re.compile(rf"D=(\d+)\^2-4\*1\*{NUMBER}={NUMBER}(?:=(\d+)\^2)?")
ROOT = re.compile(rf"x=\({NUMBER}([+-])(\d+)\)/2={NUMBER}")


@pytest.fixture(scope="module")
def examples():
    return Quadratic().draw(np.random.default_rng(0), 5000)


@pytest.fixture(scope="module")
def rows(examples):
    """The six slots of each example as text."""
    slots = examples.tokens.reshape(-1, 6, 30).tolist()
    return [["".join(CHARACTERS[token] for token in slot).rstrip() for slot in row] for row in slots]


def coefficients(text: str) -> tuple[int, int, int]:
    leading, b, c = (group and group.rstrip("*") for group in EQUATION.fullmatch(text).groups())
    return (
        UNITS[leading] if leading in UNITS else int(leading),
        0 if b is None else UNITS[b] if b in UNITS else int(b),
        int(c or 0),
    )


def test_the_worked_example_with_roots():
    assert solve(2, -28, -704) == (
        "2*x^2-56*x-1408=0",
        "x^2-28*x-704=0",
        "D=28^2-4*1*-704=3600=60^2",
        "x=(28-60)/2=-16",
        "x=(28+60)/2=44",
        "-16,44",
    )


def test_the_example_of_the_papers_appendix():
    assert solve(-4, -98, 552) == (
        "-4*x^2+392*x-2208=0",
        "x^2-98*x+552=0",
        "D=98^2-4*1*552=7396=86^2",
        "x=(98-86)/2=6",
        "x=(98+86)/2=92",
        "6,92",
    )


def test_the_worked_example_without_roots():
    assert solve(-3, 101, 5512) == (
        "-3*x^2-303*x-16536=0",
        "x^2+101*x+5512=0",
        "D=101^2-4*1*5512=-11847",
        "",
        "",
        "",
    )


def test_a_double_root_is_one_answer():
    assert solve(1, -6, 9)[2:] == ("D=6^2-4*1*9=0=0^2", "x=(6-0)/2=3", "x=(6+0)/2=3", "3")


@pytest.mark.parametrize(
    ("factor", "b", "c", "text"),
    [
        (1, 0, -4, "x^2-4=0"),
        (-1, 1, 0, "-x^2-x=0"),
        (1, 1, -2, "x^2+x-2=0"),
        (5, 0, 0, "5*x^2=0"),
        (1, 2, 1, "x^2+2*x+1=0"),
        (-1, -2, 1, "-x^2+2*x-1=0"),
        (10, 1, 0, "10*x^2+10*x=0"),
    ],
)
def test_a_term_of_coefficient_zero_is_left_out_and_one_is_a_sign_alone(factor, b, c, text):
    assert solve(factor, b, c).equation == text


@pytest.mark.parametrize(
    ("factor", "b", "c", "canonical", "discriminant"),
    [
        (2, 1, 0, "x^2+x=0", "D=1^2-4*1*0=1=1^2"),
        (3, 0, -4, "x^2-4=0", "D=0^2-4*1*-4=16=4^2"),
        (-3, 0, 1, "x^2+1=0", "D=0^2-4*1*1=-4"),
    ],
)
def test_the_canonical_form_leaves_out_the_same_but_the_discriminant_writes_every_number(
    factor, b, c, canonical, discriminant
):
    steps = solve(factor, b, c)
    assert (steps.canonical, steps.discriminant) == (canonical, discriminant)


def test_characters_have_the_ids_of_the_original_data():
    text = "0123456789+-*/^=()xD;,"
    assert encode([Steps(text, "", "")])[0, :30].tolist() == [*range(2, 24), *[0] * 8]


def test_the_equation_is_a_multiple_of_the_canonical_form(rows):
    for equation, canonical, *_ in rows:
        factor, b, c = coefficients(equation)
        assert coefficients(canonical) == (1, b // factor, c // factor)
        assert (b % factor, c % factor, 1 <= abs(factor) <= 10) == (0, 0, True)


def test_the_discriminant_is_calculated_from_the_canonical_form(rows):
    for _, canonical, calculation, *_ in rows:
        _, b, c = coefficients(canonical)
        written_b, written_c, value, root = DISCRIMINANT.fullmatch(calculation).groups()
        assert (int(written_b), int(written_c), int(value)) == (abs(b), c, b**2 - 4 * c)
        assert (root is None) == (int(value) < 0)
        assert root is None or int(root) ** 2 == int(value)


def test_roots_are_calculated_from_the_discriminant_and_solve_the_equation(rows):
    for _, canonical, calculation, *solutions, _ in rows:
        _, b, c = coefficients(canonical)
        root = DISCRIMINANT.fullmatch(calculation)[4]
        for text, sign in zip(solutions, "-+", strict=True):
            assert (text == "") == (root is None)
            if text:
                minus_b, written_sign, written_root, x = ROOT.fullmatch(text).groups()
                assert (int(minus_b), written_sign, written_root) == (-b, sign, root)
                assert int(x) ** 2 + b * int(x) + c == 0


def test_the_answer_is_the_sorted_different_roots(rows):
    for *_, first, second, answer in rows:
        roots = {int(text.rpartition("=")[2]) for text in (first, second) if text}
        assert answer == ",".join(map(str, sorted(roots)))


def test_a_fifth_of_the_equations_has_no_roots():
    _, b, c = draw_coefficients(np.random.default_rng(0), 100_000).T
    assert (b**2 < 4 * c).mean() == pytest.approx(0.2, abs=0.005)


def test_equations_without_roots_have_no_negative_b():
    _, b, c = draw_coefficients(np.random.default_rng(0), 100_000).T
    rootless = b**2 < 4 * c
    assert (b[rootless].min(), b[rootless].max(), c[rootless].max() < 10_000) == (0, 199, True)


def test_factors_are_one_to_ten_of_either_sign():
    factor, _, _ = draw_coefficients(np.random.default_rng(0), 10_000).T
    assert set(factor.tolist()) == {*range(-10, 0), *range(1, 11)}


def test_every_possible_step_fits_its_slot():
    pairs = combinations_with_replacement(range(-99, 100), 2)
    with_roots = (solve(-10, -(first + second), first * second) for first, second in pairs)
    without = (solve(-10, b, c) for b in range(200) for c in (b * b // 4 + 1, 9999))
    assert max(len(step) for steps in chain(with_roots, without) for step in steps) <= 30


def test_targets_follow_the_tokens_and_end_with_padding(examples):
    assert (examples.targets[:, :-1] == examples.tokens[:, 1:]).all()
    assert not examples.targets[:, 179].any()


def test_the_loss_covers_exactly_the_characters_of_the_five_solution_slots(examples):
    under_loss = examples.targets[examples.loss_mask].reshape(-1, 150)
    assert (under_loss == examples.tokens[:, 30:]).all()
    assert np.flatnonzero(examples.loss_mask[0]).tolist() == list(range(29, 179))


def test_the_answer_is_exactly_the_last_slot(examples):
    answers = examples.targets[examples.answer].reshape(-1, 30)
    assert (answers == examples.tokens[:, 150:]).all()
    assert np.flatnonzero(examples.answer[0]).tolist() == list(range(149, 179))


def test_the_original_metric_counts_the_last_thirty_targets_as_far_as_they_are_trained():
    task = Quadratic()
    window = task.original_answer(task.fresh(2, index=0, seed=0))
    assert [torch.nonzero(row).ravel().tolist() for row in window] == [list(range(150, 179))] * 2
    assert task.original_exact


def test_what_nothing_trains_cannot_make_an_answer_wrong_by_the_original_metric():
    task = Quadratic()
    batch = task.fresh(8, index=0, seed=0)
    assert not (task.original_answer(batch) & ~batch.loss_mask).any()


def test_the_task_has_the_sizes_of_the_original_data():
    task = Quadratic()
    assert (task.vocabulary, task.total_length) == (24, 180)
    assert task.sizes == {"train": 100_000, "valid": 10_000, "test": 20_000}


def test_a_split_holds_every_equation_once():
    tokens = Quadratic().split("train", 10_000).tokens.numpy()
    assert len(np.unique(hash_rows(tokens))) == len(tokens) == 10_000


@pytest.mark.parametrize("split", ["train", "valid", "test"])
def test_every_part_of_a_split_has_the_splits_share_of_equations_without_roots(split):
    batch = Quadratic().split(split)
    rootless = (batch.tokens[:, 150] == 0).double()  # their answer is empty
    for part in rootless.chunk(5):
        deviation = (rootless.mean() * (1 - rootless.mean()) / len(part)).sqrt()
        assert abs(part.mean() - rootless.mean()) < 3 * deviation


def test_rendering_joins_the_steps_and_leaves_out_empty_ones_at_the_end():
    with_roots, without = solve(1, 0, -4), solve(1, 0, 4)
    assert Quadratic().render(encode([with_roots])[0]) == "; ".join(with_roots)
    assert Quadratic().render(encode([without])[0]) == "x^2+4=0; x^2+4=0; D=0^2-4*1*4=-16"


def test_the_data_are_version_two():
    assert Quadratic().version == 2
