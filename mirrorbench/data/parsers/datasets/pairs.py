"""Formats of pairs: of sentences (STS 2012 to 2017, the STS benchmark, SICK, QNLI, QQP), and of words.

A pair of Multi-SimLex in one language has the mean of the annotators' scores. Cross-lingual pairs follow its paper
(Vulić et al. 2020, section 7): two aligned pairs (w1, w2) and (t1, t2) whose scores differ by at most a fifth of the
scale become (w1, t2) and (w2, t1), both with the mean of the two scores.
"""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from mirrorbench.core.errors import DataFormatError
from mirrorbench.core.quoting import shown
from mirrorbench.data.cards import only_file, whole_number
from mirrorbench.data.items import Pair
from mirrorbench.data.readers.dataset_tables import Columns, TableRow, by_name, parallel_lines
from mirrorbench.data.readers.text import read_lines
from mirrorbench.data.readers.values import Ids, parse_index, parse_number

_STS_SCALE = (0, 5)
_SIMLEX_SCALE = (0, 6)
_MAX_DIFFERENCE = 1.2  # a fifth of the scale


def parse_sts(files: Mapping[str, Path], options: Mapping[str, Any]) -> list[Pair]:
    """Parse SemEval's STS tasks: ``STS.input.X.txt`` holds two sentences per line, ``STS.gs.X.txt`` scores from 0 to 5.

    STS16 has two more columns (option ``columns``: 4), notes on sources. Pairs with a blank gold line (STS15, STS16)
    were not scored and are left out. The id is ``X/<line>``, the subset ``X``.
    """
    width = whole_number(options, "columns", 2, least=2)
    names = r".+\.(?P<part>input|gs)\.(?P<group>.+)\.txt"
    pairs = []
    for subset, parts in by_name(
        files, names, "STS.input.X.txt or STS.gs.X.txt", ("input", "gs")
    ).items():
        rows = Columns(("left", "right"), widths=(width,)).read(parts["input"])
        for row, gold in zip(rows, parallel_lines(parts["gs"], rows), strict=True):
            if gold.strip():
                score = parse_number(gold.strip(), parts["gs"], row.line, *_STS_SCALE)
                pairs.append(
                    Pair(f"{subset}/{row.line}", row.text("left"), row.text("right"), score, subset)
                )
    return pairs


def parse_stsb(files: Mapping[str, Path], options: Mapping[str, Any]) -> list[Pair]:
    """Parse the STS benchmark: tab-separated despite its names (``sts-dev.csv``), some rows with two more, on licences.

    Quotes are text: a reader that interprets them keeps only 1,119 of the 1,379 test rows. The id is
    ``sts-test/<line>``.
    """
    columns = Columns(("genre", "file", "year", "number", "score", "left", "right"), widths=(7, 9))
    ids = Ids()
    pairs = []
    for name, path in files.items():
        for row in columns.read(path, ids):
            identity, score = (
                row.unique(f"{PurePosixPath(name).stem}/{row.line}"),
                row.number("score", _STS_SCALE),
            )
            pairs.append(Pair(identity, row.text("left"), row.text("right"), score))
    return pairs


def parse_sick(files: Mapping[str, Path], options: Mapping[str, Any]) -> list[Pair]:
    """Parse SICK relatedness, as three files (SemEval 2014) or as the single ``SICK.txt`` with a column of splits.

    The option ``semeval_set`` (``train``, ``dev``, ``test``) names the split to take from the single file. The id is
    SICK's own pair number.
    """
    columns = Columns(("pair_ID", "sentence_A", "sentence_B", "relatedness_score"), header="order")
    sets = {"TRAIN": "train", "TRIAL": "dev", "TEST": "test"}
    wanted = options.get("semeval_set")
    pairs = []
    for row in columns.read_all(files):
        if "SemEval_set" in row.values:
            if wanted not in list(sets.values()):
                known = ", ".join(sets.values())
                raise DataFormatError(
                    f"{row.path} holds all splits; the option semeval_set must be one of {known}."
                )
            if row.label("SemEval_set", sets) != wanted:
                continue
        identity, gold = row.unique(row.text("pair_ID")), row.number("relatedness_score", (1, 5))
        pairs.append(Pair(identity, row.text("sentence_A"), row.text("sentence_B"), gold))
    return pairs


def parse_qnli(files: Mapping[str, Path], options: Mapping[str, Any]) -> list[Pair]:
    """Parse a labelled file of GLUE's QNLI (``dev.tsv``); gold is 1 if the sentence answers the question, else 0.

    Quotes are text: a reader that interprets them keeps only 5,398 of 5,463 rows. The id is the data set's.
    """
    columns = Columns(("index", "question", "sentence", "label"), header="exact")
    labels = {"entailment": 1.0, "not_entailment": 0.0}
    return [
        Pair(
            row.unique(row.values["index"]),
            row.text("question"),
            row.text("sentence"),
            row.label("label", labels),
        )
        for row in columns.read_all(files)
    ]


_QQP_COLUMNS = ("id", "qid1", "qid2", "question1", "question2", "is_duplicate")


def parse_qqp(files: Mapping[str, Path], options: Mapping[str, Any]) -> list[Pair]:
    """Parse Quora Question Pairs; gold is 1 if the questions are duplicates, else 0. The id is the data set's.

    Quora's ``quora_duplicate_questions.tsv``, Kaggle's ``train.csv`` and GLUE's ``train.tsv`` have the same columns,
    split at tabs or at commas as the header is. Quotes follow RFC 4180; a question's white space becomes single spaces.
    Pairs with an empty question are left out, three in all of QQP. The option ``sample`` is the number of pairs to draw
    at random (0: all): those whose ids have the lowest SHA-256, in file order, so that it is the same in every edition.
    """
    pairs, ids = [], Ids()
    for path in files.values():
        for row in _quoted_rows(path, ids):
            gold = row.label("is_duplicate", {"0": 0.0, "1": 1.0})
            identity = row.unique(row.text("id"))
            if row.values["question1"] and row.values["question2"]:
                pairs.append(Pair(identity, row.text("question1"), row.text("question2"), gold))
    size = whole_number(options, "sample", 0) or len(pairs)
    if size > len(pairs):
        raise DataFormatError(
            f"{', '.join(files)}: a sample of {size} pairs cannot be drawn from {len(pairs)}."
        )
    drawn = sorted(
        range(len(pairs)), key=lambda index: hashlib.sha256(pairs[index].id.encode()).digest()
    )[:size]
    return [pairs[index] for index in sorted(drawn)]


def parse_qqp_duplicates(files: Mapping[str, Path], options: Mapping[str, Any]) -> list[Pair]:
    """Parse duplicates of QQP; the second half get the second question of the next pair (id ``1+2``) and gold 0."""
    duplicates = parse_qqp(files, options)
    if wrong := [pair.id for pair in duplicates if pair.gold != 1]:
        raise DataFormatError(
            f"{', '.join(files)}: pair {wrong[0]} is no duplicate, and all must be."
        )
    half = (len(duplicates) + 1) // 2
    rest = duplicates[half:]
    made = zip(rest, [*rest[1:], *rest[:1]], strict=True)
    return duplicates[:half] + [
        Pair(f"{pair.id}+{next_.id}", pair.left, next_.right, 0.0) for pair, next_ in made
    ]


def _quoted_rows(path: Path, ids: Ids) -> Iterator[TableRow]:
    """The rows of a table of QQP, in which quoted fields may hold line ends."""
    lines = read_lines(path)
    separator = "\t" if "\t" in "".join(lines[:1]) else ","
    reader = csv.reader((f"{line}\n" for line in lines), delimiter=separator)
    try:
        if tuple(next(reader, ())) != _QQP_COLUMNS:
            raise DataFormatError(f"{path}: the header is not {', '.join(_QQP_COLUMNS)}.")
        for row in reader:
            line = reader.line_num
            if len(row) != len(_QQP_COLUMNS):
                raise DataFormatError(
                    f"{path}, line {line}: {len(row)} columns instead of {len(_QQP_COLUMNS)}."
                )
            values = (" ".join(value.split()) for value in row)
            yield TableRow(path, line, dict(zip(_QQP_COLUMNS, values, strict=True)), ids)
    except csv.Error as error:
        raise DataFormatError(f"{path}, line {reader.line_num}: {error}.") from None


_Judged = dict[str, tuple[str, str, float]]  # by id: two words of one language, and the score


def parse_multisimlex(files: Mapping[str, Path], options: Mapping[str, Any]) -> list[Pair]:
    """Parse the official tables ``translation.csv`` and ``scores.csv``, with one row per pair in the same order.

    The words of language XXX are in the columns ``XXX 1`` and ``XXX 2`` of the first, the mean score in the column
    ``XXX`` of the second (as in Mirror-BERT's released code). The option ``languages`` lists one or two codes. The id
    is the row number, followed by the direction for cross-lingual pairs.
    """
    paths = {PurePosixPath(name).name: path for name, path in files.items()}
    if missing := {"translation.csv", "scores.csv"} - paths.keys():
        raise DataFormatError(f"Multi-SimLex: no file named {', '.join(sorted(missing))}.")
    tables = []
    for code in _languages(options):
        words = Columns((f"{code} 1", f"{code} 2"), "order", separator=",").read(
            paths["translation.csv"]
        )
        scores = Columns((code,), "order", separator=",").read(paths["scores.csv"])
        if len(words) != len(scores):
            raise DataFormatError(
                f"{paths['translation.csv']} has {len(words)} rows, scores.csv has {len(scores)}."
            )
        table: _Judged = {}
        for row, score_row in zip(words, scores, strict=True):
            left, right = (_spaces(row.text(f"{code} {side}")) for side in "12")
            table[str(row.line - 1)] = left, right, score_row.number(code, _SIMLEX_SCALE)
        tables.append(table)
    return _pairs(tables)


def parse_multisimlex_concepticon(
    files: Mapping[str, Path], options: Mapping[str, Any]
) -> list[Pair]:
    """Parse Concepticon's list ``Vulic-2020-2244.tsv``, which has one row per concept instead of one per pair.

    A row holds the pairs and sides of a concept (``SIMLEX_IDS``: ``203:2 5:1``), and for each language as many words
    (``ENGLISH_IN_SOURCE``) and scores. Spaces separate words and also the parts of a word; the concept's forms
    (``ENGLISH``: ``form (other form/other form)``) show where to split. ``[null]`` is the word "null", mistaken for a
    missing value in that edition. The option ``languages`` lists one or two columns (``ENGLISH``). Ids are those of
    ``parse_multisimlex``.
    """
    path = only_file(files, "multisimlex-concepticon")
    tables = []
    for language in _languages(options):
        columns = ("SIMLEX_IDS", language, f"{language}_IN_SOURCE", f"{language}_SCORE")
        sides: dict[str, dict[str, str]] = {}
        scores: dict[str, float] = {}
        for row in Columns(columns, "order").read(path):
            for identity, side, word, score in _words_of_concept(
                row, [row.values[column] for column in columns]
            ):
                words = sides.setdefault(identity, {})
                if side in words or scores.setdefault(identity, score) != score:
                    raise row.error(f"pair {identity} contradicts an earlier line")
                words[side] = word
        table: _Judged = {}
        for identity in sorted(sides, key=int):
            if len(sides[identity]) != 2:
                raise DataFormatError(
                    f"{path}: pair {identity} has {len(sides[identity])} words of {language}."
                )
            table[identity] = sides[identity]["1"], sides[identity]["2"], scores[identity]
        tables.append(table)
    return _pairs(tables)


def _words_of_concept(
    row: TableRow, fields: Sequence[str]
) -> Iterator[tuple[str, str, str, float]]:
    """The occurrences of a concept: id of the pair, side, word and score."""
    places, forms, words, scores = fields
    slots, values = places.split(" "), scores.split(" ")
    texts = _cut(words, len(slots), _forms(forms))
    if texts is None or len(values) != len(slots):
        raise row.error(f"{shown(words)} cannot be cut into {len(slots)} words of {shown(forms)}")
    for slot, text, value in zip(slots, texts, values, strict=True):
        identity, _, side = slot.partition(":")
        if parse_index(identity) < 0 or side not in ("1", "2"):
            raise row.error(f"{shown(slot)} is no place such as 203:2")
        yield identity, side, text, parse_number(value, row.path, row.line, *_SIMLEX_SCALE)


def _forms(text: str) -> set[str]:
    """The forms of a concept: ``a (b/c)`` has a, b, c, and the whole text, because words may contain brackets."""
    if text == "[null]":
        return {""}
    main, bracket, others = text.removesuffix(")").partition(" (")
    forms = {text, main, *others.split("/")} if bracket and text.endswith(")") else {text}
    return {_spaces(form) for form in forms} - {""}


def _cut(text: str, n: int, forms: set[str]) -> list[str] | None:
    """``text`` split into n of the forms; ``None`` if that is impossible or ambiguous."""
    if forms == {""}:
        return ["null"] if n == 1 and not text else None
    tokens = text.split()
    lengths = {len(form.split()) for form in forms}
    # cuts[end]: at most two ways to split the first `end` tokens into the number of words taken so far.
    cuts: dict[int, list[tuple[str, ...]]] = {0: [()]}
    for _ in range(n):
        longer: dict[int, list[tuple[str, ...]]] = {}
        for start, splits in cuts.items():
            for length in lengths:
                end, word = start + length, " ".join(tokens[start : start + length])
                if end <= len(tokens) and word in forms:
                    longer[end] = [*longer.get(end, []), *((*cut, word) for cut in splits)][:2]
        cuts = longer
    splits = cuts.get(len(tokens), [])
    return list(splits[0]) if len(splits) == 1 else None


def _spaces(text: str) -> str:
    return " ".join(text.split())


def _languages(options: Mapping[str, Any]) -> list[str]:
    languages = options.get("languages")
    if not isinstance(languages, list) or len(languages) not in (1, 2):
        raise DataFormatError("Multi-SimLex: the option 'languages' must list one or two columns.")
    return [str(language) for language in languages]


def _pairs(tables: list[_Judged]) -> list[Pair]:
    if len(tables) == 1:
        return [Pair(identity, *judged) for identity, judged in tables[0].items()]
    pairs = []
    for identity, (left, right, score) in tables[0].items():
        other_left, other_right, other_score = tables[1][identity]
        # Scores are means of a dozen integers; rounding makes a difference of exactly 1.2 count as 1.2.
        if round(abs(score - other_score), 9) <= _MAX_DIFFERENCE:
            mean = round((score + other_score) / 2, 9)  # equal means tie, whatever their last bit
            pairs += [
                Pair(f"{identity}/12", left, other_right, mean),
                Pair(f"{identity}/21", right, other_left, mean),
            ]
    return pairs
