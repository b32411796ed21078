"""Encoder systems: encoders of their own beside the backbones, each a plugin of the hook ``register_encoders``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mirrorbench.core.errors import PluginError, UsageError
from mirrorbench.core.inputs import Encoder, as_inputs
from mirrorbench.core.plugins import Plugins
from mirrorbench.core.registry import unknown_name
from mirrorbench.core.specs import EncoderSpec, Value

if TYPE_CHECKING:
    from mirrorbench.core.inputs import Array, TextInput
    from mirrorbench.models.pooling import Pooling


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


_TYPES = {int: "a whole number", bool: "true or false"}


def checked_params(spec: EncoderSpec, **types: type) -> dict[str, Value]:
    """The keys of a spec, if each is known and its value of the type it must be; to a text all values are turned.

    Raises:
        UnknownNameError: a key that is not in ``types``.
        UsageError: a value of another type.
    """
    found: dict[str, Value] = {}
    for key, value in spec.params:
        if key not in types:
            raise unknown_name(f"key of {spec.backbone}", key, list(types))
        if types[key] is not str and type(value) is not types[key]:
            raise UsageError(f"{key}={value} is not {_TYPES[types[key]]}")
        found[key] = str(value) if types[key] is str else value
    return found


class LazyEncoder:
    """An encoder system from a directory, whose weights are loaded when it first encodes.

    Args:
        path: its directory.
        fingerprint: of the weights and all else that changes vectors.
        load: opens the weights and returns what encodes.
        pooling: its own, if it says so.
    """

    def __init__(
        self,
        path: Path,
        fingerprint: str,
        load: Callable[[], Callable[[list[TextInput]], Array]],
        pooling: Pooling | None = None,
    ) -> None:
        self.path = path
        self.fingerprint = fingerprint
        self.pooling = pooling
        self._load = load
        self._encode: Callable[[list[TextInput]], Array] | None = None

    def encode(self, inputs: Sequence[TextInput | str]) -> Array:
        """Vectors of texts, float32 of shape (n, dimensions).

        Raises:
            ModelUnavailableError: the weights cannot be opened.
        """
        self._encode = self._encode or self._load()
        return self._encode(as_inputs(inputs))
