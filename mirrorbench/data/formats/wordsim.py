"""Multi-SimLex: from the official pair of tables, or from Concepticon's edition of the same data.

Within one language a pair is two words and the mean of the annotators' scores. Across two languages it is made by the
rule of the Multi-SimLex paper (Vulić et al. 2020, section 7): of two aligned pairs (w1, w2) and (t1, t2) whose scores
differ by at most a fifth of the scale come (w1, t2) and (w2, t1), both with the mean of the two scores.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from mirrorbench.core.errors import DataFormatError
from mirrorbench.data.cards import only_file
from mirrorbench.data.items import Pair
from mirrorbench.data.textfiles import parse_index, parse_number, read_lines, shown

SCALE = (0.0, 6.0)
MAX_DIFFERENCE = 1.2
"""A fifth of the scale: aligned pairs that people judge more differently make no cross-lingual pair."""

MAX_PLACES = 200
"""Words that all places of one concept may have together: far more than in the data, few enough to cut at once."""


@dataclass
class _Entry:
    """One pair in one language, while its two words (by side, ``1`` and ``2``) are gathered."""

    score: float
    words: dict[str, str] = field(default_factory=dict)


def parse_official(files: Mapping[str, Path], options: Mapping[str, Any]) -> list[Pair]:
    """Parse the official tables ``translation.csv`` and ``scores.csv``.

    They have one row a pair, in the same order; the words of language XXX stand in the columns ``XXX 1`` and
    ``XXX 2`` of the first, the mean score in the column ``XXX`` of the second (so the code of Mirror-BERT reads them).

    Args:
        files: the two tables, recognised by their names.
        options: ``languages``: the columns' codes, one for word similarity, two across languages.

    Returns:
        the pairs, their ids the row numbers (from 1), with the direction where two languages are crossed.

    Raises:
        DataFormatError: a table or column is missing, the tables have different lengths, a word is empty, a score is
            none or off the scale from 0 to 6.
    """
    paths = {PurePosixPath(name).name: path for name, path in files.items()}
    missing = {"translation.csv", "scores.csv"} - paths.keys()
    if missing:
        raise DataFormatError(f"Multi-SimLex: no file named {', '.join(sorted(missing))}.")
    words, scores = _csv(paths["translation.csv"]), _csv(paths["scores.csv"])
    if len(words) != len(scores):
        raise DataFormatError(f"{paths['translation.csv']} has {len(words)} rows, scores.csv has {len(scores)}.")
    tables: list[dict[str, _Entry]] = []
    for code in _languages(options):
        table: dict[str, _Entry] = {}
        for number, (word_row, score_row) in enumerate(zip(words, scores, strict=True), start=1):
            sides = {side: _column(word_row, f"{code} {side}", paths["translation.csv"], number) for side in "12"}
            text = _column(score_row, code, paths["scores.csv"], number)
            table[str(number)] = _Entry(parse_number(text, paths["scores.csv"], number + 1, *SCALE), sides)
        tables.append(table)
    return _pairs(tables)


def parse_concepticon(files: Mapping[str, Path], options: Mapping[str, Any]) -> list[Pair]:
    """Parse Concepticon's list ``Vulic-2020-2244.tsv``, which has a row for each concept instead of each pair.

    A row gives the pairs and sides in which the concept stands (``SIMLEX_IDS``: ``203:2 5:1``), and for each language
    as many words (``ENGLISH_IN_SOURCE``) and scores. The words are separated by spaces, as are the parts of one word;
    where to cut, the concept's forms tell (``ENGLISH``: ``form (other form/other form)``). ``[null]`` stands for the
    word "null", which some reader on the way took for a missing value.

    Args:
        files: the one table.
        options: ``languages``: the columns' names (``ENGLISH``), one for word similarity, two across languages.

    Returns:
        the pairs in the order of their numbers, which are their ids, with the direction where two languages are
        crossed.

    Raises:
        DataFormatError: a column is missing, words cannot be cut in one way, a pair is incomplete, or its two rows
            give different scores.
    """
    path = only_file(files, "multisimlex-concepticon")
    tables: list[dict[str, _Entry]] = []
    lines = [line.split("\t") for line in read_lines(path)]
    header = lines[0] if lines else []
    for language in _languages(options):
        columns = ("SIMLEX_IDS", language, f"{language}_IN_SOURCE", f"{language}_SCORE")
        if lacking := [column for column in columns if header.count(column) != 1]:
            raise DataFormatError(f"{path}: the header lacks {', '.join(lacking)}.")
        where = [header.index(column) for column in columns]
        table: dict[str, _Entry] = {}
        for number, row in enumerate(lines[1:], start=2):
            if len(row) != len(header):
                raise DataFormatError(f"{path}, line {number}: {len(row)} columns instead of {len(header)}.")
            _add_concept(table, [row[place] for place in where], path, number)
        ordered = dict(sorted(table.items(), key=lambda item: int(item[0])))
        for identity, entry in ordered.items():
            if len(entry.words) != 2:
                raise DataFormatError(f"{path}: pair {identity} has {len(entry.words)} words of {language}.")
        tables.append(ordered)
    return _pairs(tables)


def _add_concept(table: dict[str, _Entry], fields: Sequence[str], path: Path, line: int) -> None:
    places, forms, words, scores = fields
    slots, values = places.split(" "), scores.split(" ")
    texts = _cut(words, len(slots), _forms(forms))
    if texts is None or len(values) != len(slots):
        raise DataFormatError(
            f"{path}, line {line}: {shown(words)} cannot be cut into {len(slots)} words of {shown(forms)}."
        )
    for slot, text, value in zip(slots, texts, values, strict=True):
        identity, _, side = slot.partition(":")
        if parse_index(identity) < 0 or side not in ("1", "2"):
            raise DataFormatError(f"{path}, line {line}: {shown(slot)} is no place such as 203:2.")
        score = parse_number(value, path, line, *SCALE)
        entry = table.setdefault(identity, _Entry(score))
        if side in entry.words or entry.score != score:
            raise DataFormatError(f"{path}, line {line}: pair {identity} contradicts an earlier line.")
        entry.words[side] = text


def _forms(text: str) -> set[str]:
    """The forms of a concept: ``a (b/c)`` gives a, b, c, and the whole, for words that have brackets themselves."""
    if text == "[null]":
        return {""}
    main, bracket, others = text.removesuffix(")").partition(" (")
    forms = {text, main, *others.split("/")} if bracket and text.endswith(")") else {text}
    return {_spaces(form) for form in forms} - {""}


def _cut(text: str, n: int, forms: set[str]) -> list[str] | None:
    """Cut ``text`` into n of the forms; ``None`` where that cannot be done, or in more than one way."""
    if forms == {""}:
        return ["null"] if n == 1 and not text else None
    tokens = text.split()
    if len(tokens) > MAX_PLACES:
        return None
    lengths = {len(form.split()) for form in forms}
    # cuts[end]: the ways to cut the first tokens into as many words as were taken so far, at most two of them.
    cuts: dict[int, list[tuple[str, ...]]] = {0: [()]}
    for _ in range(n):
        longer: dict[int, list[tuple[str, ...]]] = {}
        for start, found in cuts.items():
            for length in lengths:
                end, word = start + length, " ".join(tokens[start : start + length])
                if end <= len(tokens) and word in forms:
                    longer[end] = [*longer.get(end, []), *((*cut, word) for cut in found)][:2]
        cuts = longer
    found = cuts.get(len(tokens), [])
    return list(found[0]) if len(found) == 1 else None


def _spaces(text: str) -> str:
    return " ".join(text.split())


def _languages(options: Mapping[str, Any]) -> list[str]:
    languages = options.get("languages")
    if not isinstance(languages, list) or len(languages) not in (1, 2):
        raise DataFormatError("Multi-SimLex: the option 'languages' must list one or two columns.")
    return [str(language) for language in languages]


def _csv(path: Path) -> list[dict[str, str]]:
    # One line at a time: a stray quote is then an error in its line, and cannot swallow the lines that follow.
    rows: list[list[str]] = []
    for line, text in enumerate(read_lines(path), start=1):
        try:
            rows += csv.reader([text], strict=True)
        except csv.Error as error:
            raise DataFormatError(f"{path}, line {line}: {error}.") from None
        if len(rows) != line or len(rows[-1]) != len(rows[0]):
            raise DataFormatError(f"{path}, line {line}: not the {len(rows[0])} columns of the header.")
    if not rows or len(set(rows[0])) != len(rows[0]):
        raise DataFormatError(f"{path}: no header, or one that names a column twice.")
    return [dict(zip(rows[0], row, strict=True)) for row in rows[1:]]


def _column(row: Mapping[str, str], name: str, path: Path, number: int) -> str:
    value = _spaces(row.get(name, ""))
    if not value:
        raise DataFormatError(f"{path}, row {number}: column {name!r} is missing or empty.")
    return value


def _pairs(tables: list[dict[str, _Entry]]) -> list[Pair]:
    first, second = tables[0], tables[-1]
    if len(tables) == 1:
        return [Pair(i, e.words["1"], e.words["2"], e.score) for i, e in first.items()]
    pairs = []
    for identity, entry in first.items():
        other = second[identity]
        # The scores are means of a dozen whole numbers: rounded, so that a difference of exactly 1.2 counts as such.
        if round(abs(entry.score - other.score), 9) <= MAX_DIFFERENCE:
            mean = (entry.score + other.score) / 2
            pairs.append(Pair(f"{identity}/12", entry.words["1"], other.words["2"], mean))
            pairs.append(Pair(f"{identity}/21", entry.words["2"], other.words["1"], mean))
    return pairs
