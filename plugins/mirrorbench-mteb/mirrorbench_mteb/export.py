"""Export of stored results as MTEB's result files: ``<folder>/results/<model>/<revision>/<task>.json``."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mirrorbench.core.identity import COMPUTATION, digest
from mirrorbench.storage.results import Result
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
    """The written files, and the results that MTEB has no place for.

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
        results: results from ``mirrorbench.storage.results.read_results``.
        folder: the folder of ``results/``.
    """
    from mteb.cache import ResultCache

    from mirrorbench_mteb.meta import model_meta

    written: dict[tuple[str, str, str], dict[str, list[tuple[Entry, Result]]]] = {}
    left_out = []
    for result in results:
        entry = catalogue().get(COUNTERPARTS.get(result.task, result.task))
        if reason := OTHER_ITEMS.get(result.task) or _misfit(entry, result):
            left_out.append((result.spec, result.task, reason))
        elif entry is not None:
            key = (result.spec, result.protocol, str(result.encoder.get("fingerprint", ""))[:12])
            written.setdefault(key, {}).setdefault(entry.task, []).append((entry, result))
    cache, files = ResultCache(folder), []
    for (spec, protocol, revision), tasks in written.items():
        meta = model_meta(spec, revision or "unknown", _facts(tasks), protocol)
        for task, subsets in tasks.items():
            with _quiet():
                cache.save_to_cache(_task_result(task, subsets), meta)
            files.append(cache.get_task_result_path(task, meta))
    return Exported(tuple(files), tuple(left_out))


def _facts(tasks: Mapping[str, list[tuple[Entry, Result]]]) -> Facts:
    """The facts on an encoder in its results."""
    from mirrorbench_mteb.meta import Facts

    entry, first = next(iter(tasks.values()))[0]
    encoder, corpus = first.encoder, first.cell.get("corpus") or {}
    contaminated = [
        task
        for task, subsets in tasks.items()
        if any((r.overlap or {}).get("any_text") for _, r in subsets)
    ]
    created = (
        min(r.created for subsets in tasks.values() for _, r in subsets)[:10] if corpus else ""
    )
    return Facts(
        encoder.get("dimensions"),
        encoder.get("parameters"),
        encoder.get("max_length"),
        str(corpus.get("name", "")),
        entry.languages[0],
        contaminated,
        created,
    )


def _misfit(entry: Entry | None, result: Result) -> str:
    """The reason why a result has no place in MTEB, or ""."""
    if entry is None:
        return "MTEB has no such task"
    if result.limit:
        return f"it is of a smoke run on the first {result.limit} items"
    if result.computation != COMPUTATION:
        return f"it is of computation {result.computation or 'unknown'}, not the current {COMPUTATION}: run it again"
    if any(result.metrics.get(metric) is None for metric in SCORES[entry.type].values()):
        return "its score is undefined"
    expected = _samples(entry)
    if expected and result.n_items != expected:
        return f"it has {result.n_items} items, and MTEB's {entry.task} {expected}"
    return ""


def _samples(entry: Entry) -> int:
    """The number of items of a subset in MTEB's statistics, or 0."""
    stats: Any = (get_task(entry.task).metadata.descriptive_stats or {}).get(entry.split, {})
    stats = stats.get("hf_subset_descriptive_stats", {}).get(entry.subset, stats)
    return int(stats.get("num_samples", 0))


def _task_result(name: str, subsets: list[tuple[Entry, Result]]) -> Any:
    """The content of one file of MTEB: the results on subsets of a task."""
    from importlib.metadata import version

    from mteb.results import TaskResult

    scripts = get_task(name).metadata.hf_subsets_to_langscripts
    scores: dict[str, list[Mapping[str, Any]]] = {}
    for entry, result in subsets:
        values = {theirs: result.metrics[ours] for theirs, ours in SCORES[entry.type].items()}
        row = {**values, "hf_subset": entry.subset, "languages": scripts[entry.subset]}
        rows = scores.setdefault(entry.split, [])
        rows[:] = [earlier for earlier in rows if earlier["hf_subset"] != entry.subset] + [row]
    return TaskResult(
        dataset_revision=_revision([result for _, result in subsets]),
        task_name=name,
        mteb_version=version("mteb"),
        scores=scores,
        date=datetime.fromisoformat(max(r.created for _, r in subsets)),
        evaluation_time=sum(
            r.seconds.get("encode", 0.0) + r.seconds.get("score", 0.0) for _, r in subsets
        ),
    )


def _revision(results: list[Result]) -> str:
    """The revision that MTEB pins, or an identifier of data from other sources."""
    files: dict[str, str] = {
        name: value for r in results for name, value in r.data.get("files", {}).items()
    }
    revisions = set(files.values())
    if all(name.startswith("hf:") for name in files) and len(revisions) == 1:
        return revisions.pop()
    return f"original-files-{digest(files)[:12]}"


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence mteb's warnings about a model that is on no hub."""
    logger = logging.getLogger("mteb")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)
