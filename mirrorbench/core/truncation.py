"""Counts of the texts that are longer than an encoder reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mirrorbench.core.encoder_protocol import Encoder, TextInput

_SUGGESTED = 512
"""Tokens that a sentence suggests where the model can read more."""


class TruncationWarning(UserWarning):
    """Texts are longer than an encoder reads."""


@dataclass(frozen=True, slots=True)
class Truncation:
    """The texts of which an encoder leaves tokens out.

    Attributes:
        cut: number of such texts.
        texts: number of texts.
        window: tokens that are read of a text, special tokens included.
        positions: tokens of a text for which the model has positions, beside those of a prompt; 0 if unknown.
        noun: what is read, plural: ``texts``, or ``pairs`` of them.
    """

    cut: int
    texts: int
    window: int
    positions: int = 0
    noun: str = "texts"

    @classmethod
    def total(cls, parts: Iterable[Truncation | None]) -> Truncation | None:
        """Add the counts of several groups of texts; windows are the least. ``None`` for no group."""
        counted = [part for part in parts if part is not None]
        if not counted:
            return None
        return cls(
            sum(part.cut for part in counted),
            sum(part.texts for part in counted),
            min(part.window for part in counted),
            min(part.positions for part in counted),
            counted[0].noun,
        )

    @classmethod
    def of_json(cls, counts: Mapping[str, Any]) -> Truncation:
        """Return the counts that a result stores."""
        return cls(**counts)

    def to_json(self) -> dict[str, int | str]:
        """Return the counts as results store them; the noun only if they are not of texts."""
        counts: dict[str, int | str] = {
            "cut": self.cut,
            "texts": self.texts,
            "window": self.window,
            "positions": self.positions,
        }
        return counts if self.noun == "texts" else counts | {"noun": self.noun}

    @property
    def sentence(self) -> str:
        """The sentence for the user; empty if no text is cut."""
        if not self.cut:
            return ""
        texts = f"{self.cut:,} of {self.texts:,} {self.noun} are"
        if self.texts == 1:
            texts = f"the {self.noun.removesuffix('s')} is"
        elif self.cut == 1:
            texts = f"1 of {self.texts:,} {self.noun} is"
        were = "was" if self.cut == 1 else "were"
        return f"{texts} longer than {self.window:,} tokens and {were} cut{self._remedy}"

    @property
    def _remedy(self) -> str:
        """The key of the spec that reads more, unless the model cannot."""
        more = _SUGGESTED if self.window < _SUGGESTED else 2 * self.window
        if self.positions:
            more = min(more, self.positions)
        return f" (max_length={more} reads more)" if more > self.window else ""


def truncation_of(
    encoder: Encoder, inputs: Sequence[TextInput], pooling: Any = None
) -> Truncation | None:
    """Count the inputs that are longer than an encoder reads; ``None`` for an encoder that cuts none.

    An encoder that cuts texts has a method ``count_cut(inputs, pooling)``. ``pooling``: of a ``PoolingEncoder``, by
    default its own.
    """
    count = getattr(encoder, "count_cut", None)
    return None if count is None else count(inputs, pooling)
