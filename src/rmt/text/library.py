"""A tokenizer of the `tokenizers` library as a vocabulary."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from io import StringIO
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from rmt.errors import DataError, catching_panics
from rmt.jsonfile import parse_json
from rmt.tasks.unknown import UnknownRule
from rmt.text.files import line_blocks
from rmt.text.vocabulary import ERROR, ESCAPED_BYTE, BlockIds, UnknownSymbol, Vocabulary, not_utf8


class LibraryTokens(Vocabulary):
    """A tokenizer of the `tokenizers` library, given as the text of its `tokenizer.json`.

    It sees one line at a time, line break included, so ids do not depend on the blocks a text comes in. It
    adds no special tokens, and what its file says of padding and of a largest length has no effect.
    """

    kind = "tokenizer"
    from_train_only = False

    blocks = staticmethod(line_blocks)

    def __init__(self, text: str):
        self.text, self.library = text, parse_tokenizer(text)
        highest = max(self.library.get_vocab().values(), default=-1)
        self.symbols = [self.library.id_to_token(id) for id in range(highest + 1)]  # None: an id not in use

    @classmethod
    def of(cls, blocks: Iterable[str]) -> LibraryTokens:
        raise DataError("tokens=tokenizer needs a file; name a tokenizer.json with --tokenizer")

    @cached_property
    def unknown_id(self) -> int:
        """The id of what the tokenizer does not know, -1 if it has none."""
        model = parse_json(self.text)["model"]
        symbol = model.get("unk_token")
        id = model.get("unk_id") if symbol is None else self.library.token_to_id(symbol)
        return -1 if id is None else id

    def encode(self, block: str, rule: UnknownRule = ERROR) -> BlockIds:
        """The ids of whole lines; a byte that is not UTF-8, which the library refuses, goes by the rule."""
        text, *others = ESCAPED_BYTE.split(block)
        encoded = self.encode_text(text, rule)
        if not others:
            return encoded
        if rule.rule == "error":
            raise UnknownSymbol(not_utf8(block[len(text)]), len(text.encode()))
        instead = [] if rule.rule == "skip" else [self.require(rule.symbol)]
        ids, unknown = [encoded.ids], encoded.unknown + len(others)
        for text in others:
            encoded = self.encode_text(text, rule)
            ids, unknown = [*ids, np.array(instead, np.int64), encoded.ids], unknown + encoded.unknown
        return BlockIds(np.concatenate(ids), unknown)

    def encode_text(self, text: str, rule: UnknownRule) -> BlockIds:
        """The ids of text, all of it UTF-8."""
        lines = list(StringIO(text))
        try:
            with catching_panics():
                encoded = self.library.encode_batch_fast(lines, add_special_tokens=False)
        except Exception as error:  # the library raises no class of its own
            raise DataError(f"the tokenizer cannot encode it ({error}); use another") from None
        ids = np.fromiter(chain.from_iterable(line.ids for line in encoded), dtype=np.int64)
        strange = ids == self.unknown_id
        count = int(np.count_nonzero(strange))
        if rule.rule == "skip":
            ids = ids[~strange]
        elif rule.rule == "replace":
            ids[strange] = self.require(rule.symbol)
        return BlockIds(ids, count)

    def find(self, symbol: str) -> int | None:
        id: int | None = self.library.token_to_id(symbol)
        return id

    def decode(self, ids: Iterable[int]) -> str:
        return self.library.decode([int(id) for id in ids], skip_special_tokens=False)

    def write(self, file: Path) -> None:
        """The same `tokenizer.json`, so that other programs can read it."""
        file.write_bytes(self.text.encode())


def parse_tokenizer(text: str) -> Any:
    """The tokenizer that a `tokenizer.json` describes, without its padding and cutting."""
    try:
        from tokenizers import Tokenizer
    except ImportError:
        raise DataError(
            "a tokenizer needs a library; install it with: pip install 'recurrent-memory[tokenizers]'"
        ) from None
    try:
        with catching_panics():
            tokenizer = Tokenizer.from_str(text)
    except Exception as error:  # the library raises no class of its own
        raise DataError(f"the tokenizers library cannot read it ({error}); name another file") from None
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer
