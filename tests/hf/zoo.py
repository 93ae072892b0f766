"""Every family with every head, tiny and random: two layers of width 16."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import transformers
from torch import Tensor

from rmt.hf import add_memory
from rmt.hf.families import FAMILIES

VOCABULARY, CLS, SEP, PAD, WIDTH = 40, 1, 2, 0, 16
SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": WIDTH,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "max_position_embeddings": 64,
    "pad_token_id": PAD,
    "bos_token_id": CLS,
    "eos_token_id": SEP,
}
NO_DROPOUT = dict.fromkeys(
    [
        *("hidden_dropout_prob", "attention_probs_dropout_prob", "hidden_dropout", "attention_dropout"),
        *(
            "resid_pdrop",
            "embd_pdrop",
            "attn_pdrop",
            "summary_first_dropout",
            "pooler_dropout",
            "cls_dropout",
        ),
        *("dropout", "dropout_rate", "activation_dropout", "classifier_dropout", "layerdrop"),
        *("embedding_dropout", "mlp_dropout"),
    ],
    0.0,
)
T5 = {"d_model": WIDTH, "d_ff": 24, "d_kv": 8, "num_layers": 2, "num_heads": 2, "decoder_start_token_id": PAD}
BART = {
    "d_model": WIDTH,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 24,
    "decoder_ffn_dim": 24,
    "decoder_start_token_id": SEP,
    "forced_eos_token_id": None,
}
OWN = {  # what a family calls otherwise, or needs besides
    "roberta": {"max_position_embeddings": 66, "pad_token_id": 1, "bos_token_id": 0},
    "mpnet": {"max_position_embeddings": 66, "pad_token_id": 1, "bos_token_id": 0},
    "deberta-v2": {
        "relative_attention": True,
        "position_buckets": 8,
        "max_relative_positions": 16,
        "position_biased_input": False,
        "pos_att_type": ["c2p", "p2c"],
        "share_att_key": True,
        "norm_rel_ebd": "layer_norm",
    },
    "modernbert": {
        "global_attn_every_n_layers": 2,
        "local_attention": 8,
        "cls_token_id": CLS,
        "sep_token_id": SEP,
    },
    "llama": {"num_key_value_heads": 1},
    "qwen3": {"num_key_value_heads": 1, "head_dim": 8},
    "opt": {"ffn_dim": 24, "word_embed_proj_dim": WIDTH},
    "t5": T5,
    "bart": BART,
}
HEADS = {
    "encoder": {
        "Model": "AutoModel",
        "ForMaskedLM": "AutoModelForMaskedLM",
        "ForSequenceClassification": "AutoModelForSequenceClassification",
        "ForTokenClassification": "AutoModelForTokenClassification",
        "ForQuestionAnswering": "AutoModelForQuestionAnswering",
    },
    "decoder": {
        "Model": "AutoModel",
        "ForCausalLM": "AutoModelForCausalLM",
        "ForSequenceClassification": "AutoModelForSequenceClassification",
        "ForTokenClassification": "AutoModelForTokenClassification",
        "ForQuestionAnswering": "AutoModelForQuestionAnswering",
    },
    "seq2seq": {
        "Model": "AutoModel",
        "ForConditionalGeneration": "AutoModelForSeq2SeqLM",
        "ForSequenceClassification": "AutoModelForSequenceClassification",
    },
}
NONE = {("opt", "ForTokenClassification")}  # classes that transformers does not have
MAIN = {  # the families that every test goes over; test_hf_families.py has all of them
    name: FAMILIES[name]
    for name in (
        *("bert", "roberta", "deberta-v2", "modernbert", "mpnet"),
        *("gpt2", "llama", "qwen3", "gpt_neox", "opt"),
        *("t5", "bart"),
    )
}
EAGER_ONLY = {"deberta-v2", "mpnet"}


def of_kind(*kinds: str) -> list[str]:
    return [name for name, family in MAIN.items() if family.kind in kinds]


def over(kinds: tuple[str, ...] = ("encoder", "decoder", "seq2seq"), heads: tuple[str, ...] = ()) -> Any:
    """Parametrise a test over family × head × attention implementation."""
    cases = [
        pytest.param(name, head, attention, id=f"{name}-{head}-{attention}")
        for name in of_kind(*kinds)
        for head in HEADS[FAMILIES[name].kind]
        for attention in ("eager", "sdpa")
        if (not heads or head in heads) and (name, head) not in NONE
        if attention == "eager" or name not in EAGER_ONLY
    ]
    return pytest.mark.parametrize(("name", "head", "attention"), cases)


def plain(name: str, head: str = "Model", attention: str = "eager", **settings: Any) -> Any:
    """A pretrained class with random weights that are neither zero nor alike, in evaluation mode."""
    labels = {"num_labels": 2 if head == "ForQuestionAnswering" else 3}
    fields = {**SIZES, **NO_DROPOUT, **OWN.get(name, {}), **labels, **settings}
    if name == "t5":
        del fields["max_position_embeddings"]
    config = transformers.AutoConfig.for_model(name, **fields)
    config._attn_implementation = attention
    auto = getattr(transformers, HEADS[FAMILIES[name].kind][head])
    model = auto.from_config(config, attn_implementation=attention)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            gain = 1.0 if "norm" in key.lower() and key.endswith("weight") else 0.0
            scale = 0.1 if gain else 0.3
            parameter.copy_(gain + scale * torch.randn(parameter.shape, generator=generator))
    return model.eval()


def remembering(
    name: str, head: str = "Model", attention: str = "eager", memory: int = 2, length: int = 5, **options: Any
) -> Any:
    """The same with memory tokens that are not small."""
    base = plain(name, head, attention)
    model = add_memory(base, memory=memory, segment_length=length, kind="tokens", **options)
    with torch.no_grad():
        tokens = torch.randn(memory, WIDTH, generator=torch.Generator().manual_seed(2))
        model.memory.tokens.weight.copy_(tokens)
    return model


def texts(
    name: str, *lengths: int, seed: int = 0, pad_to: int | None = None, side: str = "right"
) -> dict[str, Tensor]:
    """Rows of so many tokens each, special tokens included, padded to one length."""
    family, config = FAMILIES[name], {**SIZES, **OWN.get(name, {})}
    generator = torch.Generator().manual_seed(seed)
    width = max(pad_to or 0, *lengths)
    ids = torch.full((len(lengths), width), config["pad_token_id"])
    mask = torch.zeros_like(ids)
    for row, length in enumerate(lengths):
        text = torch.randint(3, VOCABULARY, (length,), generator=generator)
        if family.prefix and length:
            text[0] = config["bos_token_id"]
        if family.suffix and length:
            text[-1] = SEP
        place = slice(0, length) if side == "right" else slice(width - length, width)
        ids[row, place], mask[row, place] = text, 1
    return {"input_ids": ids, "attention_mask": mask}


def answer(model: Any, inputs: dict[str, Tensor], **more: Any) -> Any:
    """The model's output; a bare encoder-decoder also needs what its decoder starts from."""
    if model.config.is_encoder_decoder and not type(model).__name__.endswith("ForSequenceClassification"):
        more = {"decoder_input_ids": torch.tensor([[PAD, 5, 6]]).repeat(len(inputs["input_ids"]), 1), **more}
    return model(**inputs, **more)


def main_output(output: Any) -> Tensor:
    """The tensor a head is for."""
    for name in ("logits", "start_logits", "last_hidden_state"):
        if output.get(name) is not None:
            return output[name]
    raise AssertionError(f"no output in {list(output)}")


def per_token(head: str, name: str) -> bool:
    """Whether a head gives a vector for each token of the text."""
    return head != "ForSequenceClassification" and FAMILIES[name].kind != "seq2seq"
