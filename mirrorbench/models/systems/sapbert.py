"""``sapbert``: the released SapBERT, an encoder of biomedical names (Liu et al., NAACL 2021; paper 1, Table 15).

Spec keys: ``model`` (hub id of another release, such as the cross-lingual ones) or ``path`` (a directory), ``pooling``
(``cls``; ``mean`` for the release of that name) and ``max_length`` (25 tokens, as in the released code). Training one
is the method ``sap``.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mirrorbench.core.errors import UsageError
from mirrorbench.core.hooks import Register, hookimpl
from mirrorbench.core.identity import digest
from mirrorbench.core.registry import unknown_name
from mirrorbench.core.specs import EncoderSpec
from mirrorbench.models import backbones
from mirrorbench.models.pooling import Pooling

if TYPE_CHECKING:
    from mirrorbench.core.inputs import Array, TextInput
    from mirrorbench.models.encoder import TransformerEncoder
    from mirrorbench.models.systems import EncoderContext

KEYS = ("model", "path", "pooling", "max_length")
MAX_LENGTH = 25


class SapBert:
    """A transformer with its own pooling; loaded when it first encodes.

    Args:
        path: its directory.
        pooling: how names become vectors.
        context: where it is to run.
    """

    def __init__(self, path: Path, pooling: Pooling, context: EncoderContext) -> None:
        self.path = path
        self.pooling = pooling
        self.context = context
        self.fingerprint = digest(
            {"weights": backbones.fingerprint(path), "readout": [pooling.mode, pooling.max_length]}
        )
        self._encoder: TransformerEncoder | None = None

    def __str__(self) -> str:
        return self.path.name

    def encode(self, inputs: Sequence[TextInput]) -> Array:
        """Vectors of names, float32 of shape (n, dimensions).

        Raises:
            ModelUnavailableError: the weights cannot be opened.
        """
        if self._encoder is None:
            import torch

            from mirrorbench.models.encoder import TransformerEncoder
            from mirrorbench.models.transformer import load_transformer

            transformer = load_transformer(self.path, torch.device(self.context.device))
            self._encoder = TransformerEncoder(transformer, self.pooling, self.context.precision)
        return self._encoder.encode(inputs)


def open_sapbert(spec: EncoderSpec, context: EncoderContext) -> SapBert:
    """The encoder of a spec.

    Raises:
        UsageError: a key or value that is not known.
        ModelUnavailableError: the model cannot be had.
    """
    for key, _ in spec.params:
        if key not in KEYS:
            raise unknown_name(f"key of {spec.backbone}", key, list(KEYS))
    max_length = spec.get("max_length", MAX_LENGTH)
    if type(max_length) is not int:
        raise UsageError(f"max_length={max_length} is not a whole number")
    path = spec.get("path")
    where = str(Path(str(path)).expanduser().resolve()) if path else str(spec.get("model", "sapbert"))
    directory = backbones.locate(EncoderSpec(where, spec.revision), "en", context.offline)
    return SapBert(directory, Pooling(str(spec.get("pooling", "cls")), max_length=max_length), context)


@hookimpl
def register_encoders(register: Register) -> None:
    """SapBERT."""
    register("sapbert", open_sapbert, "SapBERT: an encoder of biomedical names")
