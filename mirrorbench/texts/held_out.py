"""Alignment, uniformity, retrieval and nearest neighbours of held-out texts, without labels.

Alignment and uniformity are those of Wang & Isola ("Understanding Contrastive Representation Learning through Alignment
and Uniformity on the Hypersphere", ICML 2020, section 4.1), over unit vectors: the mean squared distance of positive
pairs (alpha = 2), and the logarithm of the mean of exp(-2 d^2) over all pairs of distinct texts (t = 2). Tuning usually
improves uniformity and worsens alignment a little.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mirrorbench.core.inputs import Array, Encoder, TextInput
from mirrorbench.tasks.metrics import rounded, unit

HELD_OUT_METRICS = {
    "alignment": ("alignment", "lower is better"),
    "uniformity": ("uniformity", "lower is better"),
    "accuracy@1": ("retrieval, accuracy@1", "higher is better"),
}
"""Title and direction of each metric, in the order of reports."""
SHOWN = 5  # texts whose nearest neighbours are reported


@dataclass(frozen=True, slots=True)
class HeldOutReport:
    """Metrics on held-out lines before and after tuning.

    Attributes:
        n: number of held-out lines.
        before: ``HELD_OUT_METRICS`` of the backbone, with the pooling of the tuned model.
        after: the same for the tuned model.
        neighbours: for a few texts: the text, and its nearest held-out text before and after tuning.
    """

    n: int
    before: dict[str, float]
    after: dict[str, float]
    neighbours: tuple[tuple[str, str, str], ...] = ()

    def rows(self) -> list[tuple[str, float, float, str]]:
        """Title, value before, value after and direction of each metric."""
        return [(title, self.before[m], self.after[m], better) for m, (title, better) in HELD_OUT_METRICS.items()]


def shortened(text: str, rng: np.random.Generator) -> str:
    """A text without a random span of a tenth of its characters (at least one): the positive of a single text.

    It depends on no tokenizer and no recipe, so results of all models and tunings are comparable.
    """
    length = max(1, len(text) // 10)
    start = int(rng.integers(max(1, len(text) - length + 1)))
    return (text[:start] + text[start + length :]).strip() or text


def positive_pairs(lines: Sequence[tuple[str, ...]], seed: int) -> list[tuple[str, str]]:
    """Held-out lines as positive pairs: the user's pairs, or each text with its ``shortened`` copy."""
    rng = np.random.default_rng(seed)
    return [(line[0], line[1] if len(line) == 2 else shortened(line[0], rng)) for line in lines]


def score_pairs(left: Array, right: Array) -> dict[str, float]:
    """``HELD_OUT_METRICS`` of at least 2 pairs of vectors, each side of shape (n, d).

    ``accuracy@1`` is the share of first texts whose own second text has the strictly highest cosine of all.
    """
    first, second = unit(left), unit(right)
    similarity = rounded(first @ second.T)
    own = similarity.diagonal().copy()
    np.fill_diagonal(similarity, -np.inf)
    distances = 2 - 2 * (first @ first.T)[np.triu_indices(len(first), 1)]
    return {
        "alignment": float(np.mean(np.square(first - second).sum(1))),
        "uniformity": float(np.log(np.mean(np.exp(-2 * distances)))),
        "accuracy@1": float(np.mean(own > similarity.max(1))),
    }


def nearest_rows(vectors: Array, n: int) -> list[int]:
    """For each of the first n rows, the other row with the highest cosine."""
    scaled = unit(vectors)
    similarity = rounded(scaled[:n] @ scaled.T)
    np.fill_diagonal(similarity, -np.inf)
    return [int(row) for row in similarity.argmax(1)]


def evaluate_held_out(encoder: Encoder, pairs: Sequence[tuple[str, str]]) -> tuple[dict[str, float], list[str]]:
    """An encoder's ``score_pairs``, and the nearest first text to each of the first ``SHOWN``."""
    rows = {text: row for row, text in enumerate(dict.fromkeys(text for pair in pairs for text in pair))}
    vectors = encoder.encode([TextInput(text) for text in rows])
    left, right = (vectors[[rows[pair[side]] for pair in pairs]] for side in (0, 1))
    return score_pairs(left, right), [pairs[row][0] for row in nearest_rows(left, min(SHOWN, len(pairs)))]
