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
def test_only_two_part_lines_are_pairs(text: str, pair: tuple[str, str] | None) -> None:
    assert pairs_of([text], "") == (pair and [pair])


def test_tab_does_not_split_lines_with_double_bars() -> None:
    assert fields_of(["C1||a\tb||c", "C2||d"]) == [["C1", "a\tb", "c"], ["C2", "d"]]
    assert pairs_of(["a\tb||c", "d||e"], "") == [("a\tb", "c"), ("d", "e")]
    assert fields_of(["a cat\tthe cat", "x || y"]) == [["a cat", "the cat"], ["x", "y"]]


def test_mixed_pair_and_plain_lines_are_rejected() -> None:
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
def test_contamination_counts_each_part_of_a_line(corpus: list[str]) -> None:
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


def test_line_ids_do_not_count_as_contamination() -> None:
    found = find_contamination(
        {"id": ("heart",), "line": ("if (a || b)",)}, ["heart||MI||infarction", "if (a || b)"]
    )
    assert found is not None
    assert found.overlaps == {"id": NONE, "line": ALL}
