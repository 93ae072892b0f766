"""Metrics, measured by generating."""
