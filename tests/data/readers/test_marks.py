"""Words in brackets."""

from __future__ import annotations

import pytest

from mirrorbench.core.errors import DataFormatError
from mirrorbench.data.readers.marks import parse_marked


def test_marks() -> None:
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
