from __future__ import annotations

from pathlib import Path

import pytest
from parsing import run, simple

from mirrorbench.core.errors import DataFormatError

ROW = "main-captions\tMSRvid\t2012test\t0001\t3.200\t{}\t{}"


def test_seven_or_nine_columns_and_quotes_as_text(tmp_path: Path) -> None:
    rows = [ROW.format('"A cat', "A dog"), ROW.format("x", 'y"') + "\tlicence\tmore"]
    got = run("stsb", tmp_path, {"sts-test.csv": "\n".join(rows) + "\n"})
    assert simple(got) == [
        ("sts-test/1", '"A cat', "A dog", 3.2, ""),
        ("sts-test/2", "x", 'y"', 3.2, ""),
    ]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (ROW.format("a", "b") + "\tx", "line 1: 8 columns"),
        ("a\tb", "line 1: 2 columns"),
        ("", "line 1: 1 columns"),
        (ROW.format("", "b"), "column 'left' is missing, empty"),
        (ROW.format("a", "b").replace("3.200", "6"), "outside the scale"),
        (ROW.format("a", "b").replace("3.200", ""), "column 'score' is missing, empty"),
    ],
)
def test_what_breaks_the_format(tmp_path: Path, row: str, message: str) -> None:
    with pytest.raises(DataFormatError, match=message):
        run("stsb", tmp_path, {"sts-dev.csv": row + "\n"})
