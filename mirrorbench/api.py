"""mirrorbench in Python: as short as on the command line."""

from __future__ import annotations

from collections.abc import Sequence

from mirrorbench.encoding.inputs import Array, Encoder, TextInput, checked


class TextEncoder:
    """An encoder as ``load`` gives it: plain strings, or words in context, to vectors.

    Args:
        encoder: what does the work.
    """

    def __init__(self, encoder: Encoder) -> None:
        self.encoder = encoder

    @property
    def fingerprint(self) -> str:
        """Changes whenever the vectors of some text would."""
        return self.encoder.fingerprint

    def encode(self, texts: Sequence[str | TextInput]) -> Array:
        """One vector a text: float32 of shape (len(texts), dimensions).

        Raises:
            EncodingError: the encoder gave anything else.
        """
        inputs = [TextInput(text) if isinstance(text, str) else text for text in texts]
        return checked(self.encoder.encode(inputs), len(inputs), "the encoder")


def load(spec: str, level: str = "sentence", device: str = "auto", data_dir: str | None = None) -> TextEncoder:
    """An encoder from its spec.

    A tuned encoder (``roberta+mirror``) is taken from the cache, or tuned now with seed 0, on the corpus that its spec
    names or the level's own.

    Args:
        spec: as on the command line; a bare backbone is read out by mean pooling.
        level: ``word``, ``phrase`` or ``sentence``; picks the recipe of a tuned encoder.
        device: ``auto``, ``cpu``, ``cuda``, ``cuda:N`` or ``mps``.
        data_dir: where data files are kept; by default ``MIRRORBENCH_DATA`` or the platform's data directory.

    Returns:
        An object whose ``encode(texts)`` gives float32 of shape (len(texts), dimensions).

    Raises:
        UsageError: the spec is malformed.
        ModelUnavailableError: the backbone cannot be had.
        DataUnavailableError: the corpus cannot be had.
    """
    from pathlib import Path

    from mirrorbench.cache import Cache
    from mirrorbench.data.store import DataStore
    from mirrorbench.devices import pick_device, pick_precision
    from mirrorbench.opening import Opener
    from mirrorbench.plan import Planner, Request
    from mirrorbench.plugins import plugins
    from mirrorbench.recipes import LEVELS
    from mirrorbench.registry import unknown_name
    from mirrorbench.specs import parse_spec

    if level not in LEVELS:
        raise unknown_name("level", level, list(LEVELS))
    parsed = parse_spec(spec)
    registered = plugins()
    if not parsed.method and parsed.backbone not in registered.encoders:
        parsed = parsed.with_method("base")
    chosen = pick_device(device)
    request = Request((parsed,), (), precision=pick_precision("auto", chosen))
    planner = Planner(request, registered, DataStore(Path(data_dir) if data_dir else None))
    weights, readout = planner.weights(parsed, level)[0]
    encoder, _ = Opener(registered, Cache(), chosen).open(weights, readout, planner.precision(weights), planner.corpora)
    return TextEncoder(encoder)
