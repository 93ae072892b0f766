"""Reverse that turns around when it writes: copy first, then let the initial memory learn fastest.

    python examples/reverse_writes_backwards.py [SEED]

Trained from scratch, reverse is written in order and read backwards. A model that already reads in order, as
copy does, can also keep its way of reading and learn to write backwards. Only the writer looks at the initial
memory tokens, so they get a high rate, and all weights that reader and writer share a low one.
Nothing is frozen. A minute or two on a CPU; not every seed turns (docs/gallery.md has the numbers).
"""

import sys

from rmt.analysis.capture import capture_mean
from rmt.analysis.operations import best, composition, findings
from rmt.core.model import SegmentModel
from rmt.experiments.recipe import resolve
from rmt.tasks.segments import segment_length
from rmt.train.config import RunConfig, build_task
from rmt.train.measure import Measurement, measure
from rmt.train.trainer import Trainer

SEGMENTS = {"copy": 3, "reverse": 2}  # of 8 tokens each
MODEL = {"positions": "rotary", "memory": {"init": "identical"}}
SHARED_RATE, MEMORY_RATE = 1e-3, 0.1
TARGET = {"copy": 0.998, "reverse": 0.99}
STEPS = {"copy": 2000, "reverse": 400}


def settings(task: str, rate: float, seed: int) -> RunConfig:
    """The recipe `modern-1` at the small size, which its rates were chosen with."""
    return resolve(
        {
            "recipe": "modern-1",
            "task": {"name": task, "length": 8, "segments": SEGMENTS[task]},
            "model": MODEL,
            "optimizer": {"lr": rate, "matrix_lr": rate},
            "train": {"steps": STEPS[task], "target": TARGET[task]},
            "seed": seed,
            "device": "cpu",
        }
    )


class FastMemory(Trainer):
    """Goes on from a trained model; its initial memory tokens have a learning rate of their own."""

    def __init__(self, config: RunConfig, start: SegmentModel):
        super().__init__(config, build_task(config.task))
        self.model.load_state_dict(start.state_dict())
        adam, tokens = self.optimizers[-1], self.model.memory.tokens.weight
        rest = adam.param_groups[0]
        rest["params"] = [parameter for parameter in rest["params"] if parameter is not tokens]
        adam.add_param_group({"params": [tokens], "lr": MEMORY_RATE})


def train(trainer: Trainer) -> float:
    """Train to the target or to the last step; returns the accuracy on validation sequences."""
    budget, accuracy = trainer.config.train, 0.0
    while trainer.step < budget.steps and accuracy < budget.target:
        for _ in range(100):
            list(trainer.updates())
        asked = Measurement("valid", samples=1000, thorough=False)
        accuracy = measure(trainer.model, trainer.task, trainer.config, asked)["accuracy"]
        print(f"{trainer.task.name} step {trainer.step}: accuracy {accuracy:.3f}")
    return accuracy


def tell(trainer: Trainer) -> None:
    """Say in which order the clearest heads write and read."""
    tokens = trainer.task.split("test", 256).tokens
    length = segment_length(tokens.shape[1], SEGMENTS[trainer.task.name])
    segments = capture_mean(trainer.model, tokens, length)
    found, whole = findings(segments), composition(segments[0], segments[1])
    for one in (best(found, "write", 0), best(found, "read", 1)):
        shares = f"{one.straight:.2f} straight, {one.reversed:.2f} reversed"
        print(f"  {one.operation}: {one.order} ({one.head}: {shares})")
    print(f"  read ∘ write: {whole.straight:.2f} straight, {whole.reversed:.2f} reversed")


def learn(seed: int) -> Trainer:
    """Copy, then reverse from its weights."""
    config = settings("copy", 0.01, seed)
    copying = Trainer(config, build_task(config.task))
    train(copying)
    tell(copying)
    reversing = FastMemory(settings("reverse", SHARED_RATE, seed), copying.model)
    train(reversing)
    tell(reversing)
    return reversing


if __name__ == "__main__":
    learn(int(sys.argv[1]) if len(sys.argv) > 1 else 1)
