"""Exports stored results of mirrorbench as MTEB's result files: ``<folder>/results/<model>/<revision>/<task>.json``."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mirrorbench.core.identity import COMPUTATION, digest
from mirrorbench.runs.results import Result
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
"""Tasks of mirrorbench that hold the same pairs as one of MTEB's, read from the organisers' files."""
ELSEWHERE = {
    "sickr": "the papers score its test split, MTEB's SICK-R all pairs: mirrorbench run --tasks mteb-SICK-R",
}
"""Tasks that MTEB scores on other items, and what to run for its scores."""
SCORES = {
    "STS": {
        "pearson": "pearson", "spearman": "spearman", "cosine_pearson": "pearson", "cosine_spearman": "spearman",
        "main_score": "spearman",
    },
    "PairClassification": {"similarity_ap": "ap", "cosine_ap": "ap", "main_score": "ap"},
}  # fmt: skip
"""MTEB's names of scores, and the metric of mirrorbench that each is."""


@dataclass(frozen=True)
class Exported:
    """The files that results were written to, and the results that were left out.

    Attributes:
        files: what was written.
        left_out: encoder, task and why, for each result that has no place in MTEB.
    """

    files: tuple[Path, ...]
    left_out: tuple[tuple[str, str, str], ...]


def export(results: Iterable[Result], folder: Path) -> Exported:
    """Write results in MTEB's format; ``mteb.ResultCache(folder)`` reads them.

    Subsets of one task share a file, as in MTEB. A file that is there is replaced.

    Args:
        results: as ``mirrorbench.runs.results.read_results`` gives them.
        folder: where ``results/`` is made.
    """
    from mteb.cache import ResultCache

    from mirrorbench_mteb.meta import model_meta

    written: dict[tuple[str, str, str], dict[str, list[tuple[Entry, Result]]]] = {}
    left_out = []
    for result in results:
        entry = catalogue().get(COUNTERPARTS.get(result.task, result.task))
        if why := ELSEWHERE.get(result.task) or _misfit(entry, result):
            left_out.append((result.spec, result.task, why))
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
    """The facts on an encoder that its results hold."""
    from mirrorbench_mteb.meta import Facts

    entry, first = next(iter(tasks.values()))[0]
    encoder, corpus = first.encoder, first.cell.get("corpus") or {}
    hit = [task for task, subsets in tasks.items() if any((r.overlap or {}).get("any_text") for _, r in subsets)]
    created = min(r.created for subsets in tasks.values() for _, r in subsets)[:10] if corpus else ""
    return Facts(
        encoder.get("dimensions"), encoder.get("parameters"), encoder.get("max_length"), str(corpus.get("name", "")),
        entry.languages[0], hit, created,
    )  # fmt: skip


def _misfit(entry: Entry | None, result: Result) -> str:
    """The reason why a result has no place in MTEB; empty where it has one."""
    if entry is None:
        return "MTEB has no such task"
    if result.limit:
        return f"it is of a smoke run on the first {result.limit} items"
    if result.computation != COMPUTATION:
        return f"it is of computation {result.computation or 'not stated'}, and today's is {COMPUTATION}: run it again"
    if any(result.metrics.get(metric) is None for metric in SCORES[entry.type].values()):
        return "its score is undefined"
    expected = _samples(entry)
    if expected and result.n_items != expected:
        return f"it has {result.n_items} items, and MTEB's {entry.task} {expected}"
    return ""


def _samples(entry: Entry) -> int:
    """How many items MTEB says that the subset has; 0 where it does not say."""
    stats: Any = (get_task(entry.task).metadata.descriptive_stats or {}).get(entry.split, {})
    stats = stats.get("hf_subset_descriptive_stats", {}).get(entry.subset, stats)
    return int(stats.get("num_samples", 0))


def _task_result(name: str, subsets: list[tuple[Entry, Result]]) -> Any:
    """One file of MTEB: a task with the subsets that there are results of."""
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
        evaluation_time=sum(r.seconds.get("encode", 0.0) + r.seconds.get("score", 0.0) for _, r in subsets),
    )


def _revision(results: list[Result]) -> str:
    """The revision that MTEB pins, or, for data from elsewhere, a text that says so and identifies it."""
    files: dict[str, str] = {name: value for r in results for name, value in r.data.get("files", {}).items()}
    revisions = set(files.values())
    if all(name.startswith("hf:") for name in files) and len(revisions) == 1:
        return revisions.pop()
    return f"original-files-{digest(files)[:12]}"


@contextmanager
def _quiet() -> Iterator[None]:
    """Mteb warns of what it cannot find out about a model that is on no hub."""
    logger = logging.getLogger("mteb")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)
