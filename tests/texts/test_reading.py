from __future__ import annotations

import gzip
import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrorbench.core.errors import DataFormatError, TuningError, UsageError
from mirrorbench.core.inputs import TextInput
from mirrorbench.texts.reading import (
    parse_marked,
    read_inputs,
    read_pairs,
    read_rows,
    read_texts,
    read_tuning_texts,
    split_pair,
)

TEXTS = ["a cat", "", "two\u2028lines", 'a "quoted" word', "null"]


def test_plain_text_compressed_or_not(tmp_path: Path) -> None:
    data = "\ufeff" + "\r\n".join(TEXTS)
    for name, content in (("a.txt", data.encode()), ("a.txt.gz", gzip.compress(data.encode()))):
        (tmp_path / name).write_bytes(content)
        assert list(read_rows(str(tmp_path / name))) == [(n, (text,)) for n, text in enumerate(TEXTS, 1)]


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"one\ntwo\n")))
    assert [value for _, (value,) in read_rows("-")] == ["one", "two"]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b'{"x": "one"}\n')))
    assert [value for _, (value,) in read_rows("-", ["x"])] == ["one"]


@pytest.mark.parametrize("suffix", ["jsonl", "jsonl.gz", "parquet", "csv", "tsv"])
def test_columns(tmp_path: Path, suffix: str) -> None:
    texts = [text for text in TEXTS if text]
    path = tmp_path / f"a.{suffix}"
    if suffix == "parquet":
        parquet = pytest.importorskip("pyarrow.parquet")
        import pyarrow

        parquet.write_table(pyarrow.table({"text": texts, "n": range(len(texts)), "other": texts[::-1]}), path)
    else:
        rows = [(text, n, texts[-1 - n]) for n, text in enumerate(texts)]
        made = {
            "jsonl": "".join(json.dumps(dict(zip(("text", "n", "other"), row, strict=True))) + "\n" for row in rows),
            "tsv": "text\tn\tother\n" + "".join(f"{text}\t{n}\t{other}\n" for text, n, other in rows),
            "csv": "text,n,other\n" + "".join(",".join(f'"{str(v).replace(chr(34), chr(34) * 2)}"' for v in row) + "\n"
                                              for row in rows),
        }[suffix.removesuffix(".gz")].encode()  # fmt: skip
        path.write_bytes(gzip.compress(made) if suffix.endswith("gz") else made)
    assert [value for _, (value,) in read_rows(str(path))] == texts  # the column "text" is taken unasked
    assert [values for _, values in read_rows(str(path), ["other", "text"])] == list(
        zip(texts[::-1], texts, strict=True)
    )
    with pytest.raises(DataFormatError, match="'nothing'"):
        list(read_rows(str(path), ["nothing"]))


@pytest.mark.parametrize("content", ['text\na\n""\nb\n\n', '\ntext\na\n\n""\nb\n'])
def test_empty_lines_of_a_table_are_no_rows(tmp_path: Path, content: str) -> None:
    (tmp_path / "a.csv").write_text(content)
    assert [value for _, (value,) in read_rows(str(tmp_path / "a.csv"))] == ["a", "", "b"]


def test_a_table_without_a_head(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("1\tone\n2\ttwo\n")
    assert [value for _, (value,) in read_rows(str(tmp_path / "a.tsv"), ["1"])] == ["one", "two"]
    with pytest.raises(DataFormatError, match="column 2"):
        list(read_rows(str(tmp_path / "a.tsv"), ["2"]))


@pytest.mark.parametrize(
    ("name", "content", "columns", "error", "message"),
    [
        ("a.txt", b"ok\n\xff\n", (), DataFormatError, "line 2: byte 0xff"),
        ("a.txt", b"ok\nno\0t\n", (), DataFormatError, "line 2: a NUL"),
        ("a.txt.gz", gzip.compress(b"a\n" * 5000, mtime=0)[:-9], (), DataFormatError, "damaged"),
        ("a.txt", b"a", ("text",), UsageError, "plain text"),
        ("a.jsonl", b'{"text": "a"}\n{', (), DataFormatError, "line 2: not JSON"),
        ("a.jsonl", b"[1]", (), DataFormatError, "not a JSON object"),
        ("a.jsonl", b'{"x": "a", "y": "b"}', (), UsageError, "several columns"),
        ("a.csv", b'text\n"open', (), DataFormatError, "line"),
        ("a.parquet", b"PAR1 nonsense", (), DataFormatError, "Parquet"),
        ("a.parquet.gz", b"", (), UsageError, "not by gzip"),
        ("b.txt", None, (), UsageError, "no file"),
        ("b" * 300, None, (), UsageError, "no file"),
        ("", None, (), UsageError, "a folder"),
    ],
)  # fmt: skip
def test_what_cannot_be_read(tmp_path: Path, name, content, columns, error, message) -> None:
    if "parquet" in name:
        pytest.importorskip("pyarrow")
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(error, match=message):
        list(read_rows(str(tmp_path / name), columns))


def test_only_what_is_asked_for_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"first\n" * 100_000 + b"\xff\n")
    stream = read_rows(str(tmp_path / "a.txt"))
    assert next(stream) == (1, ("first",))  # the broken line at the end is not met
    (tmp_path / "a.csv").write_bytes(b"text\n" + b"first\n" * 100_000 + b"\xff\n")
    assert next(read_rows(str(tmp_path / "a.csv"))) == (2, ("first",))


def test_without_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    (tmp_path / "a.parquet").touch()
    with pytest.raises(UsageError, match="pyarrow") as caught:
        list(read_rows(str(tmp_path / "a.parquet")))
    assert "mirrorbench[parquet]" in caught.value.hint


@pytest.mark.parametrize(
    ("text", "plain", "targets"),
    [
        ("the [bank] of the river", "the bank of the river", ["bank"]),
        ("[look] it [up]", "look it up", ["look", "up"]),
        (r"an \[escaped\] [word] \\", "an [escaped] word \\", ["word"]),
        ("[語]彙", "語彙", ["語"]),
    ],
)
def test_marks(text: str, plain: str, targets: list[str]) -> None:
    found = parse_marked(text)
    assert found.text == plain
    assert [found.text[a:b] for a, b in found.spans] == targets


@pytest.mark.parametrize("text", ["no target", "[open", "close]", "[a [b]]", "[]", "[ ]", "][", ""])
def test_no_marks(text: str) -> None:
    with pytest.raises(DataFormatError, match="line 7"):
        parse_marked(text, "f, line 7")


@given(st.text(), st.text(min_size=1).filter(str.strip), st.text())
def test_any_text_can_be_marked(before: str, target: str, after: str) -> None:
    def escaped(text: str) -> str:
        return "".join("\\" + c if c in "[]\\" else c for c in text)

    found = parse_marked(f"{escaped(before)}[{escaped(target)}]{escaped(after)}")
    assert found == TextInput(before + target + after, ((len(before), len(before) + len(target)),))


def test_span_columns(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    good = {"s": "the bank", "from": 4, "to": "8"}
    file.write_text(json.dumps(good) + "\n")
    assert list(read_inputs(str(file), "s", spans=("from", "to"))) == [TextInput("the bank", ((4, 8),))]
    with pytest.raises(UsageError, match="--column"):
        list(read_inputs(str(file), "", spans=("from", "to")))
    wrongs = ({"to": 9}, {"from": 8}, {"from": -1}, {"from": 1.5}, {"from": True}, {"to": None}, {"to": "9" * 5000})
    for wrong in wrongs:
        file.write_text(json.dumps({**good, **wrong}) + "\n")
        with pytest.raises(DataFormatError, match="line 1"):
            list(read_inputs(str(file), "s", spans=("from", "to")))


def test_texts_keep_their_places_and_pairs_their_columns(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n\n two\n")
    assert list(read_texts(str(tmp_path / "a.txt"))) == ["one", "", " two"]
    (tmp_path / "a.tsv").write_text("l\tr\na\tb\n")
    assert list(read_pairs(str(tmp_path / "a.tsv"), ("r", "l"))) == [("b", "a")]


@pytest.mark.parametrize(
    ("text", "pair"),
    [("a||b", ("a", "b")), (" a || b ", ("a", "b")), ("a|b", None), ("a||", None), ("||b", None), ("a||b||c", None)],
)
def test_split_pair(text: str, pair: tuple[str, str] | None) -> None:
    assert split_pair(text) == pair


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


def test_pairs_to_tune_on(tmp_path: Path) -> None:
    file = tmp_path / "pairs.txt"
    file.write_text("a cat||the cat\nb || c\n\nd||e\nd||e\n")
    read = read_tuning_texts(str(file), held_out=0)
    assert read.are_pairs
    assert read.train == (("a cat", "the cat"), ("b", "c"), ("d", "e"))
    assert read.corpus() == ["a cat\tthe cat", "b\tc", "d\te"]
    raw = read_tuning_texts(str(file), held_out=0, raw=True)
    assert raw.corpus() == ["a cat||the cat", "b || c", "d||e"]


def test_pairs_in_two_columns_may_hold_anything(tmp_path: Path) -> None:
    read = read_tuning_texts([("a || b", "x\ty"), ("c", "d")], held_out=0)
    assert read.corpus() == ["a || b\tx y", "c\td"]
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
        ([("a", "b", "c")], "'c'"),
        ([None], "None"),
    ],
)
def test_what_is_neither_texts_nor_pairs(texts: list[Any], hint: str) -> None:
    with pytest.raises(UsageError, match="must be strings, or pairs") as caught:
        read_tuning_texts(texts)
    assert hint in caught.value.hint


@pytest.mark.parametrize(
    ("texts", "held_out", "error", "message"),
    [
        (["a", "b", "c"], -1, UsageError, "-1 lines"),
        (["same", "same "], None, TuningError, "1 distinct"),
        (["a", "b", "c"], 2, TuningError, "too few"),
    ],
)
def test_what_cannot_be_held_out(texts: list[str], held_out: int | None, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        read_tuning_texts(texts, held_out=held_out)
    assert read_tuning_texts(["a", "b", "c"]).held_out == ()


def test_a_value_that_is_no_text(tmp_path: Path) -> None:
    file = tmp_path / "x.jsonl"
    file.write_text('{"text": "a"}\n{"text": null}\n')
    with pytest.raises(DataFormatError, match="line 2"):
        read_tuning_texts(str(file))
