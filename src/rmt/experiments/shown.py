"""A result as tables show it: of a known kind, its numbers numbers, its configuration complete."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rmt.config import from_dict, to_dict
from rmt.documents.report import is_documents, is_language
from rmt.errors import ConfigError, RMTError, shown
from rmt.train.config import RunConfig
from rmt.train.folder import is_number, reason_no_result
from rmt.train.stored import FORMER_PRECISION

REMEDY = "name run folders or .jsonl files"
DOCUMENT_SETTINGS = ("data", "backbone", "segments", "memory", "depth")
PATHS = ("data", "backbone")  # those of them that are shown by their last part
Result = dict[str, Any]


def shown_result(record: Any, file: Path) -> Result:
    """A result with all that tables show; a setting that did not exist yet has its default."""
    reason = reason_no_result(record) or (
        reason_no_documents(record) if is_documents(record) else reason_no_metrics(record)
    )
    if reason:
        raise ConfigError(f"{str(file)!r} holds no results of rmt ({reason}); {REMEDY}")
    result: Result = record
    if is_documents(result):
        return result
    try:
        config = from_dict(RunConfig, {"precision": FORMER_PRECISION, **result["config"]})
    except ConfigError as error:
        raise ConfigError(f"config in {str(file)!r}: {error}") from None
    return {**result, "config": to_dict(config)}


def pass_over(errors: Sequence[RMTError], is_nothing_else: bool, warn: Callable[[str], None]) -> None:
    """Name what cannot be shown; where there is nothing else, raise the first of it."""
    if errors and is_nothing_else:
        raise errors[0]
    for error in errors:
        warn(f"passed over: {error}")


def reason_no_documents(result: Result) -> str:
    """Why a result is not one of rmt finetune; nothing if it is."""
    for name in DOCUMENT_SETTINGS:
        if name not in result["config"]:
            return f"config.{name} is missing"
        if name in PATHS and not isinstance(result["config"][name], str):
            return f"config.{name}={shown(result['config'][name])} is no text"
    for split in ("test", *({"test_published"} & result["metrics"].keys())):
        scores = result["metrics"].get(split)
        if not isinstance(scores, dict):
            return f"metrics.{split}={shown(scores)} are no scores"
        needed = {"carried"} if is_language(result) else {result["metric"]}
        if reason := reason_no_numbers({**dict.fromkeys(needed), **scores}):
            return reason
    return ""


def reason_no_metrics(result: Result) -> str:
    """Why a result is not one of rmt train; nothing if it is."""
    metrics = result["metrics"]
    if "perplexity" not in metrics:
        return reason_no_numbers({"original_accuracy": metrics.get("original_accuracy", 0.0)})
    numbers = {name: metrics.get(name) for name in ("perplexity", "loss")}
    return reason_no_numbers({**numbers, "tokens": result.get("tokens")})


def reason_no_numbers(values: Mapping[str, object]) -> str:
    for name, value in values.items():
        if not is_number(value):
            return f"{name}={shown(value)} is no number"
    return ""
