"""What tuning did to texts that it never saw: alignment, uniformity, retrieval and nearest neighbours, without labels.

Alignment and uniformity are those of Wang & Isola ("Understanding Contrastive Representation Learning through Alignment
and Uniformity on the Hypersphere", ICML 2020, section 4.1), over vectors of unit length: the mean squared distance of
positive pairs (alpha = 2), and the logarithm of the mean of exp(-2 d^2) over all pairs of distinct texts (t = 2). Lower
is better for both; tuning usually buys uniformity with a little alignment.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mirrorbench.core.inputs import Array, Encoder, TextInput
from mirrorbench.tasks.metrics import unit

Pair = tuple[str, str]
METRICS = ("alignment", "uniformity", "accuracy@1")
TITLES = {"alignment": "alignment", "uniformity": "uniformity", "accuracy@1": "retrieval, accuracy@1"}
LOWER_IS_BETTER = ("alignment", "uniformity")


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A held-out text and the held-out text that is nearest to it, before and after tuning."""

    text: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Sanity:
    """The report.

    Attributes:
        n: held-out lines.
        before: values of ``METRICS`` for the backbone, read out as the tuned model is.
        after: the same for the tuned model.
        neighbours: of a few texts.
    """

    n: int
    before: dict[str, float]
    after: dict[str, float]
    neighbours: tuple[Neighbour, ...] = ()


def cut(text: str, rng: np.random.Generator) -> str:
    """A text without a tenth of its characters (at least one), which stood together: the positive of a single text.

    It needs no mask token and no recipe, so it is the same question for every model and every tuning.
    """
    length = max(1, len(text) // 10)
    start = int(rng.integers(max(1, len(text) - length + 1)))
    return (text[:start] + text[start + length :]).strip() or text


def positives(texts: Sequence[str], seed: int) -> list[Pair]:
    """Each text with its ``cut`` copy."""
    rng = np.random.default_rng(seed)
    return [(text, cut(text, rng)) for text in texts]


def measure(left: Array, right: Array) -> dict[str, float]:
    """The three numbers of n pairs.

    Args:
        left: vectors of the first texts, shape (n, d), n of at least 2.
        right: vectors of the second ones.

    Returns:
        ``alignment``, ``uniformity`` (of the first texts) and ``accuracy@1``: the share of first texts to which, by the
        cosine, no other second text is as near as their own.
    """
    first, second = unit(left), unit(right)
    similarity = first @ second.T
    own = similarity.diagonal().copy()
    np.fill_diagonal(similarity, -np.inf)
    among = first @ first.T
    distances = 2 - 2 * among[np.triu_indices(len(first), 1)]
    return {
        "alignment": float(np.mean(np.square(first - second).sum(1))),
        "uniformity": float(np.log(np.mean(np.exp(-2 * distances)))),
        "accuracy@1": float(np.mean(own > similarity.max(1))),
    }


def nearest(vectors: Array, rows: Sequence[int]) -> list[int]:
    """The nearest other row, by the cosine, of some rows."""
    scaled = unit(vectors)
    similarity = scaled[list(rows)] @ scaled.T
    similarity[np.arange(len(rows)), list(rows)] = -np.inf
    return [int(row) for row in similarity.argmax(1)]


class Probe:
    """Held-out pairs, put to one encoder and then to another.

    Args:
        pairs: two texts each.
        shown: for how many of the first texts to tell the nearest neighbour.
    """

    def __init__(self, pairs: Sequence[Pair], shown: int = 5) -> None:
        self.pairs = pairs
        self.shown = range(min(shown, len(pairs)))

    def ask(self, encoder: Encoder) -> tuple[dict[str, float], list[str]]:
        """The encoder's numbers, and the nearest neighbours of the shown texts."""
        texts = list(dict.fromkeys(text for pair in self.pairs for text in pair))
        rows = {text: row for row, text in enumerate(texts)}
        vectors = encoder.encode([TextInput(text) for text in texts])
        left, right = (vectors[[rows[pair[side]] for pair in self.pairs]] for side in (0, 1))
        found = [self.pairs[row][0] for row in nearest(left, self.shown)]
        return measure(left, right), found

    def compare(self, before: tuple[dict[str, float], list[str]], after: tuple[dict[str, float], list[str]]) -> Sanity:
        """Two answers of ``ask`` as a report."""
        shown = [self.pairs[row][0] for row in self.shown]
        neighbours = tuple(Neighbour(*texts) for texts in zip(shown, before[1], after[1], strict=True))
        return Sanity(len(self.pairs), before[0], after[0], neighbours)
