"""MTEB tasks for the tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from datasets import Dataset, DatasetDict
from mteb.abstasks.pair_classification import AbsTaskPairClassification
from mteb.abstasks.sts import AbsTaskSTS
from mteb.abstasks.task_metadata import TaskMetadata

from mirrorbench.data.items import Pair

SPEC = "tiny+mirror:batch_size=20,corpus=quick-sentences,corpus_size=60"
"""Of the encoder that the tests tune."""


def metadata(name: str, type: str, main_score: str, path: str = "nobody/nothing") -> TaskMetadata:
    return TaskMetadata(
        name=name, description="Pairs of the tests.", dataset={"path": path, "revision": "1" * 40}, type=type,
        category="t2t", modalities=["text"], eval_splits=["test"], eval_langs=["eng-Latn"], main_score=main_score,
        date=("2017-01-01", "2017-12-31"), domains=["Written"], task_subtypes=[], license="cc-by-sa-4.0",
        annotations_creators="human-annotated", dialect=[], sample_creation="found", bibtex_citation="",
        reference="https://example.org",
    )  # fmt: skip


def on_disk(path: str) -> Any:
    """An STS task that mteb loads from a folder by itself."""

    class OnDisk(AbsTaskSTS):
        pass

    OnDisk.metadata = metadata("OnDisk", "STS", "cosine_spearman", path)
    return OnDisk()


def similarity_task(pairs: Sequence[Pair]) -> Any:
    class InMemory(AbsTaskSTS):
        def load_data(self, *args: Any, **kwargs: Any) -> None:
            rows = {
                "sentence1": [p.left for p in pairs],
                "sentence2": [p.right for p in pairs],
                "score": [p.gold for p in pairs],
            }
            self.dataset = DatasetDict({"test": Dataset.from_dict(rows)})
            self.data_loaded = True

    InMemory.metadata = metadata("InMemory", "STS", "cosine_spearman")
    return InMemory()


def classification_task(pairs: Sequence[Pair], in_one_row: bool) -> Any:
    class Classes(AbsTaskPairClassification):
        def load_data(self, *args: Any, **kwargs: Any) -> None:
            rows: dict[str, list[Any]] = {
                "sentence1": [p.left for p in pairs],
                "sentence2": [p.right for p in pairs],
                "labels": [int(p.gold >= 3) for p in pairs],
            }
            if in_one_row:
                rows = {name: [values] for name, values in rows.items()}
            self.dataset = DatasetDict({"test": Dataset.from_dict(rows)})
            self.data_loaded = True

    Classes.metadata = metadata("Classes", "PairClassification", "max_ap")
    return Classes()
