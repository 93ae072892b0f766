"""What holds for every family, head and attention implementation."""

import pytest
import torch

from rmt.hf import add_memory
from tests.hf.zoo import answer, main_output, over, per_token, plain, remembering, texts


@pytest.mark.covering
@over()
def test_without_memory_and_in_one_segment_a_model_is_its_base_to_the_bit(name, head, attention):
    base = plain(name, head, attention)
    wrapped = add_memory(base, memory=0)
    assert type(wrapped).__name__ == "RMT" + type(base).__name__
    assert wrapped.config.model_type == "rmt_" + base.config.model_type
    assert set(wrapped.state_dict()) == {*base.state_dict(), "memory.tokens.weight"}
    for inputs in (texts(name, 12, 12), texts(name, 12, 7)):
        got, expected = main_output(answer(wrapped, inputs)), main_output(answer(base, inputs))
        assert torch.equal(got.nan_to_num(), expected.nan_to_num())  # eager ModernBERT has nan in padding
    without_mask = texts(name, 12, 12)
    del without_mask["attention_mask"]
    assert torch.equal(main_output(answer(wrapped, without_mask)), main_output(answer(base, without_mask)))


@pytest.mark.covering
@over()
def test_a_row_of_a_ragged_batch_is_that_row_alone_whatever_its_padding_side(name, head, attention):
    model = remembering(name, head, attention)
    lengths = (14, 3, 9, 17)
    alone = [
        main_output(answer(model, row(texts(name, *lengths), index, length)))
        for index, length in enumerate(lengths)
    ]
    states = [
        answer(model, row(texts(name, *lengths), index, length), return_state=True).state.memory
        for index, length in enumerate(lengths)
    ]
    for side in ("right", "left"):
        inputs = texts(name, *lengths, pad_to=19, side=side)
        output = answer(model, inputs, return_state=True)
        for index in range(len(lengths)):
            got = main_output(output)[index : index + 1]
            if per_token(head, name):
                got = got[:, inputs["attention_mask"][index].bool()]
            torch.testing.assert_close(got, alone[index], rtol=1e-5, atol=1e-5)
            torch.testing.assert_close(
                output.state.memory[index : index + 1], states[index], rtol=1e-5, atol=1e-5
            )


@pytest.mark.covering
@over()
def test_saved_and_loaded_a_model_is_the_same(name, head, attention, tmp_path):
    import transformers

    model = remembering(name, head, attention)
    model.save_pretrained(tmp_path)
    auto = getattr(transformers, auto_of(name, head))
    loaded = auto.from_pretrained(tmp_path, dtype=torch.float64, attn_implementation=attention).eval()
    assert type(loaded) is type(model)
    assert loaded.settings == model.settings
    assert all(torch.equal(tensor, model.state_dict()[key]) for key, tensor in loaded.state_dict().items())
    inputs = texts(name, 14, 9)
    got, expected = main_output(answer(loaded, inputs)), main_output(answer(model, inputs))
    torch.testing.assert_close(got, expected, rtol=1e-6, atol=1e-6)  # eager softmax is in float32


@pytest.mark.covering
@over()
def test_a_loss_reaches_the_memory_and_every_segment(name, head, attention):
    model = remembering(name, head, attention)
    embedding = model.get_input_embeddings()
    inputs = texts(name, 15 + model.settings.prefix + model.settings.suffix)
    seen: list[torch.Tensor] = []

    def keep(module, arguments, output):
        output.retain_grad()
        seen.append(output)

    with embedding_hook(model, embedding, keep):
        output = main_output(answer(model, inputs))
    last = output[:, -1] if per_token(head, name) else output
    last.pow(2).sum().backward()
    assert len(seen) >= 3
    assert all(tensor.grad is not None and tensor.grad.any() for tensor in seen[:3])
    assert model.memory.tokens.weight.grad.abs().min() > 0


def row(inputs, index, length):
    """One row without padding."""
    return {key: value[index : index + 1, :length] for key, value in inputs.items()}


def auto_of(name, head):
    from rmt.hf.families import FAMILIES
    from tests.hf.zoo import HEADS

    return HEADS[FAMILIES[name].kind][head]


class embedding_hook:
    def __init__(self, model, embedding, keep):
        self.handle = model.segment_backbone().get_input_embeddings().register_forward_hook(keep)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.handle.remove()
