"""LoRA: small matrices beside the backbone's are trained instead of it, with memory and head."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

from rmt.hf.extra import require_package

# new parts of a model, by the names that pretrained classes give them: they are trained as they are
NEW_PARTS = ("memory", "classifier", "score", "qa_outputs", "pre_classifier", "head", "pooler")


def with_lora(model: Any, rank: int, targets: str = "", drawn: Iterable[str] = ()) -> Any:
    """The model with matrices of a rank beside `targets`, or beside those that peft knows for the family.

    Modules whose weights were `drawn` instead of loaded are trained whole.
    """
    require_package("peft")
    from peft import LoraConfig, get_peft_model
    from peft.utils.constants import TRANSFORMERS_MODELS_TO_LORA_TARGET_MODULES_MAPPING as TARGETS

    known: Any = TARGETS
    family = model.config.model_type.removeprefix("rmt_")
    new = [name for name, _ in model.named_children() if name in NEW_PARTS]
    inside = {name.rpartition(".")[0] for name in drawn if name.partition(".")[0] not in new}
    adapter = LoraConfig(
        r=rank,
        lora_alpha=2 * rank,
        target_modules=targets or known.get(family, "all-linear"),
        modules_to_save=[*new, *sorted(inside)],
    )
    with warnings.catch_warnings():
        warnings.filterwarnings(
            "ignore", "fan_in_fan_out"
        )  # GPT-2 has its matrices transposed, as peft finds out
        return get_peft_model(model, adapter)


def merged(model: Any) -> Any:
    """The model with its matrices added up, as it was before LoRA; a model without LoRA is that already."""
    return model.merge_and_unload() if hasattr(model, "merge_and_unload") else model
