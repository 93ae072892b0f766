"""A tokenizer that the tokenizers library trains on a few lines, for tests that need a real one."""

from typing import Any

import pytest

LINES = ["the fox and the grapes\n", "\n", " the crow and the jug of water\n", "éclair, 狐\r\n"]


def trained(symbols: int = 300) -> Any:
    """Byte pairs as GPT-2 has them, so every text comes back exactly; `<eos>` is its special token."""
    library = pytest.importorskip("tokenizers")
    tokenizer = library.Tokenizer(library.models.BPE())
    tokenizer.pre_tokenizer = library.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = library.decoders.ByteLevel()
    trainer = library.trainers.BpeTrainer(
        vocab_size=symbols,
        special_tokens=["<eos>"],
        initial_alphabet=library.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(["".join(LINES), "\n\n\n", "\r\r\r\n"] * 5, trainer)
    return tokenizer
