"""One training loop for all models and tasks."""
