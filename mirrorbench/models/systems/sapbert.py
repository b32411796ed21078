"""``sapbert``: the released SapBERT, an encoder of biomedical names (Liu et al., NAACL 2021; paper 1, Table 15).

Spec keys: ``model`` (hub id of another release, such as the cross-lingual ones) or ``path`` (a directory), ``pooling``
(``cls``; ``mean`` for the release of that name) and ``max_length`` (25 tokens, as in the released code). Training one
is the method ``sap``.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mirrorbench.core.hooks import Register, hookimpl
from mirrorbench.core.identity import digest
from mirrorbench.core.specs import EncoderSpec
from mirrorbench.models import backbones
from mirrorbench.models.pooling import Pooling
from mirrorbench.models.systems import EncoderContext, LazyEncoder, checked_params

if TYPE_CHECKING:
    from mirrorbench.core.inputs import Array


def create_sapbert(spec: EncoderSpec, context: EncoderContext) -> LazyEncoder:
    """The encoder of a spec.

    Raises:
        UsageError: a key or value that is not known.
        ModelUnavailableError: the model cannot be had.
    """
    params: dict[str, Any] = checked_params(spec, model=str, path=str, pooling=str, max_length=int)
    where = str(Path(params["path"]).expanduser().resolve()) if params.get("path") else params.get("model", "sapbert")
    directory = backbones.locate(EncoderSpec(where, spec.revision), "en", context.offline)
    pooling = Pooling(params.get("pooling", "cls"), max_length=params.get("max_length", 25))

    def load() -> Callable[..., Array]:
        import torch

        from mirrorbench.models.encoder import TransformerEncoder
        from mirrorbench.models.transformer import load_transformer

        transformer = load_transformer(directory, torch.device(context.device))
        return TransformerEncoder(transformer, pooling, context.precision).encode

    identity = {"weights": backbones.fingerprint(directory), "readout": [pooling.mode, pooling.max_length]}
    return LazyEncoder(directory, digest(identity), load, pooling)


@hookimpl
def register_encoders(register: Register) -> None:
    """SapBERT."""
    register("sapbert", create_sapbert, "SapBERT: an encoder of biomedical names")
