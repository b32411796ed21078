"""Rules on which results one table may hold: results of one computation, and of one experiment under each name."""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

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

_Key = TypeVar("_Key", bound=Hashable)
_EXPERIMENTS = "different experiments (recipe, corpus or precision)"


class Stored(NamedTuple):
    """A stored result."""

    result: Result
    path: Path
    """The file of the result."""
    in_memory: Predictions | None = None
    """Its predictions; ``None`` if they are to be read from the folder of the result."""

    def predictions(self) -> Predictions:
        """Return the predictions.

        Raises:
            DataFormatError: they are missing, damaged, or those of another result.
        """
        if self.in_memory is None:
            return read_predictions(self.path, self.result)
        try:
            check_predictions(self.in_memory)
        except ValueError as error:  # a plugin's task may return anything
            raise DataFormatError(f"the predictions of {self.path}: {error}") from error
        return self.in_memory


def stored_results(outcome: Outcome, plan: Plan, store: ResultStore) -> list[Stored]:
    """Return the results of a run; those that it computed hold their predictions."""
    paths = {cell.id: store.stored_path(cell) for cell in plan.cells}
    stored = []
    for result in outcome.results:
        predictions = outcome.predictions.get(result.cell_id)
        stored.append(Stored(result, paths[result.cell_id], predictions))
    return stored


def read_stored(folders: Sequence[Path]) -> list[Stored]:
    """Read all results in some folders.

    Raises:
        UsageError: a folder is missing.
    """
    for folder in folders:
        if not folder.is_dir():
            raise UsageError(
                f"there is no folder {folder} with results", "Make some: mirrorbench run"
            )
    return [Stored(read_result(path), path) for folder in folders for path in result_files(folder)]


def _newest_first_by_computation(results: Iterable[Result]) -> dict[int | None, list[Result]]:
    """Group results by computation, the newest first; results that do not state it come last."""
    groups: dict[int | None, list[Result]] = {}
    for result in results:
        groups.setdefault(result.computation, []).append(result)
    return dict(sorted(groups.items(), key=lambda group: -(group[0] or 0)))


def newest(results: Iterable[Result], anew: str) -> tuple[list[Result], list[str]]:
    """Return the results of the newest computation, and notes on results of outdated ones.

    If that computation is itself outdated, a note says that its results are shown.

    Args:
        results: results of any computations.
        anew: the command that computes outdated results anew, for the notes.
    """
    groups = _newest_first_by_computation(results)
    chosen = next(iter(groups.values()), [])
    notes = []
    for computation, group in groups.items():
        if computation != COMPUTATION:
            state = "Shown" if group is chosen else "Left out"
            notes.append(f"{state}: {_origin(group)}. Compute them anew: {anew}")
    return chosen, notes


def newest_shared(sides: Sequence[Sequence[Stored]]) -> tuple[list[list[Stored]], list[str]]:
    """Return two encoders' results of the newest computation in which they share a task, and notes on those left out.

    If there is none, return the results of each encoder's own newest computation, which cannot be compared.

    Args:
        sides: the results of each of the two encoders, at least one of each.
    """
    first, second = sides
    computed_by_first = {(entry.result.computation, entry.result.task) for entry in first}
    computed_by_second = {(entry.result.computation, entry.result.task) for entry in second}
    shared_computations = {computation for computation, _ in computed_by_first & computed_by_second}
    selected: list[list[Stored]] = []
    notes: list[str] = []
    for side in sides:
        groups = _newest_first_by_computation(entry.result for entry in side)
        shared = [computation for computation in groups if computation in shared_computations]
        # The newest shared computation is the same for both sides; without one, each side has its own.
        candidates = shared or list(groups)
        newest_computation = candidates[0]
        selected.append([entry for entry in side if entry.result.computation == newest_computation])
        for computation, group in groups.items():
            if computation != newest_computation:
                notes.append(f"left out: {_origin(group)}")
    return selected, list(dict.fromkeys(notes))


def _origin(results: Sequence[Result]) -> str:
    """Describe results of one computation: ``3 results of computation 4, not the current 5, by mirrorbench 0.1.0``."""
    computation = results[0].computation
    name = "an unknown computation" if computation is None else f"computation {computation}"
    outdated = "" if computation == COMPUTATION else f", not the current {COMPUTATION}"
    versions = ", ".join(sorted({version_of(result) for result in results}))
    noun = "result" if len(results) == 1 else "results"
    return f"{len(results)} {noun} of {name}{outdated}, by {versions}"


def version_of(result: Result) -> str:
    """Return the version that made a result, with its commit if known: ``mirrorbench 0.1.0 (320fa15db)``."""
    version = result.environment.get("mirrorbench", "of an unknown version")
    # A commit of a changed working tree has a suffix, such as 320fa15db...-dirty.
    commit, *suffix = str(result.environment.get("git") or "").split("-")
    if not commit:
        return f"mirrorbench {version}"
    return f"mirrorbench {version} ({'-'.join([commit[:9], *suffix])})"


def without_repeats(results: Iterable[Result]) -> list[Result]:
    """Keep the latest result for each computation, spec, protocol, task and seed.

    Results of different experiments with the same key are reported by ``mixtures``.
    """
    latest: dict[tuple[str, str, str, int | None, int], Result] = {}
    for result in results:
        key = seed_key(result)
        if key not in latest or latest[key].created < result.created:
            latest[key] = result
    return list(latest.values())


def seed_key(result: Result) -> tuple[str, str, str, int | None, int]:
    """Return the key of a result in tables: ``score_key`` and the seed."""
    return (result.spec, result.protocol, result.task, result.computation, result.seed)


def score_key(result: Result) -> tuple[str, str, str, int | None]:
    """Return the key of the score that a result belongs to: that of all its seeds."""
    return (result.spec, result.protocol, result.task, result.computation)


def mixtures(results: Sequence[Result], plugins: Plugins) -> list[str]:
    """Return reasons why results of one computation cannot be compared in one table, one line each; empty if they can.

    There are two kinds of reasons. The table would mix protocols, precisions of evaluation, versions of a task's data,
    or different models with the same spec. Or different experiments (recipe, corpus, precision) have the same spec,
    task and seed, or would be averaged as seeds of one score.
    """
    reasons = _reason_if_several("protocols", {result.protocol for result in results})
    reasons += _reason_if_several("evaluated in", {result.evaluated_in for result in results})

    # Each ``mixed_...`` holds the keys that have several values, and how many.
    mixed_tasks = _count_if_several((result.task, _data_of(result)) for result in results)
    for task, n_versions in mixed_tasks.items():
        reasons.append(f"{task}: {n_versions} different versions of its data")

    mixed_models = _count_if_several(
        (_model_name(result, plugins), _weights_of(result)) for result in results
    )
    for (spec, languages), n_models in mixed_models.items():
        reasons.append(f"{spec}: {n_models} different models, or versions of one ({languages})")

    # Different data or models are different experiments too: do not report these again.
    same_data_and_model = [
        result
        for result in results
        if result.task not in mixed_tasks and _model_name(result, plugins) not in mixed_models
    ]
    mixed_seeds = _count_if_several(
        (seed_key(result), result.cell_id) for result in same_data_and_model
    )
    for (spec, _, task, _, seed), n_experiments in mixed_seeds.items():
        reasons.append(f"{spec} on {task}, seed {seed}: {n_experiments} {_EXPERIMENTS}")

    # A score with such a seed is not reported again either; the key of a seed is that of its score and the seed.
    reported_scores = {key_of_seed[:-1] for key_of_seed in mixed_seeds}
    mixed_scores = _count_if_several(
        (score_key(result), result.experiment)
        for result in same_data_and_model
        if score_key(result) not in reported_scores
    )
    for (spec, _, task, _), n_experiments in mixed_scores.items():
        reasons.append(f"{spec} on {task}: its seeds are of {n_experiments} {_EXPERIMENTS}")
    return reasons


def _model_name(result: Result, plugins: Plugins) -> tuple[str, str]:
    """Return the spec and the languages of a result: a name such as "bert" is a different model in each language."""
    languages = result.task
    if result.task in plugins.tasks:
        languages = ", ".join(plugins.tasks[result.task].languages)
    return result.spec, languages


def _data_of(result: Result) -> str:
    return json.dumps(result.data, sort_keys=True)


def _weights_of(result: Result) -> str:
    return str(result.encoder.get("weights", ""))


def _count_if_several(pairs: Iterable[tuple[_Key, str]]) -> dict[_Key, int]:
    """Return the number of distinct values of each key that has several, from pairs of key and value."""
    values_by_key: dict[_Key, set[str]] = {}
    for key, value in pairs:
        values_by_key.setdefault(key, set()).add(value)
    return {key: len(values) for key, values in values_by_key.items() if len(values) > 1}


def _reason_if_several(name: str, values: set[str]) -> list[str]:
    """Return one reason that names the values if there are several, otherwise none."""
    if len(values) < 2:
        return []
    return [f"{name} {' and '.join(sorted(values))}"]


def incomparable(results: Sequence[Result]) -> list[str]:
    """Return reasons why results on one task cannot be compared, such as different data; empty if they can."""
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
    reasons += _reason_if_several("protocols", {result.protocol for result in results})
    reasons += _reason_if_several("evaluated in", {result.evaluated_in for result in results})
    reasons += _reason_if_several("metrics", {result.main_metric for result in results})
    return reasons


def tuned_with(n_seeds: int, results: Sequence[Result]) -> bool:
    """Test whether the results of an encoder on one task are those of ``n_seeds`` tuned models.

    A directory that ``mirrorbench tune`` wrote holds one tuned model.
    """
    if results[0].encoder.get("tuned_directory"):
        return n_seeds == 1
    seeds = {result.seed for result in results}
    return len(seeds) == n_seeds and bool(results[0].cell.get("recipe"))
