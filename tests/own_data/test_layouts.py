"""Tables and folders of own data whose columns have other names."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
from helpers.own_data_files import (
    OTHERS,
    TEXTS,
    Write,
    cosines,
    task_and_scores,
    write_collection,
)
from sklearn.metrics import average_precision_score

from mirrorbench.core.errors import UsageError
from mirrorbench.core.plugins import Plugins
from mirrorbench.own_data.layouts import find_layout


def test_files_of_each_part_are_found(write: Write, tmp_path: Path) -> None:
    pairs = write("a.csv", {"sentence1": TEXTS, "sentence2": OTHERS, "score": range(len(TEXTS))})
    layout = find_layout(Path(pairs), "", {})
    assert layout is not None
    assert (layout.kind, list(layout.files.values())) == ("similarity", [Path(pairs)])
    number, values = next(layout.rows("test", ["sentence1", "score"]))
    assert (number, values[0]) == (2, TEXTS[0])
    (tmp_path / "notes.txt").write_text("no table\n")
    assert find_layout(tmp_path / "notes.txt", "", {}) is None


def test_pair_columns_may_be_renamed(plugins: Plugins, write: Write) -> None:
    labels = [n % 3 == 0 for n in range(40)]
    path = write("a.csv", {"question": TEXTS, "sentence2": OTHERS, "label": labels})
    with pytest.raises(UsageError, match="columns question, sentence2, label") as caught:
        plugins.tasks[path]
    assert (
        f"For pairs it needs sentence1. Columns of other names: {path}:sentence1=ITS_NAME,"
        in caught.value.hint
    )
    _, scores = task_and_scores(plugins, f"{path}:sentence1=question")
    assert scores.metrics["cosine_ap"] == pytest.approx(
        average_precision_score(labels, np.diag(cosines(TEXTS, OTHERS)))
    )


def test_collection_columns_may_be_renamed(plugins: Plugins, tmp_path: Path) -> None:
    path = Path(write_collection(tmp_path / "mine", "q0\td1\t1\n"))
    expected = task_and_scores(plugins, str(path))[1].metrics
    with gzip.open(path / "corpus.jsonl.gz", "rt") as source:
        corpus = source.read()
    (path / "corpus.jsonl.gz").unlink()
    queries = (path / "queries.jsonl").read_text()
    for part, text in (("corpus", corpus), ("queries", queries)):
        (path / f"{part}.jsonl").write_text(
            text.replace('"_id"', '"key"').replace('"text"', '"body"')
        )
    judged = (
        (path / "qrels" / "test.tsv").read_text().replace("query-id", "q").replace("corpus-id", "d")
    )
    (path / "qrels" / "test.tsv").write_text(judged)
    assert (
        task_and_scores(plugins, f"{path}:id=key,text=body,query=q,corpus=d")[1].metrics == expected
    )
