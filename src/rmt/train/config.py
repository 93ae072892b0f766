"""Everything that decides a run: task, model, BPTT, optimizer, budget."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal

from rmt.config import Interval, above, at_least, check_fields, needless, option
from rmt.core.config import ModelConfig
from rmt.errors import ConfigError
from rmt.precision import TO_TRAIN, AskedPrecision, DeviceName
from rmt.tasks.registry import TASKS, make_task, task_class
from rmt.train.warmup import check_warmup

if TYPE_CHECKING:
    from rmt.tasks.task import Task

LARGEST_SEED = 2**32 - 1
MOST_THREADS = 4096  # more than any CPU has; torch ends without a word where it cannot start so many
RATE = Interval(0, 1e6, low_open=True)  # of learning; 1e300 is beyond what torch multiplies weights by
BELOW_ONE = Interval(0, 1, high_open=True)
SHARED = ("segments", "source", "shuffle", "reset")  # settings of `task` that are no option of any task

ModelName = Literal["baseline", "memory_transformer", "transformer_xl", "rmt", "transformer_xl_rmt"]


@dataclass(frozen=True, kw_only=True)
class TaskConfig:
    """What to learn."""

    name: str = option("copy", f"{', '.join(TASKS)}; text = a corpus; your own as module:Class")
    data: str = option(
        "", "text: a corpus's name, a prepared folder, or the path of a text; memory-qa: its folder"
    )
    tokens: Literal["words", "bytes", "characters"] | None = option(
        None, "text: kind of token; none = what the corpus is known for"
    )
    segment_length: int = option(64, "text: tokens per segment", above(0))
    reset: int | Literal["never", "document"] = option(
        "never",
        "text: rows start anew with each pass only, where a document begins, or every N segments",
        above(0),
    )
    segments: int = option(3, "segments a sequence is cut into; the last may be shorter", at_least(1))
    length: int | None = option(None, "symbols in the input sequence; none = the task's own", at_least(1))
    options: dict[str, Any] = field(
        default_factory=dict, metadata={"help": "further options of the task, as KEY=VALUE"}
    )
    source: Literal["fresh", "fixed"] = option(
        "fresh", "endless new training examples, or the fixed training set"
    )
    shuffle: bool = option(False, "go through the fixed training set in a new order each time")

    def __post_init__(self) -> None:
        check_fields(self, "task")
        needless(self, "shuffle", self.source == "fixed", "task.source=fixed")
        if "length" in self.options:
            length = self.options["length"]
            raise ConfigError(f"task.options has length={length}; give it as task.length={length} (--length)")


@dataclass(frozen=True, kw_only=True)
class BPTTConfig:
    """How far back gradients flow, and when an update is made."""

    depth: int | Literal["full"] = option(
        "full", "previous segments that a loss's gradient reaches, or full", at_least(0)
    )
    schedule: Literal["sequence", "chunked", "sliding"] = option(
        "sequence", "an update per sequence, per depth+1 segments, or per segment with the window replayed"
    )
    replay_from: Literal["stored", "latest"] = option(
        "stored",
        "sliding: replay from each segment's own incoming state, or from the newest memory (original code)",
    )
    checkpoint: bool = option(False, "recompute segments in the backward pass to save memory")

    def __post_init__(self) -> None:
        check_fields(self, "bptt")
        if self.depth == "full" and self.schedule != "sequence":
            raise ConfigError(
                f"bptt.depth=full does not go with bptt.schedule={self.schedule}; give a number of segments"
            )
        needless(self, "replay_from", self.schedule == "sliding", "bptt.schedule=sliding")


@dataclass(frozen=True, kw_only=True)
class OptimizerConfig:
    """The update rule."""

    name: Literal["muon", "adamw", "adam"] = option(
        "muon", "muon: Muon for the layers' matrices, AdamW for the rest"
    )
    lr: float = option(1e-3, "learning rate of Adam or AdamW", RATE)
    matrix_lr: float = option(0.01, "learning rate of Muon", RATE)
    momentum: float = option(0.95, "momentum of Muon", BELOW_ONE)
    beta1: float = option(0.9, "Adam's decay of the first moment", BELOW_ONE)
    beta2: float = option(0.99, "Adam's decay of the second moment", BELOW_ONE)
    weight_decay: float = option(0.0, "decoupled weight decay", at_least(0))
    clip: float = option(1.0, "largest norm of the gradient; 0 = no clipping", at_least(0))

    def __post_init__(self) -> None:
        check_fields(self, "optimizer")
        for name in ("matrix_lr", "momentum"):
            needless(self, name, self.name == "muon", "optimizer.name=muon")
        needless(self, "weight_decay", self.name != "adam", "optimizer.name=adamw or muon")


@dataclass(frozen=True, kw_only=True)
class RateConfig:
    """The learning rate over time."""

    schedule: Literal["constant", "linear", "cosine", "plateau"] = option(
        "constant", "shape after the warm-up"
    )
    warmup: float = option(0.0, "linear warm-up: below 1 a share of the steps, else steps", at_least(0))
    minimum: float = option(
        0.0, "lowest fraction of the learning rate for linear, cosine, plateau", BELOW_ONE
    )
    factor: float = option(0.5, "plateau: multiply the rate by this", BELOW_ONE)
    patience: int = option(
        8, "plateau: after this many evaluations without a better validation loss", at_least(0)
    )

    def __post_init__(self) -> None:
        check_fields(self, "rate")
        check_warmup("rate.warmup", self.warmup)
        needless(self, "minimum", self.schedule != "constant", "a rate.schedule that falls")
        for name in ("factor", "patience"):
            needless(self, name, self.schedule == "plateau", "rate.schedule=plateau")


@dataclass(frozen=True, kw_only=True)
class CurriculumConfig:
    """From easy to hard: shorter inputs or fewer segments first."""

    over: Literal["none", "length", "segments"] = option("none", "what grows during training")
    start: int = option(1, "value to begin with", above(0))
    growth: float = option(2.0, "multiply by this at each promotion", above(1))
    promote_at: float = option(0.9, "training accuracy that earns a promotion", Interval(0, 1, low_open=True))
    until: float = option(
        1.0, "share of the steps after which the whole task is trained, earned or not", Interval(0, 1)
    )

    def __post_init__(self) -> None:
        check_fields(self, "curriculum")
        for name in ("start", "growth", "promote_at", "until"):
            needless(self, name, self.over != "none", "curriculum.over=length or segments")


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """Budget, evaluation, checkpoints."""

    batch: int = option(64, "sequences or lanes of text per update, over all processes", above(0))
    accumulate: int = option(1, "parts of a batch that are run one after the other, to save memory", above(0))
    memory_loss: float = option(
        0.0, "weight of the auxiliary loss: written memory predicts a special token", at_least(0)
    )
    steps: int = option(1000, "optimizer updates", above(0))
    target: float | None = option(
        None, "stop when the task's metric on the validation set reaches this", above(0)
    )
    evaluate_every: int = option(100, "steps between evaluations", above(0))
    evaluate_batch: int = option(0, "text: lanes in an evaluation; 0 = as in training", at_least(0))
    evaluate_cache: int | None = option(
        None, "text: cache in an evaluation; none = as in training", at_least(0)
    )
    evaluate_samples: int = option(1000, "validation sequences per evaluation", above(0))
    test_samples: int | None = option(
        None, "sequences of the test at the end, the first so many; none = all of them", above(0)
    )
    save_every: int = option(200, "steps between checkpoints", above(0))
    keep: int = option(2, "newest checkpoints to keep, beside the best one", above(0))
    on_nan: Literal["stop", "back"] = option(
        "stop",
        "where the loss is no number: stop, or go back to the last checkpoint with half the rate (5 times)",
    )
    log_every: int = option(
        10, "steps between lines of metrics.jsonl, and between looks at a promotion", above(0)
    )

    def __post_init__(self) -> None:
        check_fields(self, "train")
        if self.batch % self.accumulate:
            raise ConfigError(
                f"train.accumulate={self.accumulate} does not divide train.batch={self.batch}; use a divisor"
            )


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """A run: the same configuration on the same machine gives the same weights."""

    task: TaskConfig = option(TaskConfig(), "what to learn")
    preset: ModelName = option("rmt", "which of the paper's models")
    recipe: Literal["modern", "modern-1", "modern-2", "paper"] = option(
        "modern-2", "where unnamed settings come from; modern is the newest of its versions"
    )
    size: Literal["small", "paper", "enwik8-base", "wt103-base"] = option(
        "small", "2 layers × 64 for a CPU, or the paper's sizes (text: enwik8-base, wt103-base)"
    )
    scale: Literal["full", "gpu", "cpu"] = option(
        "full", "text: the paper's model and budget, or less of both: minutes on a GPU or on a CPU"
    )
    model: ModelConfig = option(ModelConfig(), "the model")
    bptt: BPTTConfig = option(BPTTConfig(), "backpropagation through time")
    optimizer: OptimizerConfig = option(OptimizerConfig(), "update rule")
    rate: RateConfig = option(RateConfig(), "learning rate over time")
    curriculum: CurriculumConfig = option(CurriculumConfig(), "from easy to hard")
    train: TrainConfig = option(TrainConfig(), "budget")
    seed: int = option(0, "seed of weights, data order and dropout", Interval(0, LARGEST_SEED))
    device: DeviceName = option("auto", "where to compute")
    compile: Literal["auto", "record", "off"] = option(
        "auto",
        "on a GPU: the engine's kernels and updates replayed as CUDA graphs, only the latter, or neither",
    )
    deterministic: bool = option(
        False, "on a GPU: the same bits in every run, without the engine; on a CPU they are so anyway"
    )
    strategy: Literal["ddp", "fsdp"] = option(
        "ddp", "among processes of torchrun or srun: a model in each, or one model spread over them"
    )
    threads: int = option(
        0,
        "CPU threads; 0 = torch's own choice; 1 is best beside other programs",
        Interval(0, MOST_THREADS, high_open=True),
    )
    precision: AskedPrecision = option("auto", TO_TRAIN)

    def __post_init__(self) -> None:
        check_fields(self)
        if self.model.memory.predicts != (self.train.memory_loss > 0):
            raise ConfigError(
                f"model.memory.predicts={self.model.memory.predicts} does not go with "
                f"train.memory_loss={self.train.memory_loss}; set both or neither"
            )
        carries = self.model.memory.size > 0 and self.model.memory.recurrent
        if self.bptt.schedule == "sequence" and self.bptt.depth != "full" and not carries:
            raise ConfigError(
                f"bptt.depth={self.bptt.depth} has no effect: no memory carries gradients here; leave it out"
            )
        if self.curriculum.over == "length" and self.task.source == "fixed":
            raise ConfigError(
                "curriculum.over=length has no effect with task.source=fixed: its examples have one length; "
                "use curriculum.over=segments or task.source=fresh"
            )


def check_settings(config: TaskConfig, task: type[Task]) -> None:
    """Refuse settings that were changed and that a class of tasks does not have."""
    has = {*task.settings, *(field.name for field in fields(task)), "name", "options"}
    for setting in fields(TaskConfig):
        value = getattr(config, setting.name)
        if setting.name not in has and value != setting.default:
            raise ConfigError(
                f"task.{setting.name}={value} has no effect on task {task.name!r}; leave it out"
            )


def build_task(config: TaskConfig) -> Task:
    """The task of a configuration: settings with the name of one of its options are that option."""
    task = task_class(config.name)
    check_settings(config, task)
    options = {
        setting.name: getattr(config, setting.name)
        for setting in fields(TaskConfig)
        if setting.name not in ("name", "options", *SHARED)
        and getattr(config, setting.name) != setting.default
    }
    for name in options.keys() & config.options.keys():
        raise ConfigError(
            f"task.options has {name}={config.options[name]}, task.{name} is {options[name]}; leave one out"
        )
    return make_task(config.name, **config.options, **options)
