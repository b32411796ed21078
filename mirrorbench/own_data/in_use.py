"""What an encoder's use costs, apart from its scores: speed, size of its vectors, share of texts that it cuts."""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING

from mirrorbench.core.specs import parse_spec
from mirrorbench.core.truncation import Truncation
from mirrorbench.models.transformations import BINARY, INT8, split_post

if TYPE_CHECKING:
    from mirrorbench.storage.results import Result

_FLOAT_BYTES = 4


@dataclass(frozen=True)
class InUse:
    """An encoder's speed, size of vectors, and number of cut texts.

    Attributes:
        texts_per_second: speed of encoding in this run, on this machine; ``None`` if all vectors were in the cache.
        dimensions: dimensions of a vector; ``None`` for an encoder that scores pairs of texts.
        bytes_per_vector: at four bytes a number, unless the encoder's vectors are ``type=int8`` or ``type=binary``;
            ``None`` for an encoder that scores pairs of texts.
        texts: number of texts, or of pairs; a text in several data sets counts once for each.
        cut: number of these texts that the encoder does not read to their end; ``None`` if that is unknown.
    """

    texts_per_second: float | None
    dimensions: int | None
    bytes_per_vector: int | None
    texts: int
    cut: int | None

    @classmethod
    def of(cls, results: Iterable[Result], computed: Container[str]) -> InUse:
        """Summarise the results of one encoder, at least one.

        Args:
            results: the results, in the order of the run.
            computed: the cell ids of the results that were computed in this run.
        """
        results = list(results)
        # The speed in a result is that of all the encoder's work so far in the run, so the last one covers most of it.
        texts_per_second = None
        for result in results:
            if result.cell_id in computed and "encoding" in result.cost:
                texts_per_second = result.cost["encoding"]["texts_per_second"]

        # Vectors are the same in all results; an encoder that scores pairs of texts has none.
        first = results[0]
        dimensions = None
        bytes_per_vector = None
        scores_pairs = "scores" in first.encoder
        if not scores_pairs:
            dimensions = int(first.encoder["dimensions"])
            bytes_per_vector = _bytes_per_vector(first.spec, dimensions)

        n_texts = 0
        n_cut = 0
        is_known = True
        for result in results:
            n_texts += int(result.encoder.get("texts", 0))
            if "truncation" in result.encoder:
                truncation = Truncation.of_json(result.encoder["truncation"])
                n_cut += truncation.cut
                is_known = is_known and not truncation.unknown
        return cls(
            texts_per_second,
            dimensions,
            bytes_per_vector,
            texts=n_texts,
            cut=n_cut if is_known else None,
        )

    @property
    def share_cut(self) -> float | None:
        """Share of the texts that are cut; ``None`` if it is unknown."""
        if self.cut is None:
            return None
        return self.cut / self.texts if self.texts else 0.0


def _bytes_per_vector(spec: str, dimensions: int) -> int:
    """Return the size of a vector, which the type in an encoder's spec determines."""
    _, post = split_post(parse_spec(spec))
    if post is not None and post.type == INT8:
        return dimensions
    if post is not None and post.type == BINARY:
        return ceil(dimensions / 8)
    return _FLOAT_BYTES * dimensions
