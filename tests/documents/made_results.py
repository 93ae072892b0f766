"""What runs of `rmt finetune` leave in result.json, without a training: a language model and a regression."""

from typing import Any

SHARED: dict[str, Any] = {
    "recipe": "finetune",
    "split": "test",
    "seed": 0,
    "steps": 31,
    "seconds": 0.5,
    "samples": 6,
}
SETTINGS = {"backbone": "models/gpt2", "segments": 2, "segment_length": 8, "memory": 2, "depth": "full"}
LANGUAGE: dict[str, Any] = {
    **SHARED,
    "task": "texts/novel.txt",
    "model": "rmt_gpt2, 2 segments of 8 tokens, a cache of 4",
    "metric": "perplexity",
    "value": 13.5,
    "metrics": {
        "valid": {"carried": 13.6, "reset": 13.7},
        "test": {"carried_untrained": 14.9, "carried": 13.5, "reset": 13.6, "memory_reset": 13.55},
    },
    "config": {**SETTINGS, "data": "texts/novel.txt", "task": "lm", "cache": None, "sink": None, "seed": 0},
}
REGRESSION: dict[str, Any] = {
    **SHARED,
    "task": "prices.jsonl",
    "model": "bert, 3 × 27 tokens",
    "metric": "mse",
    "value": 0.25,
    "metrics": {"test": {"mse": 0.25, "mae": 0.5, "pearson": -0.125}},
    "config": {**SETTINGS, "data": "prices.jsonl", "task": "regression", "cache": 0, "sink": None, "seed": 0},
}


def of_seed(result: dict[str, Any], seed: int, **scores: float) -> dict[str, Any]:
    """The same run of another seed, with other scores on the test split."""
    test = {**result["metrics"]["test"], **scores}
    return {
        **result,
        "seed": seed,
        "metrics": {**result["metrics"], "test": test},
        "config": {**result["config"], "seed": seed},
    }
