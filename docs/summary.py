"""The README's results, made from the files in results/: one table and one figure.

`python docs/summary.py` prints the table and draws docs/results.png (with matplotlib).
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rmt.experiments.paper import PUBLISHED, PublishedCell

ROOT = Path(__file__).parent.parent
MODELS = ("rmt", "transformer_xl", "baseline")
NAMES = {"rmt": "RMT", "transformer_xl": "Transformer-XL", "baseline": "plain Transformer"}
COLOURS = {"rmt": "#d98200", "transformer_xl": "#4a6fa5", "baseline": "#8a94a6"}
# task in a file: (name in the paper, tokens of a sequence, its segments)
ALGORITHMIC = {
    ("algorithmic", "copy"): ("copy-24", 72, (3, 6, 9)),
    ("algorithmic", "reverse"): ("reverse-24", 48, (2, 4, 6)),
    ("retrieval-quadratic", "retrieval"): ("retrieval", 10, (2, 3, 5)),
    ("retrieval-quadratic", "quadratic"): ("quadratic", 180, (6,)),
}
TEXTS = {
    "text-wikitext-2": "WikiText-2, test perplexity",
    "text-enwik8-prefix": "enwik8's first 4 MB, bits per byte",
}
BACKBONES = {
    "hyperpartisan-gte-small": "gte-small",
    "hyperpartisan-minilm-l6": "MiniLM",
    "hyperpartisan-deberta-v3-xsmall": "DeBERTa",
}
HEAD = "| | recipe | RMT | Transformer-XL | plain Transformer | paper: RMT | paper: Transformer-XL |"


class ResultRow(NamedTuple):
    """What was measured of the three models, seed by seed, and what the paper has."""

    title: str
    values: dict[str, list[float]]
    recipe: str = ""
    paper: tuple[str, str] = ("", "")
    sign: int = 1  # -1: lower is better

    def cell(self, model: str, digits: int = 3) -> str:
        values = self.values.get(model)
        if not values:
            return "–"
        spread = f" ± {statistics.stdev(values):.{digits}f}" if len(values) > 1 else ""
        text = f"{statistics.mean(values):.{digits}f}{spread} ({len(values)})"
        return f"**{text}**" if self.is_best(model) else text

    def is_best(self, model: str) -> bool:
        means = {name: self.sign * round(statistics.mean(values), 3) for name, values in self.values.items()}
        return means[model] == max(means.values())

    def __str__(self) -> str:
        digits = 1 if "perplexity" in self.title else 3
        cells = [self.cell(model, digits) for model in MODELS]
        paper = (text or "–" for text in self.paper)
        return f"| {' | '.join([self.title, self.recipe or '–', *cells, *paper])} |"


def results(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (ROOT / "results" / f"{name}.jsonl").read_text().splitlines()]


def reproduced() -> dict[str, list[float]]:
    """What the cells of `rmt reproduce --scale gpu` came to in the test, seed by seed."""
    return {cell["cell"]["name"]: [run["value"] for run in cell["runs"]] for cell in results("paper-gpu")}


def algorithmic() -> Iterator[ResultRow]:
    """Copy, reverse, retrieval and equations: strict accuracy of all seeds that were trained.

    Of scale `gpu`, which gives all models the same, where that is made; else of `modern-1`.
    """
    cells = reproduced()
    for (file, task), (name, tokens, segment_counts) in ALGORITHMIC.items():
        runs = [
            run for run in results(file) if run["task"] == task and run["config"]["bptt"]["depth"] == "full"
        ]
        for segments in segment_counts:
            size = {3: 3, 5: 2}.get(segments, 5) if task == "retrieval" else tokens // segments
            names = {model: f"{name}-{segments}-{model}-{size}" for model in MODELS[:2]}
            names["baseline"] = f"{name}-{segments}-baseline"
            paper = tuple(published(name, segments, model, size) for model in MODELS[:2])
            if cells.keys() >= set(names.values()):
                values = {model: cells[cell] for model, cell in names.items()}
                recipe = "modern-2"
            else:
                chosen = [run for run in runs if run["config"]["task"]["segments"] == segments]
                values = {
                    model: [run["value"] for run in chosen if run["model"] == model] for model in MODELS
                }
                recipe = "modern-1"
            yield ResultRow(f"{name}, {segments} segments", values, recipe, (paper[0], paper[1]))


def published(task: str, segments: int, model: str, memory: int) -> str:
    cell = PUBLISHED.get(PublishedCell(task, segments, model, memory))
    return f"{cell.mean:.3f} ± {cell.deviation:.3f}" if cell else ""


def texts() -> Iterator[ResultRow]:
    """Language models of recipe `modern-1`; RMT learns across two borders."""
    for file, title in TEXTS.items():
        values = {run["model"]: [run["value"]] for run in language_models(file)}
        yield ResultRow(title, values, "modern-1", sign=-1)


def language_models(file: str) -> list[dict[str, Any]]:
    depths = {"rmt": 2, "transformer_xl": 0, "baseline": 0}
    runs = [run for run in results(file) if run["recipe"] == "modern"]  # as modern-1 was stored
    return [run for run in runs if run["config"]["bptt"]["depth"] == depths.get(run["model"])]


def distances() -> dict[str, dict[int, float]]:
    """Accuracy of questions about facts in a novel, by model and by tokens read."""
    runs = [run for run in results("memory-qa") if run["trained_on"] == 512]
    return {run["model"]: {row["tokens"]: row["accuracy"] for row in run["distances"]} for run in runs}


def questions() -> Iterator[ResultRow]:
    by_model = distances()
    for tokens in (512, 65536):
        values = {model: [by_model[model][tokens]] for model in MODELS}
        yield ResultRow(f"facts in a novel, {tokens:,} tokens", values, "modern-1")


def documents() -> Iterator[ResultRow]:
    """Hyperpartisan news: pretrained encoders with memory in four segments, and as they are."""
    cells = reproduced()
    for backbone, name in BACKBONES.items():
        values = {"rmt": cells[f"{backbone}-4"], "baseline": cells[f"{backbone}-1"]}
        yield ResultRow(f"Hyperpartisan news, F1, {name}", values)


def novels() -> Iterator[ResultRow]:
    """A small pretrained decoder on a novel: memory beside a cache, the cache alone, plain windows."""
    names = {"rmt": "carried", "transformer_xl": "cache", "baseline": "plain"}
    tested = [
        run["metrics"]["test"]
        for run in results("pretrained-decoders")
        if run["config"]["backbone"] == "stories15M" and "cache" in run["metrics"]["test"]
    ]
    values = {model: [perplexities[name] for perplexities in tested] for model, name in names.items()}
    yield ResultRow("Moby Dick by a pretrained decoder, perplexity", values, sign=-1)


def rows() -> list[ResultRow]:
    return [*algorithmic(), *questions(), *texts(), *documents(), *novels()]


def table(shown: Sequence[ResultRow]) -> str:
    return "\n".join([HEAD, "|---" * 7 + "|", *map(str, shown)])


def draw(path: Path) -> None:
    """Copy over segments, facts over distance, perplexity and what is carried for it."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 3.2), layout="constrained")
    copy, facts, text = figure.subplots(1, 3)
    copies = [row for row in algorithmic() if row.title.startswith("copy")]
    for model in reversed(MODELS):
        values = [row.values[model] for row in copies]
        label = f"{NAMES[model]} ({len(copies[0].values[model])} seeds)"
        means, spreads = map(statistics.mean, values), map(statistics.stdev, values)
        style: dict[str, Any] = {"color": COLOURS[model], "label": label, "capsize": 3}
        copy.errorbar(["3", "6", "9"], list(means), list(spreads), fmt="o-", **style)
        known = distances()[model]
        facts.semilogx(
            list(known), list(known.values()), "o-", base=2, color=COLOURS[model], label=NAMES[model]
        )
    copy.set(title="copy-24, each at its best rate", xlabel="segments", ylabel="accuracy", ylim=(0, 1.04))
    facts.set(title="facts in a novel, trained on 512 (1 seed)", xlabel="tokens read", ylim=(0, 1.04))
    facts.axhline(1 / 6, color="#bbb", linestyle=":", label="guessing")
    for run in sorted(language_models("text-wikitext-2"), key=lambda run: run["value"]):
        bar = text.bar(NAMES[run["model"]].replace(" ", "\n"), run["value"], color=COLOURS[run["model"]])
        text.bar_label(bar, [f"{run['value']:.1f}\n{run['state_bytes'] / 1000:,.0f} kB carried"])
    text.set(title="WikiText-2 perplexity (1 seed)", ylim=(0, 160))
    copy.legend(fontsize=8, loc="center left")
    facts.legend(fontsize=8, loc="center right")
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    print(table(rows()))
    draw(Path(__file__).parent / "results.png")
