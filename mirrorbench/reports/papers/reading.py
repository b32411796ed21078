"""Reads the papers' tables from YAML, strictly. Every scalar is read as text, so that ``.790`` keeps its last digit.

A file holds one table: ``title``, ``where``, ``kind`` (``scores`` or ``facts``), ``columns`` and ``rows``, one line a
row in printed order. ``docs/papers.md`` describes the keys.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from mirrorbench.core.errors import DataFormatError, UsageError
from mirrorbench.core.registry import unknown_name
from mirrorbench.core.specs import Value, parse_params, parse_spec
from mirrorbench.core.yamlfile import read_yaml
from mirrorbench.data.catalogue import builtin_suites
from mirrorbench.reports.papers.tables import (
    ABSENT,
    SCALES,
    FactTable,
    PaperColumn,
    PaperRow,
    PaperTable,
    Printed,
    Remark,
)

PAPERS = ("mirror-bert", "mirrorwic", "poster")
"""The folders of the specs, in the order in which they are listed."""

_ILLEGIBLE = "null"
_NUMBER = re.compile(r"([+-]?)(\d*)\.(\d+)")
_SCORES = {"title", "where", "kind", "scale", "metric", "defaults", "columns", "rows", "notes", "inconsistencies",
           "disagreements"}  # fmt: skip
_FACTS = {"title", "where", "kind", "head", "columns", "rows", "notes"}
_COLUMN = {"head", "group", "task", "suite", "metric", "average", "difference", "minus", "analysis", "corpus", "set",
           "backbone", "unavailable"}  # fmt: skip
_ROW = {"label", "encoder", "values", "against", "defaults", "note"}
_KINDS_OF_COLUMN = ("task", "suite", "average", "difference", "analysis")


class _ProblemError(Exception):
    """What is wrong with a spec, before the file's name is put in front."""


def specs_folder() -> Path:
    """The folder of the specs: ``mirrorbench/reports/papers/specs`` in a wheel, ``leaderboards`` in a checkout.

    Raises:
        DataFormatError: neither is there, so the installation is incomplete.
    """
    here = Path(__file__).resolve().parent
    candidates = (here / "specs", here.parents[2] / "leaderboards")
    for folder in candidates:
        if (folder / PAPERS[0]).is_dir():
            return folder
    raise DataFormatError(
        f"The papers' tables are in neither {candidates[0]} nor {candidates[1]}.", "Install mirrorbench again."
    )


@lru_cache(maxsize=1)
def paper_tables() -> Mapping[str, PaperTable | FactTable]:
    """All tables and figures by name, in the order of the papers; read once per process.

    Raises:
        DataFormatError: a spec is malformed.
    """
    folder = specs_folder()
    paths = [path for paper in PAPERS for path in sorted((folder / paper).glob("*.yaml"), key=_printed_order)]
    return MappingProxyType({table_name(path): read_paper_table(path) for path in paths})


def find_table(name: str) -> PaperTable | FactTable:
    """The table of a name.

    Raises:
        UnknownNameError: there is none.
    """
    tables = paper_tables()
    if name not in tables:
        raise unknown_name("table", name, list(tables), "mirrorbench paper")
    return tables[name]


def table_name(path: Path) -> str:
    """``mirror-bert/table3`` for ``.../mirror-bert/table3.yaml``."""
    return f"{path.parent.name}/{path.stem}"


def read_paper_table(path: Path) -> PaperTable | FactTable:
    """Read and check one spec.

    Raises:
        DataFormatError: the file is no such spec; the message names the file and the place in it.
    """
    try:
        raw = _mapping(read_yaml(path, plain=str).bare(), "the spec")
        kind = _text(raw, "kind", "the spec")
        if kind not in ("scores", "facts"):
            raise _ProblemError(f"kind {kind!r} is neither 'scores' nor 'facts'")
        _check_keys(raw, _SCORES if kind == "scores" else _FACTS, "the spec")
        return _scores(raw, table_name(path)) if kind == "scores" else _facts(raw, table_name(path))
    except (_ProblemError, UsageError) as problem:
        raise DataFormatError(f"{path}: {problem}") from None


def _printed_order(path: Path) -> tuple[bool, str, int]:
    letters, digits = re.sub(r"\d", "", path.stem), re.sub(r"\D", "", path.stem)
    return letters != "table", letters, int(digits or 0)


def _scores(raw: Mapping[str, Any], name: str) -> PaperTable:
    scale = _text(raw, "scale", "the spec")
    if scale not in SCALES:
        raise _ProblemError(f"scale {scale!r} is none of {', '.join(SCALES)}")
    columns = _columns(_list(raw, "columns", "the spec"), raw.get("metric", ""))
    defaults = _params(raw.get("defaults", {}), "defaults")
    lines = _list(raw, "rows", "the spec")
    rows = tuple(_row(line, f"row {i}", columns, scale, defaults) for i, line in enumerate(lines, 1))
    for row in rows:
        if row.against is not None and row.against >= len(rows):
            raise _ProblemError(f"row {row.label!r}: there is no row {row.against + 1} to compare with")
    return PaperTable(
        name=name,
        title=_text(raw, "title", "the spec"),
        where=_text(raw, "where", "the spec"),
        scale=scale,
        columns=columns,
        rows=rows,
        notes=_notes(raw),
        inconsistencies=_remarks(raw, "inconsistencies", columns, rows, "recomputed"),
        disagreements=_remarks(raw, "disagreements", columns, rows, "with"),
    )


def _facts(raw: Mapping[str, Any], name: str) -> FactTable:
    columns = tuple(map(str, _list(raw, "columns", "the spec")))
    rows = []
    for i, line in enumerate(_list(raw, "rows", "the spec"), 1):
        line = _mapping(line, f"row {i}")
        _check_keys(line, {"label", "values", "preset"}, f"row {i}")
        values = tuple(map(str, _list(line, "values", f"row {i}")))
        if len(values) != len(columns):
            raise _ProblemError(f"row {i} has {len(values)} values for {len(columns)} columns")
        rows.append((_text(line, "label", f"row {i}"), values, str(line.get("preset", ""))))
    texts = {key: _text(raw, key, "the spec") for key in ("title", "where", "head")}
    return FactTable(name=name, columns=columns, rows=tuple(rows), notes=_notes(raw), **texts)


def _columns(raw: Sequence[Any], metric: str) -> tuple[PaperColumn, ...]:
    columns: list[PaperColumn] = []
    for i, entry in enumerate(raw, 1):
        columns.append(_column(_mapping(entry, f"column {i}"), f"column {i}", columns, metric))
    return tuple(columns)


def _column(raw: Mapping[str, Any], where: str, before: Sequence[PaperColumn], metric: str) -> PaperColumn:
    _check_keys(raw, _COLUMN, where)
    kinds = [key for key in _KINDS_OF_COLUMN if key in raw]
    if len(kinds) != 1:
        raise _ProblemError(f"{where} must have one of the keys {', '.join(_KINDS_OF_COLUMN)}, not {kinds}")
    tasks = (raw["task"],) if "task" in raw else _suite(raw["suite"]) if "suite" in raw else ()
    metric = raw.get("metric", metric)
    if tasks and not metric:
        raise _ProblemError(f"{where} has tasks, but no metric")
    return PaperColumn(
        head=_text(raw, "head", where),
        group=raw.get("group", ""),
        tasks=tasks,
        metric=metric if tasks else "",
        average=_averaged(raw["average"], before, where) if "average" in raw else (),
        difference=_difference(raw, before, where) if "difference" in raw else None,
        analysis=raw.get("analysis", ""),
        corpus=raw.get("corpus", ""),
        params=_params(raw.get("set", {}), where),
        backbone=raw.get("backbone", ""),
        unavailable=raw.get("unavailable", ""),
    )


def _suite(name: str) -> tuple[str, ...]:
    suites = builtin_suites()
    if name not in suites:
        raise unknown_name("suite", name, list(suites))
    return suites[name]


def _averaged(wanted: Any, before: Sequence[PaperColumn], where: str) -> tuple[int, ...]:
    tasks = [i for i, column in enumerate(before) if column.tasks]
    members = tasks if wanted == "all" else [_numbered(head, before, where) for head in wanted]
    kinds = {(before[i].metric, before[i].params, before[i].backbone) for i in members}
    if len(kinds) != 1 or len(members) < 2:
        raise _ProblemError(f"{where} averages columns that do not belong together")
    return tuple(members)


def _difference(raw: Mapping[str, Any], before: Sequence[PaperColumn], where: str) -> tuple[int, int]:
    first = _numbered(raw["difference"], before, where)
    return first, _numbered(raw["minus"], before, where) if "minus" in raw else first


def _numbered(head: Any, columns: Sequence[PaperColumn], where: str) -> int:
    """The number of the column that is headed so, with its group in front where the head alone would not tell."""
    found = [i for i, column in enumerate(columns) if head in (column.head, column.title)]
    if len(found) != 1:
        raise _ProblemError(f"{where}: {len(found)} columns are headed {head!r}")
    return found[0]


def _row(
    raw: Any, where: str, columns: Sequence[PaperColumn], scale: str, defaults: tuple[tuple[str, Value], ...]
) -> PaperRow:
    raw = _mapping(raw, where)
    _check_keys(raw, _ROW, where)
    values = _list(raw, "values", where)
    if len(values) != len(columns):
        raise _ProblemError(f"{where} has {len(values)} values for {len(columns)} columns")
    encoder = _text(raw, "encoder", where)
    return PaperRow(
        label=_text(raw, "label", where),
        encoder=None if encoder == _ILLEGIBLE else parse_spec(encoder),
        printed=tuple(_printed(text, scale, where) for text in values),
        against=_count(raw["against"], where) if "against" in raw else None,
        defaults=_params(raw["defaults"], where) if "defaults" in raw else defaults,
        note=raw.get("note", ""),
    )


def _printed(text: Any, scale: str, where: str) -> Printed:
    if text == _ILLEGIBLE:
        return Printed("")
    if text == ABSENT:
        return Printed(ABSENT)
    match = _NUMBER.fullmatch(text) if isinstance(text, str) else None
    if not match:
        raise _ProblemError(f"{where}: {text!r} is no number with a point, nor 'null', nor '-'")
    # Divided, not multiplied by a hundredth: 57.10 / 100 is the nearest float to .571.
    return Printed(text, float(text) / SCALES[scale], 10.0 ** -len(match[3]) / SCALES[scale])


def _remarks(
    raw: Mapping[str, Any], key: str, columns: Sequence[PaperColumn], rows: Sequence[PaperRow], detail: str
) -> tuple[Remark, ...]:
    remarks = []
    for i, entry in enumerate(raw.get(key, []), 1):
        where = f"{key} {i}"
        entry = _mapping(entry, where)
        _check_keys(entry, {"row", "column", "note", detail}, where)
        row = _count(entry.get("row"), where)
        if row >= len(rows):
            raise _ProblemError(f"{where}: there is no row {row + 1}")
        column = _numbered(entry.get("column"), columns, where)
        note, extra = _text(entry, "note", where), _text(entry, detail, where)
        remarks.append(Remark(row, column, note, **{"where" if detail == "with" else detail: extra}))
    return tuple(remarks)


def _notes(raw: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(" ".join(str(note).split()) for note in raw.get("notes", []))


def _params(raw: Any, where: str) -> tuple[tuple[str, Value], ...]:
    text = ",".join(f"{key}={value}" for key, value in _mapping(raw, where).items())
    return parse_params(text, text)


def _count(value: Any, where: str) -> int:
    """A number that people count from 1, counted from 0."""
    if not isinstance(value, str) or not re.fullmatch(r"[1-9]\d*", value):
        raise _ProblemError(f"{where}: {value!r} is not the number of a row")
    return int(value) - 1


def _mapping(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise _ProblemError(f"{where} must be a mapping of keys to values")
    return value


def _list(raw: Mapping[str, Any], key: str, where: str) -> list[Any]:
    value = raw.get(key)
    if not isinstance(value, list) or not value:
        raise _ProblemError(f"{where}: {key!r} must be a list")
    return value


def _text(raw: Mapping[str, Any], key: str, where: str) -> str:
    value = raw.get(key)
    if not isinstance(value, str) or not value.strip():
        raise _ProblemError(f"{where}: {key!r} is missing")
    return " ".join(value.split())


def _check_keys(raw: Mapping[str, Any], known: set[str], where: str) -> None:
    for key in raw:
        if key not in known:
            raise _ProblemError(f"{where}: unknown key {key!r}; known: {', '.join(sorted(known))}")
