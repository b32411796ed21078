"""MTEB tasks for the tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mteb
from datasets import Dataset, DatasetDict
from mteb.abstasks.pair_classification import AbsTaskPairClassification
from mteb.abstasks.sts import AbsTaskSTS

from mirrorbench.plugin import Pair

SPEC = "tiny+mirror:batch_size=20,corpus=quick-sentences,corpus_size=60"
"""Spec of the encoder that the tests tune."""


def made(base: type, name: str, path: str = "nobody/nothing", **methods: Any) -> Any:
    """A task of MTEB on English pairs, with the metadata of STS12 except for its name and its data."""
    facts = {"name": name, "dataset": {"path": path, "revision": "1" * 40}}
    if base is AbsTaskPairClassification:
        facts |= {"type": "PairClassification", "main_score": "max_ap"}
    metadata = mteb.get_task("STS12").metadata.model_copy(update=facts)
    return type(name, (base,), {"metadata": metadata, **methods})()


def on_disk(path: str) -> Any:
    """An STS task that mteb loads from a folder by itself."""
    return made(AbsTaskSTS, "OnDisk", path)


def in_memory(
    base: type, name: str, pairs: Sequence[Pair], gold: dict[str, list[Any]], in_one_row: bool
) -> Any:
    rows = {"sentence1": [p.left for p in pairs], "sentence2": [p.right for p in pairs]} | gold

    def load_data(self: Any, *args: Any, **kwargs: Any) -> None:
        columns = {name: [values] for name, values in rows.items()} if in_one_row else rows
        self.dataset, self.data_loaded = DatasetDict({"test": Dataset.from_dict(columns)}), True

    return made(base, name, load_data=load_data)


def similarity_task(pairs: Sequence[Pair]) -> Any:
    return in_memory(
        AbsTaskSTS, "InMemory", pairs, {"score": [p.gold for p in pairs]}, in_one_row=False
    )


def classification_task(pairs: Sequence[Pair], in_one_row: bool) -> Any:
    labels = {"labels": [int(p.gold >= 3) for p in pairs]}
    return in_memory(AbsTaskPairClassification, "Classes", pairs, labels, in_one_row)
