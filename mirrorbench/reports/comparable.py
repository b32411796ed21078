"""Which results may stand together: those of one computation, and of one experiment under one name.

Results of several computations are never averaged, ranked or tested against each other: a table shows the newest.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from mirrorbench.core.errors import UsageError
from mirrorbench.core.identity import COMPUTATION
from mirrorbench.runs.results import Result, read_result, result_files

if TYPE_CHECKING:
    from mirrorbench.core.plugins import Plugins


class Stored(NamedTuple):
    """A result and the path of its file; its predictions are in the same folder."""

    result: Result
    path: Path


def read_stored(folders: Sequence[Path]) -> list[Stored]:
    """All results in some folders; ``UsageError`` where a folder is missing."""
    for folder in folders:
        if not folder.is_dir():
            raise UsageError(f"there is no folder of results {folder}", "Make some: mirrorbench run")
    return [Stored(read_result(path), path) for folder in folders for path in result_files(folder)]


def by_computation(results: Iterable[Result]) -> dict[int | None, list[Result]]:
    """Results by the computation that made them: the newest first, those that do not state it last."""
    groups: dict[int | None, list[Result]] = {}
    for result in results:
        groups.setdefault(result.computation, []).append(result)
    return dict(sorted(groups.items(), key=lambda group: -(group[0] or 0)))


def newest(results: Iterable[Result], anew: str) -> tuple[list[Result], list[str]]:
    """The results of the newest computation, and notes on those that are not of today's, with a command for them."""
    groups = by_computation(results)
    chosen = next(iter(groups.values()), [])
    others = [own for computation, own in groups.items() if computation != COMPUTATION]
    return chosen, [
        f"{'Shown' if own is chosen else 'Left out'}: {origin(own)}. Compute them anew: {anew}" for own in others
    ]


def of_one_computation(sides: Sequence[Sequence[Stored]]) -> tuple[list[list[Stored]], list[str]]:
    """Results of two encoders on one task, of the newest computation that both have, and notes on what is left out.

    Where they share none, each has its own newest, which cannot be compared.
    """
    groups = [by_computation(entry.result for entry in side) for side in sides]
    tasks = [{(own.computation, own.task) for group in by.values() for own in group} for by in groups]
    shared = [c for c in groups[0] if any(c == computation for computation, _ in tasks[0] & tasks[1])]
    chosen = [shared[0] if shared else next(iter(by)) for by in groups]
    kept = [[e for e in side if e.result.computation == c] for side, c in zip(sides, chosen, strict=True)]
    left = [own for by, c in zip(groups, chosen, strict=True) for computation, own in by.items() if computation != c]
    return kept, list(dict.fromkeys(f"left out: {origin(own)}" for own in left))


def origin(results: Sequence[Result]) -> str:
    """How many results of one computation there are, which one, and which versions made them."""
    computation = results[0].computation
    which = "a computation that is not stated" if computation is None else f"computation {computation}"
    today = "" if computation == COMPUTATION else f", not of today's {COMPUTATION}"
    makers = ", ".join(sorted(set(map(maker, results))))
    return f"{len(results)} result{'s' * (len(results) > 1)} of {which}{today}, by {makers}"


def maker(result: Result) -> str:
    """The version that made a result: ``mirrorbench 0.1.0 (320fa15db)``."""
    commit, *dirty = str(result.environment.get("git") or "").split("-")
    git = f" ({'-'.join([commit[:9], *dirty])})" if commit else ""
    return f"mirrorbench {result.environment.get('mirrorbench', 'of an unknown version')}{git}"


def without_repeats(results: Iterable[Result]) -> list[Result]:
    """The latest result for each computation, spec, protocol, task and seed; ``mixtures`` names those that differ."""
    latest: dict[tuple[str, str, str, int | None, int], Result] = {}
    for result in results:
        name = name_of(result)
        if name not in latest or latest[name].created < result.created:
            latest[name] = result
    return list(latest.values())


def mixtures(results: Iterable[Result], plugins: Plugins) -> list[str]:
    """Reasons why results of one computation cannot be compared in one table, one line for each reason.

    Reasons: several protocols, precisions of evaluation, versions of a task's data, or models behind one spec; and
    different experiments (recipe, corpus, precision ...) under one name or as seeds of one score.
    """
    return list(dict.fromkeys(line for own in by_computation(results).values() for line in _mixed(own, plugins)))


def _mixed(results: Sequence[Result], plugins: Plugins) -> list[str]:
    def model(result: Result) -> tuple[str, str]:
        # A name such as "bert" is a different model in each language.
        task = result.task
        return result.spec, ", ".join(plugins.tasks[task].languages) if task in plugins.tasks else task

    protocols = sorted({result.protocol for result in results})
    precisions = sorted({result.evaluated_in for result in results})
    data = _ambiguous(results, lambda r: r.task, lambda r: json.dumps(r.data, sort_keys=True))
    models = _ambiguous(results, model, lambda r: str(r.encoder.get("weights", "")))
    rest = [result for result in results if result.task not in data and model(result) not in models]
    experiments = _ambiguous(rest, name_of, lambda r: r.cell_id)
    noted = {name[:-1] for name in experiments}
    others = (result for result in rest if name_of(result)[:-1] not in noted)
    seeds = _ambiguous(others, lambda r: name_of(r)[:-1], lambda r: r.experiment)
    what = "different experiments (recipe, corpus or precision)"
    return [
        *([f"protocols {' and '.join(protocols)}"] if len(protocols) > 1 else []),
        *([f"evaluated in {' and '.join(precisions)}"] if len(precisions) > 1 else []),
        *(f"{task}: {n} different versions of its data" for task, n in data.items()),
        *(f"{spec}: {n} different models ({languages})" for (spec, languages), n in models.items()),
        *(f"{spec} on {task}, seed {seed}: {n} {what}" for (spec, _, task, _, seed), n in experiments.items()),
        *(f"{spec} on {task}: its seeds are of {n} {what}" for (spec, _, task, _), n in seeds.items()),
    ]


def name_of(result: Result) -> tuple[str, str, str, int | None, int]:
    """The name under which a result stands in tables; without the last part, the seed, that of a score."""
    return (result.spec, result.protocol, result.task, result.computation, result.seed)


def _ambiguous(
    results: Iterable[Result], key: Callable[[Result], Any], value: Callable[[Result], str]
) -> dict[Any, int]:
    """Keys with more than one value, and how many values each has."""
    values: dict[Any, set[str]] = {}
    for result in results:
        values.setdefault(key(result), set()).add(value(result))
    return {name: len(distinct) for name, distinct in values.items() if len(distinct) > 1}


def of_one_seed(results: Sequence[Result]) -> bool:
    """Whether the results of an encoder on one task are those of a model that was tuned, with one seed."""
    return len({result.seed for result in results}) == 1 and bool(results[0].cell.get("recipe"))


def incomparable(results: Sequence[Result]) -> list[str]:
    """Reasons why results on one task cannot be compared: data, task versions, protocols, precisions or metrics."""
    several = (
        (lambda r: json.dumps(r.data.get("files"), sort_keys=True), "different data (checksums)"),
        (lambda r: str(r.data.get("version")), "different versions of the task"),
        (lambda r: str(r.computation), "different computations"),
        (lambda r: r.protocol, f"protocols {' and '.join(sorted({r.protocol for r in results}))}"),
        (lambda r: r.evaluated_in, f"evaluated in {' and '.join(sorted({r.evaluated_in for r in results}))}"),
        (lambda r: r.main_metric, f"metrics {' and '.join(sorted({r.main_metric for r in results}))}"),
    )
    return [what for key, what in several if len({key(result) for result in results}) > 1]
