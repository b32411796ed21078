"""Numbers in files."""

from __future__ import annotations

from pathlib import Path

import pytest

from mirrorbench.core.errors import DataFormatError
from mirrorbench.data.readers.values import parse_number


@pytest.mark.parametrize(
    "text", ["", " 1", "1_0", "nan", "inf", "-inf", "٣", "1,5", "1e", "0x1", "1 2"]
)
def test_malformed_numbers_are_rejected(text: str) -> None:
    with pytest.raises(DataFormatError, match=r"gold, line 7: .* is not a number"):
        parse_number(text, Path("gold"), 7, 0, 5)
    for value in (0, 5, 0.1 + 0.2, 1e-300):
        assert parse_number(repr(value), Path("gold"), 1, 0, 5) == value


@pytest.mark.parametrize("text", ["5.001", "-0.1", "1e999"])
def test_numbers_outside_the_scale_are_rejected(text: str) -> None:
    with pytest.raises(DataFormatError, match="outside the scale from 0 to 5"):
        parse_number(text, Path("gold"), 1, 0, 5)
