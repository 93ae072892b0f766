"""Something pretrained (model, configuration, tokenizer), from a folder or the hub, and who may run code."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from rmt.errors import ConfigError, RMTError
from rmt.jsonfile import parse_json
from rmt.location import trusts


class PretrainedSource(NamedTuple):
    """Where something pretrained comes from, and what a user can do where it does not."""

    field: str  # backbone, tokenizer or model
    name: str  # a folder, or a name on the hub
    remedy: str = "name a folder, or a model of the hub"

    def config(self) -> Any:
        """The configuration of a model."""
        import transformers

        return self.load(transformers.AutoConfig)

    def load(self, auto: Any, **options: Any) -> Any:
        """What one of the Auto classes loads from here; code of its own runs only where it is trusted."""
        return self.told(auto.from_pretrained, self.name, trust_remote_code=trusts(), **options)

    def told(self, load: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """The result of `load`; what goes wrong in it is the user's mistake, told in one line."""
        try:
            return load(*args, **options)
        except RMTError:
            raise
        except Exception as error:  # transformers raises whatever a damaged file makes it stumble over
            if "trust_remote_code" in str(error):
                raise self.untrusted() from None
            reason = next((line for line in str(error).splitlines() if line.strip()), "")
            reason = reason.strip()[:200] or type(error).__name__
            raise ConfigError(
                f"{self.field}={self.name!r} cannot be loaded ({reason}); {self.remedy}"
            ) from None

    def untrusted(self) -> ConfigError:
        """The error for code that a source brings along."""
        return ConfigError(
            f"{self.field}={self.name!r} brings code of its own{self.own_class()}, which would run here; "
            "if you trust it, add --trust"
        )

    def own_class(self) -> str:
        """The first class that the files of a folder name, or nothing where they cannot tell."""
        for file in ("config.json", "tokenizer_config.json"):
            try:
                classes = parse_json((Path(self.name) / file).read_text(encoding="utf-8"))["auto_map"]
                field, name = next(iter(classes.items()))
            except (OSError, ValueError, KeyError, TypeError, AttributeError, StopIteration, RecursionError):
                continue
            return f", auto_map.{field}={name!r} in {file}"
        return ""


def weights_only() -> dict[str, Any]:
    """The option by which weights are loaded from safetensors: a pickle is a program, so it needs trust."""
    return {} if trusts() else {"use_safetensors": True}
