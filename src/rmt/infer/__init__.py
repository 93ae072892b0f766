"""Endless input in constant memory, and generation."""
