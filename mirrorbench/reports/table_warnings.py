"""Warnings below a leaderboard: reasons to distrust its scores, found in the results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from mirrorbench.core.specs import EncoderSpec, parse_spec
from mirrorbench.core.truncation import Truncation
from mirrorbench.core.unknown_words import UnknownWords
from mirrorbench.reports.table import Column
from mirrorbench.runs.outcomes import Failure
from mirrorbench.storage.results import ZERO_VECTORS, Result


def table_warnings(
    results: Sequence[Result],
    failures: Sequence[Failure],
    columns: Sequence[Column],
    labels: Mapping[EncoderSpec, str],
) -> list[str]:
    """Return the warnings of a table: missing scores, remarks on data, cut texts, unknown words, zero vectors.

    Args:
        results: the results in the table.
        failures: the cells that failed.
        columns: the columns of the table.
        labels: the labels of the rows.
    """
    return [
        *_missing_scores(failures),
        *_remarks_on_data(results, columns),
        *_cut_texts(results, labels, columns),
        *_unknown_words(results, labels, columns),
        *_zero_vectors(results, labels, columns),
    ]


def _missing_scores(failures: Sequence[Failure]) -> Iterator[str]:
    n = len({(failure.spec, failure.task) for failure in failures})
    if n == 1:
        yield "1 score is missing"
    elif n:
        yield f"{n} scores are missing"


def _remarks_on_data(results: Sequence[Result], columns: Sequence[Column]) -> Iterator[str]:
    """Yield the remarks on each task's data."""
    remarks_by_task: dict[str, dict[str, None]] = {}
    for result in results:
        remarks_by_task.setdefault(result.task, {}).update(dict.fromkeys(result.remarks))
    for column in columns:
        remarks = remarks_by_task.get(column.name)
        if remarks:
            yield f"{column.title}: {'; '.join(remarks)}"


def _cut_texts(
    results: Sequence[Result], labels: Mapping[EncoderSpec, str], columns: Sequence[Column]
) -> Iterator[str]:
    """Yield a sentence on the result with the largest share of cut texts; it counts the others with cut texts."""
    truncations: dict[tuple[str, str], Truncation] = {}
    for result in results:
        stored = result.encoder.get("truncation")
        if stored:
            truncations[result.spec, result.task] = Truncation.of_json(stored)
    if not truncations:
        return

    def share_of_cut(row_and_task: tuple[str, str]) -> float:
        truncation = truncations[row_and_task]
        return truncation.cut / truncation.texts

    # Sorted, so that every command names the same result if several have the largest share.
    spec, task = max(sorted(truncations), key=share_of_cut)
    sentence = truncations[spec, task].sentence
    if len({result.spec for result in results}) > 1:
        sentence += f" by {labels[parse_spec(spec)]}"
    if len({result.task for result in results}) > 1:
        titles = {column.name: column.title for column in columns}
        sentence += f" on {titles[task]}"
    n_others = len(truncations) - 1
    if n_others == 1:
        sentence += "; texts were cut in 1 more result"
    elif n_others:
        sentence += f"; texts were cut in {n_others} more results"
    yield sentence


def _unknown_words(
    results: Sequence[Result], labels: Mapping[EncoderSpec, str], columns: Sequence[Column]
) -> Iterator[str]:
    """Yield a sentence on each row and task with words that have no vector, once for all seeds."""
    columns_by_name = {column.name: column for column in columns}
    reported: set[tuple[str, str]] = set()
    for result in results:
        counts = result.encoder.get("unknown_words")
        column = columns_by_name.get(result.task)
        if counts is None or column is None or (result.spec, result.task) in reported:
            continue
        reported.add((result.spec, result.task))
        label = labels[parse_spec(result.spec)]
        sentence = UnknownWords.of_json(counts).sentence(column.items)
        yield f"{label} on {column.title}: {sentence}"


def _zero_vectors(
    results: Sequence[Result], labels: Mapping[EncoderSpec, str], columns: Sequence[Column]
) -> Iterator[str]:
    """Yield a sentence on each row whose vectors are all zero, with its tasks."""
    titles = {column.name: column.title for column in columns}
    tasks_by_spec: dict[str, dict[str, None]] = {}
    for result in results:
        if result.encoder.get(ZERO_VECTORS) and result.task in titles:
            tasks_by_spec.setdefault(result.spec, {})[titles[result.task]] = None
    for spec, tasks in tasks_by_spec.items():
        yield f"{labels[parse_spec(spec)]}: all its vectors are zero on {', '.join(tasks)}"
