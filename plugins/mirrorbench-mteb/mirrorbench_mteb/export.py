"""Export of stored results as MTEB's result files: ``<folder>/results/<model>/<revision>/<task>.json``."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mirrorbench.plugin import Result
from mirrorbench_mteb.catalogue import Entry, catalogue
from mirrorbench_mteb.tasks import get_task

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mirrorbench_mteb.meta import Facts

COUNTERPARTS = {
    **{f"sts{year}": f"mteb-STS{year}" for year in range(12, 17)},
    "stsb": "mteb-STSBenchmark",
    "sts17-en": "mteb-STS17-en-en",
    "quick-sts": "mteb-STS17-en-en",
    "sts17-es": "mteb-STS17-es-es",
    "sts17-ar": "mteb-STS17-ar-ar",
}
"""Tasks of MTEB with the same pairs as a task of mirrorbench, which reads the organisers' files."""
OTHER_ITEMS = {
    "sickr": "the papers score its test split, MTEB's SICK-R all pairs: mirrorbench run --tasks mteb-SICK-R",
}
"""Tasks that MTEB scores on other items, with the command for its scores."""
SCORES = {
    "STS": {
        "pearson": "pearson",
        "spearman": "spearman",
        "cosine_pearson": "pearson",
        "cosine_spearman": "spearman",
        "main_score": "spearman",
    },
    "PairClassification": {"similarity_ap": "ap", "cosine_ap": "ap", "main_score": "ap"},
}
"""Metrics of mirrorbench by MTEB's names of scores, by type of task."""


@dataclass(frozen=True)
class Exported:
    """The written files, and the results that were left out.

    Attributes:
        files: paths of the written files.
        left_out: encoder, task and reason for each result that is in no file.
    """

    files: tuple[Path, ...]
    left_out: tuple[tuple[str, str, str], ...]


def export(results: Iterable[Result], folder: Path) -> Exported:
    """Write results in MTEB's format; ``mteb.ResultCache(folder)`` reads them.

    Subsets of one task share a file, as in MTEB. Existing files are replaced.

    Args:
        results: results from ``mirrorbench.plugin.read_results``.
        folder: the folder of ``results/``.
    """
    from mteb.cache import ResultCache

    from mirrorbench_mteb.meta import model_meta

    # The results of each model (spec, protocol, revision), by MTEB's task: each with the entry of its subset.
    tasks_of_models: dict[tuple[str, str, str], dict[str, list[tuple[Entry, Result]]]] = {}
    left_out = []
    for result in results:
        entry = catalogue().get(COUNTERPARTS.get(result.task, result.task))
        reason = OTHER_ITEMS.get(result.task) or _misfit(entry, result)
        if reason:
            left_out.append((result.spec, result.task, reason))
            continue
        assert entry is not None  # else ``_misfit`` has a reason
        revision = str(result.encoder.get("fingerprint", ""))[:12]
        model = (result.spec, result.protocol, revision)
        results_by_task = tasks_of_models.setdefault(model, {})
        results_by_task.setdefault(entry.task, []).append((entry, result))
    cache = ResultCache(folder)
    files = []
    for (spec, protocol, revision), results_by_task in tasks_of_models.items():
        meta = model_meta(spec, revision or "unknown", _facts(results_by_task), protocol)
        for task, subsets in results_by_task.items():
            with _quiet():
                cache.save_to_cache(_task_result(task, subsets), meta)
            files.append(cache.get_task_result_path(task, meta))
    return Exported(tuple(files), tuple(left_out))


def _facts(results_by_task: Mapping[str, list[tuple[Entry, Result]]]) -> Facts:
    """Return what the results of one encoder say about it.

    ``results_by_task``: at least one result, with the entry of its subset, by MTEB's name of the task.
    """
    from mirrorbench_mteb.meta import Facts

    contaminated_tasks = []
    days = []
    for task, subsets in results_by_task.items():
        results = [result for _, result in subsets]
        if any((result.overlap or {}).get("any_text") for result in results):
            contaminated_tasks.append(task)
        days += [result.created[:10] for result in results]
    first_entry, first_result = next(iter(results_by_task.values()))[0]
    encoder = first_result.encoder
    corpus = first_result.cell.get("corpus") or {}
    return Facts(
        dimensions=encoder.get("dimensions"),
        parameters=encoder.get("parameters"),
        max_tokens=encoder.get("max_length"),
        corpus=str(corpus.get("name", "")),
        language=first_entry.languages[0],
        contaminated=contaminated_tasks,
        # A tuned encoder exists from its first result on; an untuned one has the date of its backbone.
        created=min(days) if corpus else "",
    )


def _misfit(entry: Entry | None, result: Result) -> str:
    """Return the reason why a result has no place in MTEB; empty if it has one."""
    if entry is None:
        return "MTEB has no such task"
    if result.limit:
        return f"it is from a smoke run on the first {result.limit} items"
    if not result.is_current:
        computation = result.computation or "unknown"
        return f"it is from computation {computation}, which is not the current one: run it again"
    if any(result.metrics.get(metric) is None for metric in SCORES[entry.type].values()):
        return "its score is undefined"
    expected = _samples(entry)
    if expected and result.n_items != expected:
        return f"it has {result.n_items} items, and MTEB's {entry.task} {expected}"
    return ""


def _samples(entry: Entry) -> int:
    """Return the number of items of a subset in MTEB's statistics; 0 if it is not stated."""
    statistics_of_task = get_task(entry.task).metadata.descriptive_stats or {}
    statistics: Any = statistics_of_task.get(entry.split, {})
    # A task with one subset states its numbers without naming the subset.
    subsets = statistics.get("hf_subset_descriptive_stats", {})
    return int(subsets.get(entry.subset, statistics).get("num_samples", 0))


def _task_result(name: str, subsets: list[tuple[Entry, Result]]) -> Any:
    """Return the content of one file of MTEB: the results on subsets of a task."""
    from importlib.metadata import version

    from mteb.results import TaskResult

    languages_of_subsets = get_task(name).metadata.hf_subsets_to_langscripts
    scores: dict[str, list[Mapping[str, Any]]] = {}
    seconds = 0.0
    for entry, result in subsets:
        row: dict[str, Any] = {}
        for mteb_score, metric in SCORES[entry.type].items():
            row[mteb_score] = result.metrics[metric]
        row["hf_subset"] = entry.subset
        row["languages"] = languages_of_subsets[entry.subset]
        # Of several results on a subset, the last one is kept.
        rows = scores.get(entry.split, [])
        other_rows = [other for other in rows if other["hf_subset"] != entry.subset]
        scores[entry.split] = [*other_rows, row]
        seconds += result.seconds.get("encode", 0.0) + result.seconds.get("score", 0.0)
    results = [result for _, result in subsets]
    return TaskResult(
        dataset_revision=_revision(results),
        task_name=name,
        mteb_version=version("mteb"),
        scores=scores,
        date=datetime.fromisoformat(max(result.created for result in results)),
        evaluation_time=seconds,
    )


def _revision(results: list[Result]) -> str:
    """Return the revision that MTEB pins, or an identifier of data from other sources."""
    files: dict[str, str] = {}
    for result in results:
        files |= result.data.get("files", {})
    revisions = set(files.values())
    if all(name.startswith("hf:") for name in files) and len(revisions) == 1:
        return revisions.pop()
    canonical = json.dumps(files, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return f"original-files-{hashlib.sha256(canonical.encode()).hexdigest()[:12]}"


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence mteb's warnings about a model that is not on the hub."""
    logger = logging.getLogger("mteb")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)
