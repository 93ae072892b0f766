"""Memory for pretrained models of transformers; importing this teaches the Auto classes to load them."""

from rmt.hf.stepping import OpenSegment, SegmentCache
from rmt.hf.wrap import add_memory, register

register()

__all__ = ["OpenSegment", "SegmentCache", "add_memory", "register"]
