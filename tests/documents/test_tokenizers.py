"""Tokenizers of backbones: which tokens of a text are special, and which tokenizers a task cannot do with."""

import pytest
import torch
from transformers import BertJapaneseTokenizer, PreTrainedTokenizerFast

from rmt.documents.kinds import TaskSettings
from rmt.documents.tuned import make_tuned, special_tokens
from rmt.errors import ConfigError
from tests.hf.tokens import WORDS, tokenizer
from tests.hf.zoo import plain


def tokenizer_of_letters(letters, template, unknown=None):
    """A tokenizer of single letters, all that it does not know dropped or unknown."""
    from tokenizers import Tokenizer, models, processors

    special = ["[CLS]", "[SEP]", "[PAD]"]
    ids = {token: number for number, token in enumerate([*special, *letters])}
    words = Tokenizer(models.BPE(vocab=ids, merges=[], unk_token=unknown))
    words.post_processor = processors.TemplateProcessing(
        single=template, special_tokens=[(token, ids[token]) for token in special]
    )
    names = {"cls_token": "[CLS]", "sep_token": "[SEP]", "pad_token": "[PAD]"}
    return PreTrainedTokenizerFast(tokenizer_object=words, unk_token=unknown, **names)


@pytest.mark.parametrize("letters", ["abc", "bc", "漢"])
@pytest.mark.parametrize("unknown", [None, "[CLS]"])
@pytest.mark.parametrize(
    ("template", "counts"), [("[CLS] $A [SEP]", (1, 1)), ("$A [SEP] [CLS]", (0, 2)), ("[CLS] $A", (1, 0))]
)
def test_special_tokens_are_counted_beside_letters_that_the_tokenizer_knows(
    letters, unknown, template, counts
):
    assert special_tokens(tokenizer_of_letters(letters, template, unknown)) == counts


def test_a_tokenizer_of_which_no_token_comes_back_is_refused():
    with pytest.raises(ConfigError, match="makes no text into tokens that are not special; name another"):
        special_tokens(tokenizer_of_letters("", "[CLS] $A [SEP]"))


@pytest.mark.parametrize("task", ["token-classification", "question-answering"])
def test_a_tokenizer_that_does_not_say_where_its_tokens_are_in_a_text_is_refused(tmp_path, task):
    torch.set_default_dtype(torch.float32)
    plain("bert", vocab_size=len(tokenizer())).float().save_pretrained(tmp_path)
    (tmp_path / "vocab.txt").write_text("\n".join(WORDS))
    words = BertJapaneseTokenizer(str(tmp_path / "vocab.txt"), word_tokenizer_type="basic")
    words.save_pretrained(tmp_path)
    settings = TaskSettings(task, ["A", "B"])
    with pytest.raises(ConfigError, match=rf"tokenizer='{tmp_path}' is written in Python .*--tokenizer"):
        make_tuned(str(tmp_path), None, settings, memory=2, segment_length=8)
    make_tuned(str(tmp_path), None, TaskSettings(labels=["A", "B"]), memory=2, segment_length=8)
