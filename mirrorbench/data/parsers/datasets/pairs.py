"""Formats of pairs: of sentences (STS 2012 to 2017, the STS benchmark, SICK, QNLI, QQP), and of words.

A pair of Multi-SimLex in one language has the mean of the annotators' scores. Cross-lingual pairs follow its paper
(Vulić et al. 2020, section 7): two aligned pairs (w1, w2) and (t1, t2) whose scores differ by at most a fifth of the
scale become (w1, t2) and (w2, t1), both with the mean of the two scores.
"""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

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
    """Parse SemEval's STS tasks: ``STS.input.X.txt`` (two sentences per line), ``STS.gs.X.txt`` (a score from 0 to 5).

    STS16 has two more columns, notes on the sources, and needs the option ``columns: 4``. Pairs with a blank gold line
    (STS15, STS16) were not scored and are left out. The id is ``X/<line>``, the subset ``X``.
    """
    width = whole_number(options, "columns", 2, least=2)
    columns = Columns(("left", "right"), widths=(width,))
    # ``input`` or ``gs`` (gold standard), and the subset.
    pattern = r".+\.(?P<part>input|gs)\.(?P<group>.+)\.txt"
    subsets = by_name(files, pattern, "STS.input.X.txt or STS.gs.X.txt", ("input", "gs"))
    pairs = []
    for subset, parts in subsets.items():
        rows = columns.read(parts["input"])
        gold_lines = parallel_lines(parts["gs"], rows)
        for row, gold_line in zip(rows, gold_lines, strict=True):
            gold = gold_line.strip()
            if not gold:  # not scored
                continue
            score = parse_number(gold, parts["gs"], row.line, *_STS_SCALE)
            pair_id = f"{subset}/{row.line}"
            pairs.append(Pair(pair_id, row.text("left"), row.text("right"), score, subset))
    return pairs


def parse_stsb(files: Mapping[str, Path], options: Mapping[str, Any]) -> list[Pair]:
    """Parse the STS benchmark, tab-separated despite the names of its files (``sts-dev.csv``).

    Some rows have two more columns, on licences. Quotes are text: a reader that interprets them keeps only 1,119 of the
    1,379 test rows. The id is ``sts-test/<line>``.
    """
    columns = Columns(("genre", "file", "year", "number", "score", "left", "right"), widths=(7, 9))
    ids = Ids()
    pairs = []
    for name, path in files.items():
        for row in columns.read(path, ids):
            pair_id = row.unique(f"{PurePosixPath(name).stem}/{row.line}")
            score = row.number("score", _STS_SCALE)
            pairs.append(Pair(pair_id, row.text("left"), row.text("right"), score))
    return pairs


def parse_sick(files: Mapping[str, Path], options: Mapping[str, Any]) -> list[Pair]:
    """Parse SICK relatedness, as three files (SemEval 2014) or as the single ``SICK.txt`` with a column of splits.

    The option ``semeval_set`` (``train``, ``dev``, ``test``) names the split to take from the single file. The id is
    SICK's own pair number.
    """
    columns = Columns(("pair_ID", "sentence_A", "sentence_B", "relatedness_score"), header="order")
    splits = {"TRAIN": "train", "TRIAL": "dev", "TEST": "test"}
    split = options.get("semeval_set")
    pairs = []
    for row in columns.read_all(files):
        # Only ``SICK.txt`` has this column.
        if "SemEval_set" in row.values:
            if split not in list(splits.values()):
                raise DataFormatError(
                    f"{row.path} holds all splits; the option semeval_set must be one of "
                    f"{', '.join(splits.values())}."
                )
            if row.label("SemEval_set", splits) != split:
                continue
        pair_id = row.unique(row.text("pair_ID"))
        gold = row.number("relatedness_score", (1, 5))
        pairs.append(Pair(pair_id, row.text("sentence_A"), row.text("sentence_B"), gold))
    return pairs


def parse_qnli(files: Mapping[str, Path], options: Mapping[str, Any]) -> list[Pair]:
    """Parse a labelled file of GLUE's QNLI (``dev.tsv``); gold is 1 if the sentence answers the question, else 0.

    Quotes are text: a reader that interprets them keeps only 5,398 of 5,463 rows. The id is the data set's.
    """
    columns = Columns(("index", "question", "sentence", "label"), header="exact")
    labels = {"entailment": 1.0, "not_entailment": 0.0}
    pairs = []
    for row in columns.read_all(files):
        pair_id = row.unique(row.values["index"])
        gold = row.label("label", labels)
        pairs.append(Pair(pair_id, row.text("question"), row.text("sentence"), gold))
    return pairs


_QQP_COLUMNS = ("id", "qid1", "qid2", "question1", "question2", "is_duplicate")


def parse_qqp(files: Mapping[str, Path], options: Mapping[str, Any]) -> list[Pair]:
    """Parse Quora Question Pairs; gold is 1 if the questions are duplicates, else 0. The id is the data set's.

    Quora's ``quora_duplicate_questions.tsv``, Kaggle's ``train.csv`` and GLUE's ``train.tsv`` have the same columns,
    separated by tabs or by commas, as in the header. Quotes follow RFC 4180; white space in a question becomes single
    spaces. Pairs with an empty question are left out (three in all of QQP). The option ``sample`` is the number of
    pairs to draw at random (0: all). The pairs whose ids have the lowest SHA-256 are drawn, in file order, so that the
    sample is the same from every edition.
    """
    pairs = []
    ids = Ids()
    for path in files.values():
        for row in _quoted_rows(path, ids):
            gold = row.label("is_duplicate", {"0": 0.0, "1": 1.0})
            pair_id = row.unique(row.text("id"))
            if row.values["question1"] and row.values["question2"]:
                pairs.append(Pair(pair_id, row.text("question1"), row.text("question2"), gold))
    size = whole_number(options, "sample", 0) or len(pairs)
    if size > len(pairs):
        raise DataFormatError(
            f"{', '.join(files)}: a sample of {size} pairs cannot be drawn from {len(pairs)}."
        )

    def checksum(index: int) -> bytes:
        return hashlib.sha256(pairs[index].id.encode()).digest()

    drawn = sorted(range(len(pairs)), key=checksum)[:size]
    return [pairs[index] for index in sorted(drawn)]


def parse_qqp_duplicates(files: Mapping[str, Path], options: Mapping[str, Any]) -> list[Pair]:
    """Parse pairs of QQP that are all duplicates, and turn the second half into pairs with gold 0.

    Each pair of the second half gets the second question of the next pair in that half, and the last pair gets that of
    the first. The id of such a pair is made of both ids: ``1+2``.
    """
    duplicates = parse_qqp(files, options)
    for pair in duplicates:
        if pair.gold != 1:
            raise DataFormatError(
                f"{', '.join(files)}: pair {pair.id} is not a duplicate, and all must be."
            )
    half = (len(duplicates) + 1) // 2
    pairs = duplicates[:half]
    second_half = duplicates[half:]
    next_pairs = second_half[1:] + second_half[:1]
    for pair, next_pair in zip(second_half, next_pairs, strict=True):
        pair_id = f"{pair.id}+{next_pair.id}"
        pairs.append(Pair(pair_id, pair.left, next_pair.right, 0.0))
    return pairs


def _quoted_rows(path: Path, ids: Ids) -> Iterator[TableRow]:
    """Yield the rows of a table of QQP, in which quoted fields may hold line ends."""
    lines = read_lines(path)
    header = lines[0] if lines else ""
    separator = "\t" if "\t" in header else ","
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


_WordPairs = dict[str, tuple[str, str, float]]
"""Pairs of words of one language with their score, by id."""


def parse_multisimlex(files: Mapping[str, Path], options: Mapping[str, Any]) -> list[Pair]:
    """Parse the official tables ``translation.csv`` and ``scores.csv``, with one row per pair in the same order.

    The words of language XXX are in the columns ``XXX 1`` and ``XXX 2`` of ``translation.csv``; the mean score is in
    the column ``XXX`` of ``scores.csv`` (as in Mirror-BERT's released code). The option ``languages`` lists one code,
    or two for cross-lingual pairs. The id is the row number, followed by the direction of cross-lingual pairs.
    """
    paths = {PurePosixPath(name).name: path for name, path in files.items()}
    missing = {"translation.csv", "scores.csv"} - paths.keys()
    if missing:
        raise DataFormatError(f"Multi-SimLex: no file named {', '.join(sorted(missing))}.")
    tables = []
    for code in _languages(options):
        word_columns = Columns((f"{code} 1", f"{code} 2"), header="order", separator=",")
        word_rows = word_columns.read(paths["translation.csv"])
        score_columns = Columns((code,), header="order", separator=",")
        score_rows = score_columns.read(paths["scores.csv"])
        if len(word_rows) != len(score_rows):
            raise DataFormatError(
                f"{paths['translation.csv']} has {len(word_rows)} rows, scores.csv has {len(score_rows)}."
            )
        table: _WordPairs = {}
        for row, score_row in zip(word_rows, score_rows, strict=True):
            left = _single_spaced(row.text(f"{code} 1"))
            right = _single_spaced(row.text(f"{code} 2"))
            # The header is line 1.
            table[str(row.line - 1)] = left, right, score_row.number(code, _SIMLEX_SCALE)
        tables.append(table)
    return _pairs(tables)


def parse_multisimlex_concepticon(
    files: Mapping[str, Path], options: Mapping[str, Any]
) -> list[Pair]:
    """Parse Concepticon's list ``Vulic-2020-2244.tsv``, which has one row per concept instead of one per pair.

    A row lists the concept's occurrences as ``pair:side`` (``SIMLEX_IDS``: ``203:2 5:1``), and for each language a word
    (``ENGLISH_IN_SOURCE``) and a score (``ENGLISH_SCORE``) of each occurrence. Spaces separate words and also the parts
    of a word; the concept's forms (``ENGLISH``: ``form (other form/other form)``) show where to split. That edition
    writes ``[null]`` for the word "null", having taken it for a missing value. The option ``languages`` lists one or
    two columns (``ENGLISH``). Ids are those of ``parse_multisimlex``.
    """
    path = only_file(files, "multisimlex-concepticon")
    tables = []
    for language in _languages(options):
        columns = Columns(
            ("SIMLEX_IDS", language, f"{language}_IN_SOURCE", f"{language}_SCORE"), header="order"
        )
        words_of_pairs: dict[str, dict[str, str]] = {}  # by id and side
        scores: dict[str, float] = {}
        for row in columns.read(path):
            for occurrence in _occurrences(row, language):
                pair_id = occurrence.pair_id
                words = words_of_pairs.setdefault(pair_id, {})
                score = scores.setdefault(pair_id, occurrence.score)
                if occurrence.side in words or score != occurrence.score:
                    raise row.error(f"pair {pair_id} repeats or contradicts an earlier line")
                words[occurrence.side] = occurrence.word
        table: _WordPairs = {}
        for pair_id in sorted(words_of_pairs, key=int):
            words = words_of_pairs[pair_id]
            if len(words) != 2:
                raise DataFormatError(
                    f"{path}: pair {pair_id} has {len(words)} word(s) in {language}, not 2."
                )
            table[pair_id] = words["1"], words["2"], scores[pair_id]
        tables.append(table)
    return _pairs(tables)


class _Occurrence(NamedTuple):
    """An occurrence of a concept: id of the pair, side (``1`` or ``2``), word, and score of the pair."""

    pair_id: str
    side: str
    word: str
    score: float


def _occurrences(row: TableRow, language: str) -> Iterator[_Occurrence]:
    """Yield the occurrences of the concept of a row."""
    places = row.values["SIMLEX_IDS"].split(" ")
    forms = row.values[language]
    text = row.values[f"{language}_IN_SOURCE"]
    scores = row.values[f"{language}_SCORE"].split(" ")
    words = _split_into_forms(text, len(places), _forms(forms))
    if words is None or len(scores) != len(places):
        raise row.error(f"{shown(text)} cannot be cut into {len(places)} words of {shown(forms)}")
    for place, word, score in zip(places, words, scores, strict=True):
        pair, _, side = place.partition(":")
        if parse_index(pair) < 0 or side not in ("1", "2"):
            raise row.error(f"{shown(place)} is not a place such as 203:2")
        value = parse_number(score, row.path, row.line, *_SIMLEX_SCALE)
        yield _Occurrence(pair, side, word, value)


def _forms(text: str) -> set[str]:
    """Return the forms of a concept.

    ``a (b/c)`` has a, b, c, and the whole text, because words may contain brackets.
    """
    if text == "[null]":
        return {""}
    forms = {text}
    main, bracket, others = text.removesuffix(")").partition(" (")
    if bracket and text.endswith(")"):
        forms |= {main, *others.split("/")}
    return {_single_spaced(form) for form in forms} - {""}


def _split_into_forms(text: str, n: int, forms: set[str]) -> list[str] | None:
    """Split a text into ``n`` of the forms; return ``None`` if that is impossible or ambiguous."""
    # An empty form is the word "null", which the edition has as a missing value: the text is then empty, too.
    if forms == {""}:
        return ["null"] if n == 1 and not text else None
    tokens = text.split()
    lengths = {len(form.split()) for form in forms}
    # splits[end]: ways to split the first `end` tokens into as many words as rounds are done. Two show an ambiguity, so
    # no more are kept.
    splits: dict[int, list[tuple[str, ...]]] = {0: [()]}
    for _ in range(n):
        longer_splits: dict[int, list[tuple[str, ...]]] = {}
        for start, words_before in splits.items():
            for length in lengths:
                end = start + length
                word = " ".join(tokens[start:end])
                if end <= len(tokens) and word in forms:
                    extended = [(*words, word) for words in words_before]
                    longer_splits[end] = (longer_splits.get(end, []) + extended)[:2]
        splits = longer_splits
    splits_of_text = splits.get(len(tokens), [])
    if len(splits_of_text) != 1:
        return None
    return list(splits_of_text[0])


def _single_spaced(text: str) -> str:
    return " ".join(text.split())


def _languages(options: Mapping[str, Any]) -> list[str]:
    languages = options.get("languages")
    if not isinstance(languages, list) or len(languages) not in (1, 2):
        raise DataFormatError("Multi-SimLex: the option 'languages' must list one or two columns.")
    return [str(language) for language in languages]


def _pairs(tables: list[_WordPairs]) -> list[Pair]:
    """Return the pairs of one language, or the cross-lingual pairs of two."""
    pairs = []
    if len(tables) == 1:
        for pair_id, (left, right, score) in tables[0].items():
            pairs.append(Pair(pair_id, left, right, score))
        return pairs
    for pair_id, (left, right, score) in tables[0].items():
        other_left, other_right, other_score = tables[1][pair_id]
        # Scores are means of a dozen integers; rounding makes a difference of exactly 1.2 count as 1.2.
        if round(abs(score - other_score), 9) <= _MAX_DIFFERENCE:
            mean = round((score + other_score) / 2, 9)  # equal means tie, whatever their last bit
            pairs += [
                Pair(f"{pair_id}/12", left, other_right, mean),
                Pair(f"{pair_id}/21", right, other_left, mean),
            ]
    return pairs
