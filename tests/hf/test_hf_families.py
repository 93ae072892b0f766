"""Every model type of transformers: right against an independent loop over segments, or refused in a line.

`python -m tests.hf.test_hf_families` writes docs/families.md.
"""

import re
import warnings
from pathlib import Path

import pytest
import torch
import transformers
from torch import Tensor
from transformers import CONFIG_MAPPING

import rmt.hf
from rmt.errors import ConfigError
from rmt.hf.families import FAMILIES, family_of, head_of
from tests.hf.segment_loop import (
    decoder_masks,
    decoder_segments,
    encoder_segments,
    influence,
    last_states,
    reach,
)
from tests.hf.tiny import EOS, VOCABULARY, tiny_config, tiny_model

PAGE = Path(__file__).parents[2] / "docs" / "families.md"
MEMORY, LENGTH, TEXT = 2, 5, 13
TYPES = [kind for kind in FAMILIES if kind in CONFIG_MAPPING]
SAMPLE = ["qwen2", "mistral", "gemma3_text", "mixtral", "electra", "albert", "mt5"]
REFUSED = ["mamba", "vit", "clip", "bloom", "xlnet"]
ROUNDING = 1e-6  # experts take tokens in another order, and some routers are in float32
HEAD = """# Model types

Memory for {count} model types of transformers, each compared with an independent loop over segments:
hidden states, logits, heads and generation are equal, and nothing sees what the paper's mask hides. This page
is written by `python -m tests.hf.test_hf_families`; a slow test checks that it is what the checks say.

A type that is built like one of these is added from outside in a line, see
[pretrained models](huggingface.md#families).

| model type | kind | layouts, the default first | heads compared |
|---|---|---|---|
"""
MIDDLE = """

## Refused

What the error says of them, in a line:

"""
CLOSE = {"rtol": 1e-5, "atol": 1e-5}  # norms and softmaxes of many types are in float32


def sampled(types: list[str]) -> list:
    """A few model types in `make test`, the others in the slow tests."""
    return [pytest.param(kind, marks=() if kind in SAMPLE else pytest.mark.slow) for kind in types]


@pytest.mark.parametrize("kind", sampled(TYPES))
def test_a_model_type_is_right_with_every_head(kind):
    assert checked_heads(kind)


@pytest.mark.parametrize("kind", REFUSED)
def test_a_type_of_another_layout_is_refused_with_the_reason_in_a_line(kind):
    assert re.fullmatch(r"[^\n]+ cannot have memory: [^\n]+", reason_refused(kind))


@pytest.mark.slow
def test_the_page_of_families_is_what_the_checks_say():
    assert PAGE.read_text() == page()


def test_the_page_names_every_model_type_and_at_least_25_families_are_right():
    rows = re.findall(r"^\| `([^`]+)` \|", PAGE.read_text(), re.MULTILINE)
    assert set(TYPES) <= set(rows)
    assert len(TYPES) >= 25
    assert len(rows) == len(set(rows))


def test_a_type_of_ones_own_is_registered_in_a_line(tmp_path):
    class OwnConfig(transformers.LlamaConfig):
        model_type = "own_llama"

    class OwnForCausalLM(transformers.LlamaForCausalLM):
        config_class = OwnConfig

    sizes = {"num_key_value_heads": 2, "intermediate_size": 24, "hidden_size": 16, "num_attention_heads": 2}
    config = OwnConfig(vocab_size=VOCABULARY, num_hidden_layers=2, **sizes, max_position_embeddings=64)
    base = OwnForCausalLM(config).eval()
    with pytest.raises(ConfigError, match="not known to AutoConfig"):
        rmt.hf.register("own_llama", rmt.hf.decoder())
    transformers.AutoConfig.register("own_llama", OwnConfig)
    transformers.AutoModelForCausalLM.register(OwnConfig, OwnForCausalLM)
    with pytest.raises(ConfigError, match=r"'own_llama' is not one that memory was tested with.*register"):
        rmt.hf.add_memory(base)
    rmt.hf.register("own_llama", rmt.hf.decoder())
    try:
        check_generation(base, text_of(config, TEXT, rows=2), blocks=True)
        model, _ = with_memory(base)
        model.save_pretrained(tmp_path)
        loaded = transformers.AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float64).eval()
        ids = text_of(config, TEXT)
        torch.testing.assert_close(loaded(input_ids=ids).logits, model(input_ids=ids).logits, **CLOSE)
    finally:
        del FAMILIES["own_llama"]


def checked_heads(kind: str) -> list[str]:
    """The heads of a model type that were right; an error where one is wrong."""
    checks = {"encoder": check_encoder, "decoder": check_decoder, "seq2seq": check_seq2seq}
    torch.manual_seed(0)
    return checks[FAMILIES[kind].kind](kind)


def heads_of(kind: str) -> dict[str, str]:
    """The Auto class of each head that a model type has and memory can have."""
    from rmt.hf.wrap import AUTO

    heads = {}
    for auto in AUTO:
        known = getattr(transformers, auto)._model_mapping.get(CONFIG_MAPPING[kind], None)
        known = known[0] if isinstance(known, tuple) else known
        if known is not None and head_of(known) in FAMILIES[kind].heads:
            heads.setdefault(head_of(known), auto)
    return heads


def text_of(config, count: int, rows: int = 1, edges: tuple[int, int] = (0, 0)) -> Tensor:
    """Rows of random ids, special at their edges."""
    ids = torch.randint(4, VOCABULARY, (rows, count))
    if edges[0]:
        ids[:, : edges[0]] = getattr(config, "bos_token_id", None) or 3
    if edges[1]:
        ids[:, -edges[1] :] = EOS
    return ids


def with_memory(base, **options):
    """The model with memory tokens that are not small, and they themselves, (1, M, D)."""
    model = rmt.hf.add_memory(
        base, memory=MEMORY, segment_length=LENGTH, kind="tokens", alignment="left", **options
    )
    with torch.no_grad():
        for weight in model.memory.parameters():
            weight.normal_()
    return model, model.memory.tokens.weight[None]


def check_embeddings(backbone, ids: Tensor, **options) -> None:
    """Embeddings by hand are what the model makes of ids."""
    with torch.no_grad():
        by_ids = last_states(backbone(input_ids=ids, **options))
        by_rows = last_states(backbone(inputs_embeds=backbone.get_input_embeddings()(ids), **options))
    torch.testing.assert_close(by_ids, by_rows, **CLOSE)


def check_decoder(kind: str) -> list[str]:
    blocks = "paper" in FAMILIES[kind].layouts
    bare = tiny_model(tiny_config(kind), "AutoModel")
    ids = text_of(bare.config, TEXT, rows=2)
    check_embeddings(bare, ids, use_cache=False)
    check_mask(bare, blocks)
    model, memory = with_memory(bare)
    with torch.no_grad():
        outputs = decoder_segments(bare, ids, memory, LENGTH, blocks)
        expected = torch.cat([last_states(output)[:, places] for output, places in outputs], dim=1)
        torch.testing.assert_close(model(input_ids=ids).last_hidden_state, expected, **CLOSE)
    heads = heads_of(kind)
    for head, auto in heads.items():
        if head in ("ForCausalLM", "LMHeadModel"):
            check_generation(tiny_model(tiny_config(kind), auto), ids, blocks)
        elif head != "Model":
            check_head(tiny_model(tiny_config(kind, num_labels=2), auto), ids, blocks)
    return list(heads)


def check_mask(bare, blocks: bool) -> None:
    """Nothing sees what the mask hides, and the last token sees the first row of memory."""
    mask, layers = decoder_masks(bare.config, MEMORY, 9, blocks)
    size = 9 + 2 * MEMORY
    rows = torch.randn(1, size, bare.get_input_embeddings().weight.shape[1])
    places = torch.arange(size)[None].expand(1 + size, -1)
    mask = (
        {key: value.expand(1 + size, -1, -1, -1) for key, value in mask.items()}
        if isinstance(mask, dict)
        else (mask.expand(1 + size, -1, -1, -1))
    )
    changed = influence(bare, rows, attention_mask=mask, position_ids=places, use_cache=False)
    assert changed[~reach(layers)].max() < ROUNDING
    assert changed[MEMORY + 8, 0] > ROUNDING


def check_head(base, ids: Tensor, blocks: bool) -> None:
    """A head's answer is what it makes of the states of the loop."""
    model, memory = with_memory(base)
    with torch.no_grad():
        outputs = decoder_segments(base.base_model, ids, memory, LENGTH, blocks)
        states = torch.cat([last_states(output)[:, places] for output, places in outputs], dim=1)
        output = model(input_ids=ids)
    if output.get("start_logits") is not None:
        expected, got = base.qa_outputs(states), torch.stack([output.start_logits, output.end_logits], dim=-1)
    else:
        layer = getattr(base, "score", None) or base.classifier
        expected = layer(states if output.logits.dim() == 3 else states[:, -1])
        got = output.logits
    torch.testing.assert_close(got, expected, **CLOSE)


def check_generation(base, ids: Tensor, blocks: bool) -> None:
    """Logits of a text, and the most likely tokens after it, over the borders of segments."""
    model, memory = with_memory(base)

    def logits(text: Tensor) -> Tensor:
        outputs = decoder_segments(base, text, memory, LENGTH, blocks)
        return torch.cat([output.logits[:, places] for output, places in outputs], dim=1)

    with torch.no_grad():
        torch.testing.assert_close(model(input_ids=ids).logits, logits(ids), **CLOSE)
        steps = 4
        generated = model.generate(
            ids,
            do_sample=False,
            max_new_tokens=steps,
            min_new_tokens=steps,
            output_logits=True,
            return_dict_in_generate=True,
            pad_token_id=0,
        )
        whole = generated.sequences
        by_loop = logits(whole[:, :-1])[:, -steps:]
    torch.testing.assert_close(torch.stack(generated.logits, dim=1).double(), by_loop.double(), **CLOSE)
    best = by_loop.clone()
    best[..., EOS] = -torch.inf
    assert torch.equal(best.argmax(-1), whole[:, -steps:])
    check_default(base, ids)


def check_default(base, ids: Tensor) -> None:
    """The default kind is at first the plain model on the same segments; trained, its cache goes on."""
    model = rmt.hf.add_memory(base, memory=MEMORY, segment_length=LENGTH)
    with torch.no_grad():
        plain = [base(input_ids=part, use_cache=False).logits for part in ids.split(LENGTH, dim=1)]
        torch.testing.assert_close(model(input_ids=ids).logits, torch.cat(plain, dim=1), **CLOSE)
        for weight in model.memory.parameters():
            weight.normal_(std=0.3)
        whole, cache = model(input_ids=ids).logits, None
        for part in ids.split(4, dim=1):
            output = model(input_ids=part, past_key_values=cache, use_cache=True)
            cache = output.past_key_values
        torch.testing.assert_close(output.logits, whole[:, -output.logits.shape[1] :], **CLOSE)


def cut_text(ids: Tensor, prefix: int, suffix: int) -> list[Tensor]:
    """Segments of a text, each with the special tokens of its edges."""
    first, text, last = (
        ids[:, :prefix],
        ids[:, prefix : ids.shape[1] - suffix],
        ids[:, ids.shape[1] - suffix :],
    )
    return [torch.cat([first, part, last], dim=1) for part in text.split(LENGTH, dim=1)]


def check_encoder(kind: str) -> list[str]:
    bare = tiny_model(tiny_config(kind), "AutoModel")
    family = FAMILIES[kind]
    edges = family.prefix, family.suffix
    ids = text_of(bare.config, TEXT + sum(edges), 2, edges)
    ones = torch.ones_like(ids)
    check_embeddings(bare, ids, attention_mask=ones)
    rows = bare.get_input_embeddings()(ids[:1]).detach()
    seen = influence(bare, rows, attention_mask=torch.ones(1 + ids.shape[1], ids.shape[1], dtype=torch.long))
    assert seen.min() > 0
    heads = heads_of(kind)
    heads.pop("ForMultipleChoice", None)
    for head, auto in heads.items():
        check_encoder_head(tiny_model(tiny_config(kind, num_labels=2), auto), head, ids)
    return list(heads)


def check_encoder_head(base, head: str, ids: Tensor) -> None:
    """A head's answer for each token is that of its segment, and for a text that of the last one."""
    model, _ = with_memory(base)
    settings, layout = model.settings, model.layout
    segments = cut_text(ids, settings.prefix, settings.suffix)
    with torch.no_grad():
        outputs = encoder_segments(
            base,
            segments,
            model.memory,
            (layout.after, layout.separator),
            ids[:, ids.shape[1] - settings.suffix :],
        )
        output = model(input_ids=ids)
    name = next(key for key in ("logits", "start_logits", "last_hidden_state") if output.get(key) is not None)
    if head == "ForSequenceClassification":
        torch.testing.assert_close(output[name], outputs[-1][name], **CLOSE)
        return
    drop = layout.after + MEMORY + layout.separator
    expected = []
    for segment in outputs:
        value = segment[name]
        expected.append(torch.cat([value[:, : layout.after], value[:, drop:]], dim=1))
    prefix, suffix = settings.prefix, settings.suffix
    inner = torch.cat([value[:, prefix : value.shape[1] - suffix] for value in expected], dim=1)
    got = output[name][:, prefix : ids.shape[1] - suffix]
    torch.testing.assert_close(got, inner, **CLOSE)


def check_seq2seq(kind: str) -> list[str]:
    family, heads = FAMILIES[kind], heads_of(kind)
    head = "MTModel" if "MTModel" in heads else "ForConditionalGeneration"
    base = tiny_model(tiny_config(kind), heads[head])
    edges = family.prefix, family.suffix
    ids = text_of(base.config, TEXT + sum(edges), 2, edges)
    encoder = base.get_encoder()
    check_embeddings(encoder, ids)
    model, _ = with_memory(base)
    with torch.no_grad():
        outputs = encoder_segments(
            encoder,
            cut_text(ids, *edges),
            model.memory,
            (model.layout.after, 0),
            ids[:, ids.shape[1] - edges[1] :],
        )
        states = outputs[-1]
        greedy = {"do_sample": False, "max_new_tokens": 4, "min_new_tokens": 4, "eos_token_id": EOS}
        generated = model.generate(ids, **greedy, decoder_start_token_id=0, pad_token_id=0)
        decoded = torch.zeros(2, 1, dtype=torch.long)
        for _ in range(4):
            mask = torch.ones(last_states(states).shape[:2], dtype=torch.long)
            scores = base(encoder_outputs=states, attention_mask=mask, decoder_input_ids=decoded).logits[
                :, -1
            ]
            got = model(input_ids=ids, decoder_input_ids=decoded).logits[:, -1]
            torch.testing.assert_close(got, scores, **CLOSE)
            scores[:, EOS] = -torch.inf
            decoded = torch.cat([decoded, scores.argmax(-1, keepdim=True)], dim=1)
    assert torch.equal(generated, decoded)
    return [head]


def reason_refused(kind: str) -> str:
    """What add_memory says to a model of a type; nothing where it is accepted."""
    config = CONFIG_MAPPING[kind]()
    known = transformers.AutoModel._model_mapping.get(type(config), None)
    model_class = known[0] if isinstance(known, tuple) else known
    described = {"config": config, "main_input_name": model_class.main_input_name}
    model = type(model_class.__name__, (), described)()  # weights would take as long as they are large
    try:
        family_of(model)
    except ConfigError as error:
        return str(error)
    return ""


def page() -> str:
    """The page of all model types, made by the checks."""
    accepted = [row(kind) for kind in sorted(TYPES)]
    refused: dict[str, list[str]] = {}
    for kind in sorted(set(CONFIG_MAPPING._mapping) - set(FAMILIES)):  # none that was registered later
        refused.setdefault(short_reason(kind), []).append(f"`{kind}`")
    reasons = [f"- {reason}: {', '.join(kinds)}" for reason, kinds in sorted(refused.items())]
    return HEAD.format(count=len(accepted)) + "\n".join(accepted) + MIDDLE + "\n".join(reasons) + "\n"


def row(kind: str) -> str:
    family = FAMILIES[kind]
    layouts = ", ".join(f"`{name}`" for name in family.layouts)
    return f"| `{kind}` | {family.kind} | {layouts} | {', '.join(checked_heads(kind))} |"


def short_reason(kind: str) -> str:
    """The reason without the names of the model type and its class."""
    try:
        with warnings.catch_warnings(action="ignore"):  # of packages that a type would like to have
            reason = reason_refused(kind)
    except Exception:
        return "there is no model that AutoModel makes of its default configuration"
    if not reason:
        return "another name of a type above"
    _, _, reason = reason.partition(" cannot have memory: ")
    reason = reason.replace(f"model type '{kind}' ", "")
    return re.sub(r"\(.*\)", "", reason).replace("  ", " ").partition(";")[0].replace(" ;", ";").strip()


if __name__ == "__main__":
    torch.set_default_dtype(torch.float64)
    PAGE.write_text(page())
