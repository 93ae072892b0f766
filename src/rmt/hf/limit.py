"""The limit on the length of texts that a tokenizer keeps from the plain model: with memory there is none."""

from __future__ import annotations

import copy
import json
import warnings
from pathlib import Path
from typing import Any

from rmt.jsonfile import parse_json

UNLIMITED = int(1e30)  # transformers' own word for a tokenizer without a limit
HUB_SETTINGS = ("commit_message", "create_pr", "private", "token")  # as models and tokenizers call them
FILE, FIELD = "tokenizer_config.json", "model_max_length"


def unlimited(tokenizer: Any) -> Any:
    """A copy of a tokenizer that cuts no text off, whatever the plain model's limit was."""
    lifted = copy.deepcopy(tokenizer)
    lifted.model_max_length = UNLIMITED
    return lifted


def save_unlimited(tokenizer: Any, folder: Path) -> None:
    """Save a tokenizer, if there is one, in a model's folder; the one that is there has no limit any more."""
    if tokenizer is not None:
        unlimited(tokenizer).save_pretrained(folder)
    lift_saved_limit(folder)


def upload_unlimited(tokenizer: Any, saving: dict[str, Any]) -> None:
    """Upload a tokenizer to where a model was uploaded by these arguments of its `save_pretrained`.

    The model's own upload leaves out what was in its folder before.
    """
    settings = {name: saving[name] for name in HUB_SETTINGS if name in saving}
    name = saving.get("repo_id", Path(saving["save_directory"]).name)
    unlimited(tokenizer).push_to_hub(name, **settings)


def lift_saved_limit(folder: Path) -> None:
    """Lift the limit of a tokenizer that was saved in a folder, if there is one."""
    if saved_limit(folder) is None:
        return
    fields = {**parse_json((folder / FILE).read_text(encoding="utf-8")), FIELD: UNLIMITED}
    (folder / FILE).write_text(json.dumps(fields, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def warn_of_saved_limit(folder: Path) -> None:
    """Say that a tokenizer beside a saved model cuts off what memory is for."""
    limit = saved_limit(folder)
    if limit is not None:
        warnings.warn(
            f"the tokenizer in {str(folder)!r} cuts texts off behind {limit} tokens where it truncates, as "
            "some pipelines do; save it with model.save_pretrained(folder, tokenizer=tokenizer)",
            stacklevel=4,
        )


def saved_limit(folder: Path) -> int | None:
    """The limit of the tokenizer in a folder; None where there is none, or no tokenizer."""
    try:
        limit = parse_json((folder / FILE).read_text(encoding="utf-8")).get(FIELD)
    except (OSError, ValueError, AttributeError):
        return None
    return int(limit) if isinstance(limit, int | float) and limit < UNLIMITED // 10 else None
