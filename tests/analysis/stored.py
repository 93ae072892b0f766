"""Small trained models, stored in trained/ with their configuration.

`python -m tests.analysis.stored FOLDER` trains them all anew with `rmt train`, keeps the runs in FOLDER, and
stores them; a minute for each on one thread. The last one is made by an example instead.
"""

import json
import runpy
import shlex
import sys
from pathlib import Path
from typing import NamedTuple

from safetensors import safe_open
from safetensors.torch import save_file

from rmt import SegmentModel
from rmt.cli.main import main
from rmt.config import from_dict, to_dict
from rmt.tasks.segments import segment_length
from rmt.tasks.task import Task
from rmt.train.checkpoint import load, load_config
from rmt.train.config import RunConfig, build_task

FOLDER = Path(__file__).parent / "trained"
TINY = (
    "--length 6 --model.width 32 --model.inner_width 64 --model.positions rotary --target 0.998 --device cpu"
)
TWO = "--model.heads 2 --model.head_width 16 --optimizer.lr 0.01"
ONE = "--model.layers 1 --model.heads 1 --optimizer.lr 0.03"
# name: what `rmt train` is told, beside TINY and --out
MODELS = {
    "copy-identical": f"copy --segments 3 --model.memory.init identical {TWO}",
    "copy-distinct": f"copy --segments 3 {TWO}",
    "reverse-identical": f"reverse --segments 2 --model.memory.init identical --seed 3 {ONE}",
    "reverse-distinct": f"reverse --segments 2 --seed 1 {TWO}",
    "copy-transformer-xl": f"copy --segments 3 --model transformer_xl {TWO}",
}
AFTER_COPY = "reverse-after-copy"  # the gallery's size, in half precision
EXAMPLE = Path(__file__).parent.parent.parent / "examples/reverse_writes_backwards.py"
AFTER_COPY_SEED = 1


class Trained(NamedTuple):
    """A model, what it was trained on, and the length of a segment."""

    model: SegmentModel
    task: Task
    length: int
    config: RunConfig


def stored(name: str) -> Trained:
    """A stored model by its name."""
    with safe_open(FOLDER / f"{name}.safetensors", framework="pt") as file:
        config = from_dict(RunConfig, json.loads(file.metadata()["config"]))
        weights = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    model, task = SegmentModel(config.model), build_task(config.task)
    model.load_state_dict(weights)
    return Trained(model.eval(), task, segment_length(task.total_length, config.task.segments), config)


def arguments(name: str) -> list[str]:
    """What `rmt` is told to train a model."""
    return ["train", *shlex.split(MODELS[name]), *shlex.split(TINY)]


def store(model: SegmentModel, config: RunConfig, name: str) -> None:
    """Keep a model and its configuration."""
    FOLDER.mkdir(exist_ok=True)
    save_file(
        {key: tensor.contiguous() for key, tensor in model.state_dict().items()},
        FOLDER / f"{name}.safetensors",
        metadata={"config": json.dumps(to_dict(config))},
    )


def store_after_copy() -> None:
    """Train and keep the reverse model that was a copy model before."""
    trainer = runpy.run_path(str(EXAMPLE))["learn"](AFTER_COPY_SEED)
    store(trainer.model.half(), trainer.config, AFTER_COPY)


if __name__ == "__main__":
    for model in sys.argv[2:] or [*MODELS, AFTER_COPY]:
        place = Path(sys.argv[1]) / model
        if model == AFTER_COPY:
            store_after_copy()
        elif main([*arguments(model), "--out", str(place)]) == 0:
            store(load(place), load_config(place), model)
