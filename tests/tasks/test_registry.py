"""Tasks by name, by entry point and as `module:Class`."""

import importlib.metadata
import subprocess
import sys

import pytest

from rmt.errors import ConfigError
from rmt.tasks import TASKS, make_task, task_names
from rmt.tasks.copy import Copy
from rmt.tasks.quadratic import Quadratic
from rmt.tasks.registry import declared_options, task_class
from rmt.tasks.retrieval import Retrieval
from rmt.tasks.reverse import Reverse

OWN_TASK = """
from dataclasses import dataclass
import numpy as np
from rmt.tasks import Task, next_token

@dataclass(frozen=True, kw_only=True)
class Shift(Task):
    length: int = 6
    scale: float = 1.0
    loud: bool = False
    vocabulary = 7

    @property
    def total_length(self):
        return 2 * self.length - 1

    def draw(self, generator, count):
        source = generator.integers(0, 7, (count, self.length))
        return next_token(np.concatenate([source, (source + 1) % 7], axis=1), answer=self.length)

@dataclass(frozen=True, kw_only=True)
class Demanding(Shift):
    width: int
    novel: str = ""
    page: int | str = 1

class Unfinished(Task):
    vocabulary = 7

not_a_task = 3
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A module `own_tasks` in the current directory, forgotten afterwards."""
    (tmp_path / "own_tasks.py").write_text(OWN_TASK)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield tmp_path
    sys.modules.pop("own_tasks", None)


@pytest.mark.parametrize(
    ("name", "cls"),
    [("copy", Copy), ("reverse", Reverse), ("retrieval", Retrieval), ("quadratic", Quadratic)],
)
def test_every_task_of_the_paper_has_its_name(name, cls):
    task = make_task(name)
    assert (type(task), task.name) == (cls, name)


def test_the_table_lists_every_task():
    assert list(TASKS) == ["copy", "reverse", "recall", "retrieval", "quadratic", "memory-qa", "text"]


def test_options_reach_the_task():
    assert make_task("copy", length=8, symbols=None, seed=3) == Copy(length=8, seed=3)


def test_an_unknown_task_is_an_error_naming_the_nearest():
    with pytest.raises(ConfigError, match="unknown task 'retreival'; did you mean 'retrieval'"):
        make_task("retreival")


def test_an_unknown_option_is_an_error_naming_the_nearest_and_all():
    message = "task 'copy' has no option 'lenght'; did you mean 'length'. options: length, seed, symbols"
    with pytest.raises(ConfigError, match=message):
        make_task("copy", lenght=8)


def test_an_option_like_no_other_is_an_error_naming_all():
    with pytest.raises(ConfigError, match=r"task 'quadratic' has no option 'pairs'; options: seed$"):
        make_task("quadratic", pairs=2)


@pytest.mark.parametrize("value", ["8", 8.0, True, None], ids=repr)
def test_a_value_of_the_wrong_type_is_an_error(value):
    with pytest.raises(ConfigError, match=f"length={value!r} of task 'copy' is not of type int"):
        make_task("copy", length=value)


def test_a_value_that_fits_no_member_of_a_union_is_an_error():
    with pytest.raises(ConfigError, match=r"symbols='ten' of task 'copy' is not of type int \| None"):
        make_task("copy", symbols="ten")


def test_a_users_task_is_found_in_the_current_directory(own):
    task = make_task("own_tasks:Shift", length=4, scale=2, loud=True)
    batch = task.split("valid", 10)
    assert batch.tokens.shape == (10, 7)
    assert (batch.targets[:, -4:] == (batch.tokens[:, :4] + 1) % 7).all()


def test_options_of_a_users_task_are_checked_too(own):
    with pytest.raises(ConfigError, match="loud=1 of task 'own_tasks:Shift' is not of type bool"):
        make_task("own_tasks:Shift", loud=1)


def test_texts_are_options_as_the_task_declares_them_else_what_they_look_like(own):
    texts = {"width": "8", "scale": "1e-3", "loud": "true", "novel": "1984", "page": "007", "unknown": "9"}
    options = declared_options(task_class("own_tasks:Demanding"), texts)
    assert options == {"width": 8, "scale": 1e-3, "loud": True, "novel": "1984", "page": 7, "unknown": 9}
    assert declared_options(task_class("own_tasks:Demanding"), {"novel": 1984}) == {"novel": 1984}


def test_an_option_without_default_has_to_be_given(own):
    with pytest.raises(ConfigError, match="task 'own_tasks:Demanding' needs option 'width'"):
        make_task("own_tasks:Demanding")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("no_such_module:Shift", "module 'no_such_module' cannot be imported .ModuleNotFoundError"),
        ("own_tasks:Missing", "'Missing' in module 'own_tasks' is not a task"),
        ("own_tasks:not_a_task", "'not_a_task' in module 'own_tasks' is not a task"),
        ("own_tasks:Unfinished", "class 'Unfinished' is unfinished; define: draw, total_length"),
        ("own_tasks:", "'' in module 'own_tasks' is not a task"),
        (":Shift", "module '' cannot be imported"),
    ],
)
def test_what_is_not_a_task_is_an_error(own, name, message):
    with pytest.raises(ConfigError, match=message):
        make_task(name)


def test_a_module_with_a_mistake_is_an_error_naming_the_mistake(own):
    (own / "mistaken.py").write_text("1 / 0")
    with pytest.raises(
        ConfigError, match=r"'mistaken' cannot be imported \(ZeroDivisionError: division by zero\)"
    ):
        make_task("mistaken:Shift")


def test_an_installed_package_offers_its_tasks_by_name(own, monkeypatch):
    package = own / "shifting-1.0.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: shifting\nVersion: 1.0\n")
    (package / "entry_points.txt").write_text("[rmt.tasks]\nshift = own_tasks:Shift\n")
    monkeypatch.syspath_prepend(own)
    assert make_task("shift", length=3).total_length == 5
    assert task_names() == [*TASKS, "shift"]


def test_packages_are_looked_into_once(monkeypatch):
    looks = []
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda **_: looks.append(1) or ())
    monkeypatch.setattr(sys, "path", [*sys.path, "elsewhere"])
    assert [task_names() for _ in range(3)] == [list(TASKS)] * 3
    assert len(looks) == 1


def test_importing_the_registry_does_not_import_torch():
    code = "import sys, rmt.tasks.registry; assert 'torch' not in sys.modules; assert rmt.tasks.TASKS"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_package_offers_its_public_names_and_no_others():
    import rmt.tasks

    assert all(getattr(rmt.tasks, name) is not None for name in rmt.tasks.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'Copyy'"):
        rmt.tasks.Copyy  # noqa: B018
