"""Figures show the numbers they are given, in both formats, whatever the tokens look like."""

import xml.etree.ElementTree as ElementTree

import pytest
import torch

from rmt.analysis import figures
from rmt.analysis.capture import capture
from rmt.analysis.figures import (
    Picture,
    compression,
    draw_map,
    draw_maps,
    labels_of,
    memory_operations,
    pyplot,
    timeline,
    write_and_read,
)
from rmt.analysis.operations import best, findings
from rmt.analysis.probes import Decoded
from rmt.core.spans import Spans
from rmt.errors import ConfigError
from tests.laws.models import build, configuration, random_tokens

LENGTH, TOTAL = 4, 12


def segments_of(kind: str):
    return capture(build(configuration(kind)), random_tokens(TOTAL), LENGTH)


def loaded_back(path):
    """The size of a picture, which shows that it is one."""
    if path.suffix == ".svg":
        return ElementTree.parse(path).getroot().attrib["width"]
    return pyplot().imread(path).shape


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["png", "svg"])
def test_the_papers_figures_are_written_the_same_each_time(tmp_path, kind):
    rmt, cached = segments_of("rmt"), segments_of("transformer_xl")
    for name, pictures in (
        ("six", memory_operations(rmt, rmt, rmt, cached)),
        ("nine", compression(rmt, cached)),
    ):
        first, second = tmp_path / f"{name}.{kind}", tmp_path / f"{name}-again.{kind}"
        draw_maps(pictures, first)
        draw_maps(pictures, second)
        assert loaded_back(first)
        assert first.read_bytes() == second.read_bytes()


def test_figure_six_shows_each_operation_where_it_is_strongest():
    rmt, cached = segments_of("rmt"), segments_of("transformer_xl")
    pictures = memory_operations(rmt, rmt, rmt, cached)
    assert "".join(picture.title[1] for picture in pictures) == "abcabd"
    found = best(findings(rmt[1:]), "read")
    assert pictures[1].head == found.head
    assert pictures[1].title.endswith(f"segment {found.segment + 2}, {found.head}")
    assert pictures[5].segment.spans.cache


def test_a_map_is_drawn_with_its_own_numbers():
    segment = segments_of("transformer_xl_rmt")[2]
    figure, axis = pyplot().subplots()
    draw_map(axis, Picture(segment, (1, 0), "title", ["$x", "b", "c", "d"]))
    assert torch.equal(torch.from_numpy(axis.images[0].get_array().data), segment.weights[1, 0].float())
    cache, read, tokens, _ = segment.spans
    borders = {round(float(line.get_xdata()[0]), 1) for line in axis.lines}
    assert {cache - 0.5, cache + read - 0.5, cache + read + tokens - 0.5} <= borders
    labels = [text.get_text() for text in axis.get_xticklabels()]
    assert labels == ["·"] * cache + ["1", "2", "3", "$x", "b", "c", "d", "1", "2", "3"]
    assert [text.get_text() for text in axis.get_yticklabels()] == labels[cache:]
    pyplot().close(figure)


def test_labels_count_where_no_words_are_given():
    assert labels_of(Spans(1, 2, 3, 0), ()) == ["·", "1", "2", "1", "2", "3"]


def test_hostile_labels_are_text_in_the_picture(tmp_path):
    words = ["$\\frac{", "<script>", "&amp;", "\u202e"]
    draw_maps([Picture(segments_of("rmt")[0], (0, 0), "title", words)], tmp_path / "map.svg")
    texts = {
        "".join(element.itertext()).strip() for element in ElementTree.parse(tmp_path / "map.svg").iter()
    }
    assert {"$\\frac{", "<script>", "&amp;"} <= texts
    tags = {element.tag.split("}")[-1] for element in ElementTree.parse(tmp_path / "map.svg").iter()}
    assert "script" not in tags


def test_write_and_read_and_the_timeline_are_pictures(tmp_path):
    first, second, _ = segments_of("rmt")
    write_and_read(first, second, (list("abcd"), list("efgh")), tmp_path / "memory.png")
    assert loaded_back(tmp_path / "memory.png")
    decoded = Decoded(torch.rand(3, 2, 4), torch.rand(3, 4), 0.1)
    timeline(decoded, torch.tensor([1, 0.5, 0.2]), tmp_path / "timeline.svg")
    assert loaded_back(tmp_path / "timeline.svg")


def test_what_a_model_cannot_do_is_not_drawn():
    with pytest.raises(ConfigError, match="operation='write' cannot be drawn"):
        figures.clearest(segments_of("baseline"), "write", "")


def test_other_formats_are_refused(tmp_path):
    open_before = pyplot().get_fignums()
    with pytest.raises(ConfigError, match=r"must end in \.png or \.svg"):
        draw_maps([Picture(segments_of("rmt")[0], (0, 0), "title")], tmp_path / "map.bmp")
    assert pyplot().get_fignums() == open_before
