from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats
from toys import CATS, ToyEncoder

from mirrorbench.core.errors import UnknownNameError
from mirrorbench.core.registry import Registry
from mirrorbench.tasks import PairSimilarity, Scores, Vectors
from mirrorbench.tasks.base import score_task


@pytest.fixture
def metrics() -> Registry[Any]:
    found: Registry[Any] = Registry("metric")
    found.add("kendall", lambda scores, gold: stats.kendalltau(scores, gold).statistic, "this test")
    found.add("spearman", lambda scores, gold: 2.0, "this test")
    return found


def scored(main_metric: str, metrics: Registry[Any]) -> Scores:
    task = PairSimilarity("toy", CATS, main_metric=main_metric)
    inputs = list(dict.fromkeys(task.inputs(CATS)))
    vectors = Vectors(inputs, ToyEncoder().encode(inputs).astype(np.float32))
    return score_task(task, CATS, vectors, "paper", metrics)


def test_a_registered_metric_can_be_the_main_one(metrics: Registry[Any]) -> None:
    found = scored("kendall", metrics)
    assert found.metrics["kendall"] == pytest.approx(stats.kendalltau(found.scores, [p.gold for p in CATS]).statistic)
    assert found.metrics.keys() == {"spearman", "pearson", "kendall"}


def test_what_the_task_computes_itself_stays(metrics: Registry[Any]) -> None:
    found = scored("spearman", metrics)
    assert found.metrics["spearman"] == pytest.approx(stats.spearmanr(found.scores, found.gold).statistic)


def test_a_metric_that_nobody_has(metrics: Registry[Any]) -> None:
    with pytest.raises(UnknownNameError, match="unknown metric 'kendal'"):
        scored("kendal", metrics)
