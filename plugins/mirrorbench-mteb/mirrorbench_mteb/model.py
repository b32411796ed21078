"""A mirrorbench encoder as a model of MTEB."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from mteb.models.abs_encoder import AbsEncoder
from mteb.models.model_meta import ModelMeta
from numpy.typing import NDArray

from mirrorbench import load
from mirrorbench.plugin import TextEncoder
from mirrorbench_mteb.meta import Facts, model_meta


class MirrorbenchModel(AbsEncoder):
    """Implements MTEB's ``EncoderProtocol``: texts without prompts, float32 vectors, cosine similarity.

    Args:
        model_name: an encoder spec, the directory of an encoder, or an encoder from ``mirrorbench.load``. A tuned
            encoder is taken from the cache, or tuned now with seed 0.
        revision: revision in MTEB's results; by default the start of the encoder's fingerprint.
        device: as for ``mirrorbench.load``.
        **options: options of ``mirrorbench.load``: ``level``, ``data_dir``, ``offline``.

    Raises:
        UsageError: the spec is malformed.
        ModelUnavailableError: the backbone is not available.
        DataUnavailableError: the corpus is not available.
    """

    def __init__(
        self,
        model_name: str | Path | TextEncoder,
        revision: str | None = None,
        *,
        device: str | None = None,
        **options: Any,
    ) -> None:
        if isinstance(model_name, TextEncoder):
            self.model = model_name
        else:
            self.model = load(model_name, device=device or "auto", **options)
        facts = Facts(
            dimensions=self.model.encode(["a"]).shape[1],
            parameters=self.model.n_parameters,
            max_tokens=self.model.max_length,
            corpus=self.model.corpus,
        )
        self.mteb_model_meta: ModelMeta = model_meta(
            self.model.name, revision or self.model.fingerprint[:12], facts
        )

    def encode(self, inputs: Any, **options: Any) -> NDArray[np.float32]:
        """Encode the texts of MTEB's batches as float32 of shape (texts, dimensions).

        Args:
            inputs: batches, each with its texts under ``text``; mirrorbench makes its own batches, by length.
            **options: MTEB's task, split and prompt, which are ignored.
        """
        encoder: TextEncoder = self.model
        return encoder.encode([text for batch in inputs for text in batch["text"]])
