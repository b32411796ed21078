"""``sap``: SapBERT's self-alignment (Liu et al., NAACL 2021), metric learning on the names of concepts.

A corpus line is a pair of names of one concept, ``id||name||other name`` (the format of SapBERT's training files), or
one name, ``id||name`` or ``id<TAB>name``: then every two names of a concept make a pair, at most ``MOST_PAIRS`` a
concept, as SapBERT's paper builds its training data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

from mirrorbench.core.errors import TuningError
from mirrorbench.core.hooks import Register, hookimpl
from mirrorbench.training.methods import Method
from mirrorbench.training.pairs import PairMaker, Pairs
from mirrorbench.training.recipes import Recipe

MOST_PAIRS = 50
"""Pairs drawn for a concept with many names (SapBERT: concepts with hundreds of names would dominate)."""


def sap_preset(level: str, architecture: str, protocol: str) -> Recipe:
    """SapBERT's recipe (Liu et al. 2021, "Self-Alignment Pretraining for Biomedical Entity Representations").

    AdamW with 2e-5, batches of 256 name pairs, one epoch, names of at most 25 tokens, [CLS], and the model's own
    dropout, which is 0.1 in the BERT family. The same at every level; under ``released`` the corpus is not cleaned.
    """
    recipe = Recipe(temperature=0.04, epochs=1, train_max_length=25, pooling="cls", augment=(("dropout", 0.1),))
    return replace(recipe, batch_size=256, loss="multi-similarity", clean_corpus=protocol == "paper")


def name_pairs(texts: Sequence[str], maker: PairMaker) -> Pairs:
    """Pairs of names that share an id, which is their group; a wrong line or no pairs are a ``TuningError``."""
    found: list[tuple[str, str, str]] = []
    names: dict[str, dict[str, None]] = {}
    for text in texts:
        fields = [field.strip() for field in text.split("||" if "||" in text else "\t")]
        if len(fields) not in (2, 3) or not all(fields):
            raise TuningError(
                f"the corpus line {text[:80]!r} is no name with an id",
                "sap tunes on lines like id||name||other name, id||name or id<TAB>name.",
            )
        if len(fields) == 3:
            found.append((fields[0], fields[1], fields[2]))
        else:
            names.setdefault(fields[0], {})[fields[1]] = None
    for concept, synonyms in names.items():
        pairs = list(combinations(synonyms, 2))
        if len(pairs) > MOST_PAIRS:
            pairs = [pairs[i] for i in sorted(maker.rng.choice(len(pairs), MOST_PAIRS, replace=False))]
        found += [(concept, one, other) for one, other in pairs]
    if not found:
        raise TuningError("no two names of the corpus share an id", "sap learns from names of the same concept.")
    concepts, left, right = zip(*found, strict=True)
    return maker.pairs(left, right, concepts)


@hookimpl
def register_methods(register: Register) -> None:
    """SapBERT's tuning."""
    method = Method("sap", sap_preset, label="{backbone} + SAP", pairs=name_pairs)
    register("sap", method, "SapBERT: names of one concept are drawn together, hard pairs mined in the batch")
