"""Blocks that never heard of segments."""
