"""Exports of annotation tools, which nest texts and answers: Label Studio (JSON, JSON-MIN, CSV) and Argilla."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from mirrorbench.core.errors import DataFormatError
from mirrorbench.data.readers.columns import line_error

Row = dict[str, Any]
UNANSWERED = object()
"""The value of a question that was not answered for a record."""


class Tool(NamedTuple):
    """An export format of a tool."""

    name: str
    """The name of the tool."""
    wrote: Callable[[Row], bool]
    """Returns whether a record has this format."""
    read: Callable[[Row], tuple[Row, Row]]
    """Returns the texts of a record, and its answers by question."""
    repeats_tasks: bool = False
    """Whether a task has a record for each annotator."""


_FURTHER_ANSWERS = "further answers to the same texts, left out"


def tool_of(record: Any) -> Tool | None:
    """Return the tool that wrote a record; ``None`` if no known tool did."""
    if not isinstance(record, dict):
        return None
    for tool in _TOOLS:
        if tool.wrote(record):
            return tool
    return None


def rows_of_export(
    tool: Tool, records: Sequence[tuple[int, Any]], source: str, note: Callable[[str], None]
) -> list[tuple[int, Row]]:
    """Return the texts and answers of numbered records as rows.

    All rows have the questions of all records, with ``UNANSWERED`` where a record has no answer. ``note`` is called with
    remarks on the tool and on further answers.

    Raises:
        DataFormatError: a record is not as the tool writes it, or none has an answer.
    """
    answered: list[tuple[int, Row, Row]] = []
    seen = set[Any]()
    n_further = 0
    for number, record in records:
        try:
            if not tool.wrote(record):
                raise ValueError("another format than that of the first record")
            # If a task has a record for each annotator, its first one counts.
            task = record["id"] if tool.repeats_tasks else number
            if task in seen:
                n_further += 1
                continue
            seen.add(task)
            texts, answers = tool.read(record)
            answered.append((number, texts, answers))
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            problem = f"{source}, record {number}: not as {tool.name} exports it."
            raise DataFormatError(problem) from error
    # A row of all questions of the export, each without an answer.
    unanswered: Row = {}
    for _, _, answers in answered:
        unanswered.update(dict.fromkeys(answers, UNANSWERED))
    if not unanswered:
        problem = f"{source}: this export of {tool.name} has no answer."
        raise DataFormatError(problem, "Choices, ratings, numbers and texts are read.")
    note(f"{source}: read as an export of {tool.name}, the first answer to each question")
    if n_further:
        note(f"{source}: {_FURTHER_ANSWERS}: {n_further:,}")
    return [(number, {**texts, **unanswered, **answers}) for number, texts, answers in answered]


def _single_value(value: Any) -> Any:
    """Return the value in a list of one; several choices are not a single answer and stay a list."""
    return value[0] if isinstance(value, list) and len(value) == 1 else value


# Label Studio

_ANSWERS = {
    "choices": "choices",
    "rating": "rating",
    "number": "number",
    "textarea": "text",
    "pairwise": "selected",
}
"""The key of an answer's value, by the type of the answer; spans of a text are not answers."""
_JSON_MIN_KEYS = {"annotation_id", "annotator", "id", "lead_time"}
"""Keys that JSON-MIN, CSV and TSV add to the data of a task."""
_NUMBER_CELL = re.compile(r'\[\{"(?:rating|number)": ?(-?[0-9.]+)\}\]')
"""An answer in a cell of CSV or TSV that is not a choice or a text."""


def _is_label_studio(record: Row) -> bool:
    return isinstance(record.get("data"), dict) and isinstance(record.get("annotations"), list)


def _read_label_studio(record: Row) -> tuple[Row, Row]:
    """Return the data, and the answers by the names of their controls.

    The answers are those of the annotation that is the ground truth, or else of the first one.
    """
    annotations = [each for each in record["annotations"] if not each.get("was_cancelled")]
    if not annotations:
        return record["data"], {}
    true_annotations = [each for each in annotations if each.get("ground_truth")]
    annotation = (true_annotations or annotations)[0]
    answers: Row = {}
    for result in annotation["result"]:
        answer_type = result.get("type")
        if answer_type in _ANSWERS:
            value = _single_value(result["value"][_ANSWERS[answer_type]])
            nothing_chosen = value == []
            if not nothing_chosen:
                answers.setdefault(result["from_name"], value)
    return record["data"], answers


def _read_label_studio_min(record: Row) -> tuple[Row, Row]:
    """Return the values of a flat record, in which answers stand beside the data, as answers."""
    return {}, {name: _without_object(value) for name, value in record.items()}


def _without_object(value: Any) -> Any:
    """Return the rating or number in ``[{"rating": 4}]``; any other value as it is."""
    result = _single_value(value)
    if isinstance(result, dict) and len(result) == 1 and result.keys() <= {"rating", "number"}:
        return next(iter(result.values()))
    return value


def is_table_of_label_studio(columns: Collection[str]) -> bool:
    """Return whether columns are those of a CSV or TSV file that Label Studio wrote."""
    return {*columns} >= _JSON_MIN_KEYS


def answers_in_table(
    rows: Iterable[tuple[int, tuple[Any, ...]]], source: str, note: Callable[[str], None]
) -> Iterator[tuple[int, tuple[Any, ...]]]:
    """Yield the first answered row of each task in a table of Label Studio, with the answers as simple values.

    Args:
        rows: line numbers, each with the values of the columns that are read and, last, the id of the task.
        source: name of the file, for messages.
        note: called with remarks on rows that are left out.

    Raises:
        DataFormatError: an answer of several choices.
    """
    seen = set[Any]()
    n_repeated = 0
    n_unanswered = 0
    for number, (*values, task) in rows:
        if task in seen:
            n_repeated += 1
        elif not all(values):
            n_unanswered += 1
        else:
            seen.add(task)
            yield number, tuple(_answer(value, source, number) for value in values)
    if n_repeated:
        note(f"{source}: {_FURTHER_ANSWERS}: {n_repeated:,}")
    if n_unanswered:
        note(f"{source}: without an answer, left out: {n_unanswered:,}")


def _answer(cell: str, source: str, number: int) -> str:
    """Return the rating or number in a cell such as ``[{"rating":4}]``; any other text as it is."""
    if cell.startswith('{"choices":'):
        raise line_error(source, number, "an answer of several choices")
    match = _NUMBER_CELL.fullmatch(cell)
    return match[1] if match else cell


# Argilla

_RESPONSES = ".responses"


def _is_argilla(record: Row) -> bool:
    return isinstance(record.get("fields"), dict) and isinstance(record.get("responses"), dict)


def _read_argilla(record: Row) -> tuple[Row, Row]:
    """Return the fields, and the first submitted response to each question."""
    answers = {}
    for question, responses in record["responses"].items():
        submitted = [each for each in responses if each.get("status", "submitted") == "submitted"]
        if submitted:
            answers[question] = _single_value(submitted[0]["value"])
    return record["fields"], answers


def _is_flat_argilla(record: Row) -> bool:
    for name in record:
        if name.endswith(_RESPONSES) and f"{name}.users" in record and f"{name}.status" in record:
            return True
    return False


def _read_flat_argilla(record: Row) -> tuple[Row, Row]:
    """Return texts and answers of a flat record (``label.responses``, ``label.responses.status``) of a data set."""
    texts = {name: value for name, value in record.items() if _RESPONSES not in name}
    answers = {}
    for name in record:
        if not name.endswith(_RESPONSES):
            continue
        values = record[name] or []
        statuses = record[f"{name}.status"] or []
        pairs = zip(values, statuses, strict=True)
        submitted = [value for value, status in pairs if status == "submitted"]
        if submitted:
            answers[name.removesuffix(_RESPONSES)] = _single_value(submitted[0])
    return texts, answers


_TOOLS = (
    Tool("Label Studio", _is_label_studio, _read_label_studio),
    Tool(
        "Label Studio", lambda record: record.keys() >= _JSON_MIN_KEYS, _read_label_studio_min, True
    ),
    Tool("Argilla", _is_argilla, _read_argilla),
    Tool("Argilla", _is_flat_argilla, _read_flat_argilla),
)
