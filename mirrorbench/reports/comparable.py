"""Rules on the results that one table may hold: those of one computation, and of one experiment under one name."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from mirrorbench.core.errors import DataFormatError, UsageError
from mirrorbench.core.identity import COMPUTATION
from mirrorbench.storage.results import (
    Predictions,
    Result,
    check_predictions,
    read_predictions,
    read_result,
    result_files,
)

if TYPE_CHECKING:
    from mirrorbench.core.plugins import Plugins
    from mirrorbench.runs.outcomes import Outcome
    from mirrorbench.runs.plan import Plan
    from mirrorbench.storage.results import ResultStore

_EXPERIMENTS = "different experiments (recipe, corpus or precision)"


class Stored(NamedTuple):
    """A result, the path of its file, and its predictions if they are in memory; else they are in the same folder."""

    result: Result
    path: Path
    in_memory: Predictions | None = None

    def predictions(self) -> Predictions:
        """Return the predictions; missing, damaged or foreign ones are a ``DataFormatError``."""
        if self.in_memory is None:
            return read_predictions(self.path, self.result)
        try:
            check_predictions(self.in_memory)
        except ValueError as error:  # a plugin's task may return anything
            raise DataFormatError(f"the predictions of {self.path}: {error}") from error
        return self.in_memory


def stored_results(outcome: Outcome, plan: Plan, store: ResultStore) -> list[Stored]:
    """Return the results of a run; those that it computed hold their predictions."""
    paths = {cell.id: store.where(cell) for cell in plan.cells}
    return [
        Stored(result, paths[result.cell_id], outcome.predictions.get(result.cell_id))
        for result in outcome.results
    ]


def read_stored(folders: Sequence[Path]) -> list[Stored]:
    """Read all results in some folders; ``UsageError`` where a folder is missing."""
    for folder in folders:
        if not folder.is_dir():
            raise UsageError(
                f"there is no folder {folder} with results", "Make some: mirrorbench run"
            )
    return [Stored(read_result(path), path) for folder in folders for path in result_files(folder)]


def _by_computation(results: Iterable[Result]) -> dict[int | None, list[Result]]:
    """Results by computation: the newest first, those without a stated one last."""
    groups: dict[int | None, list[Result]] = {}
    for result in results:
        groups.setdefault(result.computation, []).append(result)
    return dict(sorted(groups.items(), key=lambda group: -(group[0] or 0)))


def newest(results: Iterable[Result], anew: str) -> tuple[list[Result], list[str]]:
    """Return the results of the newest computation, and notes on outdated ones; the command ``anew`` renews them."""
    groups = _by_computation(results)
    chosen = next(iter(groups.values()), [])
    notes = []
    for computation, group in groups.items():
        if computation != COMPUTATION:
            state = "Shown" if group is chosen else "Left out"
            notes.append(f"{state}: {_origin(group)}. Compute them anew: {anew}")
    return chosen, notes


def newest_shared(sides: Sequence[Sequence[Stored]]) -> tuple[list[list[Stored]], list[str]]:
    """Keep the results of two encoders of the newest computation in which both have a task; note those left out.

    Without such a computation each encoder keeps its own newest results, which cannot be compared.
    """
    first, second = (
        {(entry.result.computation, entry.result.task) for entry in side} for side in sides
    )
    shared = {computation for computation, _ in first & second}
    kept, notes = [], []
    for side in sides:
        groups = _by_computation(entry.result for entry in side)
        chosen = next(
            (computation for computation in groups if computation in shared), next(iter(groups))
        )
        kept.append([entry for entry in side if entry.result.computation == chosen])
        notes += [
            f"left out: {_origin(own)}"
            for computation, own in groups.items()
            if computation != chosen
        ]
    return kept, list(dict.fromkeys(notes))


def _origin(results: Sequence[Result]) -> str:
    computation = results[0].computation
    name = "an unknown computation" if computation is None else f"computation {computation}"
    today = "" if computation == COMPUTATION else f", not the current {COMPUTATION}"
    versions = ", ".join(sorted(set(map(version_of, results))))
    return f"{len(results)} result{'s' * (len(results) > 1)} of {name}{today}, by {versions}"


def version_of(result: Result) -> str:
    """Return the version that made a result: ``mirrorbench 0.1.0 (320fa15db)``."""
    commit, *dirty = str(result.environment.get("git") or "").split("-")
    git = f" ({'-'.join([commit[:9], *dirty])})" if commit else ""
    return f"mirrorbench {result.environment.get('mirrorbench', 'of an unknown version')}{git}"


def without_repeats(results: Iterable[Result]) -> list[Result]:
    """Keep the latest result for each computation, spec, protocol, task and seed; ``mixtures`` names different ones."""
    latest: dict[tuple[str, str, str, int | None, int], Result] = {}
    for result in results:
        key = seed_key(result)
        if key not in latest or latest[key].created < result.created:
            latest[key] = result
    return list(latest.values())


def seed_key(result: Result) -> tuple[str, str, str, int | None, int]:
    """Return the key of a result in tables; without its last part, the seed, it is the key of a score."""
    return (result.spec, result.protocol, result.task, result.computation, result.seed)


def mixtures(results: Sequence[Result], plugins: Plugins) -> list[str]:
    """Return reasons why results of one computation cannot be compared in one table, one line for each reason.

    Reasons: several protocols, precisions of evaluation, versions of a task's data, or models behind one spec; and
    different experiments (recipe, corpus, precision ...) under one name or as seeds of one score.
    """
    reasons = [
        *_several("protocols", {result.protocol for result in results}),
        *_several("evaluated in", {result.evaluated_in for result in results}),
    ]

    def model_of(result: Result) -> tuple[str, str]:
        # A name such as "bert" is a different model in each language.
        languages = result.task
        if result.task in plugins.tasks:
            languages = ", ".join(plugins.tasks[result.task].languages)
        return result.spec, languages

    def data_of(result: Result) -> str:
        return json.dumps(result.data, sort_keys=True)

    def weights_of(result: Result) -> str:
        return str(result.encoder.get("weights", ""))

    data_versions = _ambiguous(results, lambda result: result.task, data_of)
    for task, n in data_versions.items():
        reasons.append(f"{task}: {n} different versions of its data")
    models = _ambiguous(results, model_of, weights_of)
    for (spec, languages), n in models.items():
        reasons.append(f"{spec}: {n} different models, or versions of one ({languages})")
    # Different data or models are different experiments too: each reason is named once.
    others = [
        result
        for result in results
        if result.task not in data_versions and model_of(result) not in models
    ]
    repeats = _ambiguous(others, seed_key, lambda result: result.cell_id)
    for (spec, _, task, _, seed), n in repeats.items():
        reasons.append(f"{spec} on {task}, seed {seed}: {n} {_EXPERIMENTS}")
    repeated_scores = {_score_key(key) for key in repeats}
    others = [result for result in others if _score_key(seed_key(result)) not in repeated_scores]
    seeds = _ambiguous(
        others, lambda result: _score_key(seed_key(result)), lambda result: result.experiment
    )
    for (spec, _, task, _), n in seeds.items():
        reasons.append(f"{spec} on {task}: its seeds are of {n} {_EXPERIMENTS}")
    return reasons


def _score_key(key: tuple[str, str, str, int | None, int]) -> tuple[str, str, str, int | None]:
    """The key of a score, from that of one of its seeds."""
    return key[:-1]


def _ambiguous(
    results: Iterable[Result], key: Callable[[Result], Any], value: Callable[[Result], str]
) -> dict[Any, int]:
    """Count the values of each key that has more than one."""
    values: dict[Any, set[str]] = {}
    for result in results:
        values.setdefault(key(result), set()).add(value(result))
    return {name: len(distinct) for name, distinct in values.items() if len(distinct) > 1}


def _several(name: str, values: set[str]) -> list[str]:
    return [f"{name} {' and '.join(sorted(values))}"] if len(values) > 1 else []


def incomparable(results: Sequence[Result]) -> list[str]:
    """Return reasons why results on one task cannot be compared: data, computations, protocols, precisions, metrics."""
    files = {json.dumps(result.data.get("files"), sort_keys=True) for result in results}
    versions = {str(result.data.get("version")) for result in results}
    computations = {str(result.computation) for result in results}
    reasons = []
    if len(files) > 1:
        reasons.append("different data (checksums)")
    if len(versions) > 1:
        reasons.append("different versions of the task")
    if len(computations) > 1:
        reasons.append("different computations")
    return [
        *reasons,
        *_several("protocols", {result.protocol for result in results}),
        *_several("evaluated in", {result.evaluated_in for result in results}),
        *_several("metrics", {result.main_metric for result in results}),
    ]


def tuned_with(n_seeds: int, results: Sequence[Result]) -> bool:
    """Test whether the results of an encoder on one task are those of so many tuned models.

    A directory that ``mirrorbench tune`` wrote is one.
    """
    if results[0].encoder.get("tuned_directory"):
        return n_seeds == 1
    seeds = {result.seed for result in results}
    return len(seeds) == n_seeds and bool(results[0].cell.get("recipe"))
