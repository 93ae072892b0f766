"""Configuration: one text per field, dictionaries and YAML there and back, and no mistake that passes."""

import dataclasses
import math
from dataclasses import dataclass
from typing import Any, Literal

import pytest

from rmt.config import (
    Interval,
    Leaf,
    above,
    at_least,
    between,
    check,
    check_fields,
    describe,
    from_dict,
    leaves,
    needless,
    option,
    parse,
    positive,
    required,
    to_dict,
    typed,
)
from rmt.core.config import ModelConfig
from rmt.errors import ConfigError, RMTError, unknown
from rmt.train.config import (
    BPTTConfig,
    CurriculumConfig,
    OptimizerConfig,
    RateConfig,
    RunConfig,
    TaskConfig,
    TrainConfig,
)
from rmt.yamlfile import load_yaml, parse_yaml, write_yaml


@dataclass(frozen=True, kw_only=True)
class InnerConfig:
    size: int = option(3, "how many")
    scope: Literal["some", "all"] = option("some", "which")


@dataclass(frozen=True, kw_only=True)
class OuterConfig:
    inner: InnerConfig = option(InnerConfig(), "a group")
    rate: float = option(0.5, "how fast")
    limit: float | None = option(None, "at most")
    depth: int | Literal["full"] = option("full", "how deep")
    on: bool = option(True, "whether")
    options: dict[str, Any] = option({}, "more")
    name: str = option("x", "called")


CHANGED = OuterConfig(
    inner=InnerConfig(size=7, scope="all"),
    rate=1e-5,
    limit=0.25,
    depth=2,
    on=False,
    options={"a": 1, "b": [2]},
    name="naïve: 1e-3",
)


@pytest.mark.parametrize("config", [OuterConfig(), CHANGED], ids=["defaults", "changed"])
def test_a_configuration_goes_to_a_dictionary_and_back(config):
    assert from_dict(OuterConfig, to_dict(config)) == config


@pytest.mark.parametrize("config", [OuterConfig(), CHANGED], ids=["defaults", "changed"])
def test_a_configuration_goes_to_yaml_and_back(tmp_path, config):
    (tmp_path / "config.yaml").write_text(write_yaml(to_dict(config)), encoding="utf-8")
    assert from_dict(OuterConfig, load_yaml(tmp_path / "config.yaml")) == config


def test_what_is_left_out_is_the_default():
    assert from_dict(OuterConfig, {"inner": {"size": 7}}) == OuterConfig(inner=InnerConfig(size=7))


def test_leaves_have_dotted_names_types_defaults_and_texts():
    found = {leaf.name: leaf for leaf in leaves(OuterConfig)}
    assert list(found) == ["inner.size", "inner.scope", "rate", "limit", "depth", "on", "options", "name"]
    assert found["inner.size"] == Leaf("inner.size", int, 3, "how many")
    assert found["options"].default == {}


def test_defaults_that_can_change_are_not_shared():
    first, second = OuterConfig(), OuterConfig()
    first.options["a"] = 1
    assert second.options == OuterConfig().options == {}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"rat": 1.0}, "unknown key 'rat'; did you mean 'rate'?"),
        ({"inner": {"sise": 1}}, "unknown key 'inner.sise'; did you mean 'inner.size'?"),
        ({"zzz": 1}, "unknown key 'zzz'; choose from: depth, inner, limit, name, on, options, rate"),
        ({7: 1}, "unknown key '7'; choose from: depth, inner, limit, name, on, options, rate"),
        ({"inner": 3}, "inner=3 must be a group of settings, such as inner.KEY"),
        ({"inner": None}, "inner=None must be a group of settings, such as inner.KEY"),
        ({"inner": {"size": 3.5}}, "inner.size=3.5 is not a whole number"),
        ({"inner": {"size": True}}, "inner.size=True is not a whole number"),
        ({"inner": {"size": None}}, "inner.size=None is not a whole number"),
        ({"inner": {"scope": "none"}}, "inner.scope='none' is not some or all"),
        ({"rate": "fast"}, "rate='fast' is not a number"),
        ({"rate": False}, "rate=False is not a number"),
        ({"depth": "half"}, "depth='half' is not a whole number or full"),
        ({"on": 1}, "on=1 is not true or false"),
        ({"on": "yes"}, "on='yes' is not true or false"),
        ({"options": [1]}, "options=[1] is not a group of settings"),
        ({"name": 3}, "name=3 is not text"),
    ],
    ids=str,
)
@pytest.mark.parametrize("reader", [typed, from_dict], ids=["typed", "from_dict"])
def test_a_mistake_is_named(reader, values, message):
    with pytest.raises(ConfigError) as caught:
        reader(OuterConfig, values)
    assert str(caught.value) == message


def test_typed_settings_are_those_that_were_given_and_no_more():
    assert typed(OuterConfig, {"inner": {"size": 1}, "rate": 2}) == {"inner": {"size": 1}, "rate": 2.0}


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("3", int, 3),
        ("-3", int, -3),
        ("1e-3", float, 0.001),
        ("3", float, 3.0),
        ("none", int | None, None),
        ("Null", float | None, None),
        ("4", int | None, 4),
        ("full", int | Literal["full"], "full"),
        ("2", int | Literal["full"], 2),
        ("true", bool, True),
        ("off", bool, False),
        ("On", bool, True),
        ("3", str, "3"),
    ],
    ids=str,
)
def test_text_is_read_by_the_type_of_its_field(text, kind, value):
    found = parse(text, kind, "field")
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("text", "kind"), [("3.5", int), ("x", float), ("1", bool), ("all", Literal["one"]), ("", int)], ids=str
)
def test_text_that_does_not_fit_its_field_is_a_mistake(text, kind):
    with pytest.raises(ConfigError, match=f"^field={text!r} is not {describe(kind)}$"):
        parse(text, kind, "field")


@pytest.mark.parametrize(("value", "kind"), [("1e-3", float), ("1e-3", float | None), (1, float)], ids=str)
def test_a_number_is_a_number_however_yaml_reads_it(value, kind):
    holder = dataclasses.make_dataclass("Holder", [("field", kind, option(0.0, "a number"))])
    number = typed(holder, {"field": value})["field"]
    assert (number, type(number)) == (float(value), float)


@pytest.mark.parametrize(
    ("group", "settings", "message"),
    [
        (OptimizerConfig, {"lr": "fast"}, "optimizer.lr='fast' is not a number"),
        (OptimizerConfig, {"lr": "0.1"}, "optimizer.lr='0.1' is not a number"),
        (
            OptimizerConfig,
            {"lr": 10**400},
            r"optimizer.lr=1000+\.\.\.0+ must be above 0 and at most 1000000.0",
        ),
        (TrainConfig, {"batch": 2.5}, "train.batch=2.5 is not a whole number"),
        (TrainConfig, {"target": math.nan}, "train.target=nan must be finite"),
        (
            BPTTConfig,
            {"depth": "ful"},
            "bptt.depth='ful' is not a whole number or full; did you mean 'full'[?]",
        ),
        (RateConfig, {"schedule": 7}, "rate.schedule=7 is not one of: constant, linear, cosine, plateau"),
        (TaskConfig, {"segments": 0}, "task.segments=0 must be at least 1"),
        (TaskConfig, {"options": [1]}, r"task.options=\[1\] is not a group of settings"),
        (CurriculumConfig, {"start": True}, "curriculum.start=True is not a whole number"),
        (RunConfig, {"model": {"layers": 2}}, "model={'layers': 2} is not a ModelConfig"),
        (RunConfig, {"seed": 2**32}, "seed=4294967296 must be 0 to 4294967295"),
        (ModelConfig, {"layers": 0}, "model.layers=0 must be 1 to 4096"),
        (ModelConfig, {"dropout": -math.inf}, "model.dropout=-inf must be finite"),
    ],
    ids=str,
)
def test_settings_built_by_hand_are_checked_as_those_of_a_file(group, settings, message):
    with pytest.raises(ConfigError, match=f"^{message}$"):
        group(**settings)


def test_a_date_that_is_none_is_one_line_with_its_place():
    with pytest.raises(ConfigError, match=r"^here is not YAML: .* is not a .*, line 1, column 4: .*$"):
        parse_yaml("a: 2020-13-45", "here")


@pytest.mark.parametrize("value", ["", "a\0b"])
def test_a_text_that_is_none_is_refused_where_none_is_the_default(value):
    holder = dataclasses.make_dataclass("Holder", [("path", str | None, option(None, "a file"))])
    with pytest.raises(ConfigError, match=r"^path=.* leave (it|that) out$"):
        typed(holder, {"path": value})


def test_a_long_value_is_shown_in_short():
    with pytest.raises(ConfigError, match=r"^field='x+\.\.\.x+' is not a whole number$") as refused:
        check("x" * 5000, int, "field")
    assert len(str(refused.value)) < 150


def test_types_are_described_in_words():
    assert describe(int | None) == "a whole number or none"
    assert describe(Literal["a", "b", "c"]) == "one of: a, b, c"
    assert describe(bool) == "true or false"


@pytest.mark.parametrize("value", [-1, -0.5, float("nan"), float("inf"), float("-inf")])
def test_what_must_be_positive_is(value):
    for zero in (False, True):
        with pytest.raises(ConfigError, match=f"^field={value} must be "):
            positive("field", value, zero=zero)


def test_zero_is_positive_only_where_it_is_allowed():
    positive("field", 0, zero=True)
    with pytest.raises(ConfigError, match=r"^field=0 must be above 0$"):
        positive("field", 0)


@pytest.mark.parametrize(
    ("value", "closed", "fits"), [(0, False, True), (1, False, False), (0, True, False), (1, True, True)]
)
def test_an_interval_has_one_end(value, closed, fits):
    if fits:
        between("field", value, 0, 1, closed=closed)
        return
    with pytest.raises(
        ConfigError, match=f"^field={value} must be (at least 0 and below 1|above 0 and at most 1)$"
    ):
        between("field", value, 0, 1, closed=closed)


def test_nan_is_in_no_interval():
    for closed in (False, True):
        with pytest.raises(ConfigError, match=r"^field=nan must be "):
            between("field", float("nan"), 0, 1, closed=closed)


def test_a_changed_setting_without_effect_is_a_mistake_and_an_unchanged_one_is_not():
    needless(InnerConfig(), "size", False, "something")
    needless(InnerConfig(size=4), "size", True, "something")
    with pytest.raises(ConfigError, match=r"^inner\.size=4 has no effect without something; leave it out$"):
        needless(InnerConfig(size=4), "size", False, "something")


def test_an_unknown_name_is_answered_with_the_nearest_or_with_all():
    assert str(unknown("task", "coppy", ["copy", "reverse"])) == "unknown task 'coppy'; did you mean 'copy'?"
    assert (
        str(unknown("task", "zzz", ["copy", "reverse"])) == "unknown task 'zzz'; choose from: copy, reverse"
    )


def test_every_mistake_of_a_user_is_the_one_root_error_with_exit_code_2():
    assert issubclass(ConfigError, RMTError)
    assert ConfigError.exit_code == 2


@dataclass(frozen=True, kw_only=True)
class BoundedConfig:
    folder: str = required("where", argument="FOLDER")
    count: int = option(1, "how many", at_least(1))
    share: float | None = option(None, "how much", Interval(0, 1, high_open=True))
    sizes: tuple[int, ...] = option((), "how large", above(0), bare=(1, 2))

    def __post_init__(self) -> None:
        check_fields(self)


@pytest.mark.parametrize(
    ("bounds", "inside", "outside", "words"),
    [
        (at_least(1), [1, 2.5, 1e9], [0, 0.99], "at least 1"),
        (above(0), [1e-9, 3], [0, -1], "above 0"),
        (Interval(0, 9), [0, 9], [-1, 10], "0 to 9"),
        (Interval(0, 1, high_open=True), [0, 0.99], [1, -0.1], "at least 0 and below 1"),
        (Interval(0, 1, low_open=True), [0.01, 1], [0, 1.1], "above 0 and at most 1"),
        (Interval(high=3), [-9, 3], [4], "at most 3"),
        (Interval(), [-9, 9], [], "finite"),
    ],
    ids=str,
)
def test_bounds_admit_the_finite_numbers_inside_them_and_say_which(bounds, inside, outside, words):
    assert all(map(bounds.admits, inside))
    assert not any(map(bounds.admits, [*outside, float("nan"), float("inf"), float("-inf")]))
    assert str(bounds) == words


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"count": 0}, "count=0 must be at least 1"),
        ({"share": 1}, "share=1.0 must be at least 0 and below 1"),
        ({"share": float("nan")}, "share=nan must be finite"),
        ({"sizes": [3, 0]}, "sizes=0 must be above 0"),
        ({"sizes": [3, "x"]}, "sizes='x' is not a whole number"),
        ({"sizes": 3}, "sizes=3 is not a list of whole numbers, such as 2,4"),
    ],
    ids=str,
)
def test_a_value_outside_its_bounds_is_named(values, message):
    with pytest.raises(ConfigError) as caught:
        from_dict(BoundedConfig, {"folder": "here", **values})
    assert str(caught.value) == message


def test_a_leaf_has_its_bounds_and_how_it_stands_on_a_command_line():
    folder, count, _, sizes = leaves(BoundedConfig)
    assert (folder.default, folder.argument) == (dataclasses.MISSING, "FOLDER")
    assert (count.within, count.argument) == (at_least(1), "")
    assert sizes.bare == (1, 2)


def test_a_dataclass_built_by_hand_is_checked_like_a_file():
    assert BoundedConfig(folder="here").count == 1
    with pytest.raises(ConfigError, match=r"^count=0 must be at least 1$"):
        BoundedConfig(folder="here", count=0)


@pytest.mark.parametrize(("text", "value"), [("1,2", (1, 2)), ("7", (7,)), ("", ())])
def test_a_list_has_commas(text, value):
    assert parse(text, tuple[int, ...], "sizes") == value


@pytest.mark.parametrize("text", ["1,,2", "1,x", ",", "1.5"])
def test_a_list_with_anything_else_is_a_mistake(text):
    with pytest.raises(ConfigError, match=f"^sizes={text!r} is not a list of whole numbers, such as 2,4$"):
        parse(text, tuple[int, ...], "sizes")


def test_a_key_that_stands_twice_in_a_file_is_a_mistake():
    with pytest.raises(
        ConfigError, match=r"^here has the key 'size' twice, in lines 2 and 3; leave one out$"
    ):
        parse_yaml("inner:\n  size: 1\n  size: 2\n", "here")


def test_a_choice_that_is_nearly_right_is_answered_with_the_nearest():
    with pytest.raises(ConfigError, match=r"^inner\.scope='al' is not some or all; did you mean 'all'\?$"):
        from_dict(OuterConfig, {"inner": {"scope": "al"}})
