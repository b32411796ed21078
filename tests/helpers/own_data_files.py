"""Files of a user's own data, and the scores of vectors that depend on nothing but the texts in them."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics.pairwise import cosine_similarity

from helpers.toy_plugin import vectors_of
from mirrorbench.core.plugins import Plugins
from mirrorbench.data.store import DataStore
from mirrorbench.tasks.base import Scores, Task, score_task

Write = Callable[[str, Any], str]


def vector(text: str) -> np.ndarray:
    """A vector that depends on the text alone."""
    return np.random.default_rng(list(text.encode())).normal(size=8).astype(np.float32)


def cosines(left: list[str], right: list[str]) -> np.ndarray:
    """The cosines of the vectors of all texts on either side."""
    return cosine_similarity(
        np.stack([vector(t) for t in left]), np.stack([vector(t) for t in right])
    )


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes a table of columns in the format of its ending; returns the path."""

    def write(name: str, columns: Mapping[str, list[Any]]) -> str:
        path, frame = tmp_path / name, pd.DataFrame(columns)
        path.parent.mkdir(parents=True, exist_ok=True)
        if name.endswith(".parquet"):
            frame.to_parquet(path)
        elif ".jsonl" in name:
            frame.to_json(path, orient="records", lines=True)
        else:
            frame.to_csv(path, index=False, sep="\t" if ".tsv" in name else ",")
        return str(path)

    return write


def task_and_scores(
    plugins: Plugins, name: str, vector: Callable[[str], np.ndarray] = vector
) -> tuple[Task, Scores]:
    """The task of a path, and its scores of the vectors of its texts, with the remarks on its items among the notes."""
    task = plugins.tasks[name]
    items = task.load(DataStore(Path("nowhere"), offline=True))
    vectors = vectors_of(task, items, lambda item: vector(item.text))
    scores = score_task(task, items, vectors, "paper", plugins.metrics)
    return task, replace(scores, notes=(*task.remarks(items), *scores.notes))


TEXTS = [f"text {n}" for n in range(40)]
OTHERS = [f"other {n}" for n in range(40)]


def write_collection(folder: Path, judgements: str, documents: int = 40, **more: str) -> str:
    """A collection of texts that are numbered, with its judgements."""
    (folder / "qrels").mkdir(parents=True)
    rows = [
        {"_id": f"d{n}", "title": f"title {n}", "text": "" if n == 3 else OTHERS[n]}
        for n in range(documents)
    ]
    with gzip.open(folder / "corpus.jsonl.gz", "wt") as sink:
        sink.writelines(json.dumps(row) + "\n" for row in rows)
    queries = [{"_id": f"q{n}", "text": TEXTS[n]} for n in range(4)]
    (folder / "queries.jsonl").write_text(
        "".join(json.dumps(row) + "\n" for row in queries) + more.get("queries", "")
    )
    (folder / "qrels" / "test.tsv").write_text(f"query-id\tcorpus-id\tscore\n{judgements}")
    return str(folder)
