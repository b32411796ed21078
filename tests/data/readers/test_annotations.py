"""Exports of annotation tools, as Label Studio 1.x (label-studio-sdk 2.1) and Argilla 2.8 write them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mirrorbench.core.errors import DataFormatError
from mirrorbench.data.readers.annotations import answer_in_cell
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
    added = {"annotator": "a@b", "annotation_id": 10, "lead_time": 1.0, "id": 1}
    records = [
        {"text": "a", **added, "rating": [{"rating": 4}], "same": "yes", "size": [{"number": 2}]},
        {"text": "b", **added, "rating": [{"rating": 0}], "same": {"choices": ["x", "y"]}},
        {"text": "c", **added, "same": "no"},
    ]
    path = write(tmp_path / "a.json", records)
    rows, notes = read(path, "text", "rating")
    assert rows == [("a", 4), ("b", 0)]
    assert notes[1:] == ["without an answer to 'rating', left out: 1"]
    assert read(path, "size")[0] == [(2,)]
    assert read(path, "same")[0] == [("yes",), ({"choices": ["x", "y"]},), ("no",)]
    assert [answer_in_cell(cell) for cell in ('[{"rating":4}]', '[{"number": -1.5}]', "[4]")] == [
        "4",
        "-1.5",
        "[4]",
    ]


@pytest.mark.parametrize("ending", [".json", ".jsonl"])
def test_question_without_an_answer_leaves_a_record_out_where_it_is_read(
    tmp_path: Path, ending: str
) -> None:
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


def test_flat_records_of_argilla_have_the_first_submitted_response(tmp_path: Path) -> None:
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


def test_records_of_another_form_among_an_export_are_an_error(tmp_path: Path) -> None:
    records = [{"fields": {"text": "a"}, "responses": {}}, {"text": "b"}]
    with pytest.raises(DataFormatError, match="record 2: not as Argilla exports it"):
        read(write(tmp_path / "a.json", records), "text")
    with pytest.raises(DataFormatError, match="this export of Argilla has no answer"):
        read(write(tmp_path / "b.json", records[:1]), "text")
