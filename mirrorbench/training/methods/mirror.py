"""``mirror``: Mirror-BERT (EMNLP 2021), contrastive tuning on identical, slightly corrupted strings."""

from __future__ import annotations

from dataclasses import replace

from mirrorbench.core.hooks import Register, hookimpl
from mirrorbench.training.methods import Method
from mirrorbench.training.recipes import Recipe


def mirror_preset(level: str, architecture: str, protocol: str) -> Recipe:
    """Mirror-BERT's recipe (paper 1, section 3, "Training Setup and Details", and appendix B).

    Word-in-context tasks get the sentence recipe, since Mirror encodes the whole sentence there (paper 2, Table 3).
    """
    sentence = level in ("sentence", "wic")
    # Appendix B: sentence-level BERT is tuned and tested with mean pooling, all else with [CLS].
    pooling = "mean" if sentence and architecture == "bert" else "cls"
    span = {"word": 0, "phrase": 2}.get(level, 5)
    temperature, (epochs, length) = 0.2 if level == "word" else 0.04, (1, 50) if sentence else (2, 25)
    augment = (("dropout", 0.1), ("span_mask", float(span)))
    recipe = Recipe(temperature, epochs, train_max_length=length, pooling=pooling, augment=augment)
    if protocol == "released":
        pooling = "mean-padded" if pooling == "mean" else pooling
        recipe = replace(recipe, loss="ntxent", drop_last=True, clean_corpus=False, pooling=pooling)
    return recipe


@hookimpl
def register_methods(register: Register) -> None:
    """Mirror-BERT."""
    method = Method("mirror", mirror_preset, label="{backbone} + Mirror", levels={"wic": "sentence"})
    register("mirror", method, "Mirror-BERT: two views of each string, made by span masking and dropout")
