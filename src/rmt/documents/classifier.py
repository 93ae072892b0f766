"""A pretrained classifier of documents: backbone, tokenizer and labels, loaded, wrapped and asked."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from rmt.documents.corpus import Document
from rmt.documents.pretrained import PretrainedSource, weights_only
from rmt.documents.scores import scores
from rmt.errors import CheckpointError, ConfigError
from rmt.hf import add_memory
from rmt.hf.families import FAMILIES

UNLIMITED = int(1e30)  # transformers' own word for a tokenizer without a limit


class Classifier(NamedTuple):
    """Encoder-decoders generate the label as text; all others have a head with a class per label."""

    model: Any
    tokenizer: Any
    labels: list[str]

    @property
    def writes(self) -> bool:
        return bool(self.model.config.is_encoder_decoder)

    def encode(self, document: Document) -> dict[str, Any]:
        """The tokens of a document and its label."""
        row = self.tokens(document.text)
        label = self.labels.index(document.label)
        row["labels"] = self.tokenizer(text_target=document.label).input_ids if self.writes else label
        return row

    def tokens(self, text: str) -> dict[str, Any]:
        """A text as the backbone's tokens, all of them."""
        return dict(self.tokenizer(text, truncation=False))

    def too_long(self, rows: Sequence[dict[str, Any]]) -> list[int]:
        """How many tokens of each row are beyond the last segment; rows that fit are not listed."""
        settings = self.model.settings
        limit = (
            (settings.max_segments or UNLIMITED) * settings.segment_length + settings.prefix + settings.suffix
        )
        return [over for row in rows if (over := len(row["input_ids"]) - limit) > 0]

    def named(self, text: str) -> int:
        """The class that a generated text names, or -1."""
        return self.labels.index(text.strip()) if text.strip() in self.labels else -1

    @property
    def longest_label(self) -> int:
        """Tokens of the longest label and its end."""
        return max(len(self.tokenizer(text_target=label).input_ids) for label in self.labels) + 1

    def score(self, predictions: Any, labels: Any) -> dict[str, float]:
        """Accuracy and F1 of what a trainer collected: logits, or generated tokens."""
        if not self.writes:
            logits = predictions[0] if isinstance(predictions, tuple) else predictions
            return scores(logits.argmax(-1).tolist(), labels.tolist(), len(self.labels))
        padding = self.tokenizer.pad_token_id
        predicted, true = (
            [
                self.named(text)
                for text in self.tokenizer.batch_decode(
                    np.where(ids < 0, padding, ids), skip_special_tokens=True
                )
            ]
            for ids in (predictions, labels)
        )
        return scores(predicted, true, len(self.labels))

    @torch.no_grad()
    def predict(self, rows: Sequence[dict[str, Any]]) -> list[tuple[str, float]]:
        """The label of each text and its probability; what is generated and is no label has probability 0."""
        device = next(self.model.parameters()).device
        inputs = self.tokenizer.pad(rows, return_tensors="pt").to(device)
        self.model.eval()
        if self.writes:
            return self.write(inputs)
        inputs.pop("token_type_ids", None)
        best = self.model(**inputs).logits.float().softmax(-1).max(-1)
        return [
            (self.labels[index], value)
            for index, value in zip(best.indices.tolist(), best.values.tolist(), strict=True)
        ]

    def write(self, inputs: Any) -> list[tuple[str, float]]:
        """The generated labels and the probability of each as a whole."""
        inputs = {name: inputs[name] for name in ("input_ids", "attention_mask")}
        generated = self.model.generate(
            **inputs,
            max_new_tokens=self.longest_label,
            do_sample=False,
            output_logits=True,
            return_dict_in_generate=True,
        )
        texts = self.tokenizer.batch_decode(generated.sequences, skip_special_tokens=True)
        tokens = generated.sequences[:, -len(generated.logits) :]
        log_probs = torch.stack([step.float().log_softmax(-1) for step in generated.logits], dim=1)
        chosen = log_probs.gather(2, tokens[..., None])[..., 0]
        padding = self.tokenizer.pad_token_id
        probabilities = (chosen * (tokens != padding)).sum(1).exp().tolist()
        return [
            (text.strip(), probability if self.named(text) >= 0 else 0.0)
            for text, probability in zip(texts, probabilities, strict=True)
        ]


def load_classifier(folder: str | Path, dtype: torch.dtype = torch.float32) -> Classifier:
    """The classifier that a run saved, its weights in a number format."""
    model_folder = Path(folder) / "model"
    if not (model_folder / "config.json").exists():
        raise CheckpointError(
            f"run {str(folder)!r} has no model yet; finish it with the same rmt finetune command"
        )
    source = PretrainedSource("model", str(model_folder), "copy it from another copy of the run")
    config = source.config()
    labels = [config.id2label[number] for number in sorted(config.id2label)]
    model = source.load(auto_class(config), dtype=dtype, **weights_only())
    return Classifier(model.eval(), tokenizer_of(str(model_folder), model), labels)


def make_classifier(backbone: str, tokenizer: str | None, labels: list[str], **memory: Any) -> Classifier:
    """A pretrained backbone with memory, its head new."""
    source = PretrainedSource("backbone", backbone)
    config = source.config()
    if config.model_type not in FAMILIES:
        raise ConfigError(
            f"backbone={backbone!r} is of type {config.model_type!r}, which memory was not tested with; "
            f"choose from: {', '.join(FAMILIES)}"
        )
    names: dict[str, Any] = {
        "id2label": dict(enumerate(labels)),
        "label2id": {label: index for index, label in enumerate(labels)},
    }
    model = source.load(
        auto_class(config), dtype=torch.float32, num_labels=len(labels), **names, **weights_only()
    )
    words = tokenizer_of(tokenizer or backbone, model)
    wrapped = add_memory(model, special_tokens=special_tokens(words), **memory)
    return Classifier(wrapped, words, labels)


def auto_class(config: Any) -> Any:
    import transformers

    if config.is_encoder_decoder:
        return transformers.AutoModelForSeq2SeqLM
    return transformers.AutoModelForSequenceClassification


def tokenizer_of(name: str, model: Any) -> Any:
    """The tokenizer of a backbone, without a limit on the length of texts, and with a padding token."""
    import transformers

    source = PretrainedSource("tokenizer", name, "name another with --tokenizer")
    words = source.load(transformers.AutoTokenizer)
    if set(words.get_vocab()) <= set(words.all_special_tokens):  # made up where no file was found
        raise ConfigError(
            f"tokenizer={name!r} cannot be loaded (it has no vocabulary); name another with --tokenizer"
        )
    words.model_max_length = UNLIMITED
    if words.pad_token is None:
        words.pad_token = words.eos_token
    if words.pad_token is None:
        raise ConfigError(
            f"tokenizer={name!r} has neither a padding token nor an end; name another with --tokenizer"
        )
    model.config.pad_token_id = words.pad_token_id
    return words


def special_tokens(words: Any) -> tuple[int, int]:
    """How many special tokens the tokenizer puts before and behind a text."""
    bare = words("a", add_special_tokens=False).input_ids
    whole = words("a").input_ids
    for start in range(len(whole) - len(bare) + 1):
        if whole[start : start + len(bare)] == bare:
            return start, len(whole) - start - len(bare)
    raise ConfigError("the tokenizer changes a text when it adds special tokens: where they stand is unknown")
