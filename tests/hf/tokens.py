"""A tokenizer of whole words, made here: no file and no network."""

from __future__ import annotations

from typing import Any

WORDS = [
    "[PAD]",
    "[CLS]",
    "[SEP]",
    "[UNK]",
    "[MASK]",
    *["good", "bad", "true", "false", "dull", "fine", "the", "film", "was", "and", "very", "end"],
]


def tokenizer(limit: int = 64, template: str = "[CLS] $A [SEP]") -> Any:
    """[CLS] words [SEP] or another template, with a limit that memory goes beyond."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    words = Tokenizer(
        models.WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="[UNK]")
    )
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    words.post_processor = processors.TemplateProcessing(
        single=template, pair="[CLS] $A [SEP] $B [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=words,
        pad_token="[PAD]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        unk_token="[UNK]",
        mask_token="[MASK]",
        eos_token="[SEP]",
        model_max_length=limit,
    )
