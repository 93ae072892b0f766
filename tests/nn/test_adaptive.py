"""Adaptive embedding and softmax against a table of log-probabilities written word by word."""

# B batch · L tokens · V vocabulary · D width

import math
from itertools import pairwise

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rmt.errors import ConfigError
from rmt.gpu.graphs import Captured
from rmt.nn.adaptive import AdaptiveEmbedding, targets_fit_slots
from rmt.nn.embedding import TiedEmbedding

BATCH, TOKENS, VOCABULARY, WIDTH = 3, 7, 23, 70
CUTOFFS = (5, 8, 19)
BORDERS = torch.tensor([0, 4, 5, 7, 8, 18, 19, 22])  # the first and the last word of every cluster

Values = dict[str, Tensor]
DIV_VALS = pytest.mark.parametrize("div_val", [1, 2, 4], ids="div-val-{}".format)


def adaptive(div_val: int, cutoffs: tuple[int, ...] = CUTOFFS) -> AdaptiveEmbedding:
    """Random parameters of which none is neutral."""
    torch.manual_seed(0)
    embedding = AdaptiveEmbedding(VOCABULARY, WIDTH, cutoffs, div_val)
    for parameter in embedding.parameters():
        nn.init.normal_(parameter, std=0.5)
    return embedding


def some_hidden() -> Tensor:
    return torch.randn(BATCH, TOKENS, WIDTH, generator=torch.Generator().manual_seed(1), requires_grad=True)


def some_words() -> Tensor:
    """Targets with every border of a cluster and every cluster, in no order."""
    generator = torch.Generator().manual_seed(2)
    drawn = torch.randint(VOCABULARY, (BATCH * TOKENS - len(BORDERS),), generator=generator)
    words = torch.cat([BORDERS, drawn])
    return words[torch.randperm(len(words), generator=generator)].view(BATCH, TOKENS)


def counts(words: Tensor) -> tuple[int, ...]:
    """How many targets each tail has."""
    spans = pairwise((*CUTOFFS, VOCABULARY))
    return tuple(sum(start <= word < stop for word in words.flatten().tolist()) for start, stop in spans)


def word_table(values: Values, word: int, div_val: int) -> tuple[Tensor, Tensor, Tensor]:
    """A word's row in the model's width as it is read, as it is scored, and its bias."""
    cluster = sum(word >= cutoff for cutoff in CUTOFFS)
    if div_val == 1:
        row = values["words.weight"][word]
        return row, row, values["words.bias"][word]
    within = word - (0, *CUTOFFS)[cluster]
    row = values[f"words.tables.{cluster}.weight"][within]
    read = values[f"words.projections.{cluster}.weight"]
    score = read if cluster else values["words.head_projection.weight"]
    return read @ row, score @ row, values[f"words.tables.{cluster}.bias"][within]


def naive_forward(values: Values, tokens: Tensor, div_val: int) -> Tensor:
    rows = [word_table(values, word, div_val)[0] * math.sqrt(WIDTH) for word in tokens.flatten().tolist()]
    return torch.stack(rows).view(*tokens.shape, WIDTH)


def naive_log_probabilities(values: Values, hidden: Tensor, div_val: int) -> Tensor:
    """(B, L, D) -> (B, L, V), one position and one cluster at a time."""
    words = [word_table(values, word, div_val) for word in range(VOCABULARY)]
    tails = len(CUTOFFS)
    return torch.stack(
        [naive_position(values, position, words, tails, div_val) for position in hidden.flatten(0, 1)]
    ).view(*hidden.shape[:2], VOCABULARY)


def naive_position(values: Values, position: Tensor, words: list, tails: int, div_val: int) -> Tensor:
    scores = [position @ row + bias for _, row, bias in words]
    gate = position if div_val == 1 else position @ values["words.head_projection.weight"]
    gates = [gate @ values["clusters.weight"][k] + values["clusters.bias"][k] for k in range(tails)]
    total = sum(score.exp() for score in scores[: CUTOFFS[0]] + gates)
    found = [score - total.log() for score in scores[: CUTOFFS[0]]]
    for tail in range(1, tails + 1):
        members = scores[CUTOFFS[tail - 1] : (*CUTOFFS, VOCABULARY)[tail]]
        inside = sum(score.exp() for score in members).log()
        found += [gates[tails - tail] - total.log() + score - inside for score in members]
    return torch.stack(found)


def at_targets(table: Tensor, targets: Tensor) -> Tensor:
    """Minus the log-probability of each target, position by position."""
    found = [-table[b, i, targets[b, i]] for b in range(BATCH) for i in range(TOKENS)]
    return torch.stack(found).view(BATCH, TOKENS)


def gradients(result: Tensor, inputs: list[Tensor]) -> tuple[Tensor, ...]:
    """Of a fixed random linear functional of the result."""
    weights = torch.randn(result.shape, generator=torch.Generator().manual_seed(3))
    return torch.autograd.grad((result * weights).sum(), inputs, allow_unused=True, materialize_grads=True)


def assert_same(ours: Tensor, theirs: Tensor, inputs: list[Tensor], tolerance: float = 1e-12) -> None:
    """Equal, and so are the gradients with respect to all inputs."""
    torch.testing.assert_close(ours, theirs, rtol=tolerance, atol=tolerance)
    for one, other in zip(gradients(ours, inputs), gradients(theirs, inputs), strict=True):
        torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance)


@DIV_VALS
def test_tokens_are_embedded_as_word_by_word(div_val):
    embedding, tokens = adaptive(div_val), some_words()
    values = dict(embedding.named_parameters())
    assert_same(embedding(tokens), naive_forward(values, tokens, div_val), list(values.values()))


@DIV_VALS
def test_logits_are_the_log_probabilities_of_the_naive_table_and_sum_to_one(div_val):
    embedding, hidden = adaptive(div_val), some_hidden()
    values = dict(embedding.named_parameters())
    logits = embedding.logits(hidden)
    torch.testing.assert_close(logits.exp().sum(-1), torch.ones(BATCH, TOKENS), rtol=1e-12, atol=1e-12)
    assert_same(
        logits, naive_log_probabilities(values, hidden, div_val), [hidden, *values.values()], tolerance=1e-11
    )


@pytest.mark.covering
@DIV_VALS
@pytest.mark.parametrize(
    "spare", [pytest.param(None, id="members"), pytest.param(0, id="exact"), pytest.param(4, id="spare")]
)
def test_losses_are_those_of_the_naive_table_in_the_order_of_the_positions(div_val, spare):
    embedding, hidden, targets = adaptive(div_val), some_hidden(), some_words()
    values = dict(embedding.named_parameters())
    capacities = () if spare is None else tuple(count + spare for count in counts(targets))
    naive = at_targets(naive_log_probabilities(values, hidden, div_val), targets)
    losses = embedding.losses(hidden, targets, capacities)
    assert_same(losses, naive, [hidden, *values.values()], tolerance=1e-11)


@DIV_VALS
def test_losses_are_the_logits_at_the_targets(div_val):
    embedding, hidden, targets = adaptive(div_val), some_hidden(), some_words()
    expected = at_targets(embedding.logits(hidden), targets)
    assert_same(embedding.losses(hidden, targets), expected, [hidden, *embedding.parameters()])


@DIV_VALS
@pytest.mark.parametrize("spare", [0, 1, 1000], ids="spare-{}".format)
def test_slots_change_neither_losses_nor_gradients(div_val, spare):
    embedding, hidden, targets = adaptive(div_val), some_hidden(), some_words()
    capacities = tuple(count + spare for count in counts(targets))
    inputs = [hidden, *embedding.parameters()]
    assert_same(embedding.losses(hidden, targets, capacities), embedding.losses(hidden, targets), inputs)


@pytest.mark.covering
@DIV_VALS
@pytest.mark.parametrize("capacities", [(), (0, 0, 0), (2, 2, 2)], ids=["members", "no-slot", "slots"])
@pytest.mark.parametrize("cluster", [0, 2], ids=["head-only", "one-tail-only"])
def test_a_tail_without_targets_adds_nothing(div_val, capacities, cluster):
    embedding, hidden = adaptive(div_val), some_hidden()
    start, stop = (0, *CUTOFFS)[cluster], (*CUTOFFS, VOCABULARY)[cluster]
    targets = start + some_words() % (stop - start)
    capacities = tuple(BATCH * TOKENS if k == cluster else slots for k, slots in enumerate(capacities, 1))
    expected = at_targets(embedding.logits(hidden), targets)
    assert_same(embedding.losses(hidden, targets, capacities), expected, [hidden, *embedding.parameters()])
    biases = [values for name, values in embedding.words.named_parameters() if name.endswith("bias")]
    moved = torch.cat(gradients(embedding.losses(hidden, targets, capacities), biases)) != 0  # (V,)
    moved[: CUTOFFS[0]] = False
    assert moved.nonzero().flatten().tolist() == (list(range(start, stop)) if cluster else [])


def test_a_target_without_a_slot_is_not_a_number_and_leaves_the_others_alone():
    embedding, hidden, targets = adaptive(1), some_hidden(), some_words()
    second = (targets >= CUTOFFS[1]) & (targets < CUTOFFS[2])
    first, tail, last = counts(targets)
    losses = embedding.losses(hidden, targets, (first, tail - 1, last))
    lost, whole = losses.isnan(), embedding.losses(hidden, targets)
    assert lost.sum() == 1
    assert second[lost].all()
    torch.testing.assert_close(losses[~lost], whole[~lost], rtol=1e-12, atol=1e-12)


@DIV_VALS
def test_one_cutoff_is_enough(div_val):
    embedding, hidden, targets = adaptive(div_val, cutoffs=(10,)), some_hidden(), some_words()
    expected = at_targets(embedding.logits(hidden), targets)
    torch.testing.assert_close(embedding.losses(hidden, targets, (21,)), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("div_val", [1, 2, 4])
def test_slots_and_tokens_compile_without_a_break(div_val):
    embedding, hidden, targets = adaptive(div_val), some_hidden(), some_words()
    capacities = (9, 14, 9)
    assert targets_fit_slots(targets, CUTOFFS, capacities)

    def work(hidden: Tensor, targets: Tensor) -> Tensor:
        return embedding.losses(embedding(targets) + hidden, targets, capacities)

    compiled = torch.compile(work, backend="aot_eager", fullgraph=True)
    inputs = [hidden, *embedding.parameters()]
    assert_same(compiled(hidden, targets), work(hidden, targets), inputs)
    assert_same(compiled(hidden, targets.flip(1)), work(hidden, targets.flip(1)), inputs)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@DIV_VALS
def test_slots_and_tokens_can_be_recorded_as_a_cuda_graph(div_val):
    embedding, hidden, targets = adaptive(div_val).cuda(), some_hidden().detach().cuda(), some_words().cuda()

    def work(capacities: tuple[int, ...], hidden: Tensor, targets: Tensor) -> tuple[Tensor, ...]:
        losses = embedding.losses(embedding(targets) + hidden, targets, capacities)
        return losses.detach(), *torch.autograd.grad(losses.sum(), list(embedding.parameters()))

    work((9, 14, 9), hidden, targets)  # loads what a recording must not load
    recorded = Captured(work, None, (9, 14, 9), hidden, targets)
    for words in (targets, targets.flip(1), torch.zeros_like(targets)):
        for mine, plain in zip(recorded(hidden, words), work((), hidden, words), strict=True):
            torch.testing.assert_close(mine, plain, rtol=1e-10, atol=1e-10)


@DIV_VALS
def test_under_autocast_log_probabilities_stay_in_float32(div_val):
    embedding, hidden, targets = adaptive(div_val).float(), some_hidden().float(), some_words()
    exact = embedding.losses(hidden, targets)
    with torch.autocast("cpu", torch.bfloat16):
        logits, losses = embedding.logits(hidden), embedding.losses(hidden, targets, counts(targets))
    assert logits.dtype == losses.dtype == torch.float32
    assert (logits.exp().sum(-1) - 1).abs().max() < 1e-5
    torch.testing.assert_close(losses, at_targets(logits, targets), rtol=1e-5, atol=1e-5)
    assert (losses - exact).abs().max() > 1e-3  # the products did run in bfloat16


@pytest.mark.parametrize("word", [-1, VOCABULARY], ids=["below", "beyond"])
@DIV_VALS
def test_a_token_outside_the_vocabulary_is_an_error(div_val, word):
    embedding, tokens = adaptive(div_val), torch.tensor([[0, word]])
    with pytest.raises(IndexError, match="out of range"):
        embedding(tokens)
    with pytest.raises(IndexError, match="out of bounds"):
        embedding.losses(embedding(tokens.clamp(0, 1)), tokens)


@DIV_VALS
def test_no_position_has_no_loss(div_val):
    embedding, tokens = adaptive(div_val), torch.zeros(BATCH, 0, dtype=torch.long)
    assert embedding(tokens).shape == (BATCH, 0, WIDTH)
    assert embedding.logits(embedding(tokens)).shape == (BATCH, 0, VOCABULARY)
    for capacities in ((), (8, 8, 8)):
        assert embedding.losses(embedding(tokens), tokens, capacities).shape == (BATCH, 0)


def test_the_tied_embedding_has_the_losses_of_its_logits():
    embedding, hidden, targets = TiedEmbedding(VOCABULARY, WIDTH), some_hidden(), some_words()
    nn.init.normal_(embedding.weight)
    nn.init.normal_(embedding.bias)
    expected = at_targets(F.log_softmax(embedding.logits(hidden), dim=-1), targets)
    assert_same(embedding.losses(hidden, targets), expected, [hidden, *embedding.parameters()])


def test_targets_fit_exactly_when_no_tail_has_more_than_its_slots():
    targets = some_words()
    needed = counts(targets)
    assert targets_fit_slots(targets, CUTOFFS, needed)
    assert targets_fit_slots(targets, CUTOFFS, tuple(count + 1 for count in needed))
    for tail in range(len(CUTOFFS)):
        fewer = tuple(count - (k == tail) for k, count in enumerate(needed))
        assert not targets_fit_slots(targets, CUTOFFS, fewer)
    assert targets_fit_slots(torch.zeros(2, 3, dtype=torch.long), CUTOFFS, (0, 0, 0))


@pytest.mark.parametrize(
    ("cutoffs", "div_val", "message"),
    [
        pytest.param((), 1, r"cutoffs=\(\) must be one or more", id="no-cutoff"),
        pytest.param((8, 5), 1, r"cutoffs=\(8, 5\) must be .* rising", id="falling"),
        pytest.param((5, 5), 1, r"cutoffs=\(5, 5\) must be .* rising", id="twice"),
        pytest.param((0, 5), 1, r"cutoffs=\(0, 5\) must be .* between 0 and", id="zero"),
        pytest.param((5, 23), 1, r"cutoffs=\(5, 23\) must be .* vocabulary's 23", id="beyond"),
        pytest.param((5,), 0, "div_val=0 must be at least 1", id="div-val-0"),
        pytest.param((5, 8), 9, "div_val=9 with 2 cutoffs leaves nothing of width=70", id="narrow"),
    ],
)
def test_clusters_that_cannot_be_are_an_error(cutoffs, div_val, message):
    with pytest.raises(ConfigError, match=message):
        AdaptiveEmbedding(VOCABULARY, WIDTH, cutoffs, div_val)


def test_there_must_be_one_capacity_per_tail():
    embedding = adaptive(1)
    with pytest.raises(ConfigError, match=r"capacities=\(8, 8\) must be 3 numbers, one per cutoff"):
        embedding.losses(some_hidden(), some_words(), (8, 8))


@pytest.mark.parametrize("div_val", [1, 2])
def test_autocast_leaves_what_layers_add_to_in_full_precision(div_val: int) -> None:
    embedding = AdaptiveEmbedding(10, 8, (4,), div_val).float()
    with torch.autocast("cpu", torch.bfloat16):
        assert embedding(torch.tensor([[1, 7]])).dtype == torch.float32
