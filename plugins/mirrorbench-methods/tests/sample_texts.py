"""Texts for the tests, and a corpus of encoder specs."""

from __future__ import annotations

WORDS = ["river", "stone", "garden", "music", "winter", "window", "letter", "bridge"]
TEXTS = [
    f"the {first} is near the old {second}"
    for n, first in enumerate(WORDS)
    for second in WORDS[n + 1 :]
]
TEXTS += [f"nobody saw the {word}" for word in WORDS]
CORPUS = "corpus=quick-sentences,corpus_size=8,batch_size=8"
"""A small corpus inside mirrorbench, as keys of an encoder spec."""
