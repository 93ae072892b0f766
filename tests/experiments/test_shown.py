"""Whatever a result.json holds, tables show it or one line says what is wrong with it."""

import json
import shutil
from itertools import cycle
from pathlib import Path

import pytest

from rmt.seal import sealed
from tests.cli.command import rmt
from tests.covering import in_turns
from tests.documents.made_results import LANGUAGE, REGRESSION

RUN = Path(__file__).parents[1] / "release" / "17fc2a8" / "copy-rmt"
TEXT = RUN.with_name("text-rmt")
DOCUMENTS = Path(__file__).parents[2] / "results" / "hyperpartisan.jsonl"
ODD = [None, True, "x", [1], {"a": 1}, 10**400, float("nan")]
RESULTS = {
    "sequences": json.loads((RUN / "result.json").read_text()),
    "text": json.loads((TEXT / "result.json").read_text()),
    "documents": json.loads(DOCUMENTS.read_text().splitlines()[0]),
    "language": LANGUAGE,
    "regression": REGRESSION,
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    shutil.copytree(RUN, tmp_path / "runs" / "run")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "runs" / "run"


def check(capsys, folder, content):
    """All commands that look at results end, with at most a line and no traceback."""
    (folder / "result.json").write_bytes(content)
    answers = [rmt(capsys, command) for command in ("runs runs --sort value", "report runs")]
    for answer in answers:
        assert answer.code in (0, 2)
        assert answer.err.count("\n") <= 1
    return answers


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"3", b"null", b"\xff\xfe", b"{}", b"[" * 99_999])
def test_what_is_no_result_is_one_line(capsys, folder, content):
    listed, reported = check(capsys, folder, content)
    assert "run' is passed over: " in listed.err
    assert "result.json' is damaged (" in listed.err
    assert reported.code == 2


@pytest.mark.parametrize("turn", in_turns(ODD))
@pytest.mark.parametrize("kind", RESULTS)
def test_odd_values_of_any_field_are_no_traceback(capsys, folder, kind, turn):
    result, values = RESULTS[kind], cycle(turn)
    for name in result:
        check(capsys, folder, json.dumps({**result, name: next(values)}).encode())
    for name in result["metrics"]:
        metrics = {**result["metrics"], name: next(values)}
        check(capsys, folder, json.dumps({**result, "metrics": metrics}).encode())


@pytest.mark.parametrize("kind", RESULTS)
def test_missing_fields_are_no_traceback(capsys, folder, kind):
    result = RESULTS[kind]
    for group in ("config", "metrics"):
        for name in result[group]:
            rest = {key: value for key, value in result[group].items() if key != name}
            check(capsys, folder, json.dumps({**result, group: rest}).encode())
    for name in result:
        check(capsys, folder, json.dumps({key: result[key] for key in result if key != name}).encode())


def test_a_changed_number_is_seen_where_the_result_has_a_checksum(capsys, folder):
    text = json.dumps(sealed(RESULTS["sequences"]))
    assert check(capsys, folder, text.encode())[1].code == 0
    listed, reported = check(capsys, folder, text.replace('"value": 0.0', '"value": 0.9').encode())
    assert "does not match its sha256" in listed.err
    assert reported.code == 2
