"""A user's own tables, of pairs of texts and of words in context."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest
from helpers.parsed_files import run, simple

from mirrorbench.core.encoder_protocol import TextInput
from mirrorbench.core.errors import DataFormatError
from mirrorbench.data.items import ContextPair, Pair, RatedContexts

COLUMNS = {"left": 0, "right": 1, "gold": 2}
SCWS = (
    '1\tBrazil\tn\tnut\tn\tto <b> Brazil </b> .\t<b> nut </b> "s\t1.1\t0\t2\n'
    "7\tto be\tv\tis\tv\twas <b>to be</b>\tit <b> is</b> not <b>being </b> .\t10\t10\t10\n"
)


def table(
    folder: Path, form: str, content: str | bytes, name: str = "t", **options: Any
) -> list[Any]:
    return run(
        "table",
        folder,
        {name: content},
        **({"format": form, "columns": COLUMNS, "scale": [0, 5]} | options),
    )


def test_csv_tsv_and_compressed_jsonl_tables_are_read(tmp_path: Path) -> None:
    got = table(tmp_path, "csv", 'Пёс.,x,2.5\r\n"Кот, ""да"".",y,0\r\n', "ru.csv")
    assert simple(got) == [("ru/1", "Пёс.", "x", 2.5, ""), ("ru/2", 'Кот, "да".', "y", 0.0, "")]
    columns = {"left": "a", "right": "b", "gold": "g", "id": "id", "subset": "part"}
    got = table(
        tmp_path,
        "tsv",
        'id\ta\tb\tg\tpart\nx1\tnull\t"NA\t0.5\tnoun\n',
        header=True,
        columns=columns,
    )
    assert simple(got) == [("x1", "null", '"NA', 0.5, "noun")]
    rows = [{"s": "a", "t": "b\n", "n": 1}, {"s": "c", "t": "d", "n": "2.5", "more": []}]
    content = gzip.compress("".join(json.dumps(row) + "\n" for row in rows).encode())
    got = table(
        tmp_path, "jsonl", content, "t.jsonl.gz", columns={"left": "s", "right": "t", "gold": "n"}
    )
    assert simple(got) == [("t/1", "a", "b\n", 1.0, ""), ("t/2", "c", "d", 2.5, "")]


def contexts(folder: Path, content: str, name: str = "t.tsv", **options: Any) -> list[Any]:
    usual = {"format": "tsv", "columns": COLUMNS, "marks": ["<b>", "</b>"]}
    return run("table", folder, {name: content}, **(usual | options))


def test_scws_format_is_read_with_its_targets(tmp_path: Path) -> None:
    found = contexts(
        tmp_path, SCWS, columns={"id": 0, "left": 5, "right": 6, "gold": 7}, scale=[0, 10]
    )
    rows = [line.split("\t") for line in SCWS.splitlines()]
    assert [type(pair) for pair in found] == [RatedContexts] * 2
    assert [(pair.id, pair.rating) for pair in found] == [(row[0], float(row[7])) for row in rows]
    for pair, row in zip(found, rows, strict=True):
        for side, marked in ((pair.left, row[5]), (pair.right, row[6])):
            assert side.text == re.sub("</?b>", "", marked)
            assert [side.text[a:b] for a, b in side.spans] == re.findall(
                r"<b>\s*(.*?)\s*</b>", marked
            )


def test_context_tables_read_labels_and_splits(tmp_path: Path) -> None:
    lines = "a [bank]\t[bank]\tyes\n[b]\tc [b]\tno\n"
    columns = COLUMNS | {"split": 3}
    one = contexts(tmp_path, lines, "dev.tsv", marks=["[", "]"], labels={"yes": 1, "no": 0})
    left, right = TextInput("a bank", ((2, 6),)), TextInput("bank", ((0, 4),))
    assert one[0] == ContextPair("dev/1", left, right, 1, "dev")
    assert [(pair.id, pair.label, pair.split) for pair in one] == [
        ("dev/1", 1, "dev"),
        ("dev/2", 0, "dev"),
    ]
    lines = "[a]\t[b]\t?\ttest\n[b]\tc [b]\tno\tvalidation\n"
    two = contexts(tmp_path, lines, marks=["[", "]"], labels={"?": None, "no": 0}, columns=columns)
    assert [(pair.label, pair.split) for pair in two] == [(None, "test"), (0, "dev")]
    texts = contexts(tmp_path, "a [b]\tc\tyes\n", marks=None, labels={"yes": 1, "no": 0})
    assert texts == [Pair("t/1", "a [b]", "c", 1.0)]


@pytest.mark.parametrize(
    "labels", [{True: 1, False: 0}, {1: 1, 0: 0}, {"true": 1, "false": 0, "1": 1, "0": 0}]
)
def test_json_labels_may_be_booleans_or_numbers(labels: dict[Any, int], tmp_path: Path) -> None:
    known = {str(label).lower() for label in labels}
    rows = [
        {"l": "<b>a</b>", "r": "<b>b</b>", "g": g}
        for g in (True, False, 1, 0, "1")
        if str(g).lower() in known
    ]
    content = "".join(json.dumps(row) + "\n" for row in rows)
    columns = {"left": "l", "right": "r", "gold": "g"}
    found = contexts(
        tmp_path, content, "test.jsonl", format="jsonl", columns=columns, labels=labels
    )
    assert [pair.label for pair in found] == [int(row["g"]) for row in rows]


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        ("a\t<b>b</b>\t1\n", {}, r"t\.tsv, line 1: no word between <b> and </b> in 'a'"),
        ("<b>a</b>\t<b> </b>\t1\n", {}, "no word between <b> and </b> in '<b> </b>'"),
        ("<b>a</b>\t<b>a</b>\t2\n", {}, "lies outside the scale"),
        (
            "<b>a</b>\t<b>a</b>\t2\n",
            {"scale": [0, 1], "labels": {"2": 1}},
            "either 'scale' .* or 'labels'",
        ),
        ("<b>a</b>\t<b>a</b>\t2\n", {"labels": {"2": 2}}, "labels: 2 is not one of"),
        ("a\ta\t2\n", {"labels": {"2": None}, "marks": None}, "a label that is null"),
        ("<b>a</b>\t<b>a</b>\tx\n", {"labels": {"y": 1}}, "line 1: the label 'x' is none of y"),
        (
            "<b>a</b>\t<b>a</b>\ty\n",
            {"labels": {"y": 1}},
            r"the split 't' .* is none of train, dev",
        ),
        ("<b>a</b>\t<b>a</b>\t1\n", {"marks": "<b>"}, "marks: must be of type list"),
        ("<b>a</b>\t<b>a</b>\t1\n", {"marks": ["<b>", ""]}, "marks.2.: Expected `str` of length"),
        ("<b>a</b>\t<b>a</b>\t1\n", {"rows": "2"}, "Parser 'table': rows: must be of type int"),
    ],
)
def test_invalid_context_table_is_refused(
    content: str, options: dict[str, Any], message: str, tmp_path: Path
) -> None:
    scale = {} if "labels" in options else {"scale": [0, 1]}
    with pytest.raises(DataFormatError, match=message):
        contexts(tmp_path, content, **(scale | options))
