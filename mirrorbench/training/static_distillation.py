"""``+static``: static vectors of a backbone's own tokens, as model2vec distils them; a text is the mean of its tokens.

The model encodes each token of the vocabulary alone, between the special tokens of a text; the vectors are reduced by
PCA, and weighted by the rarity of the token. Spec keys: ``dims`` (256, or all of a smaller model; 0 for no PCA),
``sif`` (1e-4; 0 for no weights) and ``layers`` (by default the last; averaged over the token and the special ones). A
word in context is encoded without its context.

Source: model2vec 0.10, ``distill`` (github.com/MinishLab/model2vec), which also normalises vectors of texts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mirrorbench.core.errors import UsageError
from mirrorbench.core.hooks import Register, hookimpl
from mirrorbench.core.identity import COMPUTATION, digest
from mirrorbench.models.encoder_systems import EncoderContext, LazyModel, checked_params
from mirrorbench.models.fingerprints import fingerprint, unchanged_backbone
from mirrorbench.models.long_texts import check_size, parts_of_texts
from mirrorbench.models.pooling import Pooling
from mirrorbench.models.word_vectors import checked_sif, plain_text, sif_weights
from mirrorbench.storage.checksums import kept_folder
from mirrorbench.storage.files import cache_root
from mirrorbench.training.methods import Method, base_preset

if TYPE_CHECKING:
    from mirrorbench.core.encoder_protocol import Array, TextInput
    from mirrorbench.core.specs import EncoderSpec
    from mirrorbench.models.missing_embeddings import MissingEmbeddings
    from mirrorbench.models.transformer import Transformer

DIMENSIONS, SIF = 256, 1e-4
"""Defaults of model2vec."""

_UNUSED = re.compile(r"\[unused\d+\]")
_ROWS = 8192
_TEXTS_PER_CHECK = 2048


@hookimpl
def register_methods(register: Register) -> None:
    """Register ``+static``."""
    method = Method(
        "static", base_preset, False, "{backbone}-static", create=create_distilled, baseline=True
    )
    register(
        "static", method, "static vectors of the backbone's own tokens, as model2vec distils them"
    )


def create_distilled(spec: EncoderSpec, path: Path, context: EncoderContext) -> LazyModel:
    """Create the encoder of a spec with ``+static``; it is distilled when it is first used, then kept in the cache.

    Args:
        spec: the spec.
        path: the directory of the backbone.
        context: device and precision.

    Returns:
        The encoder; its fingerprint covers the backbone and all settings.

    Raises:
        UsageError: a wrong key or value.
    """
    params = checked_params(spec, dims=int, sif=float, layers=str)
    if (dims := params.get("dims", -1)) < 0 and "dims" in params:
        raise UsageError(
            f"dims={dims} is not a number of dimensions", "Write dims=256, or dims=0 for no PCA."
        )
    sif, pooling = checked_sif(params.get("sif", SIF)), Pooling(layers=params.get("layers", "-1:"))
    weights = fingerprint(path)
    identity = {
        "method": "static",
        "weights": weights,
        "layers": pooling.layers,
        "dims": dims,
        "sif": sif,
    }

    def load() -> StaticVectors:
        import torch

        from mirrorbench.models.transformer import load_transformer
        from mirrorbench.models.transformer_encoder import TransformerEncoder

        with unchanged_backbone(path, weights):
            transformer = load_transformer(path, torch.device(context.device))
        key = digest({**identity, "precision": context.precision, "computation": COMPUTATION})
        missing = transformer.missing_embeddings
        kept = [token for token in vocabulary(transformer.tokenizer) if token not in missing.names]

        def distil(folder: Path) -> None:
            context.begin(len(kept), "tokens")
            encoder = TransformerEncoder(transformer, pooling, context.precision)
            vectors = encoder.encode_ids(_single_tokens(transformer, kept), context.advance)
            np.save(folder / "vectors.npy", distilled(vectors, dims, sif))

        folder = kept_folder(cache_root() / "vectors" / key, distil, f"tokens of {spec}")
        table = np.load(folder / "vectors.npy", mmap_mode="r")
        return StaticVectors(transformer.tokenizer, kept, table, missing)

    return LazyModel(digest(identity), load)


def vocabulary(tokenizer: Any) -> list[int]:
    """Return the ids of the tokens of texts, in the vocabulary's order, most frequent first.

    Unused tokens (``[unused7]``) are left out, and added ones except padding and the unknown token.
    """
    left_out = set(tokenizer.get_added_vocab().values()) - {
        tokenizer.pad_token_id,
        tokenizer.unk_token_id,
    }
    by_id = sorted((token_id, token) for token, token_id in tokenizer.get_vocab().items())
    return [
        token_id
        for token_id, token in by_id
        if token_id not in left_out and not _UNUSED.match(token)
    ]


def distilled(vectors: Array, dims: int, sif: float) -> Array:
    """Reduce vectors of tokens by PCA to ``dims`` dimensions (0: no PCA; -1: 256 at most), and weight them by rarity.

    The sign of each component is that of its score with the largest absolute value, as in model2vec.
    """
    n, width = vectors.shape
    if dims > width:
        raise UsageError(
            f"dims={dims}, but the model has {width} dimensions", f"Write dims={width} or less."
        )
    weights = sif_weights(n, sif)[:, None]
    if not dims:
        return np.asarray(vectors * weights, dtype=np.float32)
    mean = vectors.mean(axis=0, dtype=np.float64)
    parts = [
        slice(start, start + _ROWS) for start in range(0, n, _ROWS)
    ]  # in double precision, part by part
    covariance = sum((centred := vectors[part] - mean).T @ centred for part in parts)
    _, directions = np.linalg.eigh(covariance)
    chosen = directions[:, ::-1][:, : dims if dims > 0 else DIMENSIONS]
    scores = np.concatenate(
        [((vectors[part] - mean) @ chosen).astype(np.float32) for part in parts]
    )
    signs = np.sign(scores[np.abs(scores).argmax(axis=0), np.arange(scores.shape[1])])
    return np.asarray(scores * signs * weights, dtype=np.float32)


def _single_tokens(transformer: Transformer, tokens: list[int]) -> Any:
    """Each token as a text of its own, between the special tokens of a text."""
    from mirrorbench.models.batching import Ragged

    whole, bare = (
        transformer.tokenizer("a", add_special_tokens=special)["input_ids"]
        for special in (True, False)
    )
    start = next(i for i in range(len(whole)) if whole[i : i + len(bare)] == bare)
    before, after = whole[:start], whole[start + len(bare) :]
    return Ragged.of([[*before, token, *after] for token in tokens])


class StaticVectors:
    """Vectors of texts as means over their tokens.

    Args:
        tokenizer: of transformers.
        kept: ids of the tokens that have a vector.
        table: their vectors, shape (len(kept), dimensions).
        missing: tokens that the backbone cannot read.
    """

    def __init__(
        self, tokenizer: Any, kept: list[int], table: Array, missing: MissingEmbeddings
    ) -> None:
        self.tokenizer = tokenizer
        self.table = table
        self.missing = missing
        self._row = np.full(max(kept) + 1, -1)
        self._row[kept] = np.arange(len(kept))
        if tokenizer.unk_token_id is not None:
            self._row[tokenizer.unk_token_id] = -1  # unknown tokens do not count
        first, inside, after = self._ids(["a", "a a", " a"])
        # Byte-level tokenizers have other tokens for the first word of a text than for others, unless a space is
        # before it.
        self._space = " " if after == inside[len(first) :] != first else ""

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for results."""
        return (self.missing.note,) if self.missing.note else ()

    @property
    def refuses_texts(self) -> bool:
        """Whether ``check_inputs`` may find a text that cannot be read."""
        return bool(self.missing.names)

    def check_inputs(self, inputs: Sequence[TextInput], poolings: Sequence[Any] = ()) -> None:
        """Raise an ``UnreadableTextError`` for the first text with a token that the backbone cannot read."""
        for start in range(0, len(inputs), _TEXTS_PER_CHECK):
            self._token_ids(inputs[start : start + _TEXTS_PER_CHECK])

    def encode(self, inputs: Sequence[TextInput]) -> Array:
        """Return the vectors of texts, float32 of shape (n, dimensions)."""
        vectors = np.zeros((len(inputs), self.table.shape[1]), dtype=np.float32)
        for index, tokens in enumerate(self._token_ids(inputs)):
            rows = self._row[[token for token in tokens if token < len(self._row)]]
            if (rows >= 0).any():
                vectors[index] = self.table[rows[rows >= 0]].mean(axis=0, dtype=np.float32)
        return vectors

    def _token_ids(self, inputs: Sequence[TextInput]) -> list[list[int]]:
        from mirrorbench.models.batching import Ragged

        for item in inputs:
            check_size(item.text, "all its tokens are averaged")
        texts = [(self._space + plain_text(item).strip()).rstrip() for item in inputs]
        ids = self._ids(texts)
        self.missing.check(Ragged.of(ids), [item.text for item in inputs])
        return ids

    def _ids(self, texts: list[str]) -> list[list[int]]:
        ids: list[list[int]] = []
        for part in parts_of_texts(texts):
            ids += self.tokenizer(part, add_special_tokens=False, verbose=False)["input_ids"]
        return ids
