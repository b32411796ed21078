"""Lines of a corpus: texts, pairs, ids with names."""

from __future__ import annotations

import pytest

from mirrorbench.core.errors import UsageError
from mirrorbench.data.corpora import ALL, NONE, SOME, find_contamination
from mirrorbench.data.readers.line_parts import fields_of, pairs_of


@pytest.mark.parametrize(
    ("text", "pair"),
    [
        ("a||b", ("a", "b")),
        (" a || b ", ("a", "b")),
        ("a\tb", ("a", "b")),
        ("a || b\tc", ("a || b", "c")),
        ("a|b", None),
        ("a||", None),
        ("||b", None),
        ("a||b||c", None),
        ("a\tb\tc", None),
    ],
)
def test_a_pair(text: str, pair: tuple[str, str] | None) -> None:
    assert pairs_of([text], "") == (pair and [pair])


def test_a_tab_in_a_text_divides_nothing_where_lines_are_divided_otherwise() -> None:
    assert fields_of(["C1||a\tb||c", "C2||d"]) == [["C1", "a\tb", "c"], ["C2", "d"]]
    assert pairs_of(["a\tb||c", "d||e"], "") == [("a\tb", "c"), ("d", "e")]
    assert fields_of(["a cat\tthe cat", "x || y"]) == [["a cat", "the cat"], ["x", "y"]]


def test_all_lines_are_pairs_or_none_is() -> None:
    with pytest.raises(UsageError, match=r"mine: 2 of 3 lines are pairs .* but not 'no pair'"):
        pairs_of(["a||b", "c||d", "no pair"], "mine")
    assert pairs_of(["a||b", "c||d", "no pair"], "mine", raw=True) is None
    assert pairs_of(["a||b", "c||d"], "mine", raw=True) is None
    assert pairs_of(["a\tb", "c\td"], "mine", raw=True) == [("a", "b"), ("c", "d")]
    assert pairs_of(["if (a || b)", "one", "two"], "mine") is None
    assert pairs_of([], "mine") is None


@pytest.mark.parametrize(
    "corpus",
    [
        ["The cat||a dog", "sun||moon"],
        ["The cat\ta dog", "sun\tmoon"],
        ["C1||The cat||a dog", "C2||sun||moon"],
        ["C1\tThe cat", "C1\ta dog", "C2\tsun", "C2\tmoon"],
        ["the cat", "a dog || x", "sun", "moon"],
    ],
)
def test_each_side_of_a_line_was_seen(corpus: list[str]) -> None:
    items = {
        "pair": ("the cat", "A  dog"),
        "apart": ("moon", "the cat"),
        "one": ("sun", "star"),
        "no": ("x", "moon sun"),
    }
    found = find_contamination(items, corpus)
    assert found is not None
    seen_x = "a dog || x" in corpus
    assert found.overlaps == {
        "pair": ALL,
        "apart": ALL,
        "one": SOME,
        "no": SOME if seen_x else NONE,
    }


def test_the_id_of_two_names_is_no_text_and_the_line_is_one() -> None:
    found = find_contamination(
        {"id": ("heart",), "line": ("if (a || b)",)}, ["heart||MI||infarction", "if (a || b)"]
    )
    assert found is not None
    assert found.overlaps == {"id": NONE, "line": ALL}
