"""A class named by text, as module:Class, wherever it is: a task or a kind of memory of a user's own.

Naming a class runs the code of its module. On a command line or in a call it is the user who names it; in a
file it may be a stranger, whose code runs only where the user has said so.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from rmt.errors import ConfigError, shown

PACKAGE = __name__.partition(".")[0]
TRUST: ContextVar[bool] = ContextVar("trust", default=False)


@contextmanager
def trusting(trust: bool) -> Iterator[None]:
    """While this is open, files may name classes to import; inside another, it never trusts less."""
    before = TRUST.set(trust or TRUST.get())
    try:
        yield
    finally:
        TRUST.reset(before)


def trusts() -> bool:
    """Whether code that a file names may run."""
    return TRUST.get()


def require_trust(location: str, field: str, source: str | Path) -> None:
    """Raise for a class that `field` of the file or folder `source` names, unless its code may run.

    A class of this package, and one of a module that this program has loaded already, brings no new code.
    """
    module, colon, _ = location.partition(":")
    if trusts() or not colon or is_own(module) or module in sys.modules:
        return
    raise ConfigError(
        f"{str(source)!r} names a class, {field}={shown(location)}, whose code would run here; "
        "if you trust it, add --trust (in Python, trust=True)"
    )


def is_own(module: str) -> bool:
    """Whether a module is part of this package."""
    return module.partition(".")[0] == PACKAGE


def class_at(location: str, base: type, home: str, what: str) -> Any:
    """The class at "module:Class", which extends `base` of `home`; the current directory counts as a place.

    `what` it is the class of begins the message of an error.
    """
    module_name, _, class_name = location.partition(":")
    if not is_own(module_name) and os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    try:
        module = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:
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
