"""Which texts a server reads in part, as far as its refusals and the token counts of its answers tell.

The longest text is asked for twice, alone and with other words after it. A server that cuts it returns the same vector
for both. If the counts of tokens are the same too, they are the size of the window, and longer texts are sent alone, to
see which of them fill it. A server that counts before it cuts, or counts nothing, does not tell which texts it cuts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mirrorbench.plugin import Truncation
from mirrorbench_endpoint.service import Answer, RefusedError, Service

Vector = NDArray[np.float32]

BYTES_PER_TOKEN = 2
"""A text of fewer bytes for each token of the window is taken to fit into it; in few scripts tokens are shorter."""
SMALLEST_WINDOW = 8
"""Equal counts of fewer tokens are no window, but those of a server that states one number for all texts."""
SAME_VECTOR = 1e-4
"""Largest difference from 1 of the cosine between the vectors of two texts of which a server reads the same part."""
_OTHER_WORDS = (
    "Meanwhile seven green boats crossed the lake, and nobody asked what they were carrying. "
)
_FITS = "fits:"
_CUT = "cut:"


class Window:
    """The number of tokens that a server reads of a text, and the texts that it read in part.

    Args:
        service: the server's model.
        file: where these texts and what was found out are remembered, since vectors in the cache are not asked for
            again; ``None`` for nowhere.
    """

    def __init__(self, service: Service, file: Path | None) -> None:
        self._service = service
        self._file = file
        self._tokens: int | None = None  # the window; ``None`` while no text was seen to be cut
        self._refuses = False  # whether the server refuses long texts, so that it cuts none
        self._fitting_bytes = 0  # length of the longest text that was seen to fit
        self._cut_bytes: int | None = (
            None  # and of the shortest that was cut, if the server does not tell which it cuts
        )
        self._read_in_part: set[str] = set()
        if file is not None and file.is_file():
            self._recall(file.read_text(encoding="ascii").split())

    def measure(self, text: str) -> None:
        """Find out whether the longest text of a call fits, unless that is known from other texts."""
        if self._tokens is not None or self._refuses:
            return
        if n_bytes(text) <= self._fitting_bytes:
            return
        if self._cut_bytes is not None and n_bytes(text) >= self._cut_bytes:
            return
        whole, longer = self._ask_twice(text)
        if isinstance(whole, RefusedError) or isinstance(longer, RefusedError):
            self._refuses = True
        elif whole.tokens == longer.tokens and (whole.tokens or 0) >= SMALLEST_WINDOW:
            self._tokens = whole.tokens
        elif _are_alike(whole.vectors[0], longer.vectors[0]):
            self._cut_bytes = n_bytes(text)
            self._remember(f"{_CUT}{n_bytes(text)}")
            self.note_part(text)
        else:
            self._fitting_bytes = n_bytes(text)
            self._remember(f"{_FITS}{n_bytes(text)}")

    def _ask_twice(self, text: str) -> list[Answer | RefusedError]:
        """Return the answers to a text, and to it with as many other words after it."""
        n_repetitions = 1 + n_bytes(text) // len(_OTHER_WORDS)
        return self._service.embed([[text], [f"{text} {_OTHER_WORDS * n_repetitions}"]])

    def may_cut(self, text: str) -> bool:
        """Return whether a text must be sent alone, to see from its count whether it was cut."""
        if self._tokens is None:
            return False
        return n_bytes(text) > BYTES_PER_TOKEN * self._tokens

    def note_answer(self, text: str, answer: Answer) -> None:
        """Remember a text that was sent alone if its answer shows that it was cut."""
        if self._tokens is not None and (answer.tokens or 0) >= self._tokens:
            self.note_part(text)

    def note_part(self, text: str) -> None:
        """Remember a text that was read in part."""
        key = _key(text)
        if key in self._read_in_part:
            return
        self._read_in_part.add(key)
        self._remember(key)

    def truncation(self, texts: Sequence[str]) -> Truncation:
        """Return how many of some texts were read in part, now or in an earlier run."""
        n_cut = 0
        is_unknown = False
        for text in texts:
            if _key(text) in self._read_in_part:
                n_cut += 1
            elif self._cut_bytes is not None and n_bytes(text) > self._fitting_bytes:
                is_unknown = True
        window = self._tokens or 0
        return Truncation(n_cut, len(texts), window, positions=window, unknown=is_unknown)

    def _remember(self, entry: str) -> None:
        """Append an entry to the file."""
        if self._file is not None:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            with self._file.open("a", encoding="ascii") as file:
                file.write(f"{entry}\n")

    def _recall(self, entries: Sequence[str]) -> None:
        """Take up the entries of a file."""
        for entry in entries:
            if entry.startswith(_FITS):
                self._fitting_bytes = max(self._fitting_bytes, int(entry.removeprefix(_FITS)))
            elif entry.startswith(_CUT):
                length = int(entry.removeprefix(_CUT))
                self._cut_bytes = min(self._cut_bytes or length, length)
            else:
                self._read_in_part.add(entry)


def n_bytes(text: str) -> int:
    """Return the length of a text in UTF-8."""
    return len(text.encode("utf-8", "replace"))


def _are_alike(one: Vector, other: Vector) -> bool:
    """Return whether two vectors are those of texts of which the server reads the same part; zeros tell nothing."""
    first, second = one.astype(np.float64), other.astype(np.float64)
    lengths = float(np.linalg.norm(first) * np.linalg.norm(second))
    return lengths > 0 and float(first @ second) >= (1 - SAME_VECTOR) * lengths


def _key(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
