"""The skip-gram vectors that `tiny` started from, as two encoders: an honest baseline for its tables.

    mirrorbench run --plugin pretraining/static_baseline.py --tasks sts \
        --encoder "static-mean:path=$WORK/static" --encoder "static-sif:path=$WORK/static" --encoder tiny

`static-mean` averages the vectors of a text's word pieces; `static-sif` weights each by a / (a + p(piece)), a = 0.001
(Arora et al. 2017, "A Simple but Tough-to-Beat Baseline for Sentence Embeddings", Eq. 3, without the removal of the
first principal component, which would need the test set). Both see the same text and pieces as the model's first layer.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mirrorbench import hookimpl
from mirrorbench.core.encoder_protocol import TextInput
from mirrorbench.core.errors import UsageError
from mirrorbench.models.backbones import embedded_directory

SIF_A = 1e-3


class StaticMean:
    """A weighted mean of the vectors of a text's word pieces.

    Args:
        folder: as written by `pretraining.static_vectors`.
        sif: weight rare pieces up; all alike otherwise.
    """

    def __init__(self, folder: Path, sif: bool) -> None:
        if not (folder / "vectors.npy").is_file():
            raise UsageError(
                f"{folder} holds no vectors.npy", "Make it with pretraining/static_vectors.py."
            )
        self.vectors: NDArray[np.float32] = np.load(folder / "vectors.npy")
        counts = np.load(folder / "counts.npy").astype(np.float64)
        self.weights = SIF_A / (SIF_A + counts / counts.sum()) if sif else np.ones(len(counts))
        self.fingerprint = hashlib.sha256(
            self.vectors.tobytes() + self.weights.tobytes()
        ).hexdigest()

    def encode(self, inputs: Sequence[TextInput]) -> NDArray[np.float32]:
        """Vectors of texts, shape (n, 256); zero for a text without a known piece."""
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_file(str(embedded_directory() / "tokenizer.json"))
        tokenizer.no_truncation()
        result = np.zeros((len(inputs), self.vectors.shape[1]), dtype=np.float32)
        for row, encoding in enumerate(
            tokenizer.encode_batch([i.text for i in inputs], add_special_tokens=False)
        ):
            if encoding.ids:
                result[row] = np.average(
                    self.vectors[encoding.ids], axis=0, weights=self.weights[encoding.ids]
                )
        return result


@hookimpl
def register_encoders(register: Any) -> None:
    """The two baselines."""
    for name, sif in (("static-mean", False), ("static-sif", True)):

        def open_encoder(spec: Any, context: Any, sif: bool = sif) -> StaticMean:
            return StaticMean(Path(str(spec.get("path", "static"))), sif)

        register(name, open_encoder, "skip-gram vectors of tiny's pretraining text")
