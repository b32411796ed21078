"""A mirrorbench encoder as a model of MTEB."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from mteb.models.abs_encoder import AbsEncoder
from mteb.models.model_meta import ModelMeta, ScoringFunction
from numpy.typing import NDArray

from mirrorbench.api import load
from mirrorbench.core.specs import parse_spec
from mirrorbench.models.systems import TextEncoder
from mirrorbench.runs.results import slug

ORGANISATION = "mirrorbench"


class MirrorbenchModel(AbsEncoder):
    """Implements MTEB's ``EncoderProtocol``: texts without prompts, float32 vectors, cosine similarity.

    Args:
        model_name: an encoder spec, the directory of an encoder, or what ``mirrorbench.load`` gave. A tuned encoder
            is taken from the cache, or tuned now with seed 0.
        revision: what MTEB files results under; by default the start of the encoder's fingerprint.
        device: as for ``mirrorbench.load``.
        **options: of ``mirrorbench.load``: ``level``, ``data_dir``, ``offline``.

    Raises:
        UsageError: the spec is malformed.
        ModelUnavailableError: the backbone cannot be had.
        DataUnavailableError: the corpus cannot be had.
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
        self.mteb_model_meta: ModelMeta = model_meta(self.model.name, revision or self.model.fingerprint[:12])

    def encode(self, inputs: Any, **options: Any) -> NDArray[np.float32]:
        """Vectors of the texts of MTEB's batches, float32 of shape (texts, dimensions).

        Args:
            inputs: batches, each with its texts under ``text``. mirrorbench makes its own batches, by length.
            **options: what MTEB tells of task, split and prompt; nothing depends on it.
        """
        encoder: TextEncoder = self.model
        return encoder.encode([text for batch in inputs for text in batch["text"]])


def model_meta(spec: str, revision: str, protocol: str = "paper") -> ModelMeta:
    """What MTEB is told of an encoder: ``mirrorbench/<spec>``, its revision, and that it is compared by cosine.

    Args:
        spec: the encoder spec.
        revision: identifies the weights.
        protocol: which reading of the recipe it was tuned under.
    """
    name = f"{ORGANISATION}/{slug(parse_spec(spec), protocol)}"
    return ModelMeta.create_empty(
        {"name": name, "revision": revision, "similarity_fn_name": ScoringFunction.COSINE, "framework": ["PyTorch"]}
    )
