"""How fast a training step is, what it needs, and how both grow."""
