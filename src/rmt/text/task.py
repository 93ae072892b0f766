"""Text as a task: a prepared corpus, read in lanes whose state goes on from batch to batch (section 4)."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import ClassVar

from rmt.errors import ConfigError, DataError
from rmt.text.corpora import find_source
from rmt.text.lanes import Lanes
from rmt.text.prepare import DESCRIPTION, Corpus, open_corpus, prepare_corpus

BITS = ("bytes", "characters")  # kinds of token that are measured in bits


class Text:
    """Predict the next token of a corpus."""

    name: ClassVar[str] = "text"
    version: ClassVar[int] = 1
    carries_state: ClassVar[bool] = True

    def __init__(self, data: str, tokens: str | None = None):
        self.corpus = find_corpus(data, tokens)
        for split in ("train", "valid", "test"):
            if split not in self.corpus.splits:
                raise DataError(f"data={data!r} has no {split} split; training needs train, valid and test")

    @property
    def vocabulary(self) -> int:
        return int(self.corpus.description["vocabulary"])

    @property
    def metric(self) -> str:
        """What results are judged by; lower is better."""
        return "bits_per_character" if self.corpus.description["tokens"] in BITS else "perplexity"

    @property
    def fingerprint(self) -> str:
        """What two corpora have to share to be the same to a run."""
        texts = [(split["sha256"], split["documents"]) for split in self.corpus.splits.values()]
        identity = (self.corpus.description["vocabulary_sha256"], *texts)
        return hashlib.sha256(json.dumps(identity).encode()).hexdigest()[:16]

    def lanes(self, split: str, batch: int) -> Lanes:
        """A split as `batch` lanes."""
        try:
            return Lanes.open(self.corpus.folder, split, batch)
        except ConfigError as error:
            raise ConfigError(f"split {split!r} of {str(self.corpus.folder)!r}: {error}") from None


def find_corpus(data: str, tokens: str | None = None) -> Corpus:
    """The prepared corpus that `data` names; a known name or the path of a text is prepared on the way."""
    if not data:
        raise ConfigError("data is missing: name a corpus or the path of a text with --data")
    if (Path(data) / DESCRIPTION).is_file():
        corpus = open_corpus(Path(data))
        if tokens not in (None, corpus.description["tokens"]):
            raise ConfigError(f"task.tokens={tokens}: {data!r} is prepared in {corpus.description['tokens']}")
        return corpus
    source = find_source(data, tokens)
    place = Path("data") / f"{source.name}-{source.tokens}"
    try:
        return prepare_corpus(source, place)
    except DataError as error:
        raise DataError(str(error).replace("--force", "rmt data prepare --force")) from None
