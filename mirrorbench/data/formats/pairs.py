"""Formats of sentence pairs: STS 2012 to 2017, the STS benchmark, SICK, QNLI, and plain tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

from mirrorbench.core.errors import DataFormatError
from mirrorbench.data.cards import whole_number
from mirrorbench.data.formats.columns import Columns, TableRow, by_name, json_rows, parallel_lines
from mirrorbench.data.items import Pair
from mirrorbench.data.textfiles import Ids, is_text, parse_number

_STS_SCALE = (0, 5)


def parse_sts(files: Mapping[str, Path], options: Mapping[str, Any]) -> list[Pair]:
    """SemEval's STS tasks: ``STS.input.X.txt`` holds two sentences per line, ``STS.gs.X.txt`` the score from 0 to 5.

    STS16 has two more columns (option ``columns``: 4), notes on sources. Pairs with a blank gold line (STS15, STS16)
    were not scored and are left out. The id is ``X/<line>``, the subset ``X``.
    """
    width = whole_number(options, "columns", 2, least=2)
    names = r".+\.(?P<part>input|gs)\.(?P<group>.+)\.txt"
    pairs = []
    for subset, parts in by_name(files, names, "STS.input.X.txt or STS.gs.X.txt", ("input", "gs")).items():
        rows = Columns(("left", "right"), widths=(width,)).read(parts["input"])
        for row, gold in zip(rows, parallel_lines(parts["gs"], rows), strict=True):
            if gold.strip():
                score = parse_number(gold.strip(), parts["gs"], row.line, *_STS_SCALE)
                pairs.append(Pair(f"{subset}/{row.line}", row.text("left"), row.text("right"), score, subset))
    return pairs


def parse_stsb(files: Mapping[str, Path], options: Mapping[str, Any]) -> list[Pair]:
    """The STS benchmark: tab-separated despite its names (``sts-dev.csv``); some rows have two more, on licences.

    Quotes are text: a reader that interprets them keeps only 1,119 of the 1,379 test rows. The id is
    ``sts-test/<line>``.
    """
    columns = Columns(("genre", "file", "year", "number", "score", "left", "right"), widths=(7, 9))
    ids = Ids()
    return [
        Pair(
            row.unique(f"{PurePosixPath(name).stem}/{row.line}"),
            row.text("left"),
            row.text("right"),
            row.number("score", _STS_SCALE),
        )
        for name, path in files.items()
        for row in columns.read(path, ids)
    ]


def parse_sick(files: Mapping[str, Path], options: Mapping[str, Any]) -> list[Pair]:
    """SICK relatedness, as three files (SemEval 2014) or as the single ``SICK.txt`` with a column of splits.

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
                raise DataFormatError(f"{row.path} holds all splits; the option semeval_set must be one of {known}.")
            if row.label("SemEval_set", sets) != wanted:
                continue
        identity, gold = row.unique(row.text("pair_ID")), row.number("relatedness_score", (1, 5))
        pairs.append(Pair(identity, row.text("sentence_A"), row.text("sentence_B"), gold))
    return pairs


def parse_qnli(files: Mapping[str, Path], options: Mapping[str, Any]) -> list[Pair]:
    """A labelled file of GLUE's QNLI (``dev.tsv``); gold is 1 if the sentence answers the question, else 0.

    Quotes are text: a reader that interprets them keeps only 5,398 of 5,463 rows. The id is the data set's.
    """
    columns = Columns(("index", "question", "sentence", "label"), header="exact")
    labels = {"entailment": 1.0, "not_entailment": 0.0}
    return [
        Pair(row.unique(row.values["index"]), row.text("question"), row.text("sentence"), row.label("label", labels))
        for row in columns.read_all(files)
    ]


def parse_table(files: Mapping[str, Path], options: Mapping[str, Any]) -> list[Pair]:
    """A user's own pairs in plain tables; ``.gz`` files are decompressed. Anything irregular is a ``DataFormatError``.

    Args:
        files: the tables.
        options: ``format`` (``tsv``: split at tabs, quotes are text; ``csv``: RFC 4180 quoting, one row per line;
            ``jsonl``), ``columns`` (of ``left``, ``right`` and ``gold``, optionally ``id`` and ``subset``: indices from
            0, or names with a header or for ``jsonl``; by default the id is ``<file stem>/<line>``), ``scale`` (least
            and greatest gold value), ``header`` (whether the first line names the columns; default false), ``rows``
            (required number of rows per file; by default not checked).
    """
    columns, scale = _table_options(options)
    pairs = []
    ids = Ids()
    for name, path in files.items():
        stem = PurePosixPath(name).name.split(".")[0]
        rows = [_table_pair(row, columns, scale, stem) for row in _table_rows(path, options, ids)]
        if len(rows) != options.get("rows", len(rows)):
            raise DataFormatError(f"{path}: {len(rows)} rows instead of {options['rows']}.")
        pairs += rows
    return pairs


def _table_options(options: Mapping[str, Any]) -> tuple[Mapping[str, Any], tuple[float, float]]:
    columns, scale, form = options.get("columns"), options.get("scale"), options.get("format")
    # "split" and "corpus" are read by the task.
    unknown = set(options) - {"format", "columns", "scale", "header", "rows", "split", "corpus"}
    problem = ""
    if unknown:
        problem = f"unknown options {', '.join(sorted(unknown))}"
    elif form not in ("tsv", "csv", "jsonl"):
        problem = f"format {form!r} is none of tsv, csv, jsonl"
    elif not isinstance(columns, Mapping) or not {"left", "right", "gold"} <= columns.keys():
        problem = "'columns' must say where left, right, gold are"
    elif not all(isinstance(column, str | int) for column in columns.values()):
        problem = "each of 'columns' is found by a number or a name"
    elif not isinstance(scale, list) or len(scale) != 2 or not all(isinstance(end, int | float) for end in scale):
        problem = "'scale' must be a list of the least and the greatest gold value"
    if problem:
        raise DataFormatError(f"Parser 'table': {problem}.")
    return options["columns"], (float(options["scale"][0]), float(options["scale"][1]))


def _table_rows(path: Path, options: Mapping[str, Any], ids: Ids) -> list[TableRow]:
    if options["format"] == "jsonl":
        return list(json_rows(path, ids))
    separator = "," if options["format"] == "csv" else "\t"
    names = [str(column) for column in dict.fromkeys(options["columns"].values())] if options.get("header") else []
    return Columns(names, header="order" if names else "", separator=separator).read(path, ids)


def _table_pair(row: TableRow, columns: Mapping[str, Any], scale: tuple[float, float], stem: str) -> Pair:
    numeric = {"gold": (int, float), "id": (int,)}  # JSON may hold these as numbers
    values = dict(row.values)
    for role, column in columns.items():
        value = row.values.get(column)
        if isinstance(value, numeric.get(role, ())) and not isinstance(value, bool):
            values[column] = repr(value)
        elif not isinstance(value, str) or not is_text(value):
            raise row.error(f"column {column!r} is missing, or no text")
    row = replace(row, values=values)
    found = {role: row.text(column) for role, column in columns.items()}
    gold = row.number(columns["gold"], scale)
    return Pair(
        row.unique(found.get("id", f"{stem}/{row.line}")), found["left"], found["right"], gold, found.get("subset", "")
    )
