"""The task of a run with the data it was trained on, wherever they are now, or with another text."""

from __future__ import annotations

import logging
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from rmt.errors import ConfigError, DataError, RMTError
from rmt.seal import NotWhole, checksum, load_record
from rmt.tasks.registry import task_class
from rmt.tasks.task import Task
from rmt.tasks.tokenizer import TaskTokenizer
from rmt.tasks.unknown import REMEDY, UnknownRule
from rmt.text.corpora import CORPORA, find_source
from rmt.text.corpus import DESCRIPTION, Corpus
from rmt.text.prepare import OtherText, prepare_corpus
from rmt.text.tokenizer import has_tokenizer, load_tokenizer, tokenizer_file
from rmt.text.vocabulary import KINDS
from rmt.train.checkpoint import data_fingerprint
from rmt.train.config import RunConfig, TaskConfig, build_task
from rmt.train.stored import TASK_FILE

FROM_A_COPY = "copy it from another copy of the run"

log = logging.getLogger(__name__)


class AnotherCorpus(DataError):
    """Data that are not those a run was trained on."""

    def __init__(self, reason: str, settings: TaskConfig):
        other = ", or take it in the run's vocabulary with --unknown error|skip|replace:SYMBOL"
        super().__init__(
            f"data={data_path(settings)!r} is another corpus than the one this run was trained on ({reason});"
            f" name that one with --data{other if task_class(settings.name).layout == 'lanes' else ''}"
        )


@contextmanager
def run_data(
    folder: Path, config: RunConfig, data: str | None = None, unknown: str | None = None
) -> Iterator[Task]:
    """The task of a run; `data` says where its data are now, `unknown` lets them be another text.

    A text that is named here is encoded in the run's own vocabulary, for as long as the task is used: what
    other corpora have been prepared here, and how the run's was, does not matter.
    """
    config = config if data is None else replace(config, task=moved(config.task, data))
    encodes, path = encodes_text(folder), data_path(config.task)
    if not (encodes and (data or unknown) and is_unprepared(path)):
        try:
            task = run_task(folder, config)
        except AnotherCorpus:
            if not encodes or not (is_unprepared(path) or unknown):
                raise
        else:
            yield task
            return
    with tempfile.TemporaryDirectory() as temporary:
        yield encoded_text(folder, config, Path(temporary) / "prepared", unknown)


def run_task(folder: Path, config: RunConfig) -> Task:
    """The task of a run, with the very data that it was trained on, or with what was prepared of them."""
    data = data_path(config.task)
    is_gone = data and data not in CORPORA and not Path(data).exists()
    try:
        return trained_task(folder, config.task)
    except AnotherCorpus:
        raise
    except (RMTError, OSError):
        if not is_gone:
            raise
        raise DataError(
            f"data={data!r} does not exist; say where the data of this run are now with --data PATH"
        ) from None


def trained_task(folder: Path, settings: TaskConfig) -> Task:
    """The task that settings name, if its data are those that the run in a folder was trained on."""
    task, expected = located(settings), data_fingerprint(folder)
    if expected not in ("", task.fingerprint) and task.older and not has_tokenizer(folder):
        task = located(replace(settings, options={**settings.options, **task.older}))
    if expected not in ("", task.fingerprint):
        raise AnotherCorpus(f"it has the fingerprint {task.fingerprint}, not {expected}", settings)
    return task


def encoded_text(folder: Path, config: RunConfig, out: Path, unknown: str | None) -> Task:
    """A text prepared in `out` in the run's own vocabulary; another than the run's needs a rule."""
    settings, rule = config.task, UnknownRule.parse(unknown or "error")
    data, tokenizer = data_path(settings), run_tokenizer(folder).with_unknown(rule)
    if (Path(data) / DESCRIPTION).is_file():
        raise DataError(f"data={data!r} is prepared in another vocabulary; name its text instead")
    source = find_source(data, tokenizer.kind)
    try:
        corpus = prepare_corpus(source, out, tokenizer_file(folder), rule=rule)
    except DataError as error:
        if unknown is None:
            raise AnotherCorpus(str(error).partition("; ")[0], settings) from None
        remedies = "leave out --vocabulary|mend it, or use --tokens bytes"
        raise DataError(re.sub(remedies, REMEDY, str(error))) from None
    task = build_task(replace(moved(settings, str(out)), tokens=None))
    expected = data_fingerprint(folder)
    is_another = expected not in ("", task.fingerprint)
    if is_another and unknown is None:
        raise AnotherCorpus(f"it has the fingerprint {task.fingerprint}, not {expected}", settings)
    if is_another:
        log.info("%s is another text than the one this run was trained on", data)
    if is_another or rule.rule != "error":
        log.info(
            "symbols of %s that are not in the run's vocabulary (%s): %s", data, unknown, not_known(corpus)
        )
    return task


def not_known(corpus: Corpus) -> str:
    """How many symbols of each split a vocabulary does not have."""
    return ", ".join(f"{split['unknown']:,} of {name}" for name, split in corpus.splits.items())


def encodes_text(folder: Path) -> bool:
    """Whether a run holds the vocabulary of a text, so that it can encode any other."""
    return has_tokenizer(folder) and run_tokenizer(folder).kind in KINDS


def run_tokenizer(folder: Path) -> TaskTokenizer:
    """The tokenizer in a run folder, whole as it was written."""
    file = tokenizer_file(folder)
    expected = task_record(folder).get("tokenizer_sha256") if (folder / TASK_FILE).is_file() else None
    if expected not in (None, checksum(file)):
        raise NotWhole(f"{str(file)!r} is damaged: it does not match {TASK_FILE}; {FROM_A_COPY}")
    return load_tokenizer(folder)


def task_record(folder: Path) -> dict[str, Any]:
    """What a run folder says of its task."""
    return load_record(folder / TASK_FILE, FROM_A_COPY)


def is_unprepared(data: str) -> bool:
    """Whether data are a text of one's own, neither a known corpus nor a prepared one."""
    return data not in CORPORA and Path(data).exists() and not (Path(data) / DESCRIPTION).is_file()


def moved(settings: TaskConfig, data: str) -> TaskConfig:
    """The same settings with the data elsewhere."""
    if "data" not in {field.name for field in fields(task_class(settings.name))}:
        raise ConfigError(f"data={data} has no effect on task {settings.name!r}; leave it out")
    if "data" in settings.options:
        return replace(settings, options={**settings.options, "data": data})
    return replace(settings, data=data)


def data_path(settings: TaskConfig) -> str:
    return str(settings.options.get("data", settings.data))


def located(settings: TaskConfig) -> Task:
    """The task, with its data where the settings say."""
    try:
        return build_task(settings)
    except OtherText as error:
        raise AnotherCorpus(str(error), settings) from None
