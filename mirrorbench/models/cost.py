"""What an encoding cost: counted where it happens, reported in every result, part of no identity."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Cost:
    """Work done by an encoder; costs can be added.

    Attributes:
        texts: texts encoded, once for each pass over them.
        tokens: their tokens, special tokens included, padding not.
        positions: what the model computed: tokens and padding.
        seconds: wall-clock time, tokenising included.
    """

    texts: int = 0
    tokens: int = 0
    positions: int = 0
    seconds: float = 0.0

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.texts + other.texts,
            self.tokens + other.tokens,
            self.positions + other.positions,
            self.seconds + other.seconds,
        )

    @property
    def padding(self) -> float:
        """Share of the positions that were padding, 0 to 1."""
        return 1 - self.tokens / self.positions if self.positions else 0.0

    def to_json(self) -> dict[str, float]:
        """As it stands in results: counts, the share of padding, and speeds per second."""
        seconds = max(self.seconds, 1e-9)
        return {
            "texts": self.texts,
            "tokens": self.tokens,
            "padding": round(self.padding, 4),
            "seconds": round(self.seconds, 4),
            "texts_per_second": round(self.texts / seconds, 1),
            "tokens_per_second": round(self.tokens / seconds, 1),
        }
