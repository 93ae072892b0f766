"""Something pretrained (model, configuration, tokenizer), from a folder or the hub, and who may run code."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from rmt.errors import ConfigError, RMTError, catching_panics, shown
from rmt.jsonfile import parse_json
from rmt.location import trusts

SERVER_ERROR = 500  # from this status on, HTTP says that it is not the question that is wrong


class PretrainedSource(NamedTuple):
    """Where something pretrained comes from, and what a user can do where it does not."""

    field: str  # backbone, tokenizer or model
    name: str  # a folder, or a name on the hub
    remedy: str = "name a folder, or a model of the hub"

    def config(self) -> Any:
        """The configuration of a model."""
        import transformers

        return self.load(transformers.AutoConfig)

    def tokenizer(self) -> Any:
        """A tokenizer whose template is whole."""
        import transformers

        tokenizer = self.load(transformers.AutoTokenizer)
        if tokens := lacking_in_template(tokenizer):
            raise self.refused(
                f"its template in tokenizer.json has {shown(tokens[0])}, which is none of its special tokens"
            )
        return tokenizer

    def load(self, auto: Any, **options: Any) -> Any:
        """What one of the Auto classes loads from here; code of its own runs only where it is trusted."""
        options["trust_remote_code"] = trusts()
        if not Path(self.name).exists() and not hub_answers(self.name):
            local = {"local_files_only": True}  # what was loaded before may still be here
            options |= {**local, "adapter_kwargs": local} if auto.__name__.startswith("AutoModel") else local
        return self.call_reporting_errors(auto.from_pretrained, self.name, **options)

    def call_reporting_errors(self, function: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """The result of a function; what goes wrong in it is the user's mistake, told in one line."""
        try:
            with catching_panics():
                return function(*args, **options)
        except RMTError:
            raise
        except Exception as error:  # transformers raises whatever a damaged file makes it stumble over
            if "trust_remote_code" in str(error):
                raise self.untrusted() from None
            reason = next((line for line in str(error).splitlines() if line.strip()), "")
            reason = reason.strip()[:200] or type(error).__name__
            raise self.refused(reason) from None

    def refused(self, reason: str) -> ConfigError:
        """The error for what cannot be loaded."""
        return ConfigError(f"{self.field}={self.name!r} cannot be loaded ({reason}); {self.remedy}")

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


def lacking_in_template(tokenizer: Any) -> list[str]:
    """What the template of a tokenizer names and does not have: the tokenizers library would panic at it."""
    library = getattr(tokenizer, "backend_tokenizer", None)
    processor = getattr(library, "post_processor", None)
    content = json.loads(processor.__getstate__()) if processor else {}
    return [
        piece["SpecialToken"]["id"]
        for part in content.get("processors", [content])
        for piece in (*part.get("single", ()), *part.get("pair", ()))
        if "SpecialToken" in piece and piece["SpecialToken"]["id"] not in part["special_tokens"]
    ]


@cache
def hub_answers(name: str) -> bool:
    """Whether the hub can be asked about a name, by one request; its own library asks for half a minute."""
    from huggingface_hub import get_hf_file_metadata, hf_hub_url
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    try:
        get_hf_file_metadata(hf_hub_url(name, "config.json"))
    except HfHubHTTPError as error:
        return bool(error.response.status_code < SERVER_ERROR)
    except HFValidationError:  # no name that it could have, which transformers says better
        return True
    except Exception:  # whatever its library for HTTP raises
        return False
    return True


def model_options() -> dict[str, Any]:
    """How models are loaded: their outputs have names, and their weights come from safetensors.

    A pickle is a program, so it needs trust.
    """
    return {"return_dict": True, **({} if trusts() else {"use_safetensors": True})}
