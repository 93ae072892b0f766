"""Results of fine-tuning as rows: seeds of one setting share a row, whatever release they are of."""

import json
from pathlib import Path

from rmt.documents.report import HEADINGS, documents_table

RESULTS = Path(__file__).parents[2] / "results" / "hyperpartisan.jsonl"
FORMER = json.loads(RESULTS.read_text().splitlines()[0])


def with_settings(**settings):
    return {**FORMER, "config": {**FORMER["config"], **settings}}


def test_a_run_from_before_there_was_a_cache_is_a_seed_of_those_without_one():
    now = with_settings(cache=0, sink=None, seed=7)
    (row,) = documents_table([FORMER, now])
    shown = dict(zip(HEADINGS, row, strict=True))
    assert (shown["seeds"], shown["memory"]) == ("2", "0")


def test_a_cache_has_a_row_of_its_own():
    rows = documents_table([FORMER, with_settings(cache=64, sink=None)])
    assert [row[HEADINGS.index("memory")] for row in rows] == ["0", "0, cache 64"]
