"""What a memory of what followed what would be worth to a decoder on a text: a bound, nothing is trained.

    python benchmarks/recall.py runs/novel/model novel.txt --cache 48
    python benchmarks/recall.py SmolLM2 novel.txt --gguf SmolLM2-135M-Instruct.Q4_1.gguf --cache 384

The decoder reads the end of the text in segments, as `rmt finetune --task lm` tests it, with memory that is
still empty. Of every token of earlier segments a key is kept (its hidden state by a random projection to 64
numbers) and the token that followed. What followed similar keys is mixed into the next prediction: p is
(1 − λ) p + λ Σ softmax(τ cos(k_s, k_t)) [token s + 1]. The best λ and τ are those of the text itself, so a
memory that learns them on another text is worth less than this.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import NamedTuple

import torch
import transformers
from torch import Tensor

import rmt
import rmt.hf  # registers models with memory
from rmt.hf.model import WithMemory

SEQUENCE = 960  # tokens of a tested sequence
TAIL = 0.05  # of the text that is tested, as a file is cut for finetuning
KEY = 64  # numbers of a key
SHARPNESS = (4.0, 8.0, 16.0, 32.0)  # τ
SHARES = (0.02, 0.05, 0.1, 0.15)  # λ


class Predictions(NamedTuple):
    """What a decoder makes of B sequences of T tokens."""

    probability: Tensor  # (B, T) of the token that follows
    hidden: Tensor  # (B, T, D) behind the layer before the last
    following: Tensor  # (B, T)


class Mixed(NamedTuple):
    perplexity: float
    sharpness: float
    share: float


def main() -> None:
    options = parsed()
    torch.manual_seed(0)
    tokenizer = load(transformers.AutoTokenizer, options)
    model = load(transformers.AutoModelForCausalLM, options)
    if not isinstance(model, WithMemory):
        model = rmt.add_memory(model, segment_length=options.segment_length, cache=options.cache, sink=4)
    text = Path(options.text).read_text(encoding="utf-8")
    count = options.sequences * SEQUENCE + 1
    ids = tokenizer(text[-int(TAIL * len(text)) :], add_special_tokens=False)["input_ids"][:count]
    if len(ids) < count:
        raise SystemExit(f"the end of the text has {len(ids)} tokens, not {count}; ask for fewer --sequences")
    predicted = predictions_of(model.eval(), torch.tensor(ids))
    cache, length = model.settings.cache, model.settings.segment_length
    print(
        f"perplexity {perplexity(predicted.probability):.2f} on {count - 1:,} tokens with a cache of {cache}"
    )
    behind = -(-cache // length)  # segments that a cache has
    for name, segments in (("all earlier segments", 0), ("those that no cache has", behind)):
        best = mixture(predicted, length, segments)
        print(f"  with {name}: {best.perplexity:.2f} (sharpness {best.sharpness:g}, share {best.share:g})")


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", help="a pretrained decoder, or one that rmt finetune has left")
    parser.add_argument("text", help="a text file; its last twentieth is tested")
    parser.add_argument("--gguf", help="the file of quantised weights in the model's folder")
    parser.add_argument("--segment_length", type=int, default=48)
    parser.add_argument("--cache", type=int, default=48)
    parser.add_argument("--sequences", type=int, default=4, help=f"of {SEQUENCE} tokens")
    return parser.parse_args()


def load(auto: type, options: argparse.Namespace) -> transformers.PreTrainedModel:
    return auto.from_pretrained(options.model, **({"gguf_file": options.gguf} if options.gguf else {}))


@torch.no_grad()
def predictions_of(model: WithMemory, ids: Tensor) -> Predictions:
    """The text, a sequence at a time."""
    tokens, following = (part.view(-1, SEQUENCE) for part in (ids[:-1], ids[1:]))
    probabilities, hidden = [], []
    for row, targets in zip(tokens.split(1), following.split(1), strict=True):
        output = model(input_ids=row, output_hidden_states=True, use_cache=False)
        probabilities.append(output.logits.float().softmax(-1).gather(-1, targets[..., None])[..., 0])
        hidden.append(output.hidden_states[-2].float())
    return Predictions(torch.cat(probabilities), torch.cat(hidden), following)


def mixture(predicted: Predictions, length: int, behind: int) -> Mixed:
    """The best that what followed in segments more than `behind` back makes of the predictions."""
    segment = torch.arange(SEQUENCE) // length
    kept = segment < segment[:, None] - behind  # (T, T)
    rows = torch.nn.functional.rms_norm(predicted.hidden, predicted.hidden.shape[-1:])
    keys = torch.nn.functional.normalize(rows @ torch.randn(rows.shape[-1], KEY), dim=-1)
    is_right = predicted.following[:, None] == predicted.following[..., None]  # (B, T, T)
    candidates = []
    for sharpness in SHARPNESS:
        scores = (sharpness * keys @ keys.mT).masked_fill(~kept, -torch.inf)
        recalled = (scores.softmax(-1).nan_to_num() * is_right).sum(-1)
        for share in SHARES:
            shares = share * kept.any(-1)
            mixed = (1 - shares) * predicted.probability + shares * recalled
            candidates.append(Mixed(perplexity(mixed), sharpness, share))
    return min(candidates)


def perplexity(probability: Tensor) -> float:
    return math.exp(-probability.log().mean())


if __name__ == "__main__":
    main()
