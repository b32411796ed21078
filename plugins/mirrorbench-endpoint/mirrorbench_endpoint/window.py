"""Which texts a server reads in part, as far as its refusals and the token counts of its answers tell.

A server that states how many tokens it read states the same number for a text that it cuts and for a longer one. So the
longest text is asked for twice, alone and doubled: equal counts are the size of the window. Servers that count before
they cut, or count nothing, do not tell.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from mirrorbench.plugin import Truncation
from mirrorbench_endpoint.service import Answer, RefusedError, Service

BYTES_PER_TOKEN = 2
"""A text of fewer bytes for each token of the window is taken to fit into it; in few scripts tokens are shorter."""
SMALLEST_WINDOW = 8
"""Equal counts of fewer tokens are those of texts without tokens of their own, such as spaces, not of a window."""


class Window:
    """The number of tokens that a server reads of a text, and the texts that it read in part.

    Args:
        service: the server's model.
        file: where these texts are remembered, since vectors in the cache are not asked for again; ``None`` for nowhere.
    """

    def __init__(self, service: Service, file: Path | None) -> None:
        self._service = service
        self._file = file
        self._tokens: int | None = None  # the window; ``None`` while no text was seen to be cut
        self._tells = True  # whether the server may still be found to cut texts
        self._fitting_bytes = 0  # length of the longest text that was seen to fit
        self._read_in_part: set[str] = set()
        if file is not None and file.is_file():
            self._read_in_part.update(file.read_text(encoding="ascii").split())

    def measure(self, text: str) -> None:
        """Find out whether the longest text so far fits, unless a longer one did or the server does not tell."""
        if self._tokens is not None or not self._tells or n_bytes(text) <= self._fitting_bytes:
            return
        whole, doubled = self._service.embed([[text], [f"{text} {text}"]])
        if isinstance(whole, RefusedError) or isinstance(doubled, RefusedError):
            # It refuses what is too long instead of cutting it.
            self._tells = False
        elif whole.tokens is None or doubled.tokens is None:
            self._tells = False
        elif whole.tokens == doubled.tokens and whole.tokens >= SMALLEST_WINDOW:
            self._tokens = whole.tokens
        else:
            self._fitting_bytes = n_bytes(text)

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
        if self._file is not None:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            with self._file.open("a", encoding="ascii") as file:
                file.write(f"{key}\n")

    def truncation(self, texts: Sequence[str]) -> Truncation:
        """Return how many of some texts were read in part, now or in an earlier run."""
        n_cut = sum(_key(text) in self._read_in_part for text in texts)
        window = self._tokens or 0
        return Truncation(n_cut, len(texts), window, positions=window)


def n_bytes(text: str) -> int:
    """Return the length of a text in UTF-8."""
    return len(text.encode("utf-8", "replace"))


def _key(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
