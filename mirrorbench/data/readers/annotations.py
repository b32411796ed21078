"""Exports of annotation tools, which nest texts and answers: Label Studio (JSON, JSON-MIN, CSV) and Argilla."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from mirrorbench.core.errors import DataFormatError
from mirrorbench.data.readers.columns import line_error

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
    repeats_tasks: bool = False
    """Whether a task has a record for each annotator."""


_FURTHER = "further answers to the same texts, left out"


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
    seen = set[Any]()
    n_further = 0
    for number, record in records:
        try:
            if not tool.wrote(record):
                raise KeyError(number)
            task = record["id"] if tool.repeats_tasks else number
            if task in seen:
                n_further += 1
                continue
            seen.add(task)
            read.append((number, *tool.read(record)))
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            problem = f"{source}, record {number}: not as {tool.name} exports it."
            raise DataFormatError(problem) from error
    questions = dict.fromkeys(question for _, _, answers in read for question in answers)
    if not questions:
        problem = f"{source}: this export of {tool.name} has no answer."
        raise DataFormatError(problem, "Read are choices, ratings, numbers and texts.")
    note(f"{source}: read as an export of {tool.name}, the first answer to each question")
    if n_further:
        note(f"{source}: {_FURTHER}: {n_further:,}")
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
_MIN = {"annotation_id", "annotator", "id", "lead_time"}
"""Keys that JSON-MIN, CSV and TSV add to the data of a task."""
_CELL = re.compile(r'\[\{"(?:rating|number)": ?(-?[0-9.]+)\}\]')


def _is_label_studio(record: Row) -> bool:
    return isinstance(record.get("data"), dict) and isinstance(record.get("annotations"), list)


def _of_label_studio(record: Row) -> tuple[Row, Row]:
    """Data, and answers by the names of their controls, of the annotation that is the ground truth, or else the first."""
    done = [own for own in record["annotations"] if not own.get("was_cancelled")]
    done.sort(key=lambda own: not own.get("ground_truth"))
    answers: Row = {}
    for result in done[0]["result"] if done else []:
        if result.get("type") in _ANSWERS:
            value = _only(result["value"][_ANSWERS[result["type"]]])
            if value != []:  # no choice
                answers.setdefault(result["from_name"], value)
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


def is_table_of_label_studio(columns: Collection[str]) -> bool:
    """Return whether columns are those of a CSV or TSV file that Label Studio wrote."""
    return {*columns} >= _MIN


def answers_in_table(
    rows: Iterable[tuple[int, tuple[Any, ...]]], source: str, note: Callable[[str], None]
) -> Iterator[tuple[int, tuple[Any, ...]]]:
    """Yield the rows of a table of Label Studio with their answers as values: the first of each task, if it has one.

    Args:
        rows: line numbers, values of the columns that are read, and behind them the id of the task.
        source: name of the file, for messages.
        note: called with remarks on rows that are left out.

    Raises:
        DataFormatError: an answer of several choices.
    """
    seen = set[Any]()
    n_repeated = n_unanswered = 0
    for number, (*values, task) in rows:
        if task in seen:
            n_repeated += 1
        elif not all(values):
            n_unanswered += 1
        else:
            seen.add(task)
            yield number, tuple(_answer(value, source, number) for value in values)
    if n_repeated:
        note(f"{source}: {_FURTHER}: {n_repeated:,}")
    if n_unanswered:
        note(f"{source}: without an answer, left out: {n_unanswered:,}")


def _answer(cell: str, source: str, number: int) -> str:
    """The rating or number in a cell such as ``[{"rating":4}]``; any other text as it is."""
    if cell.startswith('{"choices":'):
        raise line_error(source, number, "an answer of several choices")
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
    Tool("Label Studio", lambda record: record.keys() >= _MIN, _of_label_studio_min, True),
    Tool("Argilla", _is_argilla, _of_argilla),
    Tool("Argilla", _is_flat_argilla, _of_flat_argilla),
)
