"""Broken data of each kind and format: refused with file and line, or scored as a careful reader would score them.

Each mutation states which of the two is right, and the rows that a careful reader reads from the file; their score is
computed by scipy and scikit-learn.
"""

from __future__ import annotations

import random
import re
import warnings
from pathlib import Path

import pytest
from helpers import broken_data_rows, broken_data_tables
from helpers.broken_data_cases import (
    FORMATS,
    KINDS,
    MUTATIONS,
    Case,
    Mutation,
    independent_score,
    valid,
    vector,
)
from helpers.own_data_files import task_and_scores
from helpers.page_reader import Shell

from mirrorbench.core.errors import MirrorbenchError, PluginError
from mirrorbench.core.plugins import Plugins
from mirrorbench.runs.registry import load_plugins
from mirrorbench.tasks.base import Scores, Task

__all__ = ["broken_data_rows", "broken_data_tables"]
DRAWS = 300
"""Number of broken cases over all mutations."""


@pytest.fixture(scope="module")
def builtin() -> Plugins:
    """The built-in plugins, loaded once."""
    return load_plugins(discover=False)


def scored(plugins: Plugins, name: str) -> tuple[Task, Scores]:
    return task_and_scores(plugins, name, vector)


def broken(mutation: Mutation, seed: int) -> Case:
    rng = random.Random(seed)
    case = Case(*rng.choice(mutation.cases), rng)
    mutation.apply(case)
    return case


@pytest.mark.parametrize(
    "number", range(len(MUTATIONS)), ids=[mutation.name for mutation in MUTATIONS]
)
def test_broken_data_are_refused_noted_or_scored_correctly(
    builtin: Plugins, tmp_path: Path, number: int
) -> None:
    mutation = MUTATIONS[number]
    for seed in range(number, DRAWS, len(MUTATIONS)):
        case = broken(mutation, seed)
        name = case.write(tmp_path / f"folder{seed}")
        label = f"{mutation.name}, {case.kind}, {case.file()}"
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                task, scores = scored(builtin, name)
        except MirrorbenchError as error:
            assert_refused(case, mutation, error, label)
            continue
        value = scores.metrics[task.main_metric]
        assert mutation.outcome != "refused", f"{label}: scored {value}, {scores.notes}"
        assert case.names == "ties" or value == pytest.approx(
            independent_score(case.kind, case.read)
        ), label
        usual = {note for note in scores.notes if note.startswith("logistic regression")}
        notes = {
            note for note in scores.notes if mutation.outcome == "same" or mutation.message in note
        }
        noted = bool(notes - usual or mutation.message == "5 folds")
        assert noted == (mutation.outcome == "noted"), (label, scores.notes)


def assert_refused(case: Case, mutation: Mutation, error: MirrorbenchError, label: str) -> None:
    """The error is that of the mutation, and names the file, or the folder, and the line."""
    text = f"{label}: {error}"
    assert mutation.outcome == "refused", text
    assert not isinstance(error, PluginError), text
    assert re.search(mutation.message, error.message), text
    assert (
        case.names or Path(case.file()).name
    ) in error.message or "no table test" in error.message, text
    if case.line:
        assert re.search(rf"(line|row) {case.line}[: ]", error.message), text


@pytest.mark.parametrize("kind", KINDS)
def test_scores_of_valid_data_equal_independent_computation(
    builtin: Plugins, tmp_path: Path, kind: str
) -> None:
    for ending in FORMATS:
        case = Case(kind, ending, next(iter(valid()[kind])), random.Random(0))
        task, scores = scored(builtin, case.write(tmp_path / ending))
        assert scores.metrics[task.main_metric] == pytest.approx(independent_score(kind, case.read))


@pytest.mark.parametrize("kind", KINDS)
def test_evaluate_error_names_the_broken_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    refused = [
        m for m in MUTATIONS if m.outcome == "refused" and any(kind == of for of, *_ in m.cases)
    ]
    rng = random.Random(kind)
    mutation = rng.choice(refused)
    case = Case(*rng.choice([of for of in mutation.cases if of[0] == kind]), rng)
    mutation.apply(case)
    done = Shell(tmp_path, monkeypatch, capsys.readouterr)(
        f"mirrorbench evaluate {case.write(tmp_path / 'folder')} -e tiny"
    )
    assert done.code in (1, 2), (mutation.name, done)
    assert "Traceback" not in done.out + done.err, (mutation.name, done)
    assert (case.names or Path(case.file()).name) in done.err, (mutation.name, done)
