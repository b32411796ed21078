"""Label-free tuning methods beside Mirror-BERT: one module with recipe and loss for each method."""

from __future__ import annotations

from pathlib import Path

from mirrorbench.plugin import Method, Register, hookimpl
from mirrorbench_methods import ct, diffcse, esimcse, promptbert, simcse, tsdae

_LEVELS = {"wic": "sentence"}
"""Levels of recipes by level of tasks: these methods encode the whole sentence of a word in context."""


@hookimpl
def register_methods(register: Register) -> None:
    """Register the methods under their names in a spec."""
    register(
        "simcse",
        Method("simcse", simcse.preset, label="{backbone} + SimCSE", levels=_LEVELS, baseline=True),
        "unsupervised SimCSE: dropout alone makes the two views, negatives from the batch",
    )
    register(
        "esimcse",
        Method("esimcse", esimcse.preset, label="{backbone} + ESimCSE", levels=_LEVELS),
        "ESimCSE: SimCSE with repeated tokens in one view, and negatives of earlier batches",
    )
    register(
        "diffcse",
        Method("diffcse", diffcse.preset, label="{backbone} + DiffCSE", levels=_LEVELS),
        "DiffCSE: SimCSE, and a second model that detects replaced tokens from the string's vector",
    )
    register(
        "promptbert",
        Method("promptbert", promptbert.preset, label="{backbone} + PromptBERT", levels=_LEVELS),
        "PromptBERT: the mask in a sentence about the string; two sentences make the two views",
    )
    register(
        "ct",
        Method(
            "ct", ct.preset, label="{backbone} + CT", pairs=ct.pairs, levels=_LEVELS, baseline=True
        ),
        "Contrastive Tension: two copies of the model agree on the same string and on no others",
    )
    register(
        "tsdae",
        Method("tsdae", tsdae.preset, label="{backbone} + TSDAE", levels=_LEVELS, baseline=True),
        "TSDAE: a decoder rebuilds the string from the vector of its remaining words",
    )


@hookimpl
def register_losses(register: Register) -> None:
    """Register the losses of the methods."""
    register(
        "momentum-contrast",
        esimcse.MomentumContrast,
        "in-batch, with negatives of earlier batches (ESimCSE)",
    )
    register(
        "difference", diffcse.Difference, "in-batch, and detection of replaced tokens (DiffCSE)"
    )
    register(
        "templates",
        promptbert.Templates,
        "in-batch, of masks in two templates less the templates' own (PromptBERT)",
    )
    register(
        ct.LOSS, ct.ContrastiveTension, "binary cross-entropy of same or different strings (CT)"
    )
    register(
        "reconstruction",
        tsdae.Reconstruction,
        "cross-entropy of each token of the whole string (TSDAE)",
    )


@hookimpl
def register_poolings(register: Register) -> None:
    """Register the pooling of PromptBERT."""
    register("mask", promptbert.mask_token, "the mask token's vector, of prompts with {mask}")


@hookimpl
def register_augmentations(register: Register) -> None:
    """Register the augmentations of texts and of the model."""
    register(
        "simcse_head",
        simcse.Head(),
        on="model",
        description="1: a dense layer and tanh over the last layer in training",
    )
    register(
        "repetition",
        esimcse.repeat_tokens,
        on="tokens",
        probability=True,
        description="up to this share of the tokens is repeated",
    )
    register(
        "word_deletion",
        tsdae.delete_words,
        on="text",
        probability=True,
        description="probability that a word is deleted",
    )


@hookimpl
def register_papers(register: Register) -> None:
    """Register the published tables."""
    for folder in sorted((Path(__file__).parent / "papers").iterdir()):
        register(folder.name, folder)
