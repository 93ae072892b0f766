"""Texts as segments: nothing lost, nothing doubled, special tokens in each."""

import pytest
import torch

import rmt
from rmt.errors import ConfigError, DataError
from rmt.hf.families import Layout
from rmt.hf.segments import plan
from rmt.hf.settings import MemorySettings
from tests.hf.zoo import answer, of_kind, plain, remembering, texts

CLS, SEP = 1, 2
AFTER_CLS = Layout(after=1, separator=1)


def cut(*rows, side="right", layout=AFTER_CLS, **settings):
    """The rows cut into segments of 3, as lists of tokens; what does not exist is left out."""
    chosen = MemorySettings(**{"memory": 2, "segment_length": 3, "prefix": 1, "suffix": 1, **settings})
    width = max(map(len, rows))
    ids = torch.zeros(len(rows), width, dtype=torch.long)
    for number, row in enumerate(rows):
        ids[number, slice(0, len(row)) if side == "right" else slice(width - len(row), width)] = torch.tensor(
            row
        )
    cutting = plan({"input_ids": ids}, ids > 0, chosen, layout.beside(chosen.memory))
    return cutting, [
        [
            segment.inputs["input_ids"][row][segment.exists[row]].tolist() if segment.alive[row] else None
            for segment in cutting.segments
        ]
        for row in range(len(rows))
    ]


ROW = [CLS, *range(10, 17), SEP]  # seven tokens of text


def test_each_segment_has_its_special_tokens_and_a_separator_behind_memory():
    assert cut(ROW, alignment="left")[1][0] == [
        [CLS, SEP, 10, 11, 12, SEP],
        [CLS, SEP, 13, 14, 15, SEP],
        [CLS, SEP, 16, SEP],
    ]


def test_without_memory_there_is_nothing_to_separate():
    assert cut(ROW, alignment="left", memory=0)[1][0][0] == [CLS, 10, 11, 12, SEP]


@pytest.mark.parametrize(
    ("alignment", "lengths"), [("left", [3, 3, 1]), ("right", [1, 3, 3]), ("even", [2, 2, 3])]
)
def test_alignment_says_where_the_short_segment_is(alignment, lengths):
    segments = cut(ROW, alignment=alignment)[1][0]
    assert [len(segment) - 3 for segment in segments] == lengths
    assert [token for segment in segments for token in segment if token >= 10] == ROW[1:-1]


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("alignment", ["left", "right", "even"])
def test_rows_end_together_and_none_loses_or_doubles_a_token(side, alignment):
    rows = [ROW, [CLS, SEP], [CLS, 20, SEP], [CLS, *range(30, 34), SEP]]
    cutting, segments = cut(*rows, side=side, alignment=alignment)
    assert [[segment is None for segment in row] for row in segments] == [
        [False, False, False],
        [True, True, False],
        [True, True, False],
        [True, False, False],
    ]
    for row, tokens in zip(segments, rows, strict=True):
        assert [token for segment in row if segment for token in segment if token >= 10] == tokens[1:-1]
    flat = torch.cat([segment.inputs["input_ids"] for segment in cutting.segments], dim=1)
    for number, tokens in enumerate(rows):
        places = cutting.places[number][cutting.places[number] >= 0]
        assert flat[number][places].tolist() == tokens  # every token is found again in its place


def test_the_special_tokens_are_found_in_the_last_segment():
    cutting, _ = cut(ROW, alignment="left")
    last = sum(segment.exists.shape[1] for segment in cutting.segments[:-1])
    assert cutting.places[0, 0] == last
    assert cutting.places[0, -1] == last + 3


def test_a_separator_stands_for_no_token_of_the_text():
    from rmt.hf.segments import Cut, arrange

    ranges = Cut(torch.tensor([0]), torch.tensor([3]), torch.tensor([True]))
    settings = MemorySettings(memory=2, segment_length=3, prefix=1, suffix=1)
    source, exists, standing = arrange(ranges, torch.tensor([9]), settings, separator=1)
    assert source.tolist() == [[0, 8, 1, 2, 3, 8]]
    assert exists.all()
    # two places with one source would race
    assert standing.tolist() == [[True, False, True, True, True, True]]


def test_a_text_that_is_too_long_is_an_error_that_counts():
    with pytest.raises(DataError, match=r"row 1 has 7 tokens of text, 1 more than max_segments=2 of 3 hold"):
        cut([CLS, 20, SEP], ROW, max_segments=2)


def test_more_segments_than_a_number_of_64_bits_counts_are_no_limit():
    assert cut(ROW, max_segments=2**62)[1] == cut(ROW)[1]


def test_a_text_is_cut_off_only_if_asked():
    segments = cut(ROW, max_segments=2, overlong="truncate", alignment="right")[1][0]
    assert segments == [[CLS, SEP, 10, 11, 12, SEP], [CLS, SEP, 13, 14, 15, SEP]]


def test_a_row_without_its_special_tokens_is_an_error():
    with pytest.raises(DataError, match=r"row 1 has 1 tokens, fewer than its 1 \+ 1 special tokens"):
        cut(ROW, [CLS])


def test_an_empty_text_is_one_segment_of_special_tokens():
    assert cut([CLS, SEP])[1][0] == [[CLS, SEP, SEP]]


@pytest.mark.parametrize("name", of_kind("decoder"))
def test_a_row_of_nothing_keeps_its_memory(name):
    model = remembering(name)
    state = model(**texts(name, 8, 8), return_state=True).state
    after = model(**texts(name, 7, 0), state=state, return_state=True).state
    assert torch.equal(after.memory[1], state.memory[1])
    assert not torch.equal(after.memory[0], state.memory[0])


@pytest.mark.parametrize("name", of_kind("encoder", "decoder", "seq2seq"))
def test_a_document_in_pieces_is_the_document(name):
    model = remembering(name, alignment="left")
    edges = model.settings.prefix, model.settings.suffix
    whole = texts(name, 15 + sum(edges), 15 + sum(edges))["input_ids"]
    text = whole[:, edges[0] : whole.shape[1] - edges[1]]
    first, last = whole[:, : edges[0]], whole[:, whole.shape[1] - edges[1] :]
    state, hidden = None, []
    for piece in text.split([10, 5], dim=1):
        output = answer(
            model, {"input_ids": torch.cat([first, piece, last], dim=1)}, state=state, return_state=True
        )
        state = output.state
        hidden.append(output.last_hidden_state[:, edges[0] : edges[0] + piece.shape[1]])
    expected = answer(model, {"input_ids": whole}, return_state=True)
    torch.testing.assert_close(state.memory, expected.state.memory, rtol=1e-6, atol=1e-6)
    if model.family.kind != "seq2seq":
        mine = expected.last_hidden_state[:, edges[0] : edges[0] + 15]
        torch.testing.assert_close(torch.cat(hidden, dim=1), mine, rtol=1e-6, atol=1e-6)


def test_the_state_is_the_projects_own_and_is_returned_on_request_only():
    model = remembering("bert", "ForSequenceClassification")
    assert "state" not in model(**texts("bert", 9))
    state = model(**texts("bert", 9), return_state=True).state
    assert isinstance(state, rmt.State)
    assert state.memory.requires_grad
    assert not state.detach().memory.requires_grad
    assert state.memory.shape == (1, 2, 16)


def test_a_tuple_has_the_state_last():
    model = remembering("bert", "ForSequenceClassification")
    inputs = texts("bert", 9)
    logits, state = model(**inputs, return_state=True, return_dict=False)
    assert torch.equal(logits, model(**inputs).logits)
    assert isinstance(state, rmt.State)


def test_a_state_of_other_rows_is_refused():
    model = remembering("gpt2")
    with pytest.raises(
        ConfigError, match=r"state with memory of shape \(3, 2, 16\) does not fit this .*: \(2, 2, 16\); give"
    ):
        model(**texts("gpt2", 6, 6), state=model.initial_state(3))


@pytest.mark.parametrize("name", of_kind("encoder", "decoder", "seq2seq"))
def test_embeddings_may_be_given_instead_of_tokens(name):
    model = remembering(name)
    inputs = texts(name, 14, 9)
    expected = answer(model, inputs).last_hidden_state
    embedded = model.segment_backbone().get_input_embeddings()(inputs["input_ids"])
    more = {"decoder_input_ids": torch.tensor([[0, 5, 6]] * 2)} if model.config.is_encoder_decoder else {}
    got = model(inputs_embeds=embedded, attention_mask=inputs["attention_mask"], **more).last_hidden_state
    torch.testing.assert_close(got, expected, rtol=1e-9, atol=1e-9)


def test_token_types_go_with_their_tokens():
    model = remembering("bert")
    inputs = texts("bert", 14)
    types = torch.zeros_like(inputs["input_ids"])
    with torch.no_grad():
        before = model(**inputs, token_type_ids=types).last_hidden_state
        assert torch.equal(before, model(**inputs).last_hidden_state)
        types[:, 7:] = 1
        assert not torch.equal(before, model(**inputs, token_type_ids=types).last_hidden_state)


def test_hidden_states_of_all_layers_are_in_their_places():
    model = remembering("gpt2")
    inputs = texts("gpt2", 14, 9)
    output = model(**inputs, output_hidden_states=True)
    assert len(output.hidden_states) == 3
    torch.testing.assert_close(output.hidden_states[-1], output.last_hidden_state)


@pytest.mark.parametrize("name", of_kind("encoder", "decoder", "seq2seq"))
def test_the_longest_segment_that_is_chosen_by_itself_runs_and_one_token_more_is_refused(name):
    base = plain(name)
    model = rmt.add_memory(base, memory=3)
    length = model.settings.segment_length
    edges = model.settings.prefix + model.settings.suffix
    hidden = answer(model, texts(name, length + edges))
    assert torch.isfinite(hidden.last_hidden_state).all()
    if name not in ("t5", "deberta-v2"):  # they know no limit
        with pytest.raises(
            ConfigError, match=rf"segment_length={length + 1} is too long: .*choose at most {length}"
        ):
            rmt.add_memory(base, memory=3, segment_length=length + 1)


@pytest.mark.parametrize(
    ("name", "length"),
    [
        ("bert", 64 - 10 - 3),
        ("roberta", 64 - 10 - 3),
        ("gpt2", 64 - 20),
        ("t5", 512 - 10 - 1),
        ("bart", 64 - 10 - 2),
    ],
)
def test_the_segment_length_is_that_of_the_papers_code(name, length):
    assert rmt.add_memory(plain(name), memory=10, kind="tokens").settings.segment_length == length


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"memory": 62}, "memory=62 leaves no room for text: it takes 65 of the model's 64 positions"),
        ({"memory": -1}, "memory=-1 must be at least 0"),
        ({"segment_length": 0}, "segment_length=0 must be above 0"),
        ({"layout": "middle"}, "unknown layout 'middle'; choose from: paper, prefix"),
        ({"layout": "causal"}, "unknown layout 'causal'"),
        ({"bptt": -1}, "bptt=-1 must be at least 0"),
        ({"bptt": "all"}, "bptt='all' is not a whole number or full"),
        ({"alignment": "middle"}, "alignment='middle' is not one of: left, right, even"),
        ({"overlong": "truncate"}, "overlong='truncate' has no effect without max_segments"),
        ({"special_tokens": (0, 0)}, "layout='paper' puts memory behind the first special token"),
        ({"special_tokens": (1, 0)}, "layout='paper' needs a special token at the end"),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_settings_that_cannot_be_meant_are_refused_when_wrapping(options, message):
    import re

    with pytest.raises(ConfigError, match=re.escape(message)):
        rmt.add_memory(plain("bert", "ForSequenceClassification"), **options)


def test_what_cannot_have_memory_says_why():
    import transformers

    small = {"vocab_size": 20, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    with pytest.raises(ConfigError, match="model type 'xlnet' is not one that memory was tested with"):
        rmt.add_memory(
            transformers.XLNetModel(
                transformers.XLNetConfig(vocab_size=20, d_model=16, n_layer=1, n_head=2, d_inner=8)
            )
        )
    with pytest.raises(ConfigError, match="BertLMHeadModel cannot have memory: LMHeadModel is not one of"):
        rmt.add_memory(transformers.BertLMHeadModel(transformers.BertConfig(**small)))
    with pytest.raises(ConfigError, match="is_decoder=True cannot have memory"):
        rmt.add_memory(plain("bert", is_decoder=True))
    with pytest.raises(ConfigError, match="T5EncoderModel cannot have memory"):
        rmt.add_memory(transformers.T5EncoderModel(plain("t5").config))
    with pytest.raises(ConfigError, match="FalconModel with alibi=True cannot have memory: its scores count"):
        rmt.add_memory(plain("falcon", alibi=True))
    with pytest.raises(ConfigError, match="its layers of chunked_attention are no attention to all"):
        rmt.add_memory(plain("qwen3", layer_types=["chunked_attention", "full_attention"]))
    with pytest.raises(ConfigError, match="model=Linear is not a pretrained model"):
        rmt.add_memory(torch.nn.Linear(2, 2))
    with pytest.raises(ConfigError, match="RMTBertModel has memory already"):
        rmt.add_memory(remembering("bert"))


def test_a_configuration_without_memory_says_what_its_weights_lack():
    kind = type(remembering("bert"))
    with pytest.raises(ConfigError, match=r"config.rmt is missing: these are weights without memory; load"):
        kind(kind.config_class(**plain("bert").config.to_dict()))


def test_truncation_is_refused_where_tokens_would_be_left_without_an_answer():
    with pytest.raises(
        ConfigError, match="overlong='truncate' would leave tokens of GPT2LMHeadModel without"
    ):
        rmt.add_memory(plain("gpt2", "ForCausalLM"), max_segments=2, overlong="truncate")

    averaging = plain("modernbert", "ForSequenceClassification", classifier_pooling="mean")
    with pytest.raises(ConfigError, match="overlong='truncate' would leave tokens of ModernBert"):
        rmt.add_memory(averaging, max_segments=2, overlong="truncate")


@pytest.mark.covering
@pytest.mark.parametrize("alignment", ["left", "right", "even"])
@pytest.mark.parametrize("name", ["bert", "gpt2", "t5", "bart"])
def test_last_segments_of_different_lengths_do_not_disturb_each_other(name, alignment):
    model = remembering(name, "ForSequenceClassification", alignment=alignment)
    edges = model.settings.prefix + model.settings.suffix
    lengths = (12 + edges, 10 + edges, 1 + edges)  # left: the longest text has a short last segment
    inputs = texts(name, *lengths)
    together = model(**inputs).logits
    for row, length in enumerate(lengths):
        alone = model(**{key: value[row : row + 1, :length] for key, value in inputs.items()}).logits
        torch.testing.assert_close(together[row : row + 1], alone, rtol=1e-5, atol=1e-5)


def test_a_head_that_averages_reads_all_segments():
    base = plain("modernbert", "ForSequenceClassification", classifier_pooling="mean")
    model = rmt.add_memory(base, memory=2, segment_length=5, bptt=0)
    inputs = texts("modernbert", 17, 9)
    together = model(**inputs).logits
    alone = [
        model(**{key: value[row : row + 1, :n] for key, value in inputs.items()}).logits
        for row, n in ((0, 17), (1, 9))
    ]
    torch.testing.assert_close(together, torch.cat(alone), rtol=1e-5, atol=1e-5)
    hidden = []
    model.head.register_forward_hook(lambda module, inputs, output: hidden.append(inputs[0]))
    model(**inputs)
    assert hidden[0].abs().sum(-1).all()


def test_every_choice_of_a_multiple_choice_is_a_text():
    import transformers

    config = plain("bert").config
    base = transformers.BertForMultipleChoice(config).eval()
    inputs = texts("bert", 14, 6, 9, 12)
    choices = {key: value.view(2, 2, -1) for key, value in inputs.items()}
    assert torch.equal(rmt.add_memory(base, memory=0)(**choices).logits, base(**choices).logits)
    model = rmt.add_memory(base, memory=2, segment_length=5)
    short = {key: value[:1] for key, value in choices.items()}
    torch.testing.assert_close(model(**short).logits, model(**choices).logits[:1], rtol=1e-9, atol=1e-9)


def test_the_base_model_stays_as_it_is_and_shares_its_weights():
    base = plain("bert", "ForSequenceClassification")
    inputs = texts("bert", 9)
    before, kind = base(**inputs).logits, type(base)
    model = rmt.add_memory(base, memory=3)
    model(**inputs)
    assert type(base) is kind
    assert base.config.model_type == "bert"
    assert torch.equal(base(**inputs).logits, before)
    assert model.bert.embeddings.word_embeddings.weight is base.bert.embeddings.word_embeddings.weight


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bert", "gpt2"])
def test_a_text_of_a_hundred_thousand_tokens_is_read(name):
    base = plain(name, "ForSequenceClassification", max_position_embeddings=1024, num_hidden_layers=1)
    model = rmt.add_memory(base, memory=2)
    with torch.no_grad():
        assert torch.isfinite(model(**texts(name, 100_000)).logits).all()
