"""Counts of the texts that are longer than an encoder's input window."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mirrorbench.core.encoder_protocol import Encoder, TextInput

_SUGGESTED = 512
"""``max_length`` that a message suggests for a smaller window, if the model can read that many tokens."""


class TruncationWarning(UserWarning):
    """Texts are longer than an encoder's input window, and were cut."""


@dataclass(frozen=True, slots=True)
class Truncation:
    """Counts of the texts that an encoder cuts.

    Attributes:
        cut: number of texts that are cut.
        texts: number of all texts.
        window: tokens of a text that the encoder reads, special tokens included; 0 if unknown.
        positions: tokens of a text for which the model has positions, without those of a prompt; 0 if unknown.
        noun: plural noun for messages: ``texts``, or ``pairs`` of texts.
        unknown: whether more texts may be cut than are counted, because the encoder cannot see it.

    Example:
        >>> from mirrorbench.plugin import Truncation
        >>> Truncation(cut=3, texts=40, window=256).sentence
        '3 of 40 texts are longer than 256 tokens and were cut (max_length=512 reads more)'
    """

    cut: int
    texts: int
    window: int
    positions: int = 0
    noun: str = "texts"
    unknown: bool = False

    @classmethod
    def total(cls, parts: Iterable[Truncation | None]) -> Truncation | None:
        """Add the counts of several groups of texts, with the smallest window; ``None`` without counts."""
        counted = [part for part in parts if part is not None]
        if not counted:
            return None
        cut = sum(part.cut for part in counted)
        texts = sum(part.texts for part in counted)
        window = min(part.window for part in counted)
        positions = min(part.positions for part in counted)
        unknown = any(part.unknown for part in counted)
        return cls(cut, texts, window, positions, counted[0].noun, unknown)

    @classmethod
    def of_json(cls, counts: Mapping[str, Any]) -> Truncation:
        """Return the counts that a result stores."""
        return cls(**counts)

    def to_json(self) -> dict[str, int | str]:
        """Return the counts as results store them; the noun and ``unknown`` only if they are not the usual ones."""
        counts: dict[str, int | str] = {
            "cut": self.cut,
            "texts": self.texts,
            "window": self.window,
            "positions": self.positions,
        }
        if self.noun != "texts":
            counts["noun"] = self.noun
        if self.unknown:
            counts["unknown"] = True
        return counts

    @property
    def sentence(self) -> str:
        """The sentence for the user; empty if no text is cut."""
        if self.unknown:
            at_least = f" ({self.cut:,} at least)" if self.cut else ""
            return f"it is unknown how many {self.noun} were cut{at_least}"
        if not self.cut:
            return ""
        if self.texts == 1:
            subject = f"the {self.noun.removesuffix('s')} is"
        elif self.cut == 1:
            subject = f"1 of {self.texts:,} {self.noun} is"
        else:
            subject = f"{self.cut:,} of {self.texts:,} {self.noun} are"
        were = "was" if self.cut == 1 else "were"
        limit = f"{self.window:,} tokens" if self.window else "the encoder reads"
        return f"{subject} longer than {limit} and {were} cut{self._remedy}"

    @property
    def _remedy(self) -> str:
        """The setting of the spec that reads more of a text; empty if the model cannot read more."""
        if not self.window:
            return ""
        max_length = _SUGGESTED if self.window < _SUGGESTED else 2 * self.window
        if self.positions:
            max_length = min(max_length, self.positions)
        return f" (max_length={max_length} reads more)" if max_length > self.window else ""


def truncation_of(
    encoder: Encoder, inputs: Sequence[TextInput], pooling: Any = None
) -> Truncation | None:
    """Count the inputs that are longer than an encoder's window; ``None`` for an encoder that never cuts texts.

    An encoder that cuts texts has a method ``count_cut(inputs, pooling)``. ``pooling``: for a ``PoolingEncoder``; by
    default its own pooling.
    """
    count = getattr(encoder, "count_cut", None)
    return None if count is None else count(inputs, pooling)
