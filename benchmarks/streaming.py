"""Endless input in constant memory: a long stream through a session, beside full attention.

    python benchmarks/streaming.py flat --tokens 1000000                    CPU: resident memory, a tiny model
    python benchmarks/streaming.py flat --device cuda --size base --segment 512 --tokens 10000000
    python benchmarks/streaming.py compare --device cuda --size base --segment 512 --out streaming.png

`flat` reads random tokens and prints memory and speed as it goes; it fails if memory grew. `compare` reads
ever longer inputs, as a session and at once with causal attention, until one takes more than `--limit`
seconds or runs out of memory.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from rmt import SegmentModel, Session, presets
from rmt.nn.attention import Attended, KeyValue
from rmt.nn.axis import Axis
from rmt.train.log import environment

SIZES = {
    "tiny": {"layers": 1, "heads": 1, "head_width": 16, "width": 16, "inner_width": 32},
    "small": {"layers": 2, "heads": 4, "head_width": 32, "width": 64, "inner_width": 128},
    "base": {"layers": 12, "heads": 8, "head_width": 64, "width": 512, "inner_width": 2048},
}
VOCABULARY, MEMORY = 256, 10
BLOCK = 64  # segments fed at a time
ALLOWED = 5e6  # bytes that memory may grow after the first tenth
MARKS = 20  # lines of `flat`


class Reading(NamedTuple):
    """How one length was read."""

    way: str
    tokens: int
    seconds: float
    bytes: int  # most memory in use: on a GPU above the weights, on a CPU of the whole process


def build(arguments: argparse.Namespace, memory: int) -> SegmentModel:
    """The model, with or without memory; the backbone is the same."""
    torch.manual_seed(0)
    sizes = {"vocabulary": VOCABULARY, "positions": "rotary", **SIZES[arguments.size]}
    config = presets.rmt(memory, **sizes) if memory else presets.baseline(**sizes)
    dtype = torch.bfloat16 if arguments.device == "cuda" else torch.float32
    return SegmentModel(config).eval().to(arguments.device, dtype)


def resident(device: str) -> int:
    """Bytes in use now: allocated on the GPU, or resident memory of this process."""
    if device == "cuda":
        return torch.cuda.memory_allocated()
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def flat(arguments: argparse.Namespace) -> int:
    """One long stream: memory and speed at even distances; the exit code says whether memory was flat."""
    session = Session(build(arguments, MEMORY), segment_length=arguments.segment)
    size = BLOCK * arguments.segment
    generator = torch.Generator().manual_seed(0)
    held, done, next_mark, records = [], 0, arguments.tokens // MARKS, []
    start = mark = time.perf_counter()
    last = 0
    while done < arguments.tokens:
        count = min(size, arguments.tokens - done)
        session.feed(torch.randint(VOCABULARY, (1, count), generator=generator))
        done += count
        if done >= next_mark:
            now = time.perf_counter()
            peak = torch.cuda.max_memory_allocated() if arguments.device == "cuda" else 0
            records.append((done, resident(arguments.device), peak, (done - last) / (now - mark)))
            print(
                "{:>12,} tokens  {:>14,} bytes  peak {:>14,}  {:>10,.0f} tokens/s".format(*records[-1]),
                flush=True,
            )
            held.append(session.nbytes)
            mark, last, next_mark = now, done, next_mark + arguments.tokens // MARKS
    grown = records[-1][1] - next(record for record in records if record[0] >= arguments.tokens / 10)[1]
    print(
        f"{done:,} tokens in {time.perf_counter() - start:.1f} s; state {session.state.nbytes:,} bytes, "
        f"session at most {max(held):,} bytes; memory grew by {grown:,} bytes after the first tenth"
    )
    return int(grown > ALLOWED)


def causal(query: Tensor, seen: KeyValue, bias: Tensor, mask: Tensor) -> Attended:
    """Attention to everything before, by a fused kernel that needs no mask."""
    return Attended(F.scaled_dot_product_attention(query, *seen, is_causal=True), query.new_empty(0))


@torch.no_grad()
def encode_at_once(model: SegmentModel, tokens: Tensor) -> None:
    """Full attention over all tokens, with the keys and values that the next token would need."""
    length = tokens.shape[1]
    everything = torch.ones((), dtype=torch.bool, device=tokens.device).expand(length, length)
    axis = Axis(torch.arange(length, device=tokens.device), everything, torch.tensor([length]))
    cache = model.initial_state(1).cache
    encoded = model.backbone(model.embedding(tokens), axis, cache=cache, attend=causal)
    model.embedding.logits(encoded.hidden[:, -1])


def measure(way: str, read: Callable[[Tensor], Any], length: int, device: str) -> Reading:
    tokens = torch.randint(VOCABULARY, (1, length), device=device)
    if device == "cuda":
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
    before, start = resident(device), time.perf_counter()
    read(tokens)
    if device == "cuda":
        torch.cuda.synchronize()
    seconds = time.perf_counter() - start
    peak = torch.cuda.max_memory_allocated() - before if device == "cuda" else resident(device)
    return Reading(way, length, seconds, peak)


def compare(arguments: argparse.Namespace) -> int:
    """Ever longer inputs, twice as long each time, until both ways are too slow or out of memory."""
    model, plain = build(arguments, MEMORY), build(arguments, 0)
    ways: dict[str, Callable[[Tensor], Any]] = {
        "session": lambda tokens: Session(model, segment_length=arguments.segment).feed(tokens),
        "full attention": lambda tokens: encode_at_once(plain, tokens),
    }
    readings: list[Reading] = []
    for way, read in ways.items():
        length = 1024
        read(torch.randint(VOCABULARY, (1, length), device=arguments.device))  # warm up
        while length <= arguments.tokens:
            try:
                readings.append(measure(way, read, length, arguments.device))
            except (torch.OutOfMemoryError, RuntimeError) as error:
                print(f"{way}: {length:,} tokens: {str(error).splitlines()[0]}")
                break
            print(json.dumps(readings[-1]._asdict()), flush=True)
            if readings[-1].seconds > arguments.limit:
                break
            length *= 2
    if arguments.out:
        draw(readings, arguments)
    return 0


def draw(readings: list[Reading], arguments: argparse.Namespace) -> None:
    """Time per token and memory over the length, both axes logarithmic."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(10, 4), layout="constrained")
    for way in dict.fromkeys(reading.way for reading in readings):
        mine = [reading for reading in readings if reading.way == way]
        lengths = [reading.tokens for reading in mine]
        left.loglog(lengths, [1e6 * reading.seconds / reading.tokens for reading in mine], "o-", label=way)
        right.loglog(lengths, [reading.bytes / 1e9 for reading in mine], "o-", label=way)
    left.set(xlabel="tokens", ylabel="µs per token")
    right.set(xlabel="tokens", ylabel="GB in use")
    left.legend()
    figure.savefig(arguments.out, dpi=150)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["flat", "compare"], nargs="?", default="flat")
    parser.add_argument("--tokens", type=int, default=1_000_000, help="flat: in all; compare: at most")
    parser.add_argument("--segment", type=int, default=128, help="tokens per segment")
    parser.add_argument("--size", choices=list(SIZES), default="tiny")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--limit", type=float, default=30.0, help="compare: seconds for one reading")
    parser.add_argument("--out", help="compare: a picture")
    arguments = parser.parse_args()
    print(json.dumps({**vars(arguments), **environment(torch.device(arguments.device))}))
    return {"flat": flat, "compare": compare}[arguments.what](arguments)


if __name__ == "__main__":
    sys.exit(main())
