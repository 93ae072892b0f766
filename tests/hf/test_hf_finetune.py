"""`rmt finetune`, `rmt predict` and `rmt info`, called as a user calls them, with a tiny backbone."""

import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import yaml

from rmt.hf import add_memory
from tests.cli.command import rmt, varied
from tests.covering import quick
from tests.hf.tokens import tokenizer
from tests.hf.zoo import plain

ROOT = Path(__file__).parents[2]
TINY = "--segments 3 --memory 2 --segment_length 8 --epochs 2 --batch 8 --at_once 4 --lr 1e-2 --device cpu"
TEMPLATES = {"bert": "[CLS] $A [SEP]", "t5": "$A [SEP]", "gpt2": "$A"}
HEADS = {"bert": "Model", "gpt2": "Model", "t5": "ForConditionalGeneration"}


@pytest.fixture(autouse=True)
def empty_folder(tmp_path, monkeypatch):
    torch.set_default_dtype(torch.float32)
    monkeypatch.chdir(tmp_path)


def backbone(name="bert"):
    """A folder with a tiny model and its tokenizer."""
    plain(name, HEADS[name], vocab_size=len(tokenizer())).float().save_pretrained(name)
    tokenizer(template=TEMPLATES[name]).save_pretrained(name)
    return name


def documents(count=40, words=20, seed=0):
    """Texts whose first word is their label."""
    draw = random.Random(seed)
    for number in range(count):
        label = ("false", "true")[number % 2]
        rest = draw.choices(["the", "film", "was", "and", "very", "dull"], k=draw.randint(4, words))
        yield {"text": f"{'good' if label == 'true' else 'bad'} {' '.join(rest)}", "label": label}


def write(name, rows):
    Path(name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    return name


def test_a_run_leaves_a_folder_that_predicts(capsys):
    command = f"finetune {write('data.jsonl', documents())} --backbone {backbone()} {TINY} --out run"
    code, out, err = rmt(capsys, command)
    assert (code, err) == (0, "")
    assert "test: 4 documents, taken from the training documents" in out
    assert "seed 0  step 4  loss" in out
    assert sorted(file.name for file in Path("run").iterdir()) == [
        "config.yaml",
        "metrics.jsonl",
        "model",
        "result.json",
    ]
    result = json.loads(Path("run/result.json").read_text())
    needed = (
        "task model recipe metric value split seed steps seconds samples config environment metrics labels"
    )
    assert set(needed.split()) <= result.keys()
    assert result["labels"] == ["false", "true"]
    assert {"accuracy", "f1"} == result["metrics"]["test"].keys()

    again = rmt(capsys, command)
    assert again.code == 0
    assert "already finished: run" in again.out
    other = rmt(capsys, command.replace("--memory 2", "--memory 3"))
    assert other.code == 2
    assert "holds a run with memory=2, not 3" in other.err

    listed = json.loads(rmt(capsys, "runs . --json").out)
    assert (listed["task"], listed["model"], listed["recipe"]) == ("data.jsonl", "bert", "finetune")
    assert listed["value"] == result["value"]

    Path("one.txt").write_text("good film " * 50)
    predicted = rmt(capsys, "predict run one.txt data.jsonl --device cpu")
    assert predicted.code == 0
    assert "1 documents are longer than 3 segments of 8 tokens: 76 tokens are not read" in predicted.err
    rows = [line.split("\t") for line in predicted.out.splitlines()]
    assert [row[0] for row in rows][:2] == ["one.txt", "data.jsonl:1"]
    assert {row[1] for row in rows} <= {"true", "false"}
    assert all(0.5 <= float(row[2]) <= 1 for row in rows)
    printed = rmt(capsys, "predict run one.txt --json --device cpu").out
    assert json.loads(printed)["label"] == rows[0][1]


def unformatted(config):
    """config.yaml as it was before it had a format and a checksum."""
    return "".join(line for line in config.splitlines(True) if not line.startswith(("format:", "sha256:")))


def test_a_run_of_release_17fc2a8_is_known_by_its_old_names(capsys):
    command = f"finetune {write('data.jsonl', documents())} --backbone {backbone()} {TINY} --out run --quiet"
    assert rmt(capsys, f"{command} --precision 32-true --memory_lr 2").code == 0
    old = Path("run/config.yaml").read_text()
    names = {"lr": "rate", "memory_lr": "memory_rate", "weight_decay": "decay", "memory_scale": "scale"}
    for name, former in names.items():
        assert f"\n{name}: " in old
        old = old.replace(f"\n{name}: ", f"\n{former}: ")
    Path("run/config.yaml").write_text(unformatted(old.replace("precision: 32-true", "precision: float32")))
    same = rmt(capsys, f"{command} --precision 32-true --memory_lr 2")
    assert (same.code, same.out.splitlines()[0]) == (0, "already finished: run")
    other = rmt(capsys, f"{command} --precision 32-true --memory_lr 3")
    assert "holds a run with memory_lr=2.0, not 3.0" in other.err
    assert json.loads(rmt(capsys, "runs . --json").out)["recipe"] == "finetune"


def test_double_precision_trains_in_double_precision(capsys):
    data = write("data.jsonl", documents())
    command = f"finetune {data} --backbone {backbone()} {TINY} --epochs 1 --precision 64-true --out run"
    assert rmt(capsys, command).code == 0
    Path("letter.txt").write_text("good film was dull")
    assert rmt(capsys, "predict run letter.txt --device cpu").code == 0


def stored(run="run"):
    """The number format in the folder of a run, and in its result."""
    result = json.loads(Path(run, "result.json").read_text())
    return yaml.safe_load(Path(run, "config.yaml").read_text())["precision"], result["config"]["precision"]


@pytest.mark.parametrize(
    "first", quick({name: name for name in ("auto", "bf16-mixed", "64-true")}, "bf16-mixed")
)
def test_auto_goes_on_in_the_number_format_of_the_run(capsys, first):
    data, name = write("data.jsonl", documents()), backbone()
    command = f"finetune {data} --backbone {name} {TINY} --epochs 1 --out run"
    answer = rmt(capsys, f"{command} --precision {first}")
    assert answer.code == 0, answer.err
    precision = "32-true" if first == "auto" else first
    assert f"seed 0  {precision} on the CPU, at most 4 steps" in answer.out.splitlines()
    assert stored() == (precision, precision)
    for asked in ("auto", precision):
        assert "already finished: run" in rmt(capsys, f"{command} --precision {asked}").out.splitlines()
    Path("run/result.json").unlink()
    assert f"seed 0  {precision} on the CPU, at most 4 steps" in rmt(capsys, command).out.splitlines()
    assert stored() == (precision, precision)
    other = "64-true" if first == "bf16-mixed" else "bf16-mixed"
    refused = rmt(capsys, f"{command} --precision {other}")
    assert refused.code == 2
    assert f"holds a run with precision={precision}, not {other}; name another --out" in refused.err
    assert rmt(capsys, f"{command} --precision {other} --restart").code == 0
    assert stored() == (other, other)


def test_a_folder_that_says_auto_is_that_of_its_device(capsys):
    """Earlier releases wrote auto down as it was."""
    command = f"finetune {write('data.jsonl', documents())} --backbone {backbone()} {TINY} --out run --quiet"
    assert rmt(capsys, command).code == 0
    path = Path("run/config.yaml")
    path.write_text(unformatted(path.read_text().replace("precision: 32-true", "precision: auto")))
    for asked in ("auto", "32-true"):
        assert rmt(capsys, f"{command} --precision {asked}").out.startswith("already finished: run")
    assert "precision=32-true, not 64-true" in rmt(capsys, f"{command} --precision 64-true").err


@pytest.mark.parametrize("name", [pytest.param("bert", marks=pytest.mark.slow), "t5"])
def test_labels_are_predicted_in_the_number_format_that_is_asked_for(capsys, name):
    data = write("data.jsonl", documents())
    command = f"finetune {data} --backbone {backbone(name)} {TINY} --precision 64-true --out run"
    assert rmt(capsys, command).code == 0
    Path("letter.txt").write_text("good film was dull")
    scores = {}
    for asked in ("auto", "64-true", "32-true", "bf16-mixed"):
        answer = rmt(capsys, f"predict run letter.txt --device cpu --json --precision {asked}")
        assert answer.code == 0, answer.err
        scores[asked] = json.loads(answer.out)["score"]
    assert scores["auto"] == scores["64-true"] == pytest.approx(scores["32-true"], abs=1e-4)
    assert scores["bf16-mixed"] == pytest.approx(scores["64-true"], abs=0.02)
    assert name == "t5" or scores["bf16-mixed"] != scores["64-true"]


@pytest.mark.slow
def test_memory_learns_a_label_that_only_the_first_segment_says(capsys):
    rows = list(documents(60, words=22))
    command = f"finetune {write('data.jsonl', rows)} --backbone {backbone()} {TINY} --alignment left"
    assert rmt(capsys, f"{command} --epochs 30 --evaluate_every 60 --quiet --out run").code == 0
    assert json.loads(Path("run/result.json").read_text())["metrics"]["valid"]["accuracy"] == 1


@pytest.mark.parametrize("name", ["gpt2", pytest.param("t5", marks=pytest.mark.slow)])
def test_decoders_and_encoder_decoders_classify_too(capsys, name):
    data = write("data.jsonl", documents())
    code, _, err = rmt(capsys, f"finetune {data} --backbone {backbone(name)} {TINY} --out run")
    assert (code, err) == (0, "")
    Path("one.txt").write_text("good film was dull")
    label, score = rmt(capsys, "predict run one.txt --device cpu").out.strip().split("\t")[1:]
    assert 0 <= float(score) <= 1
    assert name == "t5" or label in ("true", "false")


def test_a_generated_text_that_is_no_label_counts_as_wrong():
    from rmt.documents.kinds import TaskSettings
    from rmt.documents.scores import Scoring
    from rmt.documents.tuned import make_tuned

    labels = TaskSettings(labels=["false", "true"], scoring=Scoring("f1", positive=1))
    task = make_tuned(backbone("t5"), None, labels, memory=2, segment_length=8).task
    assert [task.named(text) for text in ("true", " false ", "truth", "")] == [1, 0, -1, -1]
    true, false, other = (task.tokenizer(word).input_ids for word in ("true", "false", "film"))
    labels = torch.tensor([true, false, true, false]).numpy()
    generated = torch.tensor([true, other, other, false]).numpy()
    assert task.score(generated, labels) == {"accuracy": 0.5, "f1": pytest.approx(2 / 3)}


def test_several_seeds_give_a_mean(capsys):
    data = write("data.jsonl", documents())
    code, out, _ = rmt(capsys, f"finetune {data} --backbone {backbone()} {TINY} --seeds 2 --out run --quiet")
    assert code == 0
    assert out.splitlines()[-1].startswith("test: F1 0.")
    assert out.splitlines()[-1].endswith("over 2 seeds")
    table = rmt(capsys, "report run").out.splitlines()
    assert table[0].startswith("| data | backbone | segments | memory | depth | seeds | F1, test")
    assert table[2].startswith("| data.jsonl | bert | 3 | 2 | full | 2 | 0.")
    assert " ± " in table[2]
    assert Path("run/seed-0/result.json").exists()
    assert Path("run/seed-1/result.json").exists()


def test_a_batch_in_parts_is_the_batch(capsys):
    data, name = write("data.jsonl", documents()), backbone()
    losses = []
    for at_once in (2, 8):
        command = (
            f"finetune {data} --backbone {name} {TINY} --epochs 0.5 --at_once {at_once} --out run{at_once}"
        )
        assert rmt(capsys, command).code == 0
        lines = [json.loads(line) for line in Path(f"run{at_once}/metrics.jsonl").read_text().splitlines()]
        losses.append([line["loss"] for line in lines if "rate" in line])
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)


@pytest.mark.slow  # tests/documents and tests/soak kill forks of this process, which is quicker
def test_a_killed_run_goes_on_and_ends_as_an_uninterrupted_one(capsys):
    data, name = write("data.jsonl", documents()), backbone()
    command = f"finetune {data} --backbone {name} {TINY} --epochs 3 --out"
    assert rmt(capsys, f"{command} whole").code == 0
    script = (
        "import os, signal, sys, transformers\n"
        "from rmt.documents import trainer\n"
        "class Kill(trainer.LogCallback):\n"
        "    def on_step_begin(self, args, state, control, **rest):\n"
        "        if state.global_step == 6: os.kill(os.getpid(), signal.SIGKILL)\n"
        "trainer.LogCallback = Kill\n"
        "from rmt.cli.main import main\n"
        f"main({varied(f'{command} killed')!r})\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True)
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()[-2000:]
    assert not Path("killed/result.json").exists()
    code, out, _ = rmt(capsys, f"{command} killed")
    assert code == 0
    assert "going on from step 4" in out
    whole, resumed = (json.loads(Path(run, "result.json").read_text()) for run in ("whole", "killed"))
    assert resumed["metrics"] == whole["metrics"]
    assert resumed["steps"] == whole["steps"]
    lines = [
        [json.loads(line) for line in Path(run, "metrics.jsonl").read_text().splitlines()]
        for run in ("whole", "killed")
    ]
    assert lines[0] == lines[1]


@pytest.mark.parametrize("form", ["csv", "tsv", "json", "folder", "splits", "column"])
def test_every_format_of_documents_is_read(capsys, form):
    import csv

    from rmt.documents.corpus import Columns, load_corpus

    rows = list(documents(30))
    if form in ("csv", "tsv"):
        with Path(f"data.{form}").open("w", newline="") as file:
            table = csv.DictWriter(file, ["text", "label"], delimiter="," if form == "csv" else "\t")
            table.writeheader()
            table.writerows(rows)
    elif form == "json":
        Path("data.json").write_text(json.dumps(rows))
    elif form == "column":
        write("data.column", [])
        named = [
            {**row, "split": ["train", "dev", "test"][number % 3 if number > 9 else 0]}
            for number, row in enumerate(rows)
        ]
        Path("data.column").unlink()
        write("data.jsonl", named)
    elif form == "splits":
        Path("data.splits").mkdir()
        for split, members in (("train", rows[:20]), ("validation", rows[20:25]), ("test", rows[25:])):
            write(f"data.splits/{split}.jsonl", members)
    else:
        for number, row in enumerate(rows):
            place = Path("data.folder", row["label"])
            place.mkdir(parents=True, exist_ok=True)
            (place / f"{number}.txt").write_text(row["text"])
    corpus = load_corpus("data.jsonl" if form == "column" else f"data.{form}", Columns())
    assert corpus.labels == ["false", "true"]
    assert sum(map(len, corpus.splits.values())) == 30
    assert {document.text for members in corpus.splits.values() for document in members} == {
        row["text"] for row in rows
    }
    assert list(corpus.splits) == ["train", "valid", "test"]
    assert bool(corpus.notes) == (form not in ("splits", "column"))


def test_parquet_is_read_or_its_reader_is_named():
    from rmt.documents.corpus import Columns, load_corpus
    from rmt.errors import DataError

    try:
        import pyarrow
        from pyarrow import parquet
    except ModuleNotFoundError:
        Path("data.parquet").write_bytes(b"PAR1")
        with pytest.raises(DataError, match="reading parquet needs pyarrow"):
            load_corpus("data.parquet", Columns())
        return
    parquet.write_table(pyarrow.Table.from_pylist(list(documents(30))), "data.parquet")
    assert sum(map(len, load_corpus("data.parquet", Columns()).splits.values())) == 30


def test_an_automatic_split_is_the_same_each_time_and_keeps_the_classes():
    from rmt.documents.corpus import Columns, load_corpus

    name = write("data.jsonl", documents(100))
    first, second = (load_corpus(name, Columns()).splits for _ in range(2))
    assert first == second
    assert {split: len(members) for split, members in first.items()} == {"train": 80, "valid": 10, "test": 10}
    for members in first.values():
        assert sum(document.label == "true" for document in members) * 2 == len(members)


GOOD = list(documents(20))
BAD = {
    "no column": (
        [{"body": "good film", "label": "a"}],
        "",
        "row 1 has no column 'text'; it has body, label; name it with --text or --label",
    ),
    "no label": ([{"text": "good film"}], "", "row 1 has no column 'label'; it has text"),
    "empty text": ([*GOOD, {"text": "  ", "label": "true"}], "", "row 21 has an empty text; remove it"),
    "one class": (
        [row for row in GOOD if row["label"] == "true"],
        "",
        "all 10 training documents have the label 'true'",
    ),
    "no JSON": (None, "", "line 1 is not JSON"),
    "memory": (
        GOOD,
        "--memory 62",
        "memory=62 leaves no room for text: it takes 65 of the model's 64 positions",
    ),
    "segments": (GOOD, "--segments 0", "segments=0 must be above 0"),
    "no memory": (GOOD, "--memory 0", "segments=3 with memory=0"),
    "overlong": (GOOD, "--segments 1 --overlong error", "documents are longer than 1 segments of 8 tokens"),
    "number": (GOOD, "--lr fast", "lr='fast' is not a number"),
    "layout": (GOOD, "--layout causal", "unknown layout 'causal'; choose from: paper, prefix"),
    "device": (GOOD, "--device tpu", "device='tpu' is not one of: auto, cpu, cuda"),
    "path": (GOOD, "--path here", "path='here' has no effect with a file or folder as DATA"),
    "seeds": (GOOD, "--seeds 0", "seeds=0 must be 1 to 4096"),
    "option": (GOOD, "--segmets 3", "unknown argument '--segmets'; did you mean '--segments'?"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_clear_line(capsys, case):
    rows, more, message = BAD[case]
    data = write("data.jsonl", rows or [])
    if rows is None:
        Path(data).write_text("text,label\n")
    code, _, err = rmt(capsys, f"finetune {data} --backbone {backbone()} {TINY} {more} --out run")
    assert code == 2
    assert message in err
    assert err.count("\n") == 1
    assert "Traceback" not in err
    assert not Path("run").exists()


def test_a_missing_tokenizer_backbone_or_file_is_one_clear_line(capsys):
    data, name = write("data.jsonl", GOOD), backbone()
    Path("latin1.txt").write_bytes("café".encode("latin1"))
    for file in Path(name).glob("tokenizer*"):
        file.unlink()
    for command, message in (
        (f"finetune {data} --backbone {name} {TINY}", "tokenizer='bert' cannot be loaded"),
        (f"finetune {data} --backbone ./nowhere {TINY}", "backbone='./nowhere' cannot be loaded"),
        (f"finetune {data} {TINY}", "backbone is missing: name a pretrained model with --backbone"),
        (f"finetune nothing.csv --backbone {name} {TINY}", "data='nothing.csv' does not exist"),
        (f"finetune --backbone {name} {TINY}", "DATA is missing"),
        (f"finetune hyperpartisan --backbone {name} {TINY}", "hyperpartisan needs --path"),
        (
            f"finetune hyperpartisan --path . --backbone {name} {TINY}",
            "path='.' has no articles-training-byarticle",
        ),
        ("predict nothing one.txt", "file 'one.txt' does not exist"),
        ("predict nothing latin1.txt", "file 'latin1.txt' is not UTF-8 at byte 3; convert it first"),
        (f"predict nothing {data}", "run 'nothing' does not exist; rmt runs lists those that do"),
        ("predict nothing", "FILES are missing"),
        ("info ./nowhere", "backbone='./nowhere' cannot be loaded"),
        (f"info {name} --memory -1", "memory=-1 must be at least 0"),
    ):
        code, _, err = rmt(capsys, command)
        assert code == 2, command
        assert message in err
        assert "Traceback" not in err


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("tokenizer.json", '"unk_token":', '"unk_token": "missing", "before":'),
        ("tokenizer_config.json", "{", '{"made_by": "\\udcff",'),
    ],
    ids=["no-unknown", "half-a-character"],
)
def test_a_tokenizer_that_takes_no_unknown_word_or_cannot_be_saved_is_refused_at_once(capsys, file, old, new):
    data, path = write("data.jsonl", GOOD), Path(backbone(), file)
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    code, _, err = rmt(capsys, f"finetune {data} --backbone bert {TINY} --out run")
    assert (code, err.count("\n")) == (2, 1)
    assert "tokenizer='bert' cannot be loaded" in err
    assert not Path("run").exists()


def rename_in_template(file, part):
    """Let a template of a tokenizer name a token that is not there."""
    content = json.loads(file.read_text())
    piece = next(piece for piece in content["post_processor"][part] if "SpecialToken" in piece)
    piece["SpecialToken"]["id"] = "[XYZ]"
    file.write_text(json.dumps(content))


@pytest.mark.parametrize("part", ["single", "pair"])
def test_a_template_with_a_token_that_the_tokenizer_does_not_have_is_one_line(capfd, part):
    data = write("data.jsonl", documents())
    tune = f"finetune {data} --backbone {backbone()} {TINY} --epochs 1 --quiet --out"
    assert rmt(capfd, f"{tune} run").code == 0
    for folder, command, remedy in (
        ("run/model", f"predict run {data} --device cpu", "copy it from another copy of the run"),
        ("bert", f"{tune} other", "name another with --tokenizer"),
    ):
        rename_in_template(Path(folder, "tokenizer.json"), part)
        reason = "its template in tokenizer.json has '[XYZ]', which is none of its special tokens"
        refusal = f"rmt: tokenizer='{folder}' cannot be loaded ({reason}); {remedy}\n"
        assert rmt(capfd, command) == (2, "", refusal)


def test_what_makes_the_library_of_tokenizers_panic_is_refused_like_any_damage(capsys):
    data, file = write("data.jsonl", documents()), Path(backbone(), "tokenizer.json")
    content = json.loads(file.read_text())
    pairs = {"vocab": {"a": 0, "b": 1, "ab": 2}, "merges": [["a", "b"]], "continuing_subword_prefix": "####"}
    file.write_text(json.dumps({**content, "model": {"type": "BPE", **pairs}}))
    code, _, err = rmt(capsys, f"finetune {data} --backbone bert {TINY} --out run")
    assert (code, err.count("\n")) == (2, 1)
    assert "tokenizer='bert' cannot be loaded (range end index" in err


def test_a_text_of_a_hundred_thousand_tokens_is_learned_from(capsys):
    rows = [*GOOD, {"text": "good film " * 50_000, "label": "true"}]
    data = write("data.jsonl", rows)
    code, _, err = rmt(capsys, f"finetune {data} --backbone {backbone()} {TINY} --epochs 1 --out run")
    assert code == 0
    assert "99976 of" in err
    assert "tokens are dropped" in err


def test_info_says_what_memory_would_be(capsys):
    code, out, err = rmt(capsys, f"info {backbone()}")
    assert (code, err) == (0, "")
    lines = dict(line.split(maxsplit=1) for line in out.splitlines())
    assert lines["layout"] == "paper: [CLS] mem×10 [SEP] text [SEP]; possible: paper, prefix"
    assert lines["limit"] == "64 positions"
    assert lines["segment"].startswith("51 tokens of text")
    assert lines["memory"] == "10 × 16 = 160 parameters"
    out = rmt(capsys, f"info {backbone('gpt2')} --memory 4 --layout causal").out
    assert "causal: text mem×4; possible: paper, causal" in out  # the kind associative has no read block
    assert "causal throughout" in out


def test_info_says_what_a_cache_takes(capsys):
    plain("llama").save_pretrained("llama")
    out = rmt(capsys, "info llama --cache 8").out
    lines = dict(line.split(maxsplit=1) for line in out.splitlines())
    assert lines["cache"] == "the last 8 tokens and the first 4 of a text, in every layer"
    assert lines["segment"] == "42 tokens of text beside memory, cache and special tokens"


def test_info_of_a_model_with_memory_takes_no_settings_of_memory(capsys, tmp_path):
    model = add_memory(plain("llama"), memory=3, cache=8)
    model.save_pretrained(tmp_path)
    assert "the last 8 tokens" in rmt(capsys, f"info {tmp_path}").out
    code, _, err = rmt(capsys, f"info {tmp_path} --cache 4")
    assert code == 2
    assert err == f"rmt: cache=4 has no effect: {str(tmp_path)!r} has its memory already; leave it out\n"


def test_the_settings_can_come_from_a_file_and_be_printed(capsys):
    Path("settings.yaml").write_text("backbone: somewhere\nmemory: 7\n")
    code, out, _ = rmt(capsys, "finetune data.csv --config settings.yaml --segments 2 --print_config")
    assert code == 0
    assert "memory: 7\n" in out
    assert "segments: 2\n" in out
    assert "data: data.csv\n" in out
