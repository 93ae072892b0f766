"""Which wrapped models can encode token by token."""

from __future__ import annotations

from typing import Any

from rmt.errors import ConfigError
from rmt.hf.masks import DENSE


def reason_not_steppable(model: Any) -> str | None:
    """Why a model cannot encode token by token, if it cannot."""
    alignment, attention = model.settings.alignment, model.config._attn_implementation
    if alignment != "left":
        return (
            f"alignment={alignment!r} cannot be decoded: where segments end would depend on what is still to "
            "come; use alignment='left'"
        )
    if model.settings.prefix or model.settings.suffix:
        return (
            f"special_tokens={(model.settings.prefix, model.settings.suffix)} are repeated in each segment, "
            "which cannot be encoded token by token; use special_tokens=(0, 0), or use_cache=False"
        )
    if attention not in DENSE:
        return (
            f"attn_implementation={attention!r} cannot decode with memory; "
            "call model.set_attn_implementation('sdpa')"
        )
    if model.training and model.is_gradient_checkpointing:
        return (
            "gradient checkpointing in training mode keeps no keys and values: nothing can be encoded token "
            "by token; call model.eval(), or set use_cache=False"
        )
    return None


def require_steppable(model: Any) -> None:
    """Refuse what cannot be encoded token by token."""
    reason = reason_not_steppable(model)
    if reason is not None:
        raise ConfigError(reason)
