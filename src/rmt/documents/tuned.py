"""A pretrained model that learns a task of documents: backbone, memory, head; loaded, wrapped, asked."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import torch

from rmt.documents.averaged import MeanAnswer
from rmt.documents.kinds import TaskSettings, kind_for
from rmt.documents.lora import merged, with_lora
from rmt.documents.pretrained import PretrainedSource, model_options
from rmt.documents.task import Document, DocumentTask, Prediction, Row
from rmt.errors import CheckpointError, ConfigError
from rmt.hf import add_memory
from rmt.hf.families import FAMILIES
from rmt.hf.limit import UNLIMITED
from rmt.train.stored import require_run
from rmt.yamlfile import load_yaml

log = logging.getLogger(__name__)

CLASSIFIER = "AutoModelForSequenceClassification"
TOKEN_IDS = ("bos_token_id", "eos_token_id", "decoder_start_token_id")
UNKNOWN_WORD = "zqxjkvzqxjkv"  # in no vocabulary


class TunedModel(NamedTuple):
    """A model and the task that it learns or has learned."""

    model: Any
    task: DocumentTask

    @property
    def longest(self) -> int:
        """The most tokens of a text, special ones included."""
        settings = self.model.settings
        segments = settings.max_segments or UNLIMITED
        return int(segments * settings.segment_length + settings.prefix + settings.suffix)

    def too_long(self, rows: Sequence[Row]) -> list[int]:
        """How many tokens of each row are beyond the last segment; rows that fit are not listed."""
        return [over for row in rows if (over := len(row["input_ids"]) - self.longest) > 0]

    def fitted(self, row: Row) -> Row:
        """A row that the model takes."""
        return self.task.fitted(row, self.longest, self.model.settings.suffix)

    def save(self, folder: Path) -> None:
        """The model as `load_tuned` opens it, and its tokenizer."""
        inner = self.model.model if isinstance(self.model, MeanAnswer) else self.model
        merged(inner).save_pretrained(folder)
        self.task.tokenizer.save_pretrained(folder)

    @torch.no_grad()
    def predict(self, documents: Sequence[Document], rows: Sequence[Row]) -> list[Prediction]:
        """The answers to documents, whose tokens are in rows."""
        device = next(self.model.parameters()).device
        fitting = [self.fitted(row) for row in rows]
        inputs = self.task.tokenizer.pad(fitting, return_tensors="pt").to(device)
        self.model.eval()
        return self.task.predict(self.model, accepted(self.model, dict(inputs)), documents)


def accepted(model: Any, inputs: Row) -> Row:
    """The inputs that a model takes; some tokenizers make more."""
    import inspect

    return {name: inputs[name] for name in inspect.signature(model.forward).parameters if name in inputs}


def load_tuned(folder: str | Path, settings: TaskSettings, dtype: torch.dtype = torch.float32) -> TunedModel:
    """The model that a run saved, its weights in a number format; its own configuration knows the labels."""
    model_folder = Path(folder) / "model"
    require_run(Path(folder))
    if "preset" in load_yaml(Path(folder) / "config.yaml"):
        raise CheckpointError(
            f"{str(folder)!r} is a run of rmt train, not of rmt finetune; use it with: rmt evaluate {folder}"
        )
    if not (model_folder / "config.json").exists():
        raise CheckpointError(
            f"run {str(folder)!r} has no model yet; finish it with the same rmt finetune command"
        )
    source = PretrainedSource("model", str(model_folder), "copy it from another copy of the run")
    config = source.config()
    kind = kind_for(settings.name, config.is_encoder_decoder)
    labels = [config.id2label[number] for number in sorted(config.id2label)]
    model = source.load(auto_class(kind), dtype=dtype, **model_options()).eval()
    tokenizer = tokenizer_of(source._replace(field="tokenizer"), model)
    if config.is_encoder_decoder:
        write_greedily(model)
    return TunedModel(
        answering(model, settings.answer), kind(labels=labels, scoring=settings.scoring, tokenizer=tokenizer)
    )


def make_tuned(
    backbone: str, tokenizer_name: str | None, settings: TaskSettings, **memory: Any
) -> TunedModel:
    """A pretrained backbone with memory, its head new."""
    source = PretrainedSource("backbone", backbone)
    config = source.config()
    if config.model_type not in FAMILIES:
        raise ConfigError(
            f"backbone={backbone!r} is of type {config.model_type!r}, which memory was not tested with; "
            f"choose from: {', '.join(FAMILIES)}"
        )
    kind = kind_for(settings.name, config.is_encoder_decoder)
    if config.is_encoder_decoder and settings.answer == "mean":
        raise ConfigError("answer='mean' needs a head, and encoder-decoders write; name another --backbone")
    task = kind(labels=settings.labels, scoring=settings.scoring, tokenizer=None)
    model, drawn = with_new_head(source, auto_class(kind), task.options())
    tokenizer = tokenizer_for(kind, tokenizer_name or backbone, model)
    if config.is_encoder_decoder:
        write_greedily(model)
    if not kind.answers_once:
        memory["overlong"] = "error"  # rows are cut before, as their labels are
    wrapped = add_memory(model, special_tokens=special_tokens(tokenizer), **memory)
    trained = with_lora(wrapped, settings.lora, drawn=drawn) if settings.lora else wrapped
    return TunedModel(
        answering(trained, settings.answer),
        kind(labels=settings.labels, scoring=settings.scoring, tokenizer=tokenizer),
    )


def write_greedily(model: Any) -> None:
    """Let a model write the likeliest token each time: how its checkpoint wrote texts is not for labels."""
    from transformers import GenerationConfig

    ids = {name: getattr(model.generation_config, name) for name in TOKEN_IDS}
    model.generation_config = GenerationConfig(**ids, pad_token_id=model.config.pad_token_id)


def with_new_head(source: PretrainedSource, auto: Any, options: dict[str, Any]) -> tuple[Any, set[str]]:
    """A backbone with a head for these labels, and the names of the weights that it did not have.

    A head that it has for another number of labels is not taken.
    """
    options = {**options, **model_options(), "dtype": torch.float32, "ignore_mismatched_sizes": True}
    model, report = source.load(auto, output_loading_info=True, **options)
    inside = set(map(id, model.base_model.parameters()))
    head = {name for name, weight in model.named_parameters() if id(weight) not in inside}
    for name, stored, needed in sorted(report["mismatched_keys"]):
        if name not in head:
            raise ConfigError(
                f"backbone={source.name!r} cannot be loaded ({name} has the shape {tuple(stored)}, not "
                f"{tuple(needed)} as its config.json says); {source.remedy}"
            )
    if report["mismatched_keys"]:
        labels = source.config().num_labels
        log.info("the head of %s has %s labels, so a new one is learned", source.name, labels)
    elif auto.__name__ == CLASSIFIER and not head & set(report["missing_keys"]):
        tell_renamed(source, options.get("id2label", {}))
    return model, {*report["missing_keys"], *(name for name, *_ in report["mismatched_keys"])}


def tell_renamed(source: PretrainedSource, labels: dict[int, str]) -> None:
    """Say that a head that is kept knew its labels, if they have names now, by others."""
    before = source.config().id2label
    if labels and labels != before:
        old, new = (", ".join(names[number] for number in sorted(names)) for names in (before, labels))
        log.info("the head of %s has labels %s; it goes on with %s", source.name, old, new)


def answering(model: Any, answer: str) -> Any:
    """The model itself, whose last segment answers, or one that averages over segments."""
    return MeanAnswer(model) if answer == "mean" else model


def auto_class(kind: type[DocumentTask]) -> Any:
    import transformers

    return getattr(transformers, kind.head)


def tokenizer_for(kind: type[DocumentTask], name: str, model: Any) -> Any:
    """The tokenizer of a backbone, which says where its tokens are in a text if the kind of task asks."""
    tokenizer = savable_tokenizer(name, model)
    if not kind.answers_once and not tokenizer.is_fast:
        raise ConfigError(
            f"tokenizer={name!r} is written in Python and does not say where its tokens are in a text, which "
            f"task={kind.name!r} needs; name another with --tokenizer"
        )
    return tokenizer


def savable_tokenizer(name: str, model: Any) -> Any:
    """The tokenizer of a backbone for a run, which saves it: what cannot be saved is refused before."""
    source = PretrainedSource("tokenizer", name, "name another with --tokenizer")
    tokenizer = tokenizer_of(source, model)
    with TemporaryDirectory() as folder:
        source.call_reporting_errors(tokenizer.save_pretrained, folder)
    return tokenizer


def tokenizer_of(source: PretrainedSource, model: Any) -> Any:
    """The tokenizer of a backbone, without a limit on the length of texts, and with a padding token."""
    tokenizer = source.tokenizer()
    source.call_reporting_errors(tokenizer, UNKNOWN_WORD)
    if set(tokenizer.get_vocab()) <= set(tokenizer.all_special_tokens):  # made up where no file was found
        raise source.refused("it has no vocabulary")
    tokenizer.model_max_length = UNLIMITED
    tokenizer.padding_side = "right"  # labels and answers count the tokens of a row from its start
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    if tokenizer.pad_token is None:
        raise source.refused("it has neither a padding token nor an end")
    model.config.pad_token_id = tokenizer.pad_token_id
    return tokenizer


def special_tokens(tokenizer: Any) -> tuple[int, int]:
    """How many special tokens the tokenizer puts before and behind a text."""
    text = usual_text(tokenizer)
    bare, whole = tokenizer(text, add_special_tokens=False).input_ids, tokenizer(text).input_ids
    for start in range(len(whole) - len(bare) + 1):
        if whole[start : start + len(bare)] == bare:
            return start, len(whole) - start - len(bare)
    raise ConfigError("the tokenizer changes a text when it adds special tokens: where they stand is unknown")


def usual_text(tokenizer: Any) -> str:
    """A text that becomes tokens of which none is special: a letter, or what is in the vocabulary."""
    special = {*tokenizer.all_special_ids}
    vocabulary = (tokenizer.decode([number]) for number in sorted(tokenizer.get_vocab().values()))
    for text in chain(["a"], vocabulary):
        ids = tokenizer(text, add_special_tokens=False).input_ids
        if ids and special.isdisjoint(ids):
            return text
    raise ConfigError(
        f"tokenizer={tokenizer.name_or_path!r} makes no text into tokens that are not special; name another "
        "with --tokenizer"
    )
