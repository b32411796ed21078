"""The overlap of a corpus with tasks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mirrorbench.core.errors import MirrorbenchError
from mirrorbench.core.plugins import Plugins
from mirrorbench.data.corpora import (
    Contamination,
    GeneratedCorpus,
    check_corpus,
    find_contamination,
    read_corpus,
)
from mirrorbench.data.store import DataStore
from mirrorbench.runs.outcomes import Reporter
from mirrorbench.runs.registry import expand_tasks


def corpus_overlap(
    corpus: str | Path | GeneratedCorpus,
    tasks: Sequence[str],
    plugins: Plugins,
    store: DataStore,
    reporter: Reporter,
) -> dict[str, Contamination | MirrorbenchError | None]:
    """Count, for each task, the test items whose texts occur in a corpus or a text file.

    Missing data of the tasks are fetched. The value is ``None`` for a task that names no texts, and the error for a
    task that cannot be read.
    """
    if isinstance(corpus, str):
        check_corpus(corpus, plugins.corpora)
    registered_corpora = plugins.corpora.by_name()
    strings = read_corpus(corpus, store, registered_corpora, note=reporter.note).texts
    overlaps: dict[str, Contamination | MirrorbenchError | None] = {}
    for name in expand_tasks(tasks, plugins):
        task = plugins.tasks[name]
        try:
            task.fetch(store)
            overlaps[name] = find_contamination(task.texts(task.load(store)), strings)
        except MirrorbenchError as error:
            overlaps[name] = error
    return overlaps
