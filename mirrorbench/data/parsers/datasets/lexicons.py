"""Bilingual dictionaries: the format of xling-eval (Glavaš et al. 2019)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mirrorbench.core.errors import DataFormatError
from mirrorbench.data.items import Lexicon, WordPair
from mirrorbench.data.readers.dataset_tables import Columns, by_name


def parse_xling_eval(files: Mapping[str, Path], options: Mapping[str, Any]) -> list[Lexicon]:
    """Read the bilingual dictionary of Glavaš et al. (2019) for a pair of languages, word and translation per line.

    Files: ``yacle.test.freq.2k.<pair>.tsv`` and training dictionaries ``yacle.train.freq.<size>.<pair>.tsv``; the
    option ``train`` is the size of the training dictionary (``1k``, ``3k``, ``5k``).
    """
    size = str(options.get("train"))
    pattern = r"yacle\.(?P<part>(?:test|train)\.freq\.\w+)\.(?P<group>[a-z]+-[a-z]+)\.tsv"
    shape = "yacle.<part>.freq.<size>.<pair>.tsv"
    test_part = "test.freq.2k"
    train_part = f"train.freq.{size}"
    pairs = by_name(files, pattern, shape, (test_part, train_part))
    if len(pairs) != 1:
        raise DataFormatError(
            f"Bilingual dictionaries of one pair of languages are needed, not of {', '.join(pairs)}."
        )
    (parts,) = pairs.values()
    test = _word_pairs(parts[test_part])
    train = _word_pairs(parts[train_part])
    return [Lexicon(train, test)]


def _word_pairs(path: Path) -> tuple[WordPair, ...]:
    rows = Columns(("source", "target")).read(path)
    if not rows:
        raise DataFormatError(f"{path} holds no pair of words.")
    return tuple((row.text("source"), row.text("target")) for row in rows)
