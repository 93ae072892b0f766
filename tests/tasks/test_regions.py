"""A split is a region of example space."""

import numpy as np
import pytest

from rmt.errors import ConfigError
from rmt.tasks.regions import Region, hash_rows, region

SIZES = {"train": 100_000, "valid": 5_000, "test": 10_000}


def rows(count: int = 20_000, length: int = 6) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 12, (count, length))


def test_regions_are_as_large_as_the_splits_reduced_by_their_common_divisor():
    assert [region(SIZES, name) for name in SIZES] == [
        Region("train", 0, 20, 23),
        Region("valid", 20, 21, 23),
        Region("test", 21, 23, 23),
    ]


def test_every_example_lies_in_exactly_one_region():
    hashes = hash_rows(rows())
    homes = sum(region(SIZES, name).holds(hashes).astype(int) for name in SIZES)
    assert (homes == 1).all()


@pytest.mark.parametrize("name", SIZES)
def test_a_region_holds_its_share_of_example_space(name):
    home = region(SIZES, name)
    assert home.holds(hash_rows(rows())).mean() == pytest.approx(home.share, abs=0.01)


def test_different_rows_have_different_hashes():
    different = np.unique(rows(), axis=0)
    assert len(np.unique(hash_rows(different))) == len(different)


def test_a_hash_depends_on_the_order_of_the_tokens():
    first, second = hash_rows(np.array([[1, 2, 3], [3, 2, 1]]))
    assert first != second


def test_a_hash_does_not_depend_on_the_integer_type_or_memory_layout():
    tokens = rows(50)
    assert (hash_rows(tokens) == hash_rows(np.asfortranarray(tokens.astype(np.uint8)))).all()


def test_hashes_never_change_between_releases():
    hashes = hash_rows(np.array([[0, 0, 0], [1, 2, 3]]))
    assert hashes.tolist() == [0, 12661825953583582225]


def test_an_unknown_split_is_an_error_that_names_the_nearest():
    with pytest.raises(ConfigError, match="unknown split 'vaild'; did you mean 'valid'"):
        region(SIZES, "vaild")
