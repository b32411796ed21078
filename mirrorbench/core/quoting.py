"""Quoting of users' texts in output: escaped, so that no terminal obeys them, or left out.

``MIRRORBENCH_NO_TEXTS=1`` leaves them out of messages, reports, tables of items, predictions and the cache.
"""

from __future__ import annotations

import os
import re

NO_TEXTS = "MIRRORBENCH_NO_TEXTS"
_MAX_CHARACTERS = 60
_OBEYED_CHARACTERS = re.compile(
    r"[^\n\t -~\u00a0-\u2029\u202f-\u2065\u206a-\ud7ff\ue000-\U0010ffff]"
)
"""Control characters except newlines and tabs, marks that change the writing direction, halves of surrogate pairs."""


def without_texts() -> bool:
    """Return whether texts of users are left out of everything that is printed or stored to be read."""
    return os.environ.get(NO_TEXTS, "") not in ("", "0")


def shown(text: str, most: int = _MAX_CHARACTERS) -> str:
    """Quote a text for a message: escaped, and cut after ``most`` characters; only its length if texts are left out."""
    if without_texts():
        return f"(a text of {len(text):,} characters)"
    if len(text) <= most:
        return repr(text)
    return f"{text[:most]!r}... ({len(text):,} characters)"


def printable(text: str) -> str:
    """Escape the characters of a text that a terminal would obey, as in JSON."""
    return _OBEYED_CHARACTERS.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def is_text(text: str) -> bool:
    """Return whether a string can be written as UTF-8; halves of surrogate pairs, as in JSON or file names, cannot."""
    return text.encode(errors="ignore").decode() == text
