"""Text: files, corpora, vocabularies, tokenizers, and the task of predicting it in lanes; no models."""

from importlib import import_module
from typing import Any

_HOMES = {
    "CORPORA": "corpora",
    "Corpus": "corpus",
    "Lanes": "lanes",
    "Text": "task",
    "Vocabulary": "vocabulary",
    "check_corpus": "corpus",
    "find_source": "corpora",
    "open_corpus": "corpus",
    "prepare_corpus": "prepare",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
