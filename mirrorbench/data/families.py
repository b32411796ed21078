"""Families of cards: one YAML file for data sets that differ in a language pair, a size or a column only.

A family is a card with one key more, ``variants``: axes, each a list of mappings of placeholders to values. Every
combination of one mapping from each axis gives a card, with ``{placeholder}`` replaced in all texts of the file (the
citation excepted: BibTeX is full of braces). A text that is nothing but one placeholder takes the value as it is, so
that sizes stay numbers and lists stay lists.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import product
from math import prod
from typing import Any

from mirrorbench.core.errors import DataFormatError

VARIANTS = "variants"
MAX_CARDS = 1000
"""Cards of one family: more than in any here, and few enough that a few long axes cannot fill the memory."""
_VERBATIM = {"citation"}
_PLACEHOLDER = re.compile(r"\{([a-z][a-z0-9_]*)\}")


def expand(raw: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The cards of a family, as the mappings that a file of each alone would hold; a plain card is a family of one.

    Args:
        raw: the content of the YAML file.

    Yields:
        One mapping a combination, the last axis varying fastest.

    Raises:
        DataFormatError: ``variants`` is not a mapping of axes to non-empty lists of mappings, or two axes share a
            placeholder, or they make more than ``MAX_CARDS`` cards.
    """
    card = {key: value for key, value in raw.items() if key != VARIANTS}
    if VARIANTS not in raw:
        yield card
        return
    axes = _axes(raw[VARIANTS])
    if prod(map(len, axes)) > MAX_CARDS:
        raise DataFormatError(f"variants: they would make more than {MAX_CARDS} cards")
    for rows in product(*axes):
        values: dict[str, Any] = {}
        for row in rows:
            if shared := values.keys() & row.keys():
                raise DataFormatError(f"variants: two axes name the placeholder {min(shared)!r}")
            values |= row
        yield {key: value if key in _VERBATIM else _fill(value, values) for key, value in card.items()}


def _axes(variants: Any) -> list[list[dict[str, Any]]]:
    if not isinstance(variants, dict) or not variants:
        raise DataFormatError("'variants' must be a mapping of axes to lists")
    for axis, rows in variants.items():
        if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) for row in rows):
            raise DataFormatError(f"variants: {axis!r} must be a list of mappings of placeholders to values")
        if not all(_PLACEHOLDER.fullmatch(f"{{{name}}}") for row in rows for name in row):
            raise DataFormatError(f"variants: the placeholders of {axis!r} must be words")
        if any(row.keys() != rows[0].keys() for row in rows):
            raise DataFormatError(f"variants: all rows of {axis!r} must give the same placeholders")
    return list(variants.values())


def _fill(template: Any, values: Mapping[str, Any]) -> Any:
    """``template`` with placeholders replaced; those that no axis gives stay (``{path}`` belongs to the sources)."""
    if isinstance(template, dict):
        return {key: _fill(value, values) for key, value in template.items()}
    if isinstance(template, list):
        return [_fill(value, values) for value in template]
    if not isinstance(template, str):
        return template
    if (whole := _PLACEHOLDER.fullmatch(template)) and whole[1] in values:
        return values[whole[1]]
    return _PLACEHOLDER.sub(lambda found: str(values.get(found[1], found[0])), template)
