"""JSON files that are one document: as pandas, Label Studio and Argilla write them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mirrorbench.core.errors import DataFormatError
from mirrorbench.data.readers.rows import read_rows

ROWS = [{"text": "a cat", "label": "x"}, {"text": 'a\n"dog"', "label": "y"}]


def rows_of(path: Path) -> tuple[list[tuple[Any, ...]], list[str]]:
    """Texts and labels of a file, and the remarks on it."""
    notes: list[str] = []
    found = [values for _, values in read_rows(str(path), ["text", "label"], notes.append)]
    return found, [note.removeprefix(f"{path}: ") for note in notes]


@pytest.mark.parametrize("orient", ["records", "columns", "index", "split", "table"])
@pytest.mark.parametrize("indent", [None, 2])
def test_tables_of_pandas_are_read(tmp_path: Path, orient: Any, indent: int | None) -> None:
    pandas = pytest.importorskip("pandas")
    path = tmp_path / "a.json"
    pandas.DataFrame(ROWS).to_json(path, orient=orient, indent=indent)
    assert rows_of(path) == ([tuple(row.values()) for row in ROWS], [])


def test_lines_and_arrays_are_told_apart(tmp_path: Path) -> None:
    """In either suffix; a file of one line with one object is a row."""
    path = tmp_path / "a.json"
    expected = [tuple(row.values()) for row in ROWS]
    for name in ("a.json", "a.jsonl"):
        path = tmp_path / name
        for text in ("\n".join(map(json.dumps, ROWS)), json.dumps(ROWS)):
            path.write_text(text)
            assert rows_of(path)[0] == expected
        path.write_text(json.dumps(ROWS[0]))
        assert rows_of(path)[0] == expected[:1]


def test_answers_in_label_studio_are_columns(tmp_path: Path) -> None:
    """By the name of their control; without those that were skipped or not given."""

    def task(text: str, *answers: str, skipped: bool = False) -> dict[str, Any]:
        result = [
            {
                "from_name": "label",
                "to_name": "text",
                "type": "choices",
                "value": {"choices": list(answers)},
            }
        ]
        return {
            "id": 1,
            "data": {"text": text},
            "annotations": [{"id": 2, "was_cancelled": skipped, "result": result * bool(answers)}],
        }

    path = tmp_path / "a.json"
    path.write_text(
        json.dumps([task("a cat", "x"), task("b", "y", skipped=True), task("c"), task("d", "y")])
    )
    assert rows_of(path) == (
        [("a cat", "x"), ("d", "y")],
        [
            "read as an export of Label Studio, the first answer to each question",
            "without an answer to 'label', left out: 2",
        ],
    )


def test_submitted_responses_of_argilla_are_columns(tmp_path: Path) -> None:
    def record(text: str, *statuses: str) -> dict[str, Any]:
        responses = [
            {"user_id": "u", "value": f"{text} {status}", "status": status} for status in statuses
        ]
        return {"id": "1", "fields": {"text": text}, "responses": {"label": responses}}

    path = tmp_path / "a.json"
    path.write_text(json.dumps([record("a", "draft", "submitted"), record("b", "draft")]))
    assert rows_of(path) == (
        [("a", "a submitted")],
        [
            "read as an export of Argilla, the first answer to each question",
            "without an answer to 'label', left out: 1",
        ],
    )


def test_array_of_texts_is_a_column_of_texts(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('["a cat",\n "a dog"]')
    assert list(read_rows(str(path))) == [(1, ("a cat",)), (2, ("a dog",))]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[{"text": "a"}, 3]', "record 2: neither a JSON object nor a text"),
        ("[]", "holds no rows"),
        ('[{"text": "a"', "not JSON"),
        ('[{"label": "a"}]', "has no column 'text'"),
        ('{"columns": ["text", "text"], "data": [["a", "b"]]}', "several columns have one name"),
        (
            '{"columns": ["text", "label"], "data": [["a"]]}',
            "record 1: not a value for each column",
        ),
        ('{"columns": [["a", "b"]], "data": [["a"]]}', "names of several parts"),
        ('{"0": {"0": "a", "1": "b"}, "1": {"0": "c", "1": "d"}}', "rows and columns are numbered"),
        (
            '[{"data": {"text": "a"}, "annotations": [{"result": [3]}]}]',
            "not as Label Studio exports",
        ),
        (
            '[{"data": {"text": "a"}, "annotations": [{"result": [{"type": "labels", "from_name": "label", '
            '"value": {"text": "a", "labels": ["x"]}}]}]}]',
            "has no answer",
        ),
    ],
)
def test_other_documents_are_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "a.json"
    path.write_text(text)
    with pytest.raises(DataFormatError, match=message):
        rows_of(path)
