from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from parsing import run, simple

from mirrorbench.core.errors import DataFormatError
from mirrorbench.data.catalogue import builtin_cards
from mirrorbench.data.formats import parse
from mirrorbench.data.store import DataStore


def test_two_columns_and_unscored_lines(tmp_path: Path) -> None:
    files = {
        "STS.input.belief.txt": 'A "cat".\tA dog. \nnot\tscored\n  x\ty\u2028z\n',
        "STS.gs.belief.txt": "4.5\n\n0\n",
        "STS.input.surprise.OnWN.txt": "\ufeffa\tb\r\n",
        "STS.gs.surprise.OnWN.txt": "5.000\r\n",
    }
    assert simple(run("sts", tmp_path, files)) == [
        ("belief/1", 'A "cat".', "A dog. ", 4.5, "belief"),
        ("belief/3", "  x", "y\u2028z", 0.0, "belief"),
        ("surprise.OnWN/1", "a", "b", 5.0, "surprise.OnWN"),
    ]


def test_four_columns_of_2016(tmp_path: Path) -> None:
    files = {"STS2016.input.X.txt": "a\tb\tsource 1\tsource 2\n", "STS2016.gs.X.txt": "1\n"}
    assert simple(run("sts", tmp_path, files, columns=4)) == [("X/1", "a", "b", 1.0, "X")]


@pytest.mark.parametrize(
    ("inputs", "golds", "message"),
    [
        ("a\tb\nc\n", "1\n2\n", r"STS\.input\.X\.txt, line 2: 1 columns instead of 2"),
        ("a\tb\tc\n", "1\n", "line 1: 3 columns instead of 2"),
        ("a\tb\nc\td\n", "1\n", r"STS\.gs\.X\.txt has 1 lines instead of 2"),
        ("a\tb\n", "1\n2\n", "has 2 lines instead of 1"),
        ("a\tb\n", "high\n", r"STS\.gs\.X\.txt, line 1: 'high' is not a number"),
        ("a\tb\n", "nan\n", "not a number"),
        ("a\tb\n", "5.5\n", "outside the scale from 0 to 5"),
        ("a\tb\n", "1\t2\n", "not a number"),
        ("a\t \n", "1\n", "column 'right' is missing, empty"),
        (b"a\t\xff\n", "1\n", "line 1: byte 0xff is not valid UTF-8"),
        (b"a\tb\nc\t\0\n", "1\n2\n", "line 2: a NUL byte"),
    ],
)
def test_what_breaks_the_format(tmp_path: Path, inputs: Any, golds: str, message: str) -> None:
    with pytest.raises(DataFormatError, match=message):
        run("sts", tmp_path, {"STS.input.X.txt": inputs, "STS.gs.X.txt": golds})


def test_files_must_go_together(tmp_path: Path) -> None:
    with pytest.raises(DataFormatError, match=r"files of X .* lack gs"):
        run("sts", tmp_path, {"STS.input.X.txt": "a\tb\n", "STS.gs.Y.txt": "1\n"})
    with pytest.raises(DataFormatError, match="does not follow"):
        run("sts", tmp_path, {"readme.txt": ""})


TEXT = st.text(st.characters(exclude_characters="\n\r\0\t", exclude_categories=["Cs"]), min_size=1).filter(str.strip)
GOLD = st.one_of(st.just(""), st.floats(0, 5).map(repr))


@given(st.lists(st.tuples(TEXT, TEXT, GOLD), min_size=1, max_size=20))
def test_sts_gives_every_scored_row_exactly(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str, str]]
) -> None:
    rows = [(left.lstrip("\ufeff") or "x", right, gold) for left, right, gold in rows]
    files: dict[str, str | bytes] = {
        "STS.input.X.txt": "".join(f"{left}\t{right}\n" for left, right, _ in rows),
        "STS.gs.X.txt": "".join(f"{gold}\n" for _, _, gold in rows),
    }
    got = run("sts", tmp_path_factory.mktemp("sts"), files)
    wanted = [(left, right, float(gold)) for left, right, gold in rows if gold]
    assert [(pair.left, pair.right, pair.gold) for pair in got] == wanted
    assert len({pair.id for pair in got}) == len(got)


def test_texts_are_those_of_a_reader_of_a_few_lines(real_store: DataStore) -> None:
    card = builtin_cards()["sts14"]
    files = real_store.files(card)
    wanted = []
    for name in ("OnWN", "deft-forum", "deft-news", "headlines", "images", "tweet-news"):
        with open(files[f"STS.input.{name}.txt"], encoding="utf-8", newline="\n") as stream:
            wanted += [tuple(line.rstrip("\n").split("\t")) for line in stream]
    assert [(pair.left, pair.right) for pair in parse(real_store.resolve(card))] == wanted
