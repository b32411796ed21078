"""Tables of own data that hold something else than their columns say, and options that nothing reads."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.own_data_files import task_and_scores

from mirrorbench.core.errors import DataFormatError, UsageError
from mirrorbench.core.plugins import Plugins


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("sentence1,sentence2,score\na,b,high\n", "line 2: the score 'high' is not a number"),
        ("sentence1,sentence2,score\na,b,nan\n", "line 2: the score 'nan' is not a number"),
        ("sentence1,sentence2,label\na,b,2\n", "line 2: the label '2' is not 1 or 0"),
        ("sentence1,sentence2,label\na,b,1\n", "all labels are equal"),
        ("anchor,positive,negative\na,,c\n", "line 2: the column 'positive' is empty"),
        ("anchor,positive,negative\n", "has no rows"),
        ("text,label\na,x\nb,y\n", r"each label needs 5 different texts, and '.' has 1"),
        ("text,label\na,x\n", "all labels that are trained on are equal"),
        ("a,b\n1\n", "the columns a, b"),
    ],
)
def test_invalid_table_is_refused(
    plugins: Plugins, tmp_path: Path, content: str, message: str
) -> None:
    (tmp_path / "a.csv").write_text(content)
    with pytest.raises((DataFormatError, UsageError), match=message):
        task_and_scores(plugins, str(tmp_path / "a.csv"))


def test_invalid_data_paths_are_rejected(plugins: Plugins, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a\n")
    for name, message in (
        ("./nothing", "there is no file or folder ./nothing"),
        (f"{tmp_path}/a.txt", "nothing that is installed reads"),
        (f"{tmp_path}:kind=tripels", "unknown kind of own data 'tripels'"),
        (f"{tmp_path}:k=1", "option of own data 'k'"),
    ):
        with pytest.raises(UsageError, match=message):
            plugins.tasks[name]
