"""JSON lines of users."""

from __future__ import annotations

import pytest

from mirrorbench.core.errors import DataFormatError
from mirrorbench.data.readers.json_lines import parse_json


def test_deeply_nested_json_is_refused() -> None:
    with pytest.raises(DataFormatError, match="a, line 1: not JSON"):
        parse_json("[" * 100_000, "a, line 1")


def test_whole_surrogate_pair_is_one_character() -> None:
    """Half of one is refused: ``test_broken_files``."""
    assert parse_json('"\\ud83d\\ude00"', "a, line 1") == "\N{GRINNING FACE}"
