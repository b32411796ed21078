from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrorbench.core.errors import DataFormatError, UsageError
from mirrorbench.core.inputs import TextInput
from mirrorbench.texts.formats import contexts, marked, pairs, split_pair, texts


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
    found = marked(text)
    assert found.text == plain
    assert [found.text[a:b] for a, b in found.spans] == targets


@pytest.mark.parametrize("text", ["no target", "[open", "close]", "[a [b]]", "[]", "[ ]", "][", ""])
def test_no_marks(text: str) -> None:
    with pytest.raises(DataFormatError, match="line 7"):
        marked(text, "f, line 7")


@given(st.text(), st.text(min_size=1).filter(str.strip), st.text())
def test_any_text_can_be_marked(before: str, target: str, after: str) -> None:
    def escaped(text: str) -> str:
        return "".join("\\" + c if c in "[]\\" else c for c in text)

    found = marked(f"{escaped(before)}[{escaped(target)}]{escaped(after)}")
    assert found == TextInput(before + target + after, ((len(before), len(before) + len(target)),))


def test_span_columns(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    good = {"s": "the bank", "from": 4, "to": "8"}
    file.write_text(json.dumps(good) + "\n")
    assert list(contexts(str(file), "s", ("from", "to"))) == [TextInput("the bank", ((4, 8),))]
    with pytest.raises(UsageError, match="--column"):
        list(contexts(str(file), "", ("from", "to")))
    for wrong in ({"to": 9}, {"from": 8}, {"from": -1}, {"from": 1.5}, {"from": True}, {"to": None}):
        file.write_text(json.dumps({**good, **wrong}) + "\n")
        with pytest.raises(DataFormatError, match="line 1"):
            list(contexts(str(file), "s", ("from", "to")))


def test_texts_keep_their_places(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("one\n\n two\n")
    assert list(texts(str(file))) == ["one", "", " two"]


def test_pairs(tmp_path: Path) -> None:
    file = tmp_path / "a.tsv"
    file.write_text("l\tr\na\tb\n")
    assert list(pairs(str(file), ("r", "l"))) == [("b", "a")]


@pytest.mark.parametrize(
    ("text", "pair"),
    [("a||b", ("a", "b")), (" a || b ", ("a", "b")), ("a|b", None), ("a||", None), ("||b", None), ("a||b||c", None)],
)
def test_split_pair(text: str, pair: tuple[str, str] | None) -> None:
    assert split_pair(text) == pair
