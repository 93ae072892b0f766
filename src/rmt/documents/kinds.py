"""The kinds of task that documents can be learned for, by their names on the command line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rmt.documents.answering import Answering
from rmt.documents.classification import Classification, WrittenClassification
from rmt.documents.multi_label import MultiLabel
from rmt.documents.regression import Regression
from rmt.documents.scores import Scoring
from rmt.documents.tagging import Tagging
from rmt.documents.task import DocumentTask
from rmt.errors import ConfigError

KINDS: dict[str, type[DocumentTask]] = {
    kind.name: kind for kind in (Classification, MultiLabel, Regression, Tagging, Answering)
}


def kind_for(name: str, is_encoder_decoder: bool) -> type[DocumentTask]:
    """The kind of task for a backbone: an encoder-decoder writes the name of the class."""
    if not is_encoder_decoder:
        return KINDS[name]
    if name != Classification.name:
        raise ConfigError(f"task={name!r} needs a head, and encoder-decoders write; name another --backbone")
    return WrittenClassification


class TaskSettings(NamedTuple):
    """A kind of task as a run's settings name it."""

    name: str = "classification"
    labels: Sequence[str] = ()
    scoring: Scoring = Scoring("f1")
    answer: str = "last"  # or mean
    lora: int = 0  # rank
