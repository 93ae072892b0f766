"""A folder with one of everything that the commands open: runs, texts, corpora, documents, a backbone."""

import gzip
import json
import lzma
import random
import shutil
from pathlib import Path

from rmt.cli.main import main
from rmt.experiments.cell_records import written_cells
from tests.cli.command import TINY, TRAIN
from tests.experiments.records import made_record
from tests.experiments.tiny import echo_cell
from tests.tasks.stories import write_data

TINY_MODEL = (
    "--device cpu --memory 2 --model.layers 1 --model.heads 1 --model.head_width 4 --model.width 8 "
    "--model.inner_width 8 --quiet"
)
TINY_TEXT = f"--batch 2 --steps 2 --task.segment_length 8 {TINY_MODEL}"
TEXT = "so long as a text goes on, so long goes this;\n" * 60
FINETUNE = "--backbone bert --segments 2 --memory 2 --segment_length 8 --epochs 1 --batch 8 --device cpu"


def make_workspace() -> None:
    """Fill the current folder; what needs an extra that is not installed is left out."""
    Path("book.txt").write_text(TEXT)
    Path("splits").mkdir()
    for split in ("train", "valid", "test"):
        Path("splits", f"{split}.txt").write_text(TEXT)
    write_data(Path())
    write_documents(Path("documents.jsonl"))
    Path("options.yaml").write_text("steps: 2\nquiet: true\n")
    for command in (
        f"train copy {TINY} --out run --quiet",
        f"train text --data book.txt --out book-run {TINY_TEXT}",
        f"{TRAIN} --out untested --quiet",
        "data prepare splits --tokens words --out corpus",
        "stream book-run book.txt --save state --quiet",
    ):
        if main(command.split()) != 0:
            raise RuntimeError(f"rmt {command} failed")
    Path("untested", "result.json").unlink()  # a run that was ended before its test


def add_backbone() -> None:
    """A tiny pretrained model, and a run that fine-tuned it."""
    from tests.hf.tokens import tokenizer
    from tests.hf.zoo import plain

    plain("bert", "Model", vocab_size=len(tokenizer())).float().save_pretrained("bert")
    tokenizer().save_pretrained("bert")
    if main(f"finetune documents.jsonl {FINETUNE} --out tuned --quiet".split()) != 0:
        raise RuntimeError("rmt finetune failed")


def write_documents(file: Path) -> None:
    """Forty texts whose first word is their label."""
    draw = random.Random(0)
    rows = [
        {"text": f"{word} {' '.join(draw.choices(['the', 'film', 'was', 'dull'], k=9))}", "label": word}
        for word in ("good", "bad") * 20
    ]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))


def add_other_formats() -> None:
    """The texts, documents and results again in the other formats that are taken."""
    Path("book.txt.gz").write_bytes(gzip.compress(TEXT.encode()))
    Path("book.txt.xz").write_bytes(lzma.compress(TEXT.encode()))
    rows = [json.loads(line) for line in Path("documents.jsonl").read_text().splitlines()]
    Path("documents.json").write_text(json.dumps(rows))
    Path("documents.csv").write_text(
        "text,label\n" + "".join(f"{row['text']},{row['label']}\n" for row in rows)
    )
    result = json.loads(Path("run/result.json").read_text())
    Path("results.jsonl").write_text((json.dumps(result) + "\n") * 2)
    cells = [made_record(echo_cell(name, {"task": {"name": "copy"}}), [0.5, 0.6]) for name in ("one", "two")]
    Path("cells.jsonl").write_text(written_cells(cells))
    if Path("bert/tokenizer.json").is_file():
        shutil.copy("bert/tokenizer.json", "tokenizer.json")
