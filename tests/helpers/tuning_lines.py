"""Lines of text to tune an encoder on."""

from __future__ import annotations

LINES = [
    f"line {n} of a small corpus, about {word}"
    for n in range(6)
    for word in ("cats", "dogs", "letters", "snow")
]
