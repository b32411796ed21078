"""``latent``: print the nearest of the package's own texts."""

from __future__ import annotations

import numpy as np

from mirrorbench.plugin import TextInput, UsageError, cosine, say
from mirrorbench_latent.encoder import DEFAULT_RANK, Latent, own_texts


def nearest_texts(texts: list[str], rank: int = DEFAULT_RANK) -> list[tuple[float, str]]:
    """Return for each text the nearest own text, and the cosine of the two."""
    encoder = Latent(rank)
    known = own_texts()
    stored = encoder.encode([TextInput(text) for text in known])
    answers = []
    for vector in encoder.encode([TextInput(text) for text in texts]):
        cosines = cosine(np.repeat(vector[None], len(known), axis=0), stored)
        best = int(cosines.argmax())
        answers.append((float(cosines[best]), known[best]))
    return answers


def nearest(texts: list[str], rank: int = DEFAULT_RANK) -> None:
    """Print for each text the cosine of the nearest text of mirrorbench-latent, and that text."""
    if not all(text.strip() for text in texts):
        raise UsageError("a text is empty", 'Write for example: mirrorbench latent "a cat".')
    for similarity, text in nearest_texts(texts, rank):
        say(f"{similarity:.3f}  {text}")
