"""The paper's experiments as data: recipes, sizes, results."""
