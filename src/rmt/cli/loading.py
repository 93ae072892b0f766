"""Import torch without garbage collection (an eighth of its time)."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def loading() -> Iterator[None]:
    """While this is open, torch is loaded, and nothing of what is there then is searched for garbage again.

    Of its 240,000 objects none becomes garbage before the command ends. Looking through them took an eighth
    of the time of loading, a third of a second in each full search, and longer when Python exits.
    """
    if "torch" in sys.modules:
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
