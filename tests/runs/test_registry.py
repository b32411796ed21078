"""Names of tasks and suites."""

from __future__ import annotations

from pathlib import Path

import pytest

from mirrorbench.core.errors import UnknownNameError
from mirrorbench.core.plugins import Plugins
from mirrorbench.data.card_files import builtin_suites
from mirrorbench.runs.registry import expand_tasks


def test_suites_expand_to_tasks_in_order(registered: Plugins) -> None:
    sts = builtin_suites()["sts"]
    assert sts == ("sts12", "sts13", "sts14", "sts15", "sts16", "stsb", "sickr")
    assert expand_tasks(["sickr", "sts", "cats", "cats"], registered) == (
        "sickr",
        *sts[:-1],
        "cats",
    )
    with pytest.raises(UnknownNameError, match="unknown task or suite 'stss'") as caught:
        expand_tasks(["stss"], registered)
    assert "sts" in caught.value.hint


def test_own_file_without_a_slash_is_recognised(
    registered: Plugins, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "stss.csv").touch()
    with pytest.raises(UnknownNameError, match="unknown task or suite") as caught:
        expand_tasks(["stss.csv:kind=pairs"], registered)
    assert "./stss.csv:kind=pairs" in caught.value.hint
