from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mirrorbench.core.errors import DataFormatError
from mirrorbench.core.inputs import TextInput
from mirrorbench.data.items import Pair
from mirrorbench.data.store import DataStore
from mirrorbench.runs.builtin import plugins
from mirrorbench.tasks import PairClassification, Vectors

PAIRS = [Pair("a", "q1", "s1", 1.0), Pair("b", "q1", "s2", 0.0), Pair("c", "q2", "s2", 1.0), Pair("d", "q2", "s1", 0.0)]
PLANE = {"q1": (1, 0), "q2": (0, 2), "s1": (3, 1), "s2": (1, 1)}


def test_a_task_in_code(tmp_path: Path) -> None:
    task = PairClassification("answers", PAIRS)
    items = task.load(DataStore(tmp_path))
    inputs = list(dict.fromkeys(task.inputs(items)))
    scores = task.score(items, Vectors(inputs, np.array([PLANE[item.text] for item in inputs], np.float32)))
    # cosines: a 3/sqrt(10), b 1/sqrt(2), c 1/sqrt(2), d 1/sqrt(10): three pairs in order, one tie
    assert scores.scores == pytest.approx([3 / 10**0.5, 0.5**0.5, 0.5**0.5, 0.1**0.5])
    assert scores.metrics == {"auc": pytest.approx((1 + 1 + 0.5 + 1) / 4)}
    assert task.main_metric == "auc"
    assert scores.ids == ["a", "b", "c", "d"]
    assert set(scores.extra) == {"roc_fpr", "roc_tpr", "roc_thresholds"}


@pytest.mark.parametrize("gold", [(1.0, 1.0), (0.0, 0.5)])
def test_labels_must_be_both_of_two(tmp_path: Path, gold: tuple[float, float]) -> None:
    pairs = [Pair(str(number), "a", "b", label) for number, label in enumerate(gold)]
    with pytest.raises(DataFormatError, match="labels"):
        PairClassification("answers", pairs).load(DataStore(tmp_path))


def test_qnli_is_of_this_kind() -> None:
    task = plugins().tasks["qnli"]
    assert isinstance(task, PairClassification)
    assert (task.corpus, task.title, task.level) == ("qnli-sentences", "QNLI", "sentence")
    assert TextInput("x") not in task.inputs([])
