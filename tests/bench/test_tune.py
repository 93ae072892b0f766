"""Tuning on a made kernel and a made clock: the fastest right candidate wins, the table is left as it was."""

import pytest
import torch

from rmt.bench.measure import Spread
from rmt.bench.tune import Trial, TunedKernel, best, combinations, cuda_times, replaced, trials
from rmt.errors import RMTError

SECONDS = {32: 3e-6, 64: 1e-6, 128: 2e-6}  # of a call, by rows of its tile


class MadeKernel:
    """A kernel that takes its rows from a table; some of them it cannot do, some it does wrongly."""

    def __init__(self, table, wrong=(), impossible=()):
        self.table, self.wrong, self.impossible = table, wrong, impossible
        self.seen = []

    def __call__(self) -> torch.Tensor:
        rows = self.table["rotate"]["rows"]
        self.seen.append(rows)
        if rows in self.impossible:
            raise RuntimeError("out of resource: shared memory\nRequired: 300000")
        return torch.ones(4) * (2.0 if rows in self.wrong else 1.0)

    def times(self, run) -> list[float]:
        run()
        seconds = SECONDS[self.table["rotate"]["rows"]]
        return [seconds, 2 * seconds, seconds, seconds, 0.5 * seconds]


def tuned(**faults) -> tuple[list[Trial], dict, MadeKernel]:
    table = {"rotate": {"rows": 32, "warps": 4}, "aligned": {"rows": 8}}
    kernel = MadeKernel(table, **faults)
    described = TunedKernel("rotate", [{"rows": rows} for rows in (32, 64, 128)], kernel)
    return list(trials(described, table, kernel.times)), table, kernel


def test_every_candidate_is_timed_once_and_the_present_one_first():
    tried, _, _ = tuned()
    assert [trial.constants for trial in tried] == [{"rows": rows, "warps": 4} for rows in (32, 64, 128)]
    assert [trial.current for trial in tried] == [True, False, False]
    assert tried[1].time == Spread(1e-6, 0.5e-6, 2e-6)


def test_the_fastest_by_median_is_the_best():
    tried, _, _ = tuned()
    assert best(tried).constants["rows"] == 64


def test_a_candidate_that_the_card_cannot_do_is_a_line_and_not_the_end():
    tried, _, _ = tuned(impossible=(64,))
    assert tried[1].time is None
    assert tried[1].failure == "out of resource: shared memory"
    assert best(tried).constants["rows"] == 128


def test_a_candidate_that_computes_something_else_never_wins():
    tried, _, _ = tuned(wrong=(64,))
    assert tried[1].failure.startswith("another result")
    assert best(tried).constants["rows"] == 128


def test_the_table_is_as_before_whatever_happened():
    _, table, _ = tuned(impossible=(64,))
    assert table == {"rotate": {"rows": 32, "warps": 4}, "aligned": {"rows": 8}}
    with pytest.raises(KeyboardInterrupt), replaced(table, "aligned", {"rows": 1}):
        raise KeyboardInterrupt
    assert table["aligned"] == {"rows": 8}


def test_present_constants_that_do_not_work_are_an_error():
    with pytest.raises(RuntimeError, match="out of resource"):
        tuned(impossible=(32,))


def test_present_constants_stay_where_nothing_is_faster():
    same = Spread(1e-6, 1e-6, 1e-6)
    tried = [Trial({"rows": 64}, same), Trial({"rows": 32}, same, current=True)]
    assert best(tried).constants == {"rows": 32}


def test_without_any_time_there_is_no_best():
    with pytest.raises(RMTError, match="no candidate could be timed"):
        best([Trial({"rows": 1}, None, "failed")])


def test_combinations_are_all_there_are():
    assert combinations(rows=(16, 32), warps=(4, 8)) == [
        {"rows": 16, "warps": 4},
        {"rows": 16, "warps": 8},
        {"rows": 32, "warps": 4},
        {"rows": 32, "warps": 8},
    ]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_on_a_gpu_a_larger_product_takes_longer():
    small, large = (torch.randn(size, size, device="cuda") for size in (256, 4096))
    assert max(cuda_times(lambda: small @ small)) < min(cuda_times(lambda: large @ large))
