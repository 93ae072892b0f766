"""What a session can be fed with: token ids, text, files, or an iterator of these, as pieces of token ids."""

# B batch · n tokens of a piece

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, filterfalse, islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from rmt.errors import ConfigError, DataError, shown
from rmt.textfile import open_text

BLOCK = 1 << 16  # bytes of a file at a time
MAX_UNBROKEN = 1 << 26  # bytes of a word or a line, which are held until it ends
GROUP = 256  # single tokens of an iterator at a time


class TokenRows(NamedTuple):
    """Tokens for every row of a session."""

    tokens: Tensor  # (B, n) int64, on the CPU unless given elsewhere
    lengths: Tensor  # (B,) on the CPU: how many of them a row has


class TextPiece(NamedTuple):
    """Tokens of a piece of text."""

    ids: Sequence[int]
    size: int  # bytes
    unknown: int = 0  # symbols that the tokenizer does not know and that were skipped or replaced


def pieces(source: Any, tokenizer: Any, batch: int) -> Iterator[TokenRows]:
    """A source as pieces; text, files and single tokens are for one row, lists and 2-D tensors for many."""
    if isinstance(source, (Path, str, bytes)) or hasattr(source, "read"):
        for ids in encoded(source, tokenizer):
            yield together([ids], batch)
    elif isinstance(source, np.ndarray):
        yield array(torch.from_numpy(contiguous(source)), batch)
    elif isinstance(source, Tensor):
        yield array(source, batch)
    elif isinstance(source, Mapping):
        raise ConfigError(
            f"a session cannot be fed with {type(source).__name__}; give its ids, such as source['input_ids']"
        )
    elif isinstance(source, Sequence):
        yield together(rows_of(source, tokenizer), batch)
    elif isinstance(source, Iterable):
        yield from of_iterator(iter(source), tokenizer, batch)
    else:
        raise ConfigError(
            f"a session cannot be fed with {type(source).__name__}; give token ids, text, a file, "
            "a pathlib.Path, or an iterator of these"
        )


def of_iterator(items: Iterator[Any], tokenizer: Any, batch: int) -> Iterator[TokenRows]:
    """Each item in turn; single tokens are gathered into pieces."""
    for item in items:
        if is_token(item):
            ids = [item, *islice(items, GROUP - 1)]
            if not all(map(is_token, ids)):
                raise not_an_id(next(filterfalse(is_token, ids)))
            yield together([ids], batch)
        else:
            yield from pieces(item, tokenizer, batch)


def rows_of(source: Sequence[Any], tokenizer: Any) -> list[Sequence[int]]:
    """A sequence of tokens is one row; a sequence of anything else is a row each."""
    if all(is_token(item) for item in source):
        return [source]
    rows: list[Sequence[int]] = []
    for item in source:
        if isinstance(item, (str, bytes)):
            rows.append(list(chain.from_iterable(encoded(item, tokenizer))))
        elif isinstance(item, (Tensor, np.ndarray)):
            rows.append(item.tolist())
        elif isinstance(item, Iterable):
            rows.append(list(item))
        else:
            raise not_an_id(next(item for item in source if not is_token(item)))
    return rows


def not_an_id(item: Any) -> ConfigError:
    return ConfigError(f"token {shown(item)} is not an id; give whole numbers")


def is_token(item: Any) -> bool:
    if isinstance(item, (Tensor, np.ndarray)):
        return item.ndim == 0
    return isinstance(item, (int, np.integer)) and not isinstance(item, bool)


def together(rows: Sequence[Sequence[int]], batch: int) -> TokenRows:
    """Rows of different lengths side by side, each filled up with token 0."""
    if len(rows) != batch:
        raise ConfigError(
            f"{len(rows)} row(s) of tokens do not fit a session of batch={batch}; give one row for each"
        )
    lengths = torch.tensor([len(row) for row in rows])
    tokens = torch.zeros(batch, int(lengths.max()), dtype=torch.long)
    for index, row in enumerate(rows):
        tokens[index, : len(row)] = tensor_of(row if len(row) else [0])[: len(row)]
    return TokenRows(tokens, lengths)


def tensor_of(row: Sequence[int]) -> Tensor:
    """The ids of a row."""
    try:
        return integers(torch.as_tensor(row))
    except (TypeError, ValueError, OverflowError, RuntimeError):  # a text, a list, a number of 100 digits
        raise not_an_id(row) from None


def array(tokens: Tensor, batch: int) -> TokenRows:
    """A tensor (B, n), or (n,) for a session of one row."""
    if tokens.dim() == 1 and batch == 1:
        tokens = tokens[None]
    if tokens.dim() != 2 or len(tokens) != batch:
        raise ConfigError(
            f"tokens of shape {tuple(tokens.shape)} do not fit a session of batch={batch}; "
            "give (batch, length)"
        )
    return TokenRows(integers(tokens), torch.full((batch,), tokens.shape[1]))


def contiguous(tokens: np.ndarray) -> np.ndarray:
    """An array of ids as torch takes one: no view, and in this machine's order of bytes."""
    if tokens.dtype.kind not in "iu":
        raise ConfigError(f"tokens of type {tokens.dtype} are not ids; give whole numbers")
    return np.ascontiguousarray(tokens, dtype=np.int64)


def integers(tokens: Tensor) -> Tensor:
    """Token ids as int64; numbers of another kind are not ids."""
    if tokens.dtype == torch.bool or tokens.is_floating_point() or tokens.is_complex():
        raise ConfigError(f"tokens of type {tokens.dtype} are not ids; give whole numbers")
    return tokens.long()


def encoded(source: Any, tokenizer: Any) -> Iterator[Sequence[int]]:
    """The token ids of a text or a file, in pieces."""
    if tokenizer is None:
        raise ConfigError("text needs a tokenizer: rmt.Session(model, tokenizer=…), or feed token ids")
    if isinstance(source, (str, bytes)):
        text = source.decode("utf-8", "surrogateescape") if isinstance(source, bytes) else source
        yield ids_of(tokenizer, text)
        return
    if isinstance(source, Path):
        with open_text(source) as file:
            yield from encoded(file, tokenizer)
        return
    name = repr(str(getattr(source, "name", "the text")))
    for piece in text_pieces(iter(lambda: source.read(BLOCK), source.read(0)), tokenizer, name):
        yield piece.ids


def text_pieces(
    blocks: Iterable[Any], tokenizer: Any, name: str = "the text", offset: int = 0
) -> Iterator[TextPiece]:
    """Text in blocks of bytes (or characters), encoded up to where a token surely ends, the rest kept.

    A symbol that the tokenizer neither knows nor has a rule for is an error that names its byte in the text,
    of which `offset` bytes came before; everything up to there is given first.
    """
    complete_prefix = getattr(tokenizer, "complete_prefix", up_to_a_space)
    unbroken = Unbroken()
    for block in blocks:
        unbroken.add(block.encode() if isinstance(block, str) else block)
        if ready := unbroken.cut(complete_prefix):
            yield from checked(ready, tokenizer, name, offset)
            offset += len(ready)
        if unbroken.size > MAX_UNBROKEN:
            raise DataError(
                f"{name} has no white space or end of a line in {unbroken.size:,} bytes from byte {offset:,} "
                "on, and its words or lines are encoded whole; break it up"
            )
    if unbroken.size:
        yield from checked(b"".join(unbroken.blocks), tokenizer, name, offset)


class Unbroken:
    """The end of a text so far, in which no token surely ends."""

    def __init__(self) -> None:
        self.blocks: list[bytes] = []
        self.size = self.searched = 0  # bytes, of them those that were looked through

    def add(self, block: bytes) -> None:
        self.blocks.append(block)
        self.size += len(block)

    def cut(self, complete_prefix: Callable[[bytes], int]) -> bytes:
        """What can be encoded apart from what follows, which stays here.

        A long line is looked through when it has doubled, so that it takes time in proportion to its length.
        """
        if self.searched > BLOCK and self.size < 2 * self.searched:
            return b""
        text = b"".join(self.blocks)
        count = complete_prefix(text)
        self.blocks = [text[count:]]
        self.size = self.searched = len(text) - count
        return text[:count]


def checked(text: bytes, tokenizer: Any, name: str, offset: int) -> Iterator[TextPiece]:
    """The tokens of a text that begins at a byte of its source, up to what is not known: an error."""
    if not hasattr(tokenizer, "tokenize") or not hasattr(tokenizer, "complete_prefix"):
        yield TextPiece(ids_of(tokenizer, text.decode("utf-8", "surrogateescape")), len(text))
        return
    result = tokenizer.tokenize(text)
    if result.size:
        yield TextPiece(result.ids, result.size, result.unknown)
    if result.problem:
        raise DataError(
            f"{result.problem} at byte {offset + result.size:,} of {name} is not in the model's vocabulary; "
            "go past it with --unknown skip, or with --unknown replace:SYMBOL"
        )


def up_to_a_space(text: bytes) -> int:
    """How much of a text can be encoded apart from what follows: up to its last space or line break."""
    return max(text.rfind(b" "), text.rfind(b"\n"), 0)


def ids_of(tokenizer: Any, text: str) -> Sequence[int]:
    """The ids of a text, without special tokens where a tokenizer would add them."""
    if hasattr(tokenizer, "build_inputs_with_special_tokens") or hasattr(tokenizer, "add_special_tokens"):
        return list(tokenizer.encode(text, add_special_tokens=False))
    return list(tokenizer.encode(text))
