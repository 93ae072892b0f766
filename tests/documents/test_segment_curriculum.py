"""Documents grow from one segment to all of them, by the step alone."""

import torch

from rmt.documents.curriculum import SegmentCurriculum

GROWING = SegmentCurriculum(segments=4, steps=80, segment_length=3, prefix=1, suffix=1)


def batch(*lengths):
    width = max(lengths)
    ids = torch.zeros(len(lengths), width, dtype=torch.long)
    for row, length in enumerate(lengths):
        ids[row, :length] = torch.arange(1, length + 1)
    return {"input_ids": ids, "attention_mask": (ids > 0).long(), "labels": torch.zeros(len(lengths))}


def test_segments_grow_and_are_all_there_before_half_of_the_steps():
    assert [GROWING.segments_at(step) for step in (0, 9, 10, 20, 29, 30, 79)] == [1, 1, 2, 3, 3, 4, 4]


def test_without_a_curriculum_texts_are_whole_from_the_first_step():
    whole = GROWING._replace(first=4)
    inputs = batch(14, 5)
    assert whole.cut(inputs, 0) is inputs


def test_a_text_is_cut_behind_its_first_segments_and_keeps_its_end():
    cut = GROWING.cut(batch(14, 5, 3), 0)
    assert cut["input_ids"].tolist() == [[1, 2, 3, 4, 14], [1, 2, 3, 4, 5], [1, 2, 3, 0, 0]]
    assert cut["attention_mask"].tolist() == [[1, 1, 1, 1, 1], [1, 1, 1, 1, 1], [1, 1, 1, 0, 0]]
    assert cut["labels"].shape == (3,)


def test_padding_before_a_text_does_not_matter():
    inputs = batch(14, 5)
    turned = {name: values.flip(1) if values.dim() > 1 else values for name, values in inputs.items()}
    turned["input_ids"] = torch.where(turned["input_ids"] > 0, turned["input_ids"], 0)
    ends = GROWING.cut(turned, 0)["input_ids"].tolist()
    assert ends == [[14, 13, 12, 11, 1], [5, 4, 3, 2, 1]]


def test_labels_that_are_as_many_as_the_places_of_a_text_are_not_cut():
    labels = torch.arange(28).view(2, 14)
    types = torch.ones(2, 14)
    growing = GROWING._replace(per_token=("input_ids", "token_type_ids", "attention_mask"))
    cut = growing.cut({**batch(14, 5), "labels": labels, "token_type_ids": types}, 0)
    assert torch.equal(cut["labels"], labels)
    assert cut["token_type_ids"].shape == cut["input_ids"].shape == (2, 5)
