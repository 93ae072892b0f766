"""Memory for pretrained models of transformers; importing this teaches the Auto classes to load them."""

from rmt.hf.extra import require_transformers

require_transformers()

from rmt.hf.attention import AttentionView  # noqa: E402
from rmt.hf.families import decoder, encoder, seq2seq  # noqa: E402
from rmt.hf.limit import unlimited  # noqa: E402
from rmt.hf.stepping import SegmentCache  # noqa: E402
from rmt.hf.view import SegmentView  # noqa: E402
from rmt.hf.wrap import add_memory, register, register_families  # noqa: E402
from rmt.hf.wrapped_segment import WrappedSegment  # noqa: E402

register_families()

__all__ = [
    "AttentionView",
    "SegmentCache",
    "SegmentView",
    "WrappedSegment",
    "add_memory",
    "decoder",
    "encoder",
    "register",
    "seq2seq",
    "unlimited",
]
