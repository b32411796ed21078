"""Notes below a paper's table: remarks of its file, columns that cannot be measured, and how others were measured."""

from __future__ import annotations

from collections.abc import Iterable

from mirrorbench.papers.measured_tables import NOISE, MeasuredTable
from mirrorbench.papers.table_files import PaperTable
from mirrorbench.reports.leaderboard import provenance

DIFFERS = "≠"
"""Mark of a difference that exceeds the noise (``PaperCell.differs``)."""
ILLEGIBLE = "?"
"""Shown in place of a printed value that is illegible in our copies of the paper."""


def table_notes(content: MeasuredTable) -> list[str]:
    """Return the notes in the order in which they are shown."""
    table = content.table
    notes = list(table.notes)
    notes += [f"{row.label}: {row.note}." for row in table.rows if row.note]
    notes += _source_notes(table)
    notes += _unmeasurable_notes(table)
    notes += _inconsistency_notes(table)
    notes += _disagreement_notes(table)
    notes += _illegible_notes(table)
    notes += _analysis_notes(table)
    notes += _comparison_notes(content)
    notes += content.notes
    notes += _provenance_notes(content)
    return notes


def _source_notes(table: PaperTable) -> list[str]:
    """Return notes on the rows that the paper does not print."""
    labels_by_source = _group_by_first((row.source, row.label) for row in table.rows if row.source)
    return [
        f"Not ranked; the values are those of {source}: {', '.join(labels)}."
        for source, labels in labels_by_source.items()
    ]


def _unmeasurable_notes(table: PaperTable) -> list[str]:
    titles_by_reason = _group_by_first(
        (column.unavailable, column.title) for column in table.columns if column.unavailable
    )
    return [
        f"Not measurable: {', '.join(titles)}: {reason}."
        for reason, titles in titles_by_reason.items()
    ]


def _inconsistency_notes(table: PaperTable) -> list[str]:
    notes = []
    for remark in table.inconsistencies:
        row, column = table.cell_of(remark)
        cell = f"{_row_name(table, row)}, {table.columns[column].title}"
        notes.append(
            f"Inconsistent: {cell}: the printed values give {remark.recomputed}; {remark.note}."
        )
    return notes


def _disagreement_notes(table: PaperTable) -> list[str]:
    """Return a note for each row and each other table that prints some of its values differently."""
    remarks: dict[tuple[int, str], list[str]] = {}
    for remark in table.disagreements:
        row, column = table.cell_of(remark)
        remarks_of_row = remarks.setdefault((row, remark.where), [])
        remarks_of_row.append(f"{table.columns[column].title}: {remark.note}")
    return [
        f"Printed differently in {source}: {_row_name(table, row)}, {'; '.join(remarks_of_row)}."
        for (row, source), remarks_of_row in remarks.items()
    ]


def _illegible_notes(table: PaperTable) -> list[str]:
    for row, cells in zip(table.rows, table.printed, strict=True):
        if not row.source and any(not cell.text for cell in cells):
            return [
                f"{ILLEGIBLE}: not legible, or not printed as a number, in the copies that this was typed from."
            ]
    return []


def _analysis_notes(table: PaperTable) -> list[str]:
    titles_by_measure = _group_by_first(
        (f"{column.analysis.value} by mirrorbench analyze {column.analysis.name}", column.title)
        for column in table.columns
        if column.analysis
    )
    return [
        f"{', '.join(titles)}: measured as {measure}."
        for measure, titles in titles_by_measure.items()
    ]


def _comparison_notes(content: MeasuredTable) -> list[str]:
    if not content.results:
        return []
    if content.backbone is not None:
        return [
            f"Measured with {content.backbone} in place of the paper's models: compare the shape, not the values."
        ]
    return [
        f"{DIFFERS}: differs by more than {NOISE:g} standard deviations over seeds and one unit of the last digit; "
        "untuned encoders have no seeds, so the digit decides; a tuned encoder with a single seed is not judged."
    ]


def _provenance_notes(content: MeasuredTable) -> list[str]:
    if not content.results:
        return []
    targets = content.table.targets(content.backbone).items()
    metrics = {
        target.metric for (row, column), target in targets if content.cells[row][column].measured
    }
    return [str(note) for note in provenance(content.results, metrics)]


def _group_by_first(pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Return the second elements of pairs by the first."""
    groups: dict[str, list[str]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return groups


def _row_name(table: PaperTable, row: int) -> str:
    return f"{table.rows[row].label} (row {row + 1})"
