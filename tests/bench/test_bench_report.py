"""The page: dated, with hardware and versions, a table of known columns, the numbers and a picture."""

import datetime
import json

import pytest

from rmt.bench.growth import Point
from rmt.bench.measure import Row, Spread
from rmt.bench.report import (
    COLUMNS,
    COMPARED_COLUMNS,
    Page,
    cells,
    draw_growth,
    draw_rows,
    sentences_about,
    write_growth,
    write_rows,
)
from rmt.errors import ConfigError

ROWS = [
    Row("copy", "eager", Spread(0.1, 0.09, 0.2), 1000, 2e12, 8e13, 3 * 2**30, 3857),
    Row("copy", "fast", Spread(0.01, 0.01, 0.01), 1000, 2e12, 8e14, None),
]
XL = Row("xl", "fast", Spread(0.03, 0.03, 0.03), 1000, 4e12, 8e14, segments=3, beside=("copy",))
START = Row("start-copy", "first update, cold", Spread(4.0, 3.5, 5.0))
POINTS = [
    Point(segments, "eager", recomputed, Spread(segments / 100, 0.0, 1.0), 2**30 + each * segments * 2**20)
    for recomputed, each in ((False, 50), (True, 2))
    for segments in (1, 2, 4)
]


@pytest.fixture
def page(tmp_path):
    environment = {"device": "NVIDIA H200", "torch": "2.11.0", "commit": "abc"}
    notes, settings = ["copy: what it is"], {"copy": {"task": {"name": "copy"}}}
    return Page(tmp_path / "out", "mine", "rmt bench copy", environment, notes, settings)


def test_a_page_is_dated_and_names_hardware_versions_and_command(page):
    path = write_rows(page, ROWS)
    today = datetime.date.today().isoformat()
    assert path.name == f"{today}-bench-mine.md"
    text = path.read_text()
    for words in (today, "device NVIDIA H200", "torch 2.11.0", "commit abc", "rmt bench copy", "what it is"):
        assert words in text
    numbers = json.loads(path.with_suffix(".json").read_text())
    assert [row["kernels"] for row in numbers["rows"]] == [3857, None]


def test_a_result_file_has_all_that_makes_a_number_one(page):
    numbers = json.loads(write_rows(page, [*ROWS, XL]).with_suffix(".json").read_text())
    assert numbers["date"] == datetime.date.today().isoformat()
    assert numbers["environment"] == dict(page.environment)
    assert numbers["command"] == "rmt bench copy"
    assert numbers["configurations"] == {"copy": {"task": {"name": "copy"}}}
    assert numbers["rows"][0]["step"] == {"median": 0.1, "low": 0.09, "high": 0.2}  # seconds
    assert numbers["rows"][0]["tokens_per_second"] == 10_000
    assert [pair["beside"] for pair in numbers["comparisons"]] == ["copy"]


def test_a_configuration_is_compared_in_a_table_below(page):
    assert "beside" not in write_rows(page, ROWS).read_text()
    text = write_rows(page, [*ROWS, XL]).read_text()
    below = text.split("\n\n")[-2].splitlines()
    assert below[0] == f"| {' | '.join(COMPARED_COLUMNS)} |"
    assert below[2:] == ["| xl | fast | copy | 3.000 × | 2.000 × | 1.500 × | 3.000 × |"]


def test_what_a_row_has_not_is_a_dash():
    row = dict(zip(COLUMNS, cells(START), strict=True))
    assert row["ms per step"] == "4000.00"
    assert {name for name, cell in row.items() if cell == "–"} == {
        "tokens/s",
        "peak GiB",
        "TFLOP/s",
        "product TFLOP/s",
        "utilisation",
        "kernels",
    }


def test_the_table_has_a_cell_for_every_column(page):
    lines = [line for line in write_rows(page, ROWS).read_text().splitlines() if line.startswith("|")]
    assert lines[0] == f"| {' | '.join(COLUMNS)} |"
    assert {line.count("|") for line in lines} == {len(COLUMNS) + 1}
    first = dict(zip(COLUMNS, cells(ROWS[0]), strict=True))
    assert first["ms per step"] == "100.00"
    assert first["spread"] == "90.00 to 200.00"
    assert first["tokens/s"] == "10,000"
    assert first["peak GiB"] == "3.00"
    assert first["TFLOP/s"] == "20"
    assert first["utilisation"] == "25.0 %"
    assert first["kernels"] == "3,857"
    assert cells(ROWS[1])[-1] == "–"


def test_growth_says_what_a_further_segment_costs(page):
    border, plain, recomputed = sentences_about(POINTS, 2**19)
    assert "0.500 MiB" in border
    assert "0.00 ms + 10.00 ms per segment; no point is further than 0 %" in plain.replace("-0.00", "0.00")
    assert plain.endswith("adds 50.0 MiB.")
    assert recomputed.startswith("eager, recomputed")
    assert recomputed.endswith("adds 2.0 MiB.")
    assert plain in write_growth(page, POINTS, 2**19).read_text()


def test_one_point_has_no_line():
    assert len(sentences_about(POINTS[:1], 1)) == 1


def test_pictures_are_drawn(tmp_path):
    draw_rows(ROWS, tmp_path / "rows.png")
    recorded = [point._replace(way="recorded") for point in POINTS]
    draw_growth([*POINTS, *recorded], tmp_path / "growth.png")
    for name in ("rows.png", "growth.png"):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")


def test_a_folder_that_cannot_be_written_is_one_line(page, tmp_path):
    (tmp_path / "out").write_text("a file")
    with pytest.raises(ConfigError, match=r"out='.*out' cannot be written \(.*\); name another with --out"):
        write_rows(page, ROWS)
