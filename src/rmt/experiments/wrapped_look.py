"""A look into a pretrained model with memory: the page of its attention on a text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from rmt.analysis.capture import capture
from rmt.analysis.examples import Example
from rmt.analysis.explorer import clearest, explore
from rmt.documents.pretrained import PretrainedSource, model_options
from rmt.errors import ConfigError, shown
from rmt.location import require_trust
from rmt.seal import load_record
from rmt.text.vocabulary import ESCAPED_BYTE

if TYPE_CHECKING:
    from rmt.analysis.operations import Finding
    from rmt.experiments.looking import Look

BEGINNING = "RMT"  # of the class of a model with memory
WORD_STARTS = ("Ġ", "▁")  # how tokenizers write the blank before a word


def is_wrapped(folder: Path) -> bool:
    """Whether a folder holds a pretrained model, and no run."""
    return (folder / "config.json").is_file() and not (folder / "config.yaml").exists()


def look_into_wrapped(folder: Path, asked: Look) -> tuple[str, Sequence[Finding]]:
    """The page of a model that was saved with memory, and the clearest head of every operation."""
    refuse_examples(folder, asked)
    from rmt.hf import AttentionView

    model, tokenizer = load_wrapped(folder)
    view = AttentionView(model)
    tokens = torch.tensor(tokenizer(asked.text)["input_ids"], dtype=torch.long)
    following = torch.cat([tokens[1:], tokens[-1:]])
    example = Example("your text", tokens, following, torch.zeros(len(tokens), dtype=torch.bool))
    page = explore(view, [example], None, words_of(tokenizer, model), folder.name, facts_of(model))
    return page, clearest(capture(view, tokens))


def refuse_examples(folder: Path, asked: Look) -> None:
    """Raise without a text, for one that is not UTF-8, and for options that only runs have."""
    if not (asked.text or "").strip():
        raise ConfigError(f"{str(folder)!r} is a pretrained model without examples; give --text TEXT or FILE")
    if escaped := ESCAPED_BYTE.search(asked.text or ""):
        byte = ord(escaped[0]) - 0xDC00
        raise ConfigError(f"text has byte {byte}, which is not UTF-8; convert it first")
    for name in ("segments", "data", "unknown"):
        value = getattr(asked, name)
        if value is not None:
            raise ConfigError(f"{name}={value} has no effect on a pretrained model; leave it out")


def load_wrapped(folder: Path) -> tuple[Any, Any]:
    """The model of a folder, of the class it was saved with, and its tokenizer."""
    import transformers

    from rmt.hf import models

    remedy = "name a folder that save_pretrained wrote"
    config = load_record(folder / "config.json", remedy)
    name, kind = class_and_kind(config)
    if not name.startswith(BEGINNING):
        raise ConfigError(
            f"{str(folder)!r} holds a {name or 'model'} without memory; give it memory with rmt.add_memory "
            "and save it"
        )
    plain = getattr(transformers, name.removeprefix(BEGINNING), None)
    if not (isinstance(plain, type) and issubclass(plain, transformers.PreTrainedModel)):
        raise ConfigError(
            f"{str(folder)!r} holds a {shown(name)}, which transformers does not have; {remedy}"
        )
    require_trust(kind, "kind", folder)
    source = PretrainedSource("folder", str(folder), remedy)
    model = source.load(getattr(models, name), **model_options())
    return model.eval(), source.tokenizer()


def class_and_kind(config: Mapping[str, Any]) -> tuple[str, str]:
    """The class of a saved model and its kind of memory; empty where its configuration names none."""
    names, memory = config.get("architectures"), config.get("rmt")
    name = names[0] if isinstance(names, list) and names else ""
    kind = memory.get("kind") if isinstance(memory, dict) else ""
    return str(name), str(kind or "")


def words_of(tokenizer: Any, model: Any) -> list[str]:
    """The spelling of every token; a blank before a word is a dot in the middle."""
    size = int(model.config.get_text_config().vocab_size)
    words = [word or "" for word in tokenizer.convert_ids_to_tokens(range(min(size, len(tokenizer))))]
    for start in WORD_STARTS:
        words = [word.replace(start, "·") for word in words]
    return [*words, *[""] * (size - len(words))]


def facts_of(model: Any) -> list[str]:
    """A model in a few words for a reader."""
    settings = model.settings
    return [
        type(model).__name__,
        f"segments of {settings.segment_length} tokens",
        f"memory {settings.memory}, kind {settings.kind}",
        "1 text",
    ]
