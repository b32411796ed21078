"""``+static``: static vectors of a backbone's tokens, as model2vec distils them; a text is the mean of its tokens.

The model encodes each token of the vocabulary as a text, between the special tokens of a text. The vectors are reduced
by PCA, and weighted by the rarity of the token. A word in context is encoded without its context. Spec keys:

- ``dims``: dimensions after PCA; by default 256, or all of a smaller model; 0 for no PCA;
- ``sif``: parameter of the weights, by default 1e-4; 0 for no weights;
- ``layers``: layers that are averaged over the token and the special ones, by default the last.

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

DIMENSIONS = 256
"""Dimensions after PCA by default, as in model2vec."""
SIF = 1e-4
"""Parameter of the weights by default, as in model2vec."""

_UNUSED = re.compile(r"\[unused\d+\]")
_ROWS = 8192
"""Number of rows that PCA converts to double precision at once."""
_TEXTS_PER_CHECK = 2048
"""Number of texts that ``check_inputs`` tokenises at once."""


@hookimpl
def register_methods(register: Register) -> None:
    """Register ``+static``."""
    register(
        "static",
        Method(
            "static",
            base_preset,
            tunes=False,
            label="{backbone}-static",
            create=create_distilled,
            baseline=True,
        ),
        "static vectors of the backbone's own tokens, as model2vec distils them",
    )


def create_distilled(spec: EncoderSpec, path: Path, context: EncoderContext) -> LazyModel:
    """Create the encoder of a spec with ``+static``, which is distilled at first use, and whose vectors are cached.

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
    # -1 stands for the default of ``distilled``, and is not written in a spec.
    dims = params.get("dims", -1)
    if "dims" in params and dims < 0:
        raise UsageError(
            f"dims={dims} is not a number of dimensions", "Write dims=256, or dims=0 for no PCA."
        )
    sif = checked_sif(params.get("sif", SIF))
    pooling = Pooling(layers=params.get("layers", "-1:"))
    backbone_fingerprint = fingerprint(path)
    identity = {
        "method": "static",
        "weights": backbone_fingerprint,
        "layers": pooling.layers,
        "dims": dims,
        "sif": sif,
    }

    def load() -> StaticVectors:
        """Return the encoder with the vectors in the cache, distilled now if the cache does not have them."""
        import torch

        from mirrorbench.models.transformer import load_transformer
        from mirrorbench.models.transformer_encoder import TransformerEncoder

        with unchanged_backbone(path, backbone_fingerprint):
            transformer = load_transformer(path, torch.device(context.device))
        # Unlike the encoder's identity, the key covers what changes the vectors by rounding only.
        key = digest({**identity, "precision": context.precision, "computation": COMPUTATION})
        missing = transformer.missing_embeddings
        token_ids = [
            token_id
            for token_id in vocabulary(transformer.tokenizer)
            if token_id not in missing.names
        ]

        def distil(folder: Path) -> None:
            context.begin(len(token_ids), "tokens")
            encoder = TransformerEncoder(transformer, pooling, context.precision)
            texts = _single_tokens(transformer, token_ids)
            vectors = encoder.encode_ids(texts, context.advance)
            np.save(folder / "vectors.npy", distilled(vectors, dims, sif))

        # ``distil`` is called only if the folder is missing or damaged.
        folder = kept_folder(cache_root() / "vectors" / key, distil, f"tokens of {spec}")
        table = np.load(folder / "vectors.npy", mmap_mode="r")
        return StaticVectors(transformer.tokenizer, token_ids, table, missing)

    return LazyModel(digest(identity), load)


def vocabulary(tokenizer: Any) -> list[int]:
    """Return the ids of the tokens that occur in texts, in ascending order: the most frequent tokens come first.

    Unused tokens (``[unused7]``) are left out, and so are added ones except padding and the unknown token.
    """
    excluded_ids = set(tokenizer.get_added_vocab().values())
    excluded_ids -= {tokenizer.pad_token_id, tokenizer.unk_token_id}
    ids = []
    for token, token_id in tokenizer.get_vocab().items():
        if token_id not in excluded_ids and not _UNUSED.match(token):
            ids.append(token_id)
    return sorted(ids)


def distilled(vectors: Array, dims: int, sif: float) -> Array:
    """Reduce vectors of tokens by PCA, and weight them by rarity.

    The sign of each component is that of its score with the largest absolute value, as in model2vec.

    Args:
        vectors: a vector of each token, most frequent first, shape (n, width).
        dims: dimensions after PCA; 0 for no PCA, -1 for 256, or the width if that is less.
        sif: parameter of the weights; 0 for no weights.

    Returns:
        The vectors, float32 of shape (n, dimensions).

    Raises:
        UsageError: ``dims`` is greater than the width.
    """
    n, width = vectors.shape
    if dims > width:
        raise UsageError(
            f"dims={dims}, but the model has {width} dimensions", f"Write dims={width} or less."
        )
    weights = sif_weights(n, sif)[:, None]
    if dims == 0:
        return np.asarray(vectors * weights, dtype=np.float32)
    scores = _principal_components(vectors, dims if dims > 0 else DIMENSIONS)
    largest_rows = np.abs(scores).argmax(axis=0)
    signs = np.sign(scores[largest_rows, np.arange(scores.shape[1])])
    return np.asarray(scores * signs * weights, dtype=np.float32)


def _principal_components(vectors: Array, n_components: int) -> Array:
    """Return the scores of vectors on their first principal components, float32."""
    mean = vectors.mean(axis=0, dtype=np.float64)
    # In double precision, a part of the rows at a time.
    parts = [vectors[start : start + _ROWS] for start in range(0, len(vectors), _ROWS)]
    width = vectors.shape[1]
    covariance = np.zeros((width, width))
    for part in parts:
        centred = part - mean
        covariance += centred.T @ centred
    _, ascending = np.linalg.eigh(covariance)
    components = ascending[:, ::-1][:, :n_components]
    scores = [((part - mean) @ components).astype(np.float32) for part in parts]
    return np.concatenate(scores)


def _single_tokens(transformer: Transformer, token_ids: list[int]) -> Any:
    """Return the ids of texts of one token each, between the special tokens of a text."""
    from mirrorbench.models.ragged import Ragged

    with_special = transformer.tokenizer("a", add_special_tokens=True)["input_ids"]
    without_special = transformer.tokenizer("a", add_special_tokens=False)["input_ids"]
    # Find the text between the special tokens.
    n = len(without_special)
    starts = range(len(with_special))
    start = next(i for i in starts if with_special[i : i + n] == without_special)
    before = with_special[:start]
    after = with_special[start + n :]
    return Ragged.of([[*before, token_id, *after] for token_id in token_ids])


class StaticVectors:
    """Vectors of texts as means over their tokens.

    Args:
        tokenizer: a tokenizer of transformers.
        token_ids: ids of the tokens that have a vector.
        table: their vectors, shape (len(token_ids), dimensions).
        missing: tokens that the backbone cannot read.
    """

    def __init__(
        self, tokenizer: Any, token_ids: list[int], table: Array, missing: MissingEmbeddings
    ) -> None:
        self.tokenizer = tokenizer
        self.table = table
        self.missing = missing
        # The row of each token id in the table; -1 for tokens without a vector.
        self._row_of_token = np.full(max(token_ids) + 1, -1)
        self._row_of_token[token_ids] = np.arange(len(token_ids))
        if tokenizer.unk_token_id is not None:
            # Unknown tokens do not count in the mean.
            self._row_of_token[tokenizer.unk_token_id] = -1
        # Byte-level tokenizers have other tokens for the first word of a text than for later words, unless a space
        # stands before it. With that space, all words get the same tokens.
        first, two_words, after_space = self._ids(["a", "a a", " a"])
        second = two_words[len(first) :]
        needs_space = second == after_space and second != first
        self._space = " " if needs_space else ""

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
        """Return the vectors of texts, float32 of shape (n, dimensions); zero for a text without known tokens.

        Raises:
            UnreadableTextError: the backbone cannot read a token.
        """
        vectors = np.zeros((len(inputs), self.table.shape[1]), dtype=np.float32)
        for index, tokens in enumerate(self._token_ids(inputs)):
            rows = self._row_of_token[
                [token for token in tokens if token < len(self._row_of_token)]
            ]
            rows = rows[rows >= 0]
            if len(rows):
                vectors[index] = self.table[rows].mean(axis=0, dtype=np.float32)
        return vectors

    def _token_ids(self, inputs: Sequence[TextInput]) -> list[list[int]]:
        from mirrorbench.models.ragged import Ragged

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
