"""What an encoder is in use, beside its scores: speed, size of its vectors, share of texts that it cuts."""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING

from mirrorbench.core.specs import parse_spec
from mirrorbench.models.transformations import BINARY, INT8, split_post

if TYPE_CHECKING:
    from mirrorbench.storage.results import Result

_FLOAT_BYTES = 4


@dataclass(frozen=True)
class InUse:
    """An encoder in use.

    Attributes:
        texts_per_second: speed of its encoding in this run, on this machine; ``None`` if all vectors were in the cache.
        dimensions: of a vector; ``None`` for an encoder that scores pairs of texts.
        bytes_per_vector: with numbers of four bytes, or of ``type=int8`` or ``type=binary``; ``None`` without vectors.
        texts: number of texts, or of pairs, distinct within each of the data.
        cut: number of those that are longer than it reads.
    """

    texts_per_second: float | None
    dimensions: int | None
    bytes_per_vector: int | None
    texts: int
    cut: int

    @classmethod
    def of(cls, results: Iterable[Result], computed: Container[str]) -> InUse:
        """Return what the results of an encoder on some data say; ``computed`` holds the cell ids of this run."""
        results = list(results)
        # The encoder counts all of its work, so that the last result has the most of it.
        speeds = [
            result.cost["encoding"]["texts_per_second"]
            for result in results
            if result.cell_id in computed and "encoding" in result.cost
        ]
        first = results[0]
        has_vectors = "scores" not in first.encoder
        dimensions = int(first.encoder["dimensions"]) if has_vectors else None
        return cls(
            speeds[-1] if speeds else None,
            dimensions,
            _bytes_per_vector(first.spec, dimensions) if dimensions else None,
            sum(int(result.encoder.get("texts", 0)) for result in results),
            sum(int(result.encoder.get("truncation", {}).get("cut", 0)) for result in results),
        )

    @property
    def share_cut(self) -> float:
        """Share of the texts that are cut."""
        return self.cut / self.texts if self.texts else 0.0


def _bytes_per_vector(spec: str, dimensions: int) -> int:
    _, post = split_post(parse_spec(spec))
    if post is not None and post.type == INT8:
        return dimensions
    if post is not None and post.type == BINARY:
        return ceil(dimensions / 8)
    return _FLOAT_BYTES * dimensions
