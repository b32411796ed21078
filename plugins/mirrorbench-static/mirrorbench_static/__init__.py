"""Static vectors: files of word vectors as encoders, and the method ``+static``, vectors of a backbone's own tokens."""

from __future__ import annotations

from mirrorbench.plugin import Method, Register, base_preset, hookimpl
from mirrorbench_static.distillation import create_distilled
from mirrorbench_static.wordvectors import create_static


@hookimpl
def register_encoders(register: Register) -> None:
    """Register files of word vectors, as ``fasttext`` (the paper's baseline) and ``static``."""
    register("fasttext", create_static, "fastText vectors (.vec or .bin): mean over a text's words")
    register(
        "static",
        create_static,
        "any word vectors as text (word2vec, GloVe): mean over a text's words",
    )


@hookimpl
def register_methods(register: Register) -> None:
    """Register ``+static``."""
    method = Method(
        "static", base_preset, False, "{backbone}-static", create=create_distilled, baseline=True
    )
    register(
        "static", method, "static vectors of the backbone's own tokens, as model2vec distils them"
    )
