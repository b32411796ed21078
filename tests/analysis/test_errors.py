from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import spearmanr

from mirrorbench.analysis.scores import answers, changed_answers, shifted_ranks


def arrays(scores: list[float], gold: list[float], **extra: np.ndarray) -> dict[str, np.ndarray]:
    return {"scores": np.array(scores), "gold": np.array(gold, dtype=np.float64), **extra}


def test_answers_of_every_kind_of_task() -> None:
    decided = arrays([0.9, 0.2], [1, np.nan], predictions=np.array([1, 0], dtype=np.int8))
    found = answers(decided, 0.4)
    assert found is not None
    assert (found[0].tolist(), found[1].tolist()) == ([1, 0], pytest.approx([0.5, -0.2]))
    hits = answers(arrays([1.0, 0.0], [1, 1]))
    assert hits is not None
    assert (hits[0].tolist(), hits[1].tolist()) == ([1, 0], [0.5, -0.5])
    labels = answers(arrays([0.9, 0.8, 0.3], [1, 1, 0]))
    assert labels is not None
    assert labels[0].tolist() == [1, 1, 0]
    assert 0.3 < 0.3 - labels[1][2] < 0.8
    assert answers(arrays([0.1, 0.2, 0.4], [0, 2.5, 5])) is None


def test_changes_of_loops() -> None:
    rng = np.random.default_rng(2)
    n = 60
    gold = rng.integers(0, 2, n)
    scores = rng.normal(size=n), rng.normal(size=n) + gold
    cuts = 0.1, 0.6
    before, after = ((s > c).astype(np.int64) for s, c in zip(scores, cuts, strict=True))
    ids = [f"i{row}" for row in range(n)]
    found = changed_answers(ids, gold, (before, scores[0] - cuts[0]), (after, scores[1] - cuts[1]))
    changed = [row for row in range(n) if before[row] != after[row]]
    assert {c.id for c in found} == {ids[row] for row in changed}
    assert {c.id for c in found if c.corrected} == {ids[row] for row in changed if after[row] == gold[row]}
    # as many more right answers as the accuracies differ
    assert sum(1 if c.corrected else -1 for c in found) == (after == gold).sum() - (before == gold).sum()
    for change in found:
        assert (change.score_before > 0) == bool(change.before)
        assert (change.score_after > 0) == bool(change.after)
    sizes = [abs(c.score_after - c.score_before) for c in found]
    assert sizes == sorted(sizes, reverse=True)


def test_shifts_of_ranks() -> None:
    gold, before, after = [0.0, 1.0, 2.0, 3.0], np.array([4.0, 3.0, 2.0, 1.0]), np.array([1.0, 2.0, 3.0, 4.0])
    found = {shift.id: shift for shift in shifted_ranks(list("abcd"), gold, before, after)}
    assert found["a"].gain == pytest.approx(1)
    assert found["b"].gain == pytest.approx(1 / 3)
    assert all(shift.after == shift.gold for shift in found.values())
    gains = [abs(shift.gain) for shift in shifted_ranks(list("abcd"), gold, before, after)]
    assert gains == sorted(gains, reverse=True)


def test_ranks_are_those_of_the_correlation() -> None:
    """Spearman's correlation is Pearson's of these ranks, ties given their mean."""
    rng = np.random.default_rng(4)
    gold, scores = rng.integers(0, 5, 40).astype(float), rng.normal(size=40)
    found = shifted_ranks([str(n) for n in range(40)], gold, scores, -scores)
    correlation = np.corrcoef([s.gold for s in found], [s.before for s in found])[0, 1]
    assert correlation == pytest.approx(spearmanr(gold, scores)[0])
