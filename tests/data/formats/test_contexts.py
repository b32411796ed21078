"""Formats of words in context on made-up files: spans, labels, and what breaks the formats."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from parsing import run
from samples import COSIMLEX as COSIMLEX_HEADER

from mirrorbench.core.errors import DataFormatError
from mirrorbench.core.inputs import TextInput
from mirrorbench.data.textfiles import unmark


def words(item: TextInput) -> list[str]:
    return [item.text[start:end] for start, end in item.spans]


TEXTS = st.text(alphabet="ab <>/語 \U0001f600", max_size=8)


@given(pieces=st.lists(st.tuples(TEXTS, TEXTS), max_size=4), rest=TEXTS)
def test_marks_are_taken_out_and_nothing_else(pieces: list[tuple[str, str]], rest: str) -> None:
    marked = "".join(f"{before}<w>{word}</w>" for before, word in pieces) + rest
    text, spans = unmark(marked, "w")
    assert text == "".join(before + word for before, word in pieces) + rest
    assert [text[start:end] for start, end in spans] == [word for _, word in pieces]


def test_a_mark_that_is_not_closed_is_text() -> None:
    assert unmark("a <w>b", "w") == ("a <w>b", ())


USIM = "He is bright .\t2\t1.5\tbright.a 1\nbright light\t0\t1.5\tbright.a 12\n"


def test_usim_pairs_two_lines(tmp_path: Path) -> None:
    (pair,) = run("usim", tmp_path, {"usim_en.txt": USIM})
    assert (pair.id, pair.rating) == ("bright.a/1-12", 1.5)
    assert pair.left == TextInput("He is bright .", ((6, 12),))
    assert pair.right == TextInput("bright light", ((0, 6),))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("\t1.5\tbright.a 12", "\t1.6\tbright.a 12", "lines 1 and 2: they are no pair"),
        ("bright.a 12", "dim.a 12", "lines 1 and 2: they are no pair"),
        ("1.5", "5.5", "line 1: 5.5 lies outside the scale"),
        ("\t2\t", "\t4\t", "line 1: there is no word 4"),
        ("\tbright.a 12", "", "line 2: 3 columns instead of 4"),
        ("bright light\t0\t1.5\tbright.a 12\n", "", "odd number of lines"),
    ],
)
def test_what_breaks_usim(tmp_path: Path, old: str, new: str, message: str) -> None:
    with pytest.raises(DataFormatError, match=message):
        run("usim", tmp_path, {"usim_en.txt": USIM.replace(old, new)})


ROW = (
    'bank\tshore\tA "<strong>bank</strong>" near the <strong>shores</strong>.\t<strong>Shore</strong> or'
    " <strong>banks</strong>\t2.5\t7\t1\t1\t0.01\tbank\tshores\tbanks\tShore\n"
)
COSIMLEX = f"{COSIMLEX_HEADER}\n{ROW}"


def test_cosimlex_knows_which_word_is_which(tmp_path: Path) -> None:
    (change,) = run("cosimlex", tmp_path, {"cosimlex_en.csv": COSIMLEX})
    assert (change.id, change.first.rating, change.second.rating) == ("1", 2.5, 7.0)
    assert change.first.left == TextInput('A "bank" near the shores.', ((3, 7),))
    assert words(change.first.right) == ["shores"]
    assert (words(change.second.left), words(change.second.right)) == (["banks"], ["Shore"])
    assert change.second.left.text == change.second.right.text == "Shore or banks"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("stdev1\t", "", "the header is not"),
        ("\tbanks\tShore", "\tbanks", "line 2: 12 columns instead of 13"),
        ("\tbanks\tShore", "\tbank\tShore", "context 2 does not mark 'bank' and 'Shore'"),
        ("<strong>shores</strong>", "shores", "context 1 does not mark"),
        ("\t2.5\t", "\t12.5\t", "12.5 lies outside the scale"),
    ],
)
def test_what_breaks_cosimlex(tmp_path: Path, old: str, new: str, message: str) -> None:
    with pytest.raises(DataFormatError, match=message):
        run("cosimlex", tmp_path, {"cosimlex_en.csv": COSIMLEX.replace(old, new)})


AM2ICO = 'context1\tcontext2\tlabel\n在  <word>大学</word> 任"\t"The  <word>University</word> of null\tT\n'


def test_am2ico_says_which_language_is_which(tmp_path: Path) -> None:
    files = {"zh/dev.tsv": AM2ICO, "zh/test.tsv": AM2ICO.replace("\tT", "\tF")}
    dev, test = run("am2ico", tmp_path, files, language="zh")
    assert dev.left == TextInput('在  大学 任"', ((3, 5),), "zh")
    assert dev.right == TextInput('"The  University of null', ((6, 16),), "en")
    assert [(item.id, item.split, item.label) for item in (dev, test)] == [("dev/1", "dev", 1), ("test/1", "test", 0)]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("label", "gold", "the header is not"),
        ("\tT", "\tyes", "line 2: the label 'yes' is none of T, F"),
        ("\tT", "", "line 2: 2 columns instead of 3"),
        ("<word>大学</word>", "大学", "line 2: 0 targets instead of one"),
        ("of null", "<word>of</word> null", "line 2: 2 targets instead of one"),
        ("大学", " ", "line 2: 1 targets instead of one"),
    ],
)
def test_what_breaks_am2ico(tmp_path: Path, old: str, new: str, message: str) -> None:
    with pytest.raises(DataFormatError, match=message):
        run("am2ico", tmp_path, {"dev.tsv": AM2ICO.replace(old, new)}, language="zh")
    with pytest.raises(DataFormatError, match="'language' must be given"):
        run("am2ico", tmp_path, {"dev.tsv": AM2ICO})


VALID = "鬆\tV\t1\t2\t0\t1\t牙鬆了。\t鬆一\t1\n"
TEST = "鬆\tV\t1\t2\t0\t1\t牙鬆了。\t鬆一\n轉\tV\t0\t1\t0\t1\t轉\t轉出\n"


def test_xlwic_with_and_without_labels_of_the_test_split(tmp_path: Path) -> None:
    old = {"zh/valid.txt": VALID, "zh/test.txt": TEST}
    assert [(i.id, i.label) for i in run("xlwic", tmp_path, old)] == [("dev/1", 1), ("test/1", None), ("test/2", None)]
    assert run("xlwic", tmp_path, old)[0].left == TextInput("牙鬆了。", ((1, 2),))
    new = {"zh/zh_valid.txt": VALID, "zh/zh_test_data.txt": TEST, "zh/zh_test_gold.txt": "0\n1\n"}
    assert [(i.id, i.label) for i in run("xlwic", tmp_path, new)] == [("dev/1", 1), ("test/1", 0), ("test/2", 1)]
    mixed = {"zh/zh_test_gold.txt": "0\n1\n", **old}
    assert [i.label for i in run("xlwic", tmp_path, mixed)] == [1, 0, 1]


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"dev.txt": VALID}, "the name does not follow [XX_]valid.txt"),
        ({"valid.txt": VALID.replace("\t1\n", "\tT\n")}, "'T' is none of 1, 0"),
        ({"valid.txt": VALID.replace("\tV\t1\t2", "\tV\t3\t5")}, "no target from '3-5'"),
        ({"valid.txt": VALID.replace("\tV\t1\t2", "\tV\t2\t2")}, "no target from '2-2'"),
        ({"valid.txt": VALID.replace("鬆\tV\t", "鬆\t")}, "no target from"),
        ({"valid.txt": "a\tb\n"}, "2 columns instead of 8"),
        ({"test.txt": TEST, "zh_test_gold.txt": "1\n"}, "1 lines instead of 2"),
    ],
)
def test_what_breaks_xlwic(tmp_path: Path, files: dict[str, str], message: str) -> None:
    with pytest.raises(DataFormatError, match=re.escape(message)):
        run("xlwic", tmp_path, files)


WIC = {
    "dev.data.txt": "board\tN\t2-0\tRoom and board .\tboards x\nrun\tV\t0-1\trun !\tto run\n",
    "dev.gold.txt": "F\nT\n",
}
TSV = {
    "dev_examples.txt": "zero\t1\tis zero\nfoot\t0\tFoot of hill\n",
    "dev_definitions.txt": "a digit\nthe lower part\n",
    "dev_hypernyms.txt": "digit\tnatural_number\n\n",
    "dev_labels.txt": "T\nF\n",
}


def test_wic(tmp_path: Path) -> None:
    first, second = run("wic", tmp_path, WIC)
    assert (first.id, first.label, first.split) == ("dev/1", 0, "dev")
    assert (first.left.text, words(first.left), words(first.right)) == ("Room and board .", ["board"], ["boards"])
    assert (second.id, second.label, words(second.left), words(second.right)) == ("dev/2", 1, ["run"], ["run"])


def test_wic_without_gold(tmp_path: Path) -> None:
    pairs = run("wic", tmp_path, {"test.data.txt": WIC["dev.data.txt"]})
    assert [(p.label, p.split) for p in pairs] == [(None, "test")] * 2


@pytest.mark.parametrize(
    ("subtask", "statements"),
    [
        (1, ["zero means a digit", "Foot means the lower part"]),
        (2, ["zero is a kind of digit, natural number", "Foot is a kind of"]),
        (3, ["zero is a kind of digit, natural number and means a digit", "Foot means the lower part"]),
    ],
)
def test_wic_tsv(tmp_path: Path, subtask: int, statements: list[str]) -> None:
    pairs = run("wic-tsv", tmp_path, TSV, subtask=subtask)
    assert [p.right.text for p in pairs] == statements
    assert [words(p.left) for p in pairs] == [words(p.right) for p in pairs] == [["zero"], ["Foot"]]
    assert [p.label for p in pairs] == [1, 0]


@pytest.mark.parametrize(
    ("parser", "changed", "what"),
    [
        ("wic", {"dev.data.txt": "a\tN\t0-0\tb\n"}, "line 1: 4 columns instead of 5"),
        ("wic", {"dev.data.txt": "a\tN\t0\tb\tc\nrun\tV\t0-1\trun !\tto run\n"}, "line 1: '0' is not of the form i-j"),
        ("wic", {"dev.data.txt": "a\tN\t0-0\tb\tc\nrun\tV\t0-2\trun !\tto run\n"}, "line 2: there is no word 2"),
        ("wic", {"dev.data.txt": "a\tN\t-1-0\tb\tc\nrun\tV\t0-1\trun !\tto run\n"}, "not of the form i-j"),
        ("wic", {"dev.data.txt": "a\tN\t1-0\tb  c\tc\nrun\tV\t0-1\trun !\tto run\n"}, "line 1: there is no word 1"),
        ("wic", {"dev.gold.txt": "F\n"}, "1 lines instead of 2"),
        ("wic", {"dev.gold.txt": "F\ntrue\n"}, "line 2: the label 'true' is none of T, F"),
        ("wic", {"valid.data.txt": ""}, "name does not follow"),
        ("wic", {"train.gold.txt": ""}, "files of train .* lack data"),
        ("wic-tsv", {"dev_examples.txt": "zero\tis zero\n"}, "line 1: 2 columns instead of 3"),
        ("wic-tsv", {"dev_examples.txt": "zero\t7\tis zero\nfoot\t0\tFoot\n"}, "line 1: there is no word 7"),
        ("wic-tsv", {"dev_definitions.txt": "a digit\n"}, "1 lines instead of 2"),
        ("wic-tsv", {"dev_definitions.txt": "a digit\n \n"}, "line 2: an empty line"),
        ("wic-tsv", {"dev_labels.txt": "T\n\n"}, "line 2: the label '' is none of T, F"),
    ],
)
def test_what_breaks_wic(tmp_path: Path, parser: str, changed: dict[str, str], what: str) -> None:
    files = (WIC if parser == "wic" else TSV) | changed
    with pytest.raises(DataFormatError, match=what):
        run(parser, tmp_path, files, subtask=3)


def test_a_subtask_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(DataFormatError, match="subtask 4"):
        run("wic-tsv", tmp_path, TSV, subtask=4)
