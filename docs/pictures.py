"""Train the models of the gallery where they are missing, and draw its pictures.

`python docs/pictures.py [FOLDER]`; FOLDER keeps the runs (default: runs/gallery). Screenshots need playwright
and Chromium; without them, they stay as they are.
"""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path

from rmt.analysis.capture import SegmentAttention, capture_mean
from rmt.analysis.figures import compression, draw_maps, memory_operations, timeline
from rmt.analysis.probe_figure import draw_probes
from rmt.analysis.probes import decode, effects, memories, memory_gradients, reach
from rmt.cli.main import main
from rmt.core.model import SegmentModel
from rmt.tasks.segments import segment, segment_length
from rmt.tasks.task import Task
from rmt.train.checkpoint import load, load_config
from rmt.train.config import build_task
from rmt.train.log import MetricsLog

DOCS = Path(__file__).parent
IDENTICAL = "--model.memory.init identical"
# name of the run: what `rmt train` was told, beside --out
MODELS = {
    "copy": f"copy --length 8 --segments 3 {IDENTICAL} --target 0.99",
    "reverse": f"reverse --length 8 --segments 2 {IDENTICAL} --target 0.99 "
    "--model.positions rotary --optimizer.lr 0.01",
    "rewrite": f"copy --length 12 --segments 9 --memory 4 {IDENTICAL} --target 0.99",
    "cache": "copy --length 8 --segments 3 --model transformer_xl --target 0.99",
    "compress": f"reverse --length 12 --segments 4 --memory 3 {IDENTICAL} --target 0.99 --steps 1500",
    "mix": "reverse --length 12 --segments 4 --model transformer_xl --cache 3 --target 0.99 --steps 1500",
}
# the same for the picture of how memory learns: these are about training, so next to nothing is tested
PROBED = {
    "dies": "copy --length 60 --segments 9 --memory 20 --model.layers 4 --batch 4 --matrix_lr 0.02 "
    "--steps 240 --rate.warmup 100 --rate.schedule constant",
    "lives": "recall --length 8 --segments 4 --batch 32 --steps 600 --target 0.995",
}
QUICKLY = "--train.evaluate_every 20 --train.evaluate_samples 100 --train.test_samples 100"
EXAMPLES = 256  # test examples a picture is the mean of


def trained(folder: Path) -> None:
    """Every model of the pictures; a run that is there already is taken as it is."""
    for name, told in {**MODELS, **{name: f"{told} {QUICKLY}" for name, told in PROBED.items()}}.items():
        if not (folder / name / "result.json").exists():
            main(["train", *shlex.split(told), "--out", str(folder / name), "--seed", "0", "--device", "cpu"])


def opened(run: Path) -> tuple[SegmentModel, Task, int]:
    config = load_config(run)
    task = build_task(config.task)
    return load(run), task, segment_length(task.total_length, config.task.segments)


def seen(run: Path) -> list[SegmentAttention]:
    """The attention of a run, averaged over test examples."""
    model, task, length = opened(run)
    return capture_mean(model, task.split("test", EXAMPLES).tokens, length)


def draw(folder: Path) -> None:
    runs = {name: seen(folder / name) for name in MODELS}
    operations = memory_operations(runs["copy"], runs["reverse"], runs["rewrite"], runs["cache"])
    for kind in ("png", "svg"):
        draw_maps(operations, DOCS / f"operations.{kind}")
        draw_maps(compression(runs["compress"], runs["mix"]), DOCS / f"compression.{kind}", columns=4)
    model, task, length = opened(folder / "rewrite")
    batch = task.split("test", 2000)
    source = batch.tokens[:, : batch.tokens.shape[1] // 3]
    decoded = decode(memories(model, batch.tokens, length), source)
    gradients = memory_gradients(
        model, segment(task.split("test", 32), load_config(folder / "rewrite").task.segments)
    )
    timeline(decoded, reach(gradients), DOCS / "timeline.png")


def draw_learning(folder: Path) -> None:
    """What passed through the memory of a run that dies and of one that lives."""
    runs = {name: MetricsLog(folder / name).records() for name in PROBED}
    draw_probes(runs, DOCS / "learning.svg")


def interventions(folder: Path) -> None:
    """What changing the memory does to the answers of the copy and the reverse model."""
    for name in ("copy", "reverse"):
        model, task, length = opened(folder / name)
        for change, effect in effects(model, task.split("test", 1000), length, before=1).items():
            print(f"{name:8} {change:10} input {effect.input:.3f}  previous {effect.previous_input:.3f}")


def photograph(folder: Path) -> None:
    """The explorer at the width of a desktop and of a phone."""
    browser_path = shutil.which("chromium")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        browser_path = None
    if not browser_path:
        print("no browser: the screenshots stay as they are")
        return
    page_path = folder / "explorer.html"
    main(["attention", str(folder / "copy"), "-o", str(page_path), "--quiet"])
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path, args=["--no-sandbox"])
        for name, width, height, scheme in (
            ("desktop", 1280, 1030, "light"),
            ("dark", 1280, 1030, "dark"),
            ("phone", 400, 860, "light"),
        ):
            page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
            page.goto(page_path.resolve().as_uri())
            page.screenshot(path=DOCS / f"explorer-{name}.png", full_page=name == "phone")
        browser.close()


if __name__ == "__main__":
    place = Path(sys.argv[1] if len(sys.argv) > 1 else "runs/gallery")
    trained(place)
    draw(place)
    draw_learning(place)
    interventions(place)
    photograph(place)
