"""Identity: one hash of everything that changes a number.

Hashed: specs, recipes, contents of corpora and data, seeds, protocol, precision, and ``COMPUTATION``. Not hashed:
device, batch size of encoding, workers, paths, progress bars.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

COMPUTATION = 5
"""Version of the computation; raised when tuning, encoding or scoring change their numbers."""


def digest(parts: dict[str, Any]) -> str:
    """SHA-256 of a JSON object in its one canonical form (sorted keys, no spaces, no NaN)."""
    return checksum(json.dumps(parts, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False))


def checksum(text: str) -> str:
    """SHA-256 of a text, which may hold halves of surrogate pairs."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
