"""What the commands with a pretrained model do first: find transformers, and keep it quiet."""

from __future__ import annotations

import warnings


def quiet_transformers() -> None:
    """Raise in one line where the extra [hf] is missing; else no bars and no warnings of transformers."""
    from rmt.hf.extra import require_transformers

    transformers = require_transformers()
    import huggingface_hub

    huggingface_hub.logging.set_verbosity_error()
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    warnings.filterwarnings("ignore", category=DeprecationWarning)
