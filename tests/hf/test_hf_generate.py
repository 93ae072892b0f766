"""The arguments of `generate`, each as in plain transformers: equal to a loop written here, or refused."""

from itertools import pairwise

import pytest
import torch
from transformers import (
    EncoderRepetitionPenaltyLogitsProcessor,
    GenerationConfig,
    LogitsProcessor,
    MaxLengthCriteria,
)
from transformers.generation.streamers import BaseStreamer

from rmt.errors import ConfigError, DataError
from rmt.hf import SegmentCache, add_memory
from tests.hf.tiny import tiny_config, tiny_model
from tests.hf.zoo import PAD, VOCABULARY, plain, remembering, texts

STEPS = 9  # over the border of segments of 5, twice
LENGTHS = {"max_new_tokens": STEPS, "min_new_tokens": STEPS, "pad_token_id": PAD}
GREEDY = {"do_sample": False, **LENGTHS}
LLAMA = ("llama", "ForCausalLM")
DECODERS = pytest.mark.parametrize("name", ["gpt2", "llama", "opt"])


def next_scores(model, ids, **inputs):
    """The scores of the next token, all segments encoded anew."""
    with torch.no_grad():
        return model(input_ids=ids, use_cache=False, **inputs).logits[:, -1].float()


def loop(model, ids, choose=None, **inputs):
    """The most likely token, STEPS times; the end is never chosen. `choose` changes the scores of `ids`."""
    for _ in range(STEPS):
        scores = next_scores(model, ids, **inputs)
        scores[:, 2] = -torch.inf  # the end, which min_new_tokens forbids
        if choose is not None:
            scores = choose(ids, scores)
        ids = torch.cat([ids, scores.argmax(-1, keepdim=True)], dim=1)
    return ids


@DECODERS
def test_a_generation_config_of_none_or_by_place_or_by_name_is_one_thing(name):
    model, inputs = remembering(name, "ForCausalLM"), texts(name, 7, 7)
    expected = loop(model, inputs["input_ids"])
    assert torch.equal(model.generate(**inputs, generation_config=None, **GREEDY), expected)
    config = GenerationConfig(**GREEDY, eos_token_id=2)
    assert torch.equal(model.generate(inputs["input_ids"], config), expected)
    assert torch.equal(model.generate(inputs["input_ids"], generation_config=config), expected)
    without = GenerationConfig(**GREEDY, eos_token_id=2, use_cache=False)
    assert torch.equal(model.generate(inputs["input_ids"], without), expected)


@DECODERS
@pytest.mark.parametrize("use_cache", [True, False])
def test_a_prompt_may_be_embeddings(name, use_cache):
    model, inputs = remembering(name, "ForCausalLM"), texts(name, 7, 7)
    embedded = model.get_input_embeddings()(inputs["input_ids"])
    expected = loop(model, inputs["input_ids"])[:, 7:]
    if not use_cache:
        with pytest.raises(ConfigError, match="inputs_embeds needs a cache; leave use_cache=False out"):
            model.generate(inputs_embeds=embedded, **GREEDY, use_cache=False)
        return
    got = model.generate(inputs_embeds=embedded, **GREEDY)
    assert torch.equal(got, expected)
    masked = model.generate(inputs_embeds=embedded, attention_mask=inputs["attention_mask"], **GREEDY)
    assert torch.equal(masked, expected)


@pytest.mark.covering
@DECODERS
@pytest.mark.parametrize("use_cache", [True, False])
@pytest.mark.parametrize("negative", [None, 6], ids=["last token", "negative prompt"])
def test_guidance_weighs_against_what_follows_from_the_negative_prompt(name, use_cache, negative):
    model, ids = remembering(name, "ForCausalLM"), texts(name, 7)["input_ids"]
    unwanted = ids[:, -1:] if negative is None else texts(name, negative, seed=8)["input_ids"]

    def guided(sequence, scores):
        other = torch.cat([unwanted, sequence[:, 7:]], dim=1)
        wanted, against = scores.log_softmax(-1), next_scores(model, other).log_softmax(-1)
        return against + 1.5 * (wanted - against)

    options = {} if negative is None else {"negative_prompt_ids": unwanted}
    got = model.generate(ids, guidance_scale=1.5, **options, **GREEDY, use_cache=use_cache)
    assert torch.equal(got, loop(model, ids, guided))


def test_processors_criteria_and_allowed_tokens_are_those_of_the_class_itself():
    model, ids = remembering("gpt2", "ForCausalLM"), texts("gpt2", 7)["input_ids"]

    class OnlyEven(LogitsProcessor):
        def __call__(self, input_ids, scores):
            return scores.masked_fill(torch.arange(VOCABULARY) % 2 == 1, -torch.inf)

    expected = loop(model, ids, lambda _, scores: OnlyEven()(None, scores))
    assert torch.equal(model.generate(ids, logits_processor=[OnlyEven()], **GREEDY), expected)
    even = list(range(0, VOCABULARY, 2))
    allowed = model.generate(ids, prefix_allowed_tokens_fn=lambda row, sequence: even, **GREEDY)
    assert torch.equal(allowed, expected)
    stopped = model.generate(ids, stopping_criteria=[MaxLengthCriteria(11)], **GREEDY)
    assert torch.equal(stopped, loop(model, ids)[:, :11])


def test_repetition_is_penalised_over_the_whole_text():
    model, ids = remembering("gpt2", "ForCausalLM"), texts("gpt2", 7)["input_ids"]

    def penalised(sequence, scores):
        seen = torch.zeros(VOCABULARY, dtype=torch.bool)
        seen[sequence[0]] = True
        return torch.where(seen, torch.where(scores < 0, scores * 1.7, scores / 1.7), scores)

    expected = loop(model, ids, penalised)
    assert torch.equal(model.generate(ids, repetition_penalty=1.7, **GREEDY), expected)


def test_a_streamer_hears_each_token_in_its_turn():
    model, ids, heard = remembering("gpt2", "ForCausalLM"), texts("gpt2", 7)["input_ids"], []

    class Listener(BaseStreamer):
        def put(self, value):
            heard.append(value.reshape(-1))

        def end(self):
            heard.append(torch.tensor([-1]))

    generated = model.generate(ids, streamer=Listener(), **GREEDY)
    assert torch.equal(torch.cat(heard), torch.cat([generated[0], torch.tensor([-1])]))


@pytest.mark.parametrize("more", [{"num_return_sequences": 3, "do_sample": True}, {"num_beams": 3}], ids=str)
def test_a_state_goes_into_every_beam_and_every_returned_sequence(more):
    model, whole = remembering("gpt2", "ForCausalLM"), texts("gpt2", 12, 12)["input_ids"]
    with torch.no_grad():
        state = model(input_ids=whole[:, :10], return_state=True).state
    drawn = []
    for inputs, options in (
        (whole, {}),
        (whole[:, 10:], {"state": state}),
    ):
        torch.manual_seed(3)
        drawn.append(model.generate(inputs, **options, **{**GREEDY, **more})[:, -STEPS:])
    assert torch.equal(*drawn)


def test_without_a_cache_a_state_goes_into_every_sequence_but_into_no_beam():
    model, whole = remembering("gpt2", "ForCausalLM"), texts("gpt2", 12, 12)["input_ids"]
    with torch.no_grad():
        state = model(input_ids=whole[:, :10], return_state=True).state
    without = {"state": state, "use_cache": False, **GREEDY}
    assert torch.equal(model.generate(whole[:, 10:], **without)[:, 2:], loop(model, whole)[:, 12:])
    with pytest.raises(ConfigError, match="state= goes into beams with a cache only"):
        model.generate(whole[:, 10:], num_beams=2, **without)


def test_generation_goes_on_from_the_cache_of_a_call():
    model, ids = remembering("gpt2", "ForCausalLM"), texts("gpt2", 12)["input_ids"]
    with torch.no_grad():
        cache = model(input_ids=ids[:, :8], use_cache=True).past_key_values
    assert torch.equal(model.generate(ids, past_key_values=cache, **GREEDY), loop(model, ids))


def test_a_prompt_may_be_encoded_in_chunks():
    model, ids = remembering("gpt2", "ForCausalLM"), texts("gpt2", 12)["input_ids"]
    assert torch.equal(model.generate(ids, prefill_chunk_size=5, **GREEDY), loop(model, ids))


@DECODERS
@pytest.mark.parametrize("chunk", [2, 5, 7])
def test_prompts_padded_on_the_left_may_be_encoded_in_chunks_even_of_padding_alone(name, chunk):
    model, inputs = remembering(name, "ForCausalLM"), texts(name, 8, 3, pad_to=11, side="left")
    expected = model.generate(**inputs, **GREEDY)
    assert torch.equal(model.generate(**inputs, prefill_chunk_size=chunk, **GREEDY), expected)
    beams = {**GREEDY, "num_beams": 3}
    expected = model.generate(**inputs, **beams)
    assert torch.equal(model.generate(**inputs, prefill_chunk_size=chunk, **beams), expected)


@pytest.mark.parametrize("use_cache", [True, False])
def test_a_model_that_balances_its_experts_in_training_generates_as_one_that_does_not(use_cache):
    ids, texts_of = torch.arange(3, 10)[None], {}
    for balances in (True, False):
        base = tiny_model(tiny_config("mixtral", output_router_logits=balances), "AutoModelForCausalLM")
        model = add_memory(base, memory=2, segment_length=5)
        texts_of[balances] = model.generate(ids, use_cache=use_cache, **GREEDY)
    assert torch.equal(texts_of[True], texts_of[False])


@pytest.mark.parametrize("masked", [True, False], ids=["masked", "padding tokens"])
@pytest.mark.parametrize(
    "options",
    [
        lambda model: {},
        lambda model: {"state": model.initial_state(2)},
        lambda model: {"state": model.initial_state(2), "use_cache": False},
        lambda model: {"past_key_values": SegmentCache(model, model.initial_state(2))},
    ],
    ids=["no state", "state", "state without cache", "cache with a state"],
)
def test_nothing_is_generated_behind_a_row_of_nothing(options, masked):
    model, inputs = remembering("gpt2", "ForCausalLM"), texts("gpt2", 7, 0)
    if not masked:
        del inputs["attention_mask"]
    message = (
        "^row 1 has no tokens: its attention_mask is 0 everywhere, and nothing can follow; leave the row out$"
    )
    with pytest.raises(DataError, match=message):
        model.generate(**inputs, **options(model), **GREEDY)


def test_padding_tokens_at_the_end_of_a_prompt_without_a_mask_are_refused_as_masked_ones():
    model, inputs = remembering("gpt2", "ForCausalLM"), texts("gpt2", 7, 5)
    with pytest.raises(DataError, match="row 1 of attention_mask ends with padding"):
        model.generate(inputs["input_ids"], **GREEDY)


@pytest.mark.parametrize("name", ["gpt2", "t5", "bart"])
def test_a_penalty_on_tokens_that_are_not_in_the_text_knows_the_whole_text(name):
    model = remembering(name, "ForCausalLM" if name == "gpt2" else "ForConditionalGeneration")
    ids = texts(name, 17, 17)["input_ids"]  # several segments
    penalty = EncoderRepetitionPenaltyLogitsProcessor(3.0, ids)
    expected = model.generate(ids, logits_processor=[penalty], **GREEDY)
    assert torch.equal(model.generate(ids, encoder_repetition_penalty=3.0, **GREEDY), expected)
    assert torch.equal(model.generate(input_ids=ids, encoder_repetition_penalty=3.0, **GREEDY), expected)
    assert not torch.equal(model.generate(ids, **GREEDY), expected)


@pytest.mark.parametrize("name", ["t5", "bart"])
def test_pairs_of_tokens_of_the_whole_text_can_be_forbidden(name):
    model, ids = remembering(name, "ForConditionalGeneration"), texts(name, 17)["input_ids"]
    seen = model.generate(ids, **GREEDY)[0].tolist()
    text = torch.cat([torch.tensor([seen[2:5]]), ids], dim=1)  # in the first of several segments
    generated = model.generate(text, encoder_no_repeat_ngram_size=2, **GREEDY)[0].tolist()
    assert not set(pairwise(text[0].tolist())) & set(pairwise(generated))


@pytest.mark.parametrize("name", ["gpt2", "t5"])
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"prompt_lookup_num_tokens": 2}, "prompt_lookup_num_tokens guesses tokens and takes them back"),
        ({"assistant_model": "plain"}, "assistant_model guesses tokens and takes them back"),
        ({"cache_implementation": "static"}, "cache_implementation='static' knows no segments"),
        ({"position_ids": torch.arange(7)[None]}, "position_ids are counted anew in each segment"),
    ],
    ids=["prompt lookup", "assistant", "static cache", "positions"],
)
def test_what_memory_makes_impossible_is_refused_in_a_line(name, options, message):
    head = "ForCausalLM" if name == "gpt2" else "ForConditionalGeneration"
    model = remembering(name, head)
    options = {**options, "assistant_model": plain(name, head)} if "assistant_model" in options else options
    with pytest.raises(ConfigError, match=message):
        model.generate(**texts(name, 7), **GREEDY, **options)


@pytest.mark.parametrize("name", ["t5", "bart"])
def test_an_encoder_decoder_takes_the_same_arguments(name):
    model, inputs = remembering(name, "ForConditionalGeneration"), texts(name, 12, 12)
    expected = model.generate(**inputs, **GREEDY)
    assert torch.equal(model.generate(inputs["input_ids"], None, **GREEDY), expected)
    config = GenerationConfig(**GREEDY, eos_token_id=2, decoder_start_token_id=expected[0, 0].item())
    assert torch.equal(model.generate(inputs["input_ids"], config), expected)
    embedded = model.get_input_embeddings()(inputs["input_ids"])
    if name == "t5":
        assert torch.equal(model.generate(inputs_embeds=embedded, **GREEDY), expected)
    with pytest.raises(ConfigError, match="guidance_scale"):
        model.generate(**inputs, guidance_scale=1.5, **GREEDY)


def test_a_model_with_memory_is_no_assistant():
    with pytest.raises(ConfigError, match=r"as an assistant it would .*; name a model without memory"):
        plain(*LLAMA).generate(
            texts("llama", 7)["input_ids"], assistant_model=remembering(*LLAMA), max_new_tokens=4
        )


def test_batches_of_requests_that_share_pages_of_a_cache_are_refused():
    with pytest.raises(ConfigError, match=r"generate_batch keeps a cache of pages.*; use generate\(\)"):
        remembering(*LLAMA).generate_batch([[5, 6, 7]])


@pytest.mark.parametrize(
    ("name", "head"),
    [
        ("llama", "Model"),
        ("llama", "ForSequenceClassification"),
        ("gpt2", "ForTokenClassification"),
        ("t5", "Model"),
        ("bart", "ForSequenceClassification"),
    ],
)
def test_a_head_that_generates_nothing_does_not_say_that_it_could(name, head, caplog):
    base = plain(name, head)
    model = remembering(name, head)
    with caplog.at_level("WARNING"):
        assert type(model).can_generate() == type(base).can_generate() is False
    assert "generative capabilities" not in caplog.text
    assert not hasattr(model, "generate")


@pytest.mark.parametrize(("name", "head"), [LLAMA, ("t5", "ForConditionalGeneration")])
def test_a_head_that_generates_still_can(name, head):
    assert type(remembering(name, head)).can_generate()
