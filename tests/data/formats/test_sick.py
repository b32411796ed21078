from __future__ import annotations

from pathlib import Path

import pytest
from parsing import SICK_HEADER, run, simple

from mirrorbench.core.errors import DataFormatError


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_the_three_file_release(tmp_path: Path, end: str) -> None:
    content = (SICK_HEADER + "6\ta b\tc d\t3.3\tNEUTRAL\n7\te\tf\t5\tENTAILMENT\n").replace("\n", end)
    assert simple(run("sick", tmp_path, {"SICK_train.txt": content})) == [
        ("6", "a b", "c d", 3.3, ""),
        ("7", "e", "f", 5.0, ""),
    ]


def test_the_single_file_release(tmp_path: Path) -> None:
    header = "pair_ID\tsentence_A\tsentence_B\tentailment_label\trelatedness_score\tSemEval_set\n"
    rows = "1\ta\tb\tNEUTRAL\t4.5\tTRAIN\n2\tc\td\tNEUTRAL\t1\tTEST\n3\te\tf\tNEUTRAL\t2\tTRIAL\n"
    for split, identity in (("train", "1"), ("test", "2"), ("dev", "3")):
        (pair,) = run("sick", tmp_path, {"SICK.txt": header + rows}, semeval_set=split)
        assert pair.id == identity
    with pytest.raises(DataFormatError, match="semeval_set must be one of"):
        run("sick", tmp_path, {"SICK.txt": header + rows})
    with pytest.raises(DataFormatError, match="line 2: the label 'X' is none of TRAIN"):
        run("sick", tmp_path, {"SICK.txt": header + rows.replace("TRAIN", "X")}, semeval_set="test")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "the header lacks pair_ID"),
        ("1\ta\tb\t3\tNEUTRAL\n", "the header lacks"),
        (SICK_HEADER + "1\ta\tb\t3\n", "line 2: 4 columns instead of 5"),
        (SICK_HEADER + "1\ta\tb\t0.5\tNEUTRAL\n", "outside the scale from 1 to 5"),
        (SICK_HEADER + "1\t\tb\t3\tNEUTRAL\n", "line 2: column 'sentence_A' is missing, empty"),
        (SICK_HEADER + "\n", "line 2: 1 columns"),
    ],
)
def test_what_breaks_the_format(tmp_path: Path, content: str, message: str) -> None:
    with pytest.raises(DataFormatError, match=message):
        run("sick", tmp_path, {"SICK_trial.txt": content})
