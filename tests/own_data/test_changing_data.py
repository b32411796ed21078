"""Data that change between planning and scoring: the message, or the right numbers of one of their states."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers.page_reader import Shell
from helpers.suite_marks import few

import mirrorbench
from mirrorbench.core.errors import DataFormatError
from mirrorbench.core.plugins import Plugins
from mirrorbench.data.store import DataStore
from mirrorbench.own_data import checked_rows
from mirrorbench.runs.registry import load_plugins
from mirrorbench.storage import checksums

MESSAGE = "changed while it was read"
MOMENTS = [
    "mirrorbench.own_data.planning:Data.read",
    "mirrorbench.own_data.planning:specs_by_name",
    "mirrorbench.pipeline:make_plan",
    "mirrorbench.runs.plan:Planner._identified",
    "mirrorbench.runs.examination:Examiner.examine",
    "mirrorbench.runs.plan:Planner.models",
    "mirrorbench.runs.runner:Runner.compute",
    "mirrorbench.runs.runner:Runner._read_task",
    "mirrorbench.runs.runner:Runner._encode",
    "mirrorbench.runs.runner:score_task",
    "mirrorbench.storage.results:ResultStore.write",
    "mirrorbench.reports.leaderboard:build_table",
    "mirrorbench.own_data.tasks:OwnData.identity_of",
]


def pairs(path: Path, n: int) -> None:
    """Write n rated pairs."""
    rows = [f"a cat {k},the dog {k * k % 11},{k % 7}" for k in range(n)]
    path.write_text("\n".join(["sentence1,sentence2,score", *rows]) + "\n")


def at(moment: str, when: str, change: Callable[[], None], patch: pytest.MonkeyPatch) -> None:
    """Change the data once, before or after a function is called for the first time."""
    module, _, name = moment.partition(":")
    owner: object = importlib.import_module(module)
    *parts, attribute = name.split(".")
    for part in parts:
        owner = getattr(owner, part)
    original = getattr(owner, attribute)
    calls = []

    def changing(*args: object, **kwargs: object) -> object:
        calls.append(1)
        if len(calls) == 1 and when == "before":
            change()
        result = original(*args, **kwargs)
        if len(calls) == 1 and when == "after":
            change()
        return result

    patch.setattr(owner, attribute, changing)


@pytest.fixture(scope="module")
def right(tmp_path_factory: pytest.TempPathFactory) -> dict[int, float]:
    """The scores of both states."""
    scores = {}
    for n in (30, 41):
        path = tmp_path_factory.mktemp("right") / "a.csv"
        pairs(path, n)
        scores[n] = mirrorbench.evaluate("tiny+base", str(path), offline=True)[str(path)]
    assert scores[30] != scores[41]
    return scores


@pytest.fixture(autouse=True)
def old_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files count as old, as most are; those of a few seconds ago are read again each time."""
    monkeypatch.setattr(checksums, "SETTLED", 0)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("moment", few(MOMENTS, 0, 2, 6, 8))
def test_evaluate_never_mixes_two_states(
    moment: str,
    when: str,
    right: dict[int, float],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "a.csv"
    pairs(path, 30)
    shell = Shell(tmp_path, monkeypatch, capsys.readouterr)
    at(moment, when, lambda: pairs(path, 41), monkeypatch)
    done = shell("mirrorbench evaluate ./a.csv -e tiny -e tiny+base:pooling=cls --json --items 2")
    assert "Traceback" not in done.err
    if done.code == 0:
        report = json.loads(done.out)
        (n,) = {answer["n_items"] for answer in report["answers"]}
        assert report["scores"][0]["scores"]["cosine_spearman"] == pytest.approx(right[n])
    else:
        assert MESSAGE in done.err + done.out


@pytest.mark.parametrize("moment", few(MOMENTS[2:10], 0, 4))
def test_run_never_mixes_two_states(
    moment: str,
    right: dict[int, float],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = tmp_path / "a.csv"
    pairs(path, 30)
    at(moment, "after", lambda: pairs(path, 41), monkeypatch)
    board = mirrorbench.run("tiny+base", str(path), output=tmp_path / "results", offline=True)
    if board.failures:
        assert MESSAGE in board.failures[0].reason
        assert not board.results
    else:
        (result,) = board.results
        assert result.main_score == pytest.approx(right[result.n_items])


@pytest.fixture
def plugins() -> Plugins:
    return load_plugins(discover=False)


def test_data_are_read_once_until_they_change(plugins: Plugins, tmp_path: Path) -> None:
    path, data = tmp_path / "a.csv", DataStore(tmp_path)
    pairs(path, 30)
    task = plugins.tasks[str(path)]
    items = task.load(data)
    assert task.load(data) is items
    assert task.identity(data) == task.identity_of(items, data)
    pairs(path, 31)
    assert len(task.load(data)) == 31
    pairs(path, 30)
    assert task.identity(data) == task.identity_of(items, data)


def test_change_while_rows_are_read_is_refused(
    plugins: Plugins, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.csv"
    pairs(path, 30)
    checked = checked_rows._checked_text

    def changing(*args: object) -> str:
        pairs(path, 41)
        return checked(*args)

    monkeypatch.setattr(checked_rows, "_checked_text", changing)
    with pytest.raises(DataFormatError, match=MESSAGE):
        plugins.tasks[str(path)].load(DataStore(tmp_path))
