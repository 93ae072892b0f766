"""Models of other code bases as ours."""
