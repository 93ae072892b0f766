"""A tiny configuration of any model type of transformers, and a model with random weights made of it."""

from __future__ import annotations

import logging
import warnings
from typing import Any

import torch
import transformers
from transformers import CONFIG_MAPPING, AutoConfig

VOCABULARY, BOS, EOS = 40, 1, 2
SIZES: dict[str, Any] = {  # by the names that configurations have for them
    **dict.fromkeys(["vocab_size", "vocab_size_or_config_json_file"], VOCABULARY),
    **dict.fromkeys(["hidden_size", "d_model", "n_embd", "dim", "embed_dim", "word_embed_proj_dim"], 16),
    **dict.fromkeys(["num_hidden_layers", "n_layer", "n_layers", "num_layers", "num_decoder_layers"], 2),
    **dict.fromkeys(["encoder_layers", "decoder_layers", "num_encoder_layers"], 2),
    **dict.fromkeys(["num_attention_heads", "n_head", "n_heads", "num_heads", "num_key_value_heads"], 2),
    **dict.fromkeys(["encoder_attention_heads", "decoder_attention_heads", "multi_query_group_num"], 2),
    **dict.fromkeys(["num_encoder_attention_heads", "num_decoder_attention_heads"], 2),
    **dict.fromkeys(["intermediate_size", "ffn_dim", "encoder_ffn_dim", "decoder_ffn_dim", "d_ff"], 24),
    **dict.fromkeys(["n_inner", "hidden_dim", "dff", "dim_ff", "intermediate_size_mlp"], 24),
    **dict.fromkeys(["moe_intermediate_size", "shared_expert_intermediate_size", "expert_ffn_size"], 8),
    **dict.fromkeys(["shared_intermediate_size", "ffn_hidden_size", "ffn_inner_hidden_size"], 8),
    **dict.fromkeys(["head_dim", "d_kv", "dim_head", "v_head_dim", "qk_nope_head_dim"], 8),
    **dict.fromkeys(["global_head_dim", "swa_head_dim", "swa_v_head_dim"], 8),
    **dict.fromkeys(["qk_rope_head_dim", "rotary_dim"], 4),
    **dict.fromkeys(["num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"], 4),
    **dict.fromkeys(["num_experts_per_tok", "moe_k", "moe_top_k"], 2),
    **dict.fromkeys(["n_group", "topk_group", "n_shared_experts", "num_shared_experts"], 1),
    **dict.fromkeys(["moe_num_shared_experts", "num_expert_group"], 1),
    **dict.fromkeys(["q_lora_rank", "kv_lora_rank", "o_lora_rank"], 8),
    **dict.fromkeys(["max_position_embeddings", "n_positions", "max_seq_len", "max_source_positions"], 64),
    **dict.fromkeys(["embedding_size"], 16),
    "type_vocab_size": 2,
    "first_k_dense_replace": 1,
    "pad_token_id": 0,
    "bos_token_id": BOS,
    "eos_token_id": EOS,
    "decoder_start_token_id": 0,
    "forced_eos_token_id": None,
    "router_jitter_noise": 0.0,
    "sliding_window": 6,
    "max_window_layers": 1,
    "sliding_window_pattern": 2,
}
OWN: dict[str, dict[str, Any]] = {  # what a model type needs besides
    **{kind: {"head_dim": 4} for kind in ("deepseek_v3", "youtu", "axk1")},
    "codegen": {"n_head": 4, "num_attention_heads": 4, "rotary_dim": 4},
    "albert": {"embedding_size": 8},
    "electra": {"embedding_size": 8},
    "bert-generation": {"is_decoder": False},
    "big_bird": {"attention_type": "original_full"},
    "bigbird_pegasus": {"attention_type": "original_full"},
    "deberta-v2": {
        "relative_attention": True,
        "position_biased_input": False,
        "pos_att_type": ["c2p", "p2c"],
    },
    "deberta": {"relative_attention": True, "position_biased_input": False, "pos_att_type": ["c2p", "p2c"]},
    "modernbert": {
        "local_attention": 64,
        "global_attn_every_n_layers": 2,
        "cls_token_id": 1,
        "sep_token_id": 2,
    },
    "modernbert-decoder": {"local_attention": 8, "global_attn_every_n_layers": 2},
    "squeezebert": {"q_groups": 1, "k_groups": 1, "v_groups": 1, "embedding_size": 16},
    "mobilebert": {"embedding_size": 16, "intra_bottleneck_size": 16, "true_hidden_size": 16},
    "xmod": {"languages": ["en_XX"], "default_language": "en_XX"},
    "gpt_neo": {"attention_types": [[["global"], 2]], "num_layers": 2},
    "qwen2": {"use_sliding_window": True},
    "qwen3": {"use_sliding_window": True},
    "esm": {"position_embedding_type": "absolute", "token_dropout": False, "mask_token_id": 4},
    "gemma3_text": {"layer_types": ["sliding_attention", "full_attention"]},
    "roc_bert": {"enable_pronunciation": False, "enable_shape": False},
    "rembert": {"input_embedding_size": 8, "output_embedding_size": 12},
}
RESERVED_PAD = (
    *("roberta", "camembert", "xlm-roberta", "xlm-roberta-xl", "roberta-prelayernorm", "data2vec-text"),
    *("mpnet", "xmod", "ibert", "esm", "luke", "longformer", "lilt", "markuplm"),
)
NO_DROPOUT = ("dropout", "drop_prob", "pdrop", "layerdrop", "droprate", "_prob")


def tiny_config(kind: str, **more: Any) -> Any:
    """The configuration of a model type with two layers of width 16."""
    config_class = CONFIG_MAPPING[kind]
    known = set(config_class().to_dict()) | set(getattr(config_class, "attribute_map", {}))
    fields = {name: value for name, value in SIZES.items() if name in known}
    if "sliding_window" in known and config_class().sliding_window is None and kind not in ("qwen2", "qwen3"):
        fields["sliding_window"] = None
    fields |= {name: 0.0 for name in known if is_dropout(name, config_class())}
    if kind in RESERVED_PAD:
        fields |= {"pad_token_id": 1, "bos_token_id": 0, "max_position_embeddings": 66}
    for name in ("layer_types", "mlp_layer_types"):
        types = getattr(config_class(), name, None)
        if types:
            fields[name] = [*dict.fromkeys(types), types[-1]][:2]
    fields |= OWN.get(kind, {})
    return AutoConfig.for_model(kind, **fields, **more)


def is_dropout(name: str, config: Any) -> bool:
    """Whether a field is a probability of leaving something out."""
    return isinstance(getattr(config, name, None), float) and any(part in name for part in NO_DROPOUT)


def tiny_model(config: Any, auto: str, attention: str = "eager") -> Any:
    """A model of a configuration, its weights neither zero nor alike, in evaluation mode."""
    config._attn_implementation = attention
    config._experts_implementation = "eager"  # the quicker ones have no float64
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = getattr(transformers, auto).from_config(config, attn_implementation=attention)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            gain = 1.0 if "norm" in key.lower() and key.endswith("weight") else 0.0
            scale = 0.1 if gain else 0.3
            drawn = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            parameter.copy_(gain + scale * drawn)
    return model.eval()


logging.getLogger("transformers").setLevel(logging.ERROR)
