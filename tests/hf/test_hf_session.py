"""Sessions over wrapped decoders: pieces of any size are one unroll; rows, forks and copies go on alike."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from rmt import Session
from rmt.errors import ConfigError
from rmt.infer.sampling import Sampling, generators_of, sample
from tests.hf.zoo import VOCABULARY, of_kind, remembering

LENGTH, TOTAL = 5, 18
SIZES = [1, 7, LENGTH - 1, LENGTH, 3 * LENGTH + 2]
every_decoder = pytest.mark.parametrize("name", of_kind("decoder"))


def decoder(name: str) -> Any:
    return remembering(name, "ForCausalLM", "sdpa", memory=3, length=LENGTH).double()


def tokens(*shape: int, seed: int = 0) -> Tensor:
    return torch.randint(3, VOCABULARY, shape, generator=torch.Generator().manual_seed(seed))


def close(actual: Tensor, expected: Tensor) -> None:
    """Equal to rounding; families that normalise in float32 whatever the weights round there."""
    torch.testing.assert_close(actual, expected, rtol=1e-6, atol=1e-6, equal_nan=True)


@pytest.mark.covering
@every_decoder
@pytest.mark.parametrize("size", SIZES)
def test_pieces_of_any_size_are_one_unroll(name, size):
    model, ids = decoder(name), tokens(2, TOTAL)
    session = Session(model, batch=2)
    hidden = torch.cat([session.feed(piece, "hidden") for piece in ids.split(size, dim=1)], dim=1)
    with torch.no_grad():
        whole = model(ids, return_state=True)
        close(model.embedding.logits(hidden), whole.logits)
    close(session.close().memory, whole.state.memory)


@every_decoder
def test_rows_at_places_of_their_own_are_sessions_of_their_own(name):
    model = decoder(name)
    together, alone = Session(model, batch=2), [Session(model) for _ in range(2)]
    for rows in ([[5, 6, 7], [8] * 11], [[9] * 9, []], [[4], [5] * 12], [[7] * 7, [3] * 3]):
        hidden = together.feed(rows, "hidden")
        for row, (ids, session) in enumerate(zip(rows, alone, strict=True)):
            close(hidden[row, : len(ids)], session.feed(ids, "hidden")[0])
    state = together.close()
    for row, session in enumerate(alone):
        close(state.memory[row], session.close().memory[0])


@every_decoder
def test_saved_loaded_and_forked_sessions_go_on_alike(name, tmp_path):
    model, ids = decoder(name), tokens(1, TOTAL)
    session = Session(model)
    session.feed(ids[:, : LENGTH + 2])
    session.save(tmp_path / "state")
    loaded, fork = Session.load(tmp_path / "state", model), session.fork()
    fork.feed(tokens(1, 9, seed=1))
    fork.close()
    close(loaded.feed(ids[:, LENGTH + 2 :], "log_probs"), session.feed(ids[:, LENGTH + 2 :], "log_probs"))
    close(loaded.close().memory, session.close().memory)


@pytest.mark.covering
@every_decoder
@pytest.mark.parametrize("temperature", [0.0, 1.0], ids=["greedy", "sampled"])
def test_generation_is_the_naive_recomputation(name, temperature):
    model, ids = decoder(name), tokens(1, LENGTH + 1)
    session, generators = Session(model), generators_of(3, 1)
    session.feed(ids)
    generated = [int(token) for token in session.generate(2 * LENGTH, temperature=temperature, seed=3)]
    for _ in generated:
        with torch.no_grad():
            logits = model(ids).logits[:, -1]
        ids = torch.cat([ids, sample(logits, Sampling(temperature=temperature), generators)[:, None]], dim=1)
    assert generated == ids[0, LENGTH + 1 :].tolist()


def test_segments_longer_than_the_models_own_are_refused():
    with pytest.raises(ConfigError, match="segment_length=6 is more than the model's own 5"):
        Session(decoder("gpt2"), segment_length=6)


def test_what_a_session_holds_does_not_grow():
    session = Session(decoder("llama"), batch=2)
    sizes = []
    for number in range(30):
        session.feed([[5] * 4, [6] * (number % 3)])
        sizes.append(session.nbytes)
    assert max(sizes[15:]) <= max(sizes[:15])


@pytest.mark.parametrize("kind", ["cohere", "granite", "gemma2"])
def test_a_session_scales_and_caps_logits_as_the_class_does(kind):
    import rmt.hf
    from tests.hf.tiny import tiny_config, tiny_model

    scaled = {"cohere": "logit_scale", "granite": "logits_scaling", "gemma2": "final_logit_softcapping"}
    base = tiny_model(tiny_config(kind, **{scaled[kind]: 3.0}), "AutoModelForCausalLM")
    model = rmt.hf.add_memory(base, memory=2, segment_length=5)
    ids = torch.randint(3, 30, (1, 12))
    with torch.no_grad():
        expected = model(input_ids=ids).logits[:, :-1].log_softmax(-1).gather(-1, ids[:, 1:, None])
    got = rmt.Session(model).feed(ids, returns="log_probs")
    torch.testing.assert_close(got[:, 1:], expected[..., 0], rtol=1e-5, atol=1e-5)
