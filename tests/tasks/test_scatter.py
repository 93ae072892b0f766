"""Stories scattered many at a time are the examples that are read piece by piece."""

import numpy as np
import pytest

from rmt.tasks.babi import Story
from rmt.tasks.scatter import PIECE, Scattered, Sheet, excerpts

LENGTH = 40


def story(generator: np.random.Generator, facts: int) -> Story:
    sizes = generator.integers(1, 5, size=facts)
    return Story([generator.integers(100, 200, size=size) for size in sizes], np.arange(200, 203), 300, 0)


def test_many_at_once_are_written_as_one_by_one():
    generator = np.random.default_rng(0)
    stories = [story(generator, facts) for facts in (3, 1, 5, 9)]
    novel = np.arange(100)
    chosen, starts = generator.integers(4, size=50), generator.integers(100, size=50)
    shares = generator.random((50, 9))
    shares[:3] = [[0.0] * 9, [1 - 1e-16] * 9, [0.5] * 9]  # before everything, behind it, all at one place
    rows = Sheet(stories, LENGTH).scatter(chosen, shares, excerpts(novel, starts, LENGTH + 1))
    for row, number, start, share in zip(rows, chosen, starts, shares, strict=True):
        one = stories[number]
        noise = LENGTH - sum(map(len, one.facts)) - 3
        places = np.floor(np.sort(share[: len(one.facts)]) * (noise + 1)).astype(np.int64)
        assert row.tolist() == Scattered(one, novel, start, places, noise).row().tolist()


def test_a_story_that_just_fits_has_no_noise():
    one = story(np.random.default_rng(0), 3)
    length = sum(map(len, one.facts)) + 3
    rows = Sheet([one], length).scatter(
        np.zeros(2, int), np.random.rand(2, 3), np.zeros((2, length + 1), int)
    )
    assert rows.tolist() == [[*np.concatenate(one.facts), 200, 201, 202, 300]] * 2


@pytest.mark.parametrize("count", [5, 25], ids=["within", "more than once through"])
def test_a_novel_starts_again_behind_its_end(count):
    found = excerpts(np.arange(10, dtype=np.uint16), np.array([0, 8]), count)
    assert found.dtype == np.int64
    assert found.tolist() == [[(start + step) % 10 for step in range(count)] for start in (0, 8)]


def test_pieces_of_a_long_novel_are_the_novel_in_order():
    one = Scattered(Story([], np.array([7]), 8, 0), np.arange(1000), 999, np.array([], int), 2 * PIECE + 5)
    pieces = list(one.pieces())
    assert max(map(len, pieces)) == PIECE
    assert np.concatenate(pieces).tolist() == [*((np.arange(2 * PIECE + 5) + 999) % 1000), 7]
