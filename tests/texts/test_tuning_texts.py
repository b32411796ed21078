from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from mirrorbench.core.errors import DataFormatError, TuningError, UsageError
from mirrorbench.texts.tuning_texts import read_tuning_texts


def test_training_excludes_duplicates_and_held_out_lines(tmp_path: Path) -> None:
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


def test_tuning_pairs_are_read_from_lines_and_columns(tmp_path: Path) -> None:
    file = tmp_path / "pairs.txt"
    file.write_text("a cat||the cat\nb || c\n\nd||e\nd||e\n")
    read = read_tuning_texts(str(file), held_out=0)
    assert read.are_pairs
    assert read.train == (("a cat", "the cat"), ("b", "c"), ("d", "e"))
    assert read.corpus() == ["a cat\tthe cat", "b\tc", "d\te"]
    raw = read_tuning_texts(str(file), held_out=0, raw=True)
    assert raw.corpus() == ["a cat||the cat", "b || c", "d||e"]
    read = read_tuning_texts(
        [("a || b", "x\ty"), ("c", "d")], held_out=0
    )  # in two columns they may hold anything
    assert read.corpus() == ["a || b\tx y", "c\td"]
    columns = tmp_path / "pairs.jsonl"
    columns.write_text("".join(json.dumps({"q": f"q{n}", "a": f"a{n}"}) + "\n" for n in range(4)))
    assert set(read_tuning_texts(str(columns), ("a", "q"), held_out=2).train) < {
        (f"a{n}", f"q{n}") for n in range(4)
    }
    assert not read_tuning_texts(["if (a || b)", "one", "two", "three"], held_out=0).are_pairs


def test_reading_as_pairs_is_reported(tmp_path: Path) -> None:
    path, notes = tmp_path / "a.txt", list[str]()
    path.write_text("".join(f"a {n}||b {n}\n" for n in range(20)))
    read_tuning_texts(path, note=notes.append)
    (note,) = notes
    assert note.startswith("./a.txt: each line holds ||, so that all are pairs of texts")
    path = tmp_path / "a.csv"
    path.write_text("one,two\n" + "".join(f"a {n},b {n}\n" for n in range(20)))
    read_tuning_texts(path, ["one", "two"], note=notes.append)
    read_tuning_texts(path, ["one"], note=notes.append)
    assert len(notes) == 1


def test_unusable_tuning_texts_are_rejected(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text('{"text": "a"}\n{"text": null}\n')
    with pytest.raises(DataFormatError, match="line 2"):
        read_tuning_texts(str(tmp_path / "x.jsonl"))
    with pytest.raises(UsageError, match="two"):
        read_tuning_texts(str(tmp_path / "x.jsonl"), ("q", "a", "b"))
    with pytest.raises(UsageError, match="2 of 3 lines are pairs") as caught:
        read_tuning_texts(["a||b", "c||d", "no pair"])
    assert "no pair" in str(caught.value)
    for texts, hint in (
        (["a", float("nan")], "nan"),
        ([1, 2, 3], "One is not: 1"),
        (["ab", ("c", "d")], "some are pairs"),
        ([("a", "b"), ("a", "b", "c")], "'c'"),
        ([("a", "b", "c")], "'c'"),
        ([None], "None"),
    ):
        with pytest.raises(UsageError, match="must be strings, or pairs") as caught:
            read_tuning_texts(texts)
        assert hint in caught.value.hint
    for texts, held_out, error, message in (
        (["a", "b", "c"], -1, UsageError, "-1 lines"),
        (["same", "same "], None, TuningError, "1 distinct"),
        (["a", "b", "c"], 2, TuningError, "too few"),
    ):
        with pytest.raises(error, match=message):
            read_tuning_texts(texts, held_out=held_out)
    assert read_tuning_texts(["a", "b", "c"]).held_out == ()
