"""Identity of a result: one hash of everything that changes its numbers.

Hashed are specs, recipes, contents of corpora and data, seeds, protocol, precision, and ``COMPUTATION``; not hashed are
the device, the batch size of encoding, workers, paths and progress bars.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

__version__ = "0.1.0"
"""The version of this package."""

COMPUTATIONS = {
    1: "The first one.",
    2: "On a CPU the vector of a text no longer depends on the texts beside it in a batch.",
    3: "On a CPU dropout draws other masks, so every tuned model changes; the search orders equal similarities by "
    "index; words in context are read at the released lengths.",
    4: "Texts are tuned on without padding, and the optimiser skips rows of the embeddings that a step did not touch: "
    "every tuned model changes.",
    5: "Similarities are rounded to 10 decimals before they are ranked or compared, so that equal texts tie; crowding "
    "for CSLS is computed in float64; a batch on a CPU has at least 256 tokens.",
    6: "Spaces around a text are kept, as in sentence-transformers 6. Texts are encoded, and used for tuning in more "
    "architectures, without padding: vectors change by rounding, dropout draws other masks.",
}
"""Changes in each version of the computation, from which ``docs/computations.md`` is generated."""
COMPUTATION = max(COMPUTATIONS)
"""Version of the computation; raised when tuning, encoding or scoring change their numbers."""

DESCRIPTION = "mirrorbench.json"
"""File with the origin of a model, in each directory that mirrorbench wrote."""


def digest(parts: dict[str, Any]) -> str:
    """Return the SHA-256 of a JSON object in its canonical form (sorted keys, no spaces, no NaN)."""
    canonical = json.dumps(
        parts, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )
    return checksum(canonical)


def folder_name(text: str) -> str:
    """Return a name that is readable, valid on every file system, and different for different texts."""
    safe = re.sub(r"[^A-Za-z0-9._+=,-]", "_", text)
    # Changed or cut names could collide, and so could capitals on file systems that ignore case. A hash of the text
    # makes them different.
    if safe != text.lower() or len(safe) > 100 or safe.strip(".") != safe:
        name = safe[-80:].strip("._")
        return f"{name}-{checksum(text)[:8]}"
    return safe


def checksum(text: str) -> str:
    """Return the SHA-256 of a text; halves of surrogate pairs are allowed."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
