"""The memory explorer: the attention of a model on a few examples as one page that needs nothing else."""

# N layers · H heads · Q queries · K keys · C cache · T tokens of all segments

from __future__ import annotations

import base64
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import torch
from torch import Tensor

from rmt.analysis.capture import SegmentAttention, capture, rows
from rmt.analysis.examples import Example
from rmt.analysis.operations import DIAGONAL, OPERATIONS, Finding, best, findings, operations
from rmt.analysis.pages import assemble
from rmt.errors import ConfigError

SCRIPTS = ("data.js", "map.js", "panels.js", "main.js")
PACKED = 8 / 3  # bytes of a weight in the page: two, in base 64
MOST_BYTES = 64_000_000  # that a browser opens within seconds
FINEST = 65535  # a weight is stored as one of so many steps from 0 to 1

Data = dict[str, Any]


def explore(
    model: Any,
    examples: Sequence[Example],
    length: int | None,
    words: Sequence[str],
    title: str,
    facts: Sequence[str],
) -> str:
    """The page for a model reading some examples in segments of `length` tokens; none = as it cuts them."""
    captured = [capture(model, example.tokens, length) for example in examples]
    require_small(captured)
    examples_data = [
        {
            "name": example.name,
            "segments": segments_data(model, segments, example, words),
            "findings": [finding_data(finding, segments[finding.segment]) for finding in clearest(segments)],
        }
        for example, segments in zip(examples, captured, strict=True)
    ]
    layers, heads = captured[0][0].weights.shape[:2]
    data = {"title": title, "facts": list(facts), "layers": layers, "heads": heads, "examples": examples_data}
    return assemble("explorer", SCRIPTS, data | {"diagonal": DIAGONAL, "operations": OPERATIONS})


def clearest(segments: Sequence[SegmentAttention]) -> list[Finding]:
    """The best head of each operation that the model can do."""
    all_findings = findings(segments)
    strongest = (best(all_findings, name) for name in OPERATIONS)
    return [finding for finding in strongest if finding is not None]


def finding_data(finding: Finding, segment: SegmentAttention) -> Data:
    """A finding, and where the page shows it: its first row, and what that looks at most."""
    query, _ = OPERATIONS[finding.operation]
    row = rows(segment.spans, query).start
    cell = {"row": row, "column": int(segment.weights[finding.head][row].argmax())}
    return {
        "operation": finding.operation,
        "mass": round(finding.mass, 3),
        "order": finding.order,
        "to": {"segment": finding.segment, **finding.head._asdict(), **cell},
    }


def segments_data(
    model: Any, segments: Sequence[SegmentAttention], example: Example, words: Sequence[str]
) -> list[Data]:
    """Every segment as the page reads it."""
    data, cached = list[Data](), list[str]()
    for segment, targets, wanted in zip(segments, *columns_of(segments, example), strict=True):
        data.append(
            {
                "spans": list(segment.spans),
                "tokens": spelled(segment.tokens, words),
                "predicted": spelled(segment.predicted, words),
                "targets": spelled(targets, words),
                "wanted": [int(position) for position in wanted],
                "cache": in_cache(model, cached) if segment.spans.cache else [],
                "weights": pack(segment.weights),
                "scores": scores_data(segment),
            }
        )
        cached += kept(model, segment, words) if segment.spans.cache else []
    return data


def columns_of(segments: Sequence[SegmentAttention], example: Example) -> list[Sequence[Tensor]]:
    """Targets and questions of each segment; where a model adds special tokens, its own next tokens."""
    sizes = [len(segment.tokens) for segment in segments]
    if sum(sizes) == len(example.targets):
        return [column.split(sizes) for column in (example.targets, example.wanted)]
    tokens = torch.cat([segment.tokens for segment in segments])
    following = torch.cat([tokens[1:], tokens[-1:]])
    return [following.split(sizes), torch.zeros(len(tokens), dtype=torch.bool).split(sizes)]


def require_small(captured: Sequence[Sequence[SegmentAttention]]) -> None:
    """Refuse attention that would be a page which no browser opens."""
    size = sum(segment.weights.numel() * PACKED for segments in captured for segment in segments)
    if size > MOST_BYTES:
        raise ConfigError(
            f"the attention of {sum(map(len, captured))} segments is a page of {size / 1e6:,.0f} MB; give a "
            f"shorter text or fewer examples, for at most {MOST_BYTES / 1e6:,.0f} MB"
        )


def kept(model: Any, segment: SegmentAttention, words: Sequence[str]) -> list[str]:
    """Labels of the rows of a segment that go into the cache, in order."""
    labels = segment.labels(spelled(segment.tokens, words))
    numbers = model.cache.kept(torch.arange(len(labels))[None, :, None], segment.spans)
    return [labels[number] for number in numbers.flatten().tolist()]


def in_cache(model: Any, labels: Sequence[str]) -> list[str]:
    """What stands at each row of the cache behind rows with these labels; empty rows come first."""
    cache = model.cache
    first, last = labels[: cache.sink], labels[cache.sink :][-cache.size :]
    return [*[""] * (cache.rows - len(first) - len(last)), *first, *last]


def spelled(tokens: Tensor, words: Sequence[str]) -> list[str]:
    """Tokens for a reader; what would not be seen gets a sign."""
    return [words[token] if words[token].strip() else "␣" for token in tokens.tolist()]


def scores_data(segment: SegmentAttention) -> Data:
    """Each operation's scores for every head, head after head."""
    return {
        name: [[round(value, 3) for value in head] for head in torch.stack(scores, -1).flatten(0, 1).tolist()]
        for name, scores in operations(segment).items()
    }


def pack(weights: Tensor) -> str:
    """Attention weights (N, H, Q, K) as text: 16 bits each, the lower byte first."""
    steps = (weights.double() * FINEST).round().to(torch.int32).cpu().numpy().astype("<u2")
    return base64.b64encode(steps.tobytes()).decode()


def server(page: str, port: int = 0) -> ThreadingHTTPServer:
    """A server of one page for this machine only; port 0 takes any that is free."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = page.encode() if self.path in ("/", "/index.html") else b""
            self.send_response(200 if body else 404)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *values: object) -> None:
            """The command says where the page is; each request is nobody's business."""

    if not 0 <= port <= 65535:
        raise ConfigError(f"port={port} must be 0 to 65535")
    try:
        return ThreadingHTTPServer(("127.0.0.1", port), Handler)
    except OSError as error:
        raise ConfigError(f"port={port} cannot be opened ({error.strerror}); choose another") from None
