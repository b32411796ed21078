"""Latent semantic analysis on letter n-grams, fitted on the texts of this package."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy
import sklearn
from numpy.typing import NDArray
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer

from mirrorbench.plugin import TextInput, UsageError

DEFAULT_RANK = 16
SHORTEST, LONGEST = 2, 4


def own_texts() -> list[str]:
    """Return the texts that the encoder is fitted on."""
    return Path(__file__).with_name("texts.txt").read_text(encoding="utf-8").splitlines()


class Latent:
    """An encoder: TF-IDF of letter n-grams inside words, reduced by a truncated SVD.

    Args:
        rank: the number of dimensions, from 1 to one less than there are texts.
        texts: the texts to fit on; by default those of the package.

    Raises:
        UsageError: ``rank`` is not a possible number of dimensions.
    """

    def __init__(self, rank: int = DEFAULT_RANK, texts: Sequence[str] | None = None) -> None:
        fitted = own_texts() if texts is None else list(texts)
        most = len(fitted) - 1
        if isinstance(rank, bool) or not isinstance(rank, int) or not 1 <= rank <= most:
            raise UsageError(
                f"latent:rank={rank}: the number of dimensions is a whole number from 1 to {most}",
                f"{len(fitted)} texts span no more; write for example latent:rank={DEFAULT_RANK}.",
            )
        settings: dict[str, Any] = {
            "analyzer": "char_wb",
            "ngram_range": (SHORTEST, LONGEST),
            "sublinear_tf": True,
        }
        self._weights = TfidfVectorizer(**settings)
        self._svd = TruncatedSVD(rank, algorithm="arpack", random_state=0)
        self._svd.fit(self._weights.fit_transform(fitted))
        versions = (np.__version__, scipy.__version__, sklearn.__version__)
        identity = repr((1, settings, rank, "arpack", 0, fitted, versions))
        digest = hashlib.sha256(identity.encode()).hexdigest()
        self.fingerprint = f"latent-{rank}-{digest[:32]}"

    def encode(self, inputs: Sequence[TextInput]) -> NDArray[np.float32]:
        """Return a vector for each text; all zero if it has no known n-gram."""
        texts = [item.text for item in inputs]
        if not texts:
            return np.zeros((0, self._svd.n_components), np.float32)
        vectors = self._svd.transform(self._weights.transform(texts))
        return np.asarray(vectors, dtype=np.float32)
