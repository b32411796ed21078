"""Exports of annotation tools, which nest texts and answers: Label Studio (JSON, JSON-MIN, CSV) and Argilla."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from mirrorbench.core.errors import DataFormatError

Row = dict[str, Any]
UNANSWERED = object()
"""The value of a question that nobody answered for a record."""


class Tool(NamedTuple):
    """A tool, or one of its formats."""

    name: str
    wrote: Callable[[Row], bool]
    """Whether it wrote a record."""
    read: Callable[[Row], tuple[Row, Row]]
    """The texts of a record, and its answers by question."""


def tool_of(record: Any) -> Tool | None:
    """Return the tool that wrote a record; ``None`` for any other."""
    if not isinstance(record, dict):
        return None
    return next((tool for tool in _TOOLS if tool.wrote(record)), None)


def rows_of_export(
    tool: Tool, records: Sequence[tuple[int, Any]], source: str, note: Callable[[str], None]
) -> list[tuple[int, Row]]:
    """Return texts and answers of numbered records, ``UNANSWERED`` where a question of another record has no answer.

    ``note`` is called with a remark on what the records are taken for.

    Raises:
        DataFormatError: a record is not as the tool writes it, or none has an answer.
    """
    read: list[tuple[int, Row, Row]] = []
    for number, record in records:
        try:
            if not tool.wrote(record):
                raise KeyError(number)
            read.append((number, *tool.read(record)))
        except (AttributeError, IndexError, KeyError, TypeError) as error:
            problem = f"{source}, record {number}: not as {tool.name} exports it."
            raise DataFormatError(problem) from error
    questions = dict.fromkeys(question for _, _, answers in read for question in answers)
    if not questions:
        problem = f"{source}: this export of {tool.name} has no answer."
        raise DataFormatError(problem, "Read are choices, ratings, numbers and texts.")
    note(f"{source}: read as an export of {tool.name}, the first answer to each question")
    unanswered = dict.fromkeys(questions, UNANSWERED)
    return [(number, {**texts, **unanswered, **answers}) for number, texts, answers in read]


def _only(value: Any) -> Any:
    """The only one of several choices; several are no single answer and stay a list."""
    return value[0] if isinstance(value, list) and len(value) == 1 else value


# Label Studio

_ANSWERS = {
    "choices": "choices",
    "rating": "rating",
    "number": "number",
    "textarea": "text",
    "pairwise": "selected",
}
"""Where the value of an answer is, by its type; spans of a text are no answers."""
_MIN = {"annotation_id", "annotator", "lead_time"}
"""Keys that JSON-MIN adds to the data of a task."""
_CELL = re.compile(r'\[\{"(?:rating|number)": ?(-?[0-9.]+)\}\]')


def _is_label_studio(record: Row) -> bool:
    return isinstance(record.get("data"), dict) and isinstance(record.get("annotations"), list)


def _of_label_studio(record: Row) -> tuple[Row, Row]:
    """Data, and answers by the names of their controls, of the annotation that is the ground truth, or else the first."""
    done = [own for own in record["annotations"] if not own.get("was_cancelled")]
    done.sort(key=lambda own: not own.get("ground_truth"))
    answers = {
        result["from_name"]: _only(result["value"][_ANSWERS[result["type"]]])
        for result in (done[0]["result"] if done else [])
        if result.get("type") in _ANSWERS
    }
    return record["data"], answers


def _of_label_studio_min(record: Row) -> tuple[Row, Row]:
    """A flat record, in which answers stand beside the data; one that is no text is a list of one object."""
    return {}, {name: _of_result(value) for name, value in record.items()}


def _of_result(value: Any) -> Any:
    """The rating or number in ``[{"rating": 4}]``; any other value as it is."""
    result = _only(value)
    if isinstance(result, dict) and len(result) == 1 and {*result} <= {"rating", "number"}:
        return next(iter(result.values()))
    return value


def answer_in_cell(cell: str) -> str:
    """Return the rating or number in a cell of Label Studio's CSV, ``[{"rating":4}]``; any other text as it is."""
    found = _CELL.fullmatch(cell)
    return found[1] if found else cell


# Argilla

_RESPONSES = ".responses"


def _is_argilla(record: Row) -> bool:
    return isinstance(record.get("fields"), dict) and isinstance(record.get("responses"), dict)


def _of_argilla(record: Row) -> tuple[Row, Row]:
    """Fields, and the first submitted response to each question."""
    answers = {}
    for question, responses in record["responses"].items():
        submitted = [own for own in responses if own.get("status", "submitted") == "submitted"]
        if submitted:
            answers[question] = _only(submitted[0]["value"])
    return record["fields"], answers


def _is_flat_argilla(record: Row) -> bool:
    return any(
        name.endswith(_RESPONSES) and f"{name}.users" in record and f"{name}.status" in record
        for name in record
    )


def _of_flat_argilla(record: Row) -> tuple[Row, Row]:
    """A record of one level, as Argilla makes data sets: ``label.responses``, ``label.responses.status``."""
    texts = {name: value for name, value in record.items() if _RESPONSES not in name}
    answers = {}
    for name in record:
        if name.endswith(_RESPONSES):
            states = record[f"{name}.status"] or []
            submitted = [
                value
                for value, status in zip(record[name] or [], states, strict=True)
                if status == "submitted"
            ]
            if submitted:
                answers[name.removesuffix(_RESPONSES)] = _only(submitted[0])
    return texts, answers


_TOOLS = (
    Tool("Label Studio", _is_label_studio, _of_label_studio),
    Tool("Label Studio", lambda record: record.keys() >= _MIN, _of_label_studio_min),
    Tool("Argilla", _is_argilla, _of_argilla),
    Tool("Argilla", _is_flat_argilla, _of_flat_argilla),
)
