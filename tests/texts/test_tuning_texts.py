from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from mirrorbench.core.errors import DataFormatError, TuningError, UsageError
from mirrorbench.texts.reading import read_tuning_texts


def test_duplicates_go_and_held_out_lines_are_not_tuned_on(tmp_path: Path) -> None:
    lines = [f"text {n}" for n in range(50)]
    file = tmp_path / "mine.txt.gz"
    file.write_bytes(gzip.compress("\n".join([*lines, "", "  text 3 ", "text 3"]).encode()))
    read = read_tuning_texts(str(file), seed=5)
    assert (read.n_read, read.n_duplicates, read.are_pairs) == (52, 2, False)
    assert len(read.held_out) == 5
    assert not set(read.held_out) & set(read.train)
    assert {text for (text,) in read.held_out + read.train} == set(lines)
    assert list(read.train) == sorted(read.train, key=lambda line: lines.index(line[0]))
    assert read_tuning_texts(str(file), seed=5) == read
    assert read_tuning_texts(str(file), seed=6).held_out != read.held_out


def test_pairs_in_lines(tmp_path: Path) -> None:
    file = tmp_path / "pairs.txt"
    file.write_text("a cat||the cat\nb || c\n\nd||e\nd||e\n")
    read = read_tuning_texts(str(file), held_out=0)
    assert read.are_pairs
    assert read.train == (("a cat", "the cat"), ("b", "c"), ("d", "e"))
    assert read.corpus() == ["a cat\tthe cat", "b\tc", "d\te"]
    raw = read_tuning_texts(str(file), held_out=0, raw=True)
    assert raw.corpus() == ["a cat||the cat", "b || c", "d||e"]


def test_pairs_in_two_columns_may_hold_anything() -> None:
    read = read_tuning_texts([("a || b", "x\ty"), ("c", "d")], held_out=0)
    assert read.corpus() == ["a || b\tx y", "c\td"]


def test_two_columns_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "pairs.jsonl"
    file.write_text("".join(json.dumps({"q": f"q{n}", "a": f"a{n}"}) + "\n" for n in range(4)))
    assert read_tuning_texts(str(file), ("q", "a"), held_out=2).n_read == 4
    with pytest.raises(UsageError, match="two"):
        read_tuning_texts(str(file), ("q", "a", "b"))


def test_some_pairs_among_lines(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="2 of 3 lines are pairs") as caught:
        read_tuning_texts(["a||b", "c||d", "no pair"])
    assert "no pair" in str(caught.value)
    assert not read_tuning_texts(["if (a || b)", "one", "two", "three"], held_out=0).are_pairs


@pytest.mark.parametrize(
    ("texts", "hint"),
    [
        (["a", float("nan")], "nan"),
        ([1, 2, 3], "Not so: 1"),
        (["ab", ("c", "d")], "some are pairs"),
        ([("a", "b"), ("a", "b", "c")], "'c'"),
        ([None], "None"),
    ],
)
def test_what_is_neither_texts_nor_pairs(texts: list[Any], hint: str) -> None:
    with pytest.raises(UsageError, match="must be strings, or pairs") as caught:
        read_tuning_texts(texts)
    assert hint in caught.value.hint


def test_a_negative_number_of_lines_is_not_held_out() -> None:
    with pytest.raises(UsageError, match="-1 lines"):
        read_tuning_texts([f"text {n}" for n in range(50)], held_out=-1)


def test_too_few() -> None:
    with pytest.raises(TuningError, match="1 distinct"):
        read_tuning_texts(["same", "same "])
    with pytest.raises(TuningError, match="too few"):
        read_tuning_texts(["a", "b", "c"], held_out=2)
    assert read_tuning_texts(["a", "b", "c"]).held_out == ()
    with pytest.raises(UsageError, match="strings"):
        read_tuning_texts([("a", "b", "c")])  # type: ignore[list-item]


def test_a_value_that_is_no_text(tmp_path: Path) -> None:
    file = tmp_path / "x.jsonl"
    file.write_text('{"text": "a"}\n{"text": null}\n')
    with pytest.raises(DataFormatError, match="line 2"):
        read_tuning_texts(str(file))
