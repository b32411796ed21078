"""From a comparison to lines of short texts, still apart from any format: what is rounded, ranked and marked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from mirrorbench.reports.papers.measured import NOISE, MeasuredTable, PaperCell
from mirrorbench.reports.papers.tables import SCALES, FactTable, PaperColumn, PaperTable, Printed
from mirrorbench.reports.provenance import provenance
from mirrorbench.reports.renderers import MISSING, number

DIFFERS = "≠"
"""Marks a difference that is more than the noise of the seeds."""

ILLEGIBLE = "?"
"""Stands where the paper prints something that our copies do not show."""

_DIGITS = {"fraction": 3, "percent": 2, "raw": 3}


@dataclass(frozen=True, slots=True)
class Shown:
    """A cell: its text, 1 for the best and 2 for the second of its column (0: neither), and whether it is marked."""

    text: str
    rank: int = 0
    marked: bool = False


@dataclass(frozen=True, slots=True)
class Line:
    """A line: the row's label (empty where the row goes on), what the line shows of it, and its cells."""

    label: str
    kind: str
    cells: tuple[Shown, ...]


@dataclass(frozen=True, slots=True)
class PaperGrid:
    """A table as short texts.

    Attributes:
        title: one line, with the table's place in the paper.
        corner: head of the labels.
        groups: heads over the heads, with the number of columns each spans; empty where there are none.
        heads: of the columns.
        lines: rows; where something was measured each takes several lines.
        notes: one line each.
    """

    title: str
    corner: str
    groups: tuple[tuple[str, int], ...]
    heads: tuple[str, ...]
    lines: tuple[Line, ...]
    notes: tuple[str, ...]

    @property
    def kinds(self) -> bool:
        """Whether lines must say what they show."""
        return any(line.kind != "published" for line in self.lines)

    @property
    def titles(self) -> list[str]:
        """Heads with their groups, for formats that have a single line of heads."""
        spanned = [group for group, n in self.groups for _ in range(n)] or [""] * len(self.heads)
        return [f"{group} {head}".strip() for group, head in zip(spanned, self.heads, strict=True)]


def fact_grid(table: FactTable) -> PaperGrid:
    """A table of facts as it is printed."""
    lines = tuple(Line(label, "published", tuple(map(Shown, values))) for label, values, _ in table.rows)
    return PaperGrid(f"{table.title} ({table.where})", table.head, (), table.columns, lines, table.notes)


def comparison_grid(comparison: MeasuredTable) -> PaperGrid:
    """Published values and, for rows of which something was measured, measured ones and differences below them."""
    table = comparison.table
    published = _ranks(table, [[cell.printed.value for cell in row] for row in comparison.cells])
    measured = _ranks(table, [[c.measured.mean if c.measured else None for c in row] for row in comparison.cells])
    digits = _digits(table)
    lines = []
    for r, (row, cells) in enumerate(zip(table.rows, comparison.cells, strict=True)):
        places = list(zip(cells, published[r], measured[r], range(len(cells)), strict=True))
        lines.append(Line(row.label, "published", tuple(_published(c, table, n, rank) for c, rank, _, n in places)))
        if not any(cell.measured for cell in cells):
            continue
        shown = tuple(_measured(c, table, digits[n], n, rank) for c, _, rank, n in places)
        lines.append(Line("", "measured", shown))
        if comparison.backbone is None and any(cell.difference is not None for cell in cells):
            lines.append(Line("", "difference", tuple(_difference(c, table, digits[n], n) for c, _, _, n in places)))
    return PaperGrid(
        title=f"{table.title} ({table.where})",
        corner="model",
        groups=_groups(table.columns),
        heads=tuple(column.head for column in table.columns),
        lines=tuple(lines),
        notes=tuple(_notes(comparison)),
    )


def _published(cell: PaperCell, table: PaperTable, column: int, rank: int) -> Shown:
    if cell.printed.absent:
        return Shown(MISSING)
    return Shown(cell.printed.text or ILLEGIBLE, rank)


def _measured(cell: PaperCell, table: PaperTable, digits: int, column: int, rank: int) -> Shown:
    if cell.measured is None:
        return Shown(MISSING)
    if table.columns[column].difference:
        return Shown(_signed(cell.measured.mean, table.scale, digits))
    text = _number(cell.measured.mean, table.scale, digits)
    if cell.measured.sd is not None:
        text += f" ± {_number(cell.measured.sd, table.scale, digits)}"
    return Shown(text, rank)


def _difference(cell: PaperCell, table: PaperTable, digits: int, column: int) -> Shown:
    if cell.difference is None or table.columns[column].difference:
        return Shown("" if cell.measured is None or table.columns[column].difference else MISSING)
    return Shown(_signed(cell.difference, table.scale, digits), marked=bool(cell.differs))


def _number(value: float, scale: str, digits: int) -> str:
    """A score as the papers print it: ``.743``, but ``0.16`` where it is a percentage."""
    value *= SCALES[scale]
    return f"{value:z.{digits}f}" if scale == "percent" else number(value, digits)


def _signed(value: float, scale: str, digits: int) -> str:
    text = _number(value, scale, digits)
    return text if text.startswith("-") else f"+{text}"


def _digits(table: PaperTable) -> list[int]:
    """Digits after the point in each column: as most of it is printed; where nothing is, as most of the table is."""
    whole = [_decimals(cell) for row in table.rows for cell in row.printed if cell.value is not None]
    default = Counter(whole).most_common(1)[0][0] if whole else _DIGITS[table.scale]
    digits = []
    for column in range(len(table.columns)):
        own = [_decimals(row.printed[column]) for row in table.rows if row.printed[column].value is not None]
        digits.append(Counter(own).most_common(1)[0][0] if own else default)
    return digits


def _decimals(printed: Printed) -> int:
    return len(printed.text.partition(".")[2])


def _ranks(table: PaperTable, values: Sequence[Sequence[float | None]]) -> list[list[int]]:
    """1 for the best and 2 for the second of a column with several scores; differences and raw values have no best."""
    ranks = [[0] * len(table.columns) for _ in values]
    if table.scale == "raw":
        return ranks
    digits = _digits(table)
    for column, head in enumerate(table.columns):
        if head.difference:
            continue
        scaled = [row[column] for row in values]
        rounded = [None if v is None else round(v * SCALES[table.scale], digits[column]) for v in scaled]
        best = sorted({v for v in rounded if v is not None}, reverse=True)[:2]
        if len(best) > 1:
            for row, value in enumerate(rounded):
                ranks[row][column] = best.index(value) + 1 if value in best else 0
    return ranks


def _groups(columns: Sequence[PaperColumn]) -> tuple[tuple[str, int], ...]:
    if not any(column.group for column in columns):
        return ()
    return tuple((group, len(list(members))) for group, members in groupby(columns, lambda column: column.group))


def _notes(comparison: MeasuredTable) -> list[str]:
    table = comparison.table

    def cell(row: int, column: int) -> str:
        return f"{table.rows[row].label} (row {row + 1}), {table.columns[column].title}"

    notes = list(table.notes)
    notes += [f"{row.label}: {row.note}." for row in table.rows if row.note]
    reasons: dict[str, list[str]] = {}
    for column in table.columns:
        if column.unavailable:
            reasons.setdefault(column.unavailable, []).append(column.title)
    notes += [f"Not measurable: {', '.join(heads)}: {reason}." for reason, heads in reasons.items()]
    notes += [
        f"Inconsistent: {cell(x.row, x.column)}: the printed values give {x.recomputed}; {x.note}."
        for x in table.inconsistencies
    ]
    elsewhere: dict[tuple[int, str], list[str]] = {}
    for x in table.disagreements:
        elsewhere.setdefault((x.row, x.where), []).append(f"{table.columns[x.column].title}: {x.note}")
    notes += [
        f"Elsewhere otherwise ({where}): {table.rows[row].label} (row {row + 1}), {'; '.join(said)}."
        for (row, where), said in elsewhere.items()
    ]
    if any(not p.text for row in table.rows for p in row.printed):
        notes.append(f"{ILLEGIBLE}: not legible, or not printed as a number, in the copies that this was typed from.")
    analyses = sorted({column.analysis for column in table.columns if column.analysis})
    notes += [f"Not scores of tasks: see mirrorbench analyze {name}." for name in analyses]
    return notes + _measured_notes(comparison)


def _measured_notes(comparison: MeasuredTable) -> list[str]:
    if not comparison.results:
        return list(comparison.notes)
    notes = []
    if comparison.backbone is not None:
        notes.append(
            f"Measured with {comparison.backbone} in place of the paper's models: compare the shape, not the values."
        )
    else:
        notes.append(
            f"{DIFFERS}: differs by more than {NOISE:g} standard deviations over seeds and one unit of the last digit; "
            "untuned encoders have no seeds, so the digit decides; of a single seed of a tuned one nothing is said."
        )
    return notes + list(comparison.notes) + provenance(comparison.results)
