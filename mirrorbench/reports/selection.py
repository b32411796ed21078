"""Which stored results stand in a table, and whether they may stand in one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from mirrorbench.core.errors import DataFormatError, UsageError
from mirrorbench.core.registry import unknown_name
from mirrorbench.core.specs import EncoderSpec, parse_spec
from mirrorbench.reports.provenance import mixtures, without_repeats
from mirrorbench.reports.statistics.stored import Stored, read_stored
from mirrorbench.runs.results import Result

if TYPE_CHECKING:
    from mirrorbench.core.plugins import Plugins
    from mirrorbench.reports.statistics.items import ItemScores

_SHOWN = 6
"""Reasons that a refusal names before it counts the rest."""


@dataclass(frozen=True)
class Choice:
    """Which of the stored results are asked for.

    Attributes:
        tasks: names; none for all.
        encoders: specs; one leaves open what it does not name, so ``bert`` is every row of BERT. None for all.
        rows: exact specs and their order; those without results are left out. None for all.
        protocol: empty for any.
        metrics: what is shown of a task in place of its main metric, by task; under ``""`` of any other task.
        allow_mixed: also results that cannot be compared (``provenance.mixtures``); the notes then say so.
    """

    tasks: tuple[str, ...] = ()
    encoders: tuple[EncoderSpec, ...] = ()
    rows: tuple[EncoderSpec, ...] = ()
    protocol: str = ""
    metrics: Mapping[str, str] = field(default_factory=dict)
    allow_mixed: bool = False


EVERYTHING = Choice()


@dataclass(frozen=True)
class Selection:
    """Results that stand in a table: each cell once, their encoders in the order of the table, and what was mixed."""

    stored: tuple[Stored, ...]
    rows: tuple[EncoderSpec, ...]
    notes: tuple[str, ...] = ()

    @property
    def results(self) -> tuple[Result, ...]:
        """Without where they lie."""
        return tuple(entry.result for entry in self.stored)

    def items(self, plugins: Plugins) -> dict[str, ItemScores]:
        """What is behind each score, by ``cell_id``; a score that cannot be computed again is left out."""
        found: dict[str, ItemScores] = {}
        for entry in self.stored:
            with suppress(DataFormatError):  # result files without their predictions are fine for a table
                if items := entry.items(plugins):
                    found[entry.result.cell_id] = items
        return found


def select(folders: Sequence[Path], plugins: Plugins, choice: Choice = EVERYTHING) -> Selection:
    """Read results, and keep those that are asked for.

    Args:
        folders: where results are.
        plugins: for the languages of tasks.
        choice: what is asked for.

    Raises:
        UsageError: a folder is missing; nothing is left; an encoder or metric is not among the results; or they
            cannot be compared.
        DataFormatError: a file is no result.
    """
    stored, where = read_stored(folders), ", ".join(map(str, folders))
    if not stored:
        raise UsageError(f"no results in {where}", "Make some: mirrorbench run")
    read = [entry.result for entry in stored]
    kept = [r for r in read if (not choice.tasks or r.task in choice.tasks) and choice.protocol in ("", r.protocol)]
    if not kept:
        held = ", ".join(sorted({r.task for r in read}))
        raise UsageError(f"no results in {where} for the tasks or protocol asked for", f"There are results on: {held}")
    chosen = _chosen(_ordered(kept, plugins), choice.encoders, choice.rows)
    shown, wanted = {"": "", **choice.metrics}, frozenset(chosen)
    texts = {text for text in {r.spec for r in kept} if parse_spec(text) in wanted}
    kept = [_showing(r, shown.get(r.task, shown[""])) for r in kept if r.spec in texts]
    mixed = mixtures(kept, plugins)
    if mixed and not choice.allow_mixed:
        more = f"\n  and {len(mixed) - _SHOWN} more" if len(mixed) > _SHOWN else ""
        reasons = "".join(f"\n  {reason}" for reason in mixed[:_SHOWN])
        raise UsageError(
            f"these results cannot be compared in one table:{reasons}{more}",
            "Name fewer folders, select with --tasks, --encoder or --protocol, run again what differs,\n"
            "or mix them all the same with --allow-mixed: the table then says so.",
        )
    paths = {entry.result.cell_id: entry.path for entry in reversed(stored)}
    shown_once = tuple(Stored(result, paths[result.cell_id]) for result in without_repeats(kept))
    notes = tuple(f"Mixed, not comparable: {reason}. The newest of each seed counts." for reason in mixed)
    return Selection(shown_once, tuple(chosen), notes)


def _ordered(results: Sequence[Result], plugins: Plugins) -> list[EncoderSpec]:
    """Encoders of results, those of a backbone together: methods in their order, plain before varied."""
    specs = [parse_spec(spec) for spec in dict.fromkeys(result.spec for result in results)]
    backbones = list(dict.fromkeys(spec.backbone for spec in specs))
    methods = plugins.methods.names()

    def place(spec: EncoderSpec) -> tuple[int, int, int]:
        method = methods.index(spec.method) if spec.method in methods else len(methods)
        return backbones.index(spec.backbone), method, len(spec.params)

    return sorted(specs, key=place)


def _chosen(
    known: list[EncoderSpec], encoders: Sequence[EncoderSpec], rows: Sequence[EncoderSpec]
) -> list[EncoderSpec]:
    """Encoders that are asked for, in the order in which they are asked for."""
    if rows:
        known = [spec for spec in rows if spec in known]
        if not known:
            raise UsageError(
                f"no result belongs to a row of the table asked for; its rows are {', '.join(map(str, rows))}",
                "With another backbone in its rows: mirrorbench paper TABLE --encoder BACKBONE",
            )
    if not encoders:
        return known
    chosen: dict[EncoderSpec, None] = {}
    for wanted in encoders:
        found = [spec for spec in known if _matches(spec, wanted)]
        if not found:
            raise unknown_name("encoder of these results", str(wanted), [str(spec) for spec in known])
        chosen.update(dict.fromkeys(found))
    return list(chosen)


def _matches(spec: EncoderSpec, wanted: EncoderSpec) -> bool:
    return (
        spec.backbone == wanted.backbone
        and wanted.revision in ("", spec.revision)
        and wanted.method in ("", spec.method)
        and set(wanted.params) <= set(spec.params)
    )


def _showing(result: Result, metric: str) -> Result:
    if not metric or metric == result.main_metric:
        return result
    if metric not in result.metrics:
        raise unknown_name(f"metric of {result.task}", metric, list(result.metrics))
    return replace(result, main_metric=metric, main_score=result.metrics[metric])
