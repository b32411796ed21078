"""Words in brackets."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mirrorbench.core.errors import DataFormatError
from mirrorbench.data.readers.marks import parse_marked, unmark


def test_brackets_mark_targets_unless_escaped() -> None:
    for text, plain, targets in (
        ("the [bank] of the river", "the bank of the river", ["bank"]),
        ("[look] it [up]", "look it up", ["look", "up"]),
        (r"an \[escaped\] [word] \\", "an [escaped] word \\", ["word"]),
        ("[語]彙", "語彙", ["語"]),
        (r"\\[a\[b\]c] \d", r"\a[b]c \d", ["a[b]c"]),
    ):
        found = parse_marked(text)
        assert found.text == plain
        assert [found.text[a:b] for a, b in found.spans] == targets
    for text in ("no target", "[open", "close]", "[a [b]]", "[]", "[ ]", "][", ""):
        with pytest.raises(DataFormatError, match="line 7"):
            parse_marked(text, "f, line 7")


TEXTS = st.text(alphabet="ab <>/語 \U0001f600", max_size=8)


@settings(max_examples=settings().max_examples // 4)
@given(pieces=st.lists(st.tuples(TEXTS, TEXTS), max_size=4), rest=TEXTS)
def test_unmark_removes_only_closed_marks(pieces: list[tuple[str, str]], rest: str) -> None:
    marked = "".join(f"{before}<w>{word}</w>" for before, word in pieces) + rest
    text, spans = unmark(marked, "<w>", "</w>")
    assert text == "".join(before + word for before, word in pieces) + rest
    assert [text[start:end] for start, end in spans] == [word for _, word in pieces]
    assert unmark("a <w>b", "<w>", "</w>") == ("a <w>b", ())  # a mark that is not closed is text
