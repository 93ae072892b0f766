"""A tokenizer of whole words, made here: no file and no network."""

from __future__ import annotations

from typing import Any

WORDS = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]", *"good bad dull fine the film was and very end".split()]


def tokenizer(limit: int = 64) -> Any:
    """[CLS] words [SEP], with a limit that memory goes beyond."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    made = Tokenizer(models.WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=made,
        pad_token="[PAD]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        unk_token="[UNK]",
        mask_token="[MASK]",
        model_max_length=limit,
    )
