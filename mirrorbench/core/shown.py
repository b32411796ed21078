"""Texts of users where they are shown: no terminal obeys them, and one switch leaves them out.

Environment:
    MIRRORBENCH_NO_TEXTS: 1 leaves them out of messages, reports, tables of items, predictions and the cache.
"""

from __future__ import annotations

import os
import re

NO_TEXTS = "MIRRORBENCH_NO_TEXTS"
_MOST = 60
_OBEYED = re.compile(r"[^\n\t -~\u00a0-\u2029\u202f-\u2065\u206a-\ud7ff\ue000-\U0010ffff]")
"""Control characters but line ends and tabs, marks that turn the direction of writing, halves of surrogate pairs."""


def without_texts() -> bool:
    """Whether texts of users are left out of all that is printed or stored to be read."""
    return os.environ.get(NO_TEXTS, "") not in ("", "0")


def shown(text: str, most: int = _MOST) -> str:
    """A text as messages quote it: escaped, shortened if it is long; its length alone where texts are left out."""
    if without_texts():
        return f"(a text of {len(text):,} characters)"
    return repr(text) if len(text) <= most else f"{text[:most]!r}... ({len(text):,} characters)"


def printable(text: str) -> str:
    """A text in which characters that a terminal would obey are written as escapes, those of JSON."""
    return _OBEYED.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def is_text_name(path: str) -> bool:
    """Whether the name of a file is a text; Python keeps other bytes in it as halves of surrogate pairs."""
    return not any("\ud800" <= character <= "\udfff" for character in path)
