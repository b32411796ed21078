"""Encoder systems: encoders of their own beside the backbones, each a plugin of the hook ``register_encoders``."""

from __future__ import annotations

from dataclasses import dataclass

from mirrorbench.core.errors import PluginError
from mirrorbench.core.inputs import Encoder
from mirrorbench.core.plugins import Plugins
from mirrorbench.core.specs import EncoderSpec


@dataclass(frozen=True, slots=True)
class EncoderContext:
    """Where an encoder system is to run.

    Attributes:
        device: ``cpu``, ``cuda:0`` ...
        precision: ``fp32`` or ``bf16``.
        offline: open no socket.
    """

    device: str = "cpu"
    precision: str = "fp32"
    offline: bool = False


def create_encoder(spec: EncoderSpec, plugins: Plugins, context: EncoderContext) -> Encoder:
    """An encoder system; its weights are loaded when it first encodes.

    Raises:
        PluginError: what the plugin returned is no encoder.
    """
    entry = plugins.encoders.entry(spec.backbone)
    encoder = entry.value(spec, context)
    if not isinstance(encoder, Encoder) or not isinstance(encoder.fingerprint, str):
        raise PluginError(
            f"the encoder {entry.name!r} of {entry.origin} has no encode() or no fingerprint",
            "An encoder needs encode(inputs) -> array (n, d) and a string attribute fingerprint.",
        )
    return encoder
