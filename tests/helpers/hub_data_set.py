"""A data set on the Hugging Face hub: its id, a card of one of its splits, and the pairs of that split."""

from __future__ import annotations

REVISION = "0123456789012345678901234567890123456789"
TOY = f"hf:owner/toy@{REVISION}"
"""The id of the data set, without a split."""
CARD = f"""\
name: hub-pairs
kind: pair-similarity
level: sentence
metric: spearman
parser: table
options: {{format: jsonl, columns: {{left: one, right: two, gold: score}}, scale: [0, 5], corpus: quick-sentences}}
files: ["{TOY}/pairs/test"]
"""
"""A card of the split ``pairs/test``."""
PAIRS = [
    ("a cat", "a kitten", 4.5),
    ("a dog", "the dog", 5),
    ("a cat", "a bus", 0.5),
    ("a car", "a bus", 2.5),
]
"""The rows of that split."""
