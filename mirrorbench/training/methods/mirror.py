"""``mirror``: Mirror-BERT (EMNLP 2021), contrastive tuning on identical, slightly corrupted strings."""

from __future__ import annotations

from mirrorbench.core.hooks import Register, hookimpl
from mirrorbench.training.methods import Method
from mirrorbench.training.recipes import mirror_preset


@hookimpl
def register_methods(register: Register) -> None:
    """Mirror-BERT."""
    method = Method("mirror", mirror_preset, label="{backbone} + Mirror", levels={"wic": "sentence"})
    register("mirror", method, "Mirror-BERT: two views of each string, made by span masking and dropout")
