"""Exports of annotation tools, as Label Studio 1.x (label-studio-sdk 2.1) and Argilla 2.8 write them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mirrorbench.core.errors import DataFormatError
from mirrorbench.data.readers.annotations import answers_in_table, is_table_of_label_studio
from mirrorbench.data.readers.rows import read_rows


def read(path: Path, *columns: str) -> tuple[list[tuple[Any, ...]], list[str]]:
    notes: list[str] = []
    rows = [values for _, values in read_rows(str(path), columns, notes.append)]
    return rows, [note.removeprefix(f"{path}: ") for note in notes]


def write(path: Path, records: list[dict[str, Any]]) -> Path:
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(record) + "\n" for record in records))
    else:
        path.write_text(json.dumps(records))
    return path


def test_ratings_of_json_min_are_numbers(tmp_path: Path) -> None:
    added = {"annotator": "a@b", "annotation_id": 10, "lead_time": 1.0}
    first, second, third = ({**added, "text": text, "id": text} for text in "abc")
    records = [
        {**first, "rating": [{"rating": 4}], "same": "yes", "size": [{"number": 2}]},
        {**second, "rating": [{"rating": 0}], "same": {"choices": ["x", "y"]}},
        {**third, "same": "no"},
        {**first, "rating": [{"rating": 1}], "same": "no"},  # of another annotator
    ]
    path = write(tmp_path / "a.json", records)
    rows, notes = read(path, "text", "rating")
    assert rows == [("a", 4), ("b", 0)]
    assert notes[1:] == [
        "further answers to the same texts, left out: 1",
        "without an answer to 'rating', left out: 1",
    ]
    assert read(path, "size")[0] == [(2,)]
    assert read(path, "same")[0] == [("yes",), ({"choices": ["x", "y"]},), ("no",)]


def test_label_studio_table_gives_first_answer_of_task() -> None:
    assert is_table_of_label_studio(["annotation_id", "annotator", "id", "lead_time", "text"])
    assert not is_table_of_label_studio(["id", "text"])
    cells = [("a", '[{"rating":4}]', "1"), ("b", "", "2"), ("a", '[{"rating":1}]', "1")]
    cells += [("c", '[{"number": -1.5}]', "3"), ("d", "[4]", "4")]
    notes: list[str] = []
    assert list(answers_in_table(enumerate(cells, start=2), "x.csv", notes.append)) == [
        (2, ("a", "4")),
        (5, ("c", "-1.5")),
        (6, ("d", "[4]")),
    ]
    assert notes == [
        "x.csv: further answers to the same texts, left out: 1",
        "x.csv: without an answer, left out: 1",
    ]
    with pytest.raises(DataFormatError, match=r"x\.csv, line 2: an answer of several choices"):
        list(answers_in_table([(2, ("a", '{"choices":["x","y"]}', "1"))], "x.csv", print))


@pytest.mark.parametrize("ending", [".json", ".jsonl"])
def test_record_without_answer_to_a_question_is_skipped(tmp_path: Path, ending: str) -> None:
    def record(text: str, **answers: str) -> dict[str, Any]:
        responses = {name: [{"value": answer}] for name, answer in answers.items()}
        return {"id": text, "fields": {"text": text}, "responses": responses}

    records = [record("a", label="x"), record("b", label="y", note="!"), record("c")]
    path = write(tmp_path / f"a{ending}", records)
    rows, notes = read(path, "text", "label")
    assert rows == [("a", "x"), ("b", "y")]
    assert notes == [
        "read as an export of Argilla, the first answer to each question",
        "without an answer to 'label', left out: 1",
    ]
    assert read(path, "text")[0] == [("a",), ("b",), ("c",)]
    assert read(path, "note")[0] == [("!",)]


def test_flat_argilla_record_gives_first_submitted_response(tmp_path: Path) -> None:
    def record(text: str, values: list[str] | None, *statuses: str) -> dict[str, Any]:
        return {
            "text": text,
            "label.responses": values,
            "label.responses.users": ["u"] * len(statuses),
            "label.responses.status": list(statuses) or None,
        }

    records = [record("a", ["x", "y"], "draft", "submitted"), record("b", None)]
    path = write(tmp_path / "a.jsonl", records)
    assert read(path, "text", "label")[0] == [("a", "y")]


def test_foreign_record_in_an_export_is_refused(tmp_path: Path) -> None:
    records = [{"fields": {"text": "a"}, "responses": {}}, {"text": "b"}]
    with pytest.raises(DataFormatError, match="record 2: not as Argilla exports it"):
        read(write(tmp_path / "a.json", records), "text")
    flat = {
        "label.responses": ["x", "y"],
        "label.responses.users": [],
        "label.responses.status": [],
    }
    with pytest.raises(DataFormatError, match="record 1: not as Argilla exports it"):
        read(write(tmp_path / "c.json", [flat, flat]), "text")
    with pytest.raises(DataFormatError, match="this export of Argilla has no answer"):
        read(write(tmp_path / "b.json", records[:1]), "text")
