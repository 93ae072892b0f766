"""A class named by text, as module:Class, wherever it is: a task or a kind of memory of a user's own."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

from rmt.errors import ConfigError


def class_at(location: str, base: type, home: str, what: str) -> Any:
    """The class at "module:Class", which extends `base` of `home`; the current directory counts as a place.

    `what` it is the class of begins the message of an error.
    """
    module_name, _, class_name = location.partition(":")
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    try:
        module = importlib.import_module(module_name)
    except Exception as error:
        cause = " ".join(f"{type(error).__name__}: {error}".split())
        raise ConfigError(
            f"{what}: module {module_name!r} cannot be imported ({cause}); name one that can be from here"
        ) from error
    cls = getattr(module, class_name, None)
    if not (isinstance(cls, type) and issubclass(cls, base)):
        raise ConfigError(
            f"{what}: {class_name!r} in module {module_name!r} is not a {base.__name__.lower()}; "
            f"name a class that extends {home}.{base.__name__}"
        )
    return cls
