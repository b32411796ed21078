"""Reading what a card gives to its parser besides the content of files: options, and how many files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mirrorbench.core.errors import DataFormatError


def whole_number(options: Mapping[str, Any], key: str, default: int, least: int = 0) -> int:
    """An option that is a whole number.

    Args:
        options: of the card.
        key: the option.
        default: what it is where the card does not name it.
        least: what it must be at least.

    Raises:
        DataFormatError: it is something else, or less.
    """
    value = options.get(key, default)
    if type(value) is not int or value < least:
        raise DataFormatError(f"The option {key!r} must be a whole number from {least} on, not {value!r}.")
    return value


def word(options: Mapping[str, Any], key: str) -> str:
    """An option that is a word and cannot be left out.

    Raises:
        DataFormatError: it is missing, empty or no text.
    """
    value = options.get(key)
    if not isinstance(value, str) or not value:
        raise DataFormatError(f"The option {key!r} must be given, as a text; it is {value!r}.")
    return value


def only_file(files: Mapping[str, Path], parser: str) -> Path:
    """The file of a format that has one.

    Raises:
        DataFormatError: there are several, or none.
    """
    if len(files) != 1:
        raise DataFormatError(f"Parser {parser!r}: one file is needed, and the card gives {len(files)}.")
    return next(iter(files.values()))
