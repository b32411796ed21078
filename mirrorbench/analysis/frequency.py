"""Frequency buckets: do frequent words make the better tuning corpus?

Mirror-BERT's Figure 8 (section 4.4) has two sides: how many words of a task fall into each bucket of frequency, and how
well an encoder does on the task that was tuned on the words of that bucket.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mirrorbench.analysis.curves import Point, Series, series_over, without
from mirrorbench.core.specs import parse_spec
from mirrorbench.runs.results import Result

_BUCKET = re.compile(r"words-en-(\d+)-(\d+)k")


@dataclass(frozen=True, slots=True)
class Bucket:
    """Words of neighbouring frequency.

    Attributes:
        corpus: the name of the corpus of these words, ``words-en-0-10k``.
        start: thousands of more frequent words.
        end: the same for the next bucket.
        words: how many distinct words of the task are in it.
        share: of the task's distinct words.
    """

    corpus: str
    start: int
    end: int
    words: int
    share: float


def bounds(corpus: str) -> tuple[int, int] | None:
    """First and last rank of a bucket's words in thousands, by its corpus's name; ``None`` for other corpora."""
    match = _BUCKET.fullmatch(corpus)
    return (int(match[1]), int(match[2])) if match else None


def count(words: Iterable[str], buckets: Sequence[tuple[str, Sequence[str]]]) -> list[Bucket]:
    """How a task's words are spread over buckets, without regard to case.

    Args:
        words: of the task; repeats count once.
        buckets: name and words of each corpus, the most frequent first.
    """
    own = {word.lower() for word in words}
    found = []
    for corpus, members in buckets:
        start, end = bounds(corpus) or (0, 0)
        inside = len(own & {member.lower() for member in members})
        found.append(Bucket(corpus, start, end, inside, inside / len(own) if own else 0.0))
    return found


def series(results: Iterable[Result]) -> list[Series]:
    """Curves over buckets: results whose specs differ in nothing but the bucket that they are tuned on.

    The x of a point is the middle of its bucket, in thousands of words.
    """

    def middle(result: Result) -> float | None:
        corpus = result.cell.get("corpus")
        limits = bounds(corpus["name"]) if corpus else None
        return sum(limits) / 2 if limits else None

    return series_over(results, middle, lambda result: without(parse_spec(result.spec), "corpus"), least=1)


def at(line: Series, bucket: Bucket) -> Point | None:
    """The point of a curve that belongs to a bucket."""
    middle = (bucket.start + bucket.end) / 2
    return next((point for point in line.points if point.x == middle), None)
