"""``sbert``: any sentence-transformers model, with its own pooling, normalisation and maximum length.

Spec keys: ``model`` (hub id; a name without slash is one of the ``sentence-transformers`` organisation) or ``path`` (a
directory). With neither it is the paper's SBERT (paper 1, Table 15).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mirrorbench.core.errors import ModelUnavailableError
from mirrorbench.core.hooks import Register, hookimpl
from mirrorbench.core.registry import unknown_name
from mirrorbench.core.specs import EncoderSpec
from mirrorbench.models import backbones

if TYPE_CHECKING:
    from mirrorbench.core.inputs import Array, TextInput
    from mirrorbench.models.systems import EncoderContext

KEYS = ("model", "path")
_ORGANISATION = "sentence-transformers"
_IGNORED = {"README.md", "onnx", "openvino", ".git", ".gitattributes", ".cache"}


class SentenceTransformerEncoder:
    """A sentence-transformers model; loaded when it first encodes.

    Args:
        path: its directory.
        context: where it is to run.
    """

    def __init__(self, path: Path, context: EncoderContext) -> None:
        self.path = path
        self.context = context
        self.fingerprint = directory_checksum(path)
        self._model: Any = None

    def __str__(self) -> str:
        return self.path.name

    def encode(self, inputs: Sequence[TextInput | str]) -> Array:
        """Vectors of whole texts as the model's own ``encode`` gives them, float32 of shape (n, dimensions).

        Raises:
            ModelUnavailableError: sentence-transformers is not installed, or cannot open the directory.
        """
        import numpy as np
        import torch

        from mirrorbench.core.devices import autocast

        self._model = self._model or _open(self.path, self.context.device)
        texts = [item if isinstance(item, str) else item.text for item in inputs]
        with autocast(torch.device(self.context.device), self.context.precision):
            vectors = self._model.encode(texts, convert_to_tensor=True, show_progress_bar=False)
        return vectors.float().cpu().numpy().astype(np.float32, copy=False)  # type: ignore[no-any-return]


def _open(path: Path, device: str) -> Any:
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError as error:
        raise ModelUnavailableError(
            "sbert needs the package sentence-transformers, which is not installed",
            "Install it: pip install 'mirrorbench[sbert]'",
        ) from error
    from mirrorbench.models.transformer import quiet_transformers

    try:
        with quiet_transformers():
            return SentenceTransformer(str(path), device=device, local_files_only=True, trust_remote_code=False)
    except (OSError, ValueError, KeyError, ImportError, RuntimeError, AttributeError) as error:
        first = (str(error).strip().splitlines() or ["no message"])[0]
        raise ModelUnavailableError(
            f"sentence-transformers cannot open {path}: {type(error).__name__}: {first[:300]}"
        ) from error


def directory_checksum(path: Path) -> str:
    """SHA-256 over all files of a model's directory and of its modules' folders, notes and other formats left out."""
    digest = hashlib.sha256()
    for file in sorted(file for file in path.rglob("*") if file.is_file()):
        name = file.relative_to(path)
        if _IGNORED.isdisjoint(name.parts):
            digest.update(name.as_posix().encode())
            with file.open("rb") as stream:
                digest.update(hashlib.file_digest(stream, "sha256").digest())
    return digest.hexdigest()


def open_sbert(spec: EncoderSpec, context: EncoderContext) -> SentenceTransformerEncoder:
    """The encoder of a spec.

    Raises:
        UnknownNameError: a key that is not known.
        ModelUnavailableError: the model cannot be had.
    """
    for key, _ in spec.params:
        if key not in KEYS:
            raise unknown_name(f"key of {spec.backbone}", key, list(KEYS))
    if path := spec.get("path"):
        directory = Path(str(path)).expanduser().resolve()
        if not (directory / "modules.json").is_file() and not (directory / "config.json").is_file():
            raise ModelUnavailableError(
                f"{spec}: {directory} is no directory of a sentence-transformers model",
                "It holds modules.json, as written by SentenceTransformer.save().",
            )
    else:
        name = str(spec.get("model", "sbert"))
        known = name in backbones.BACKBONES or "/" in name
        hub = EncoderSpec(name if known else f"{_ORGANISATION}/{name}", spec.revision)
        directory = backbones.locate(hub, "en", context.offline)
    return SentenceTransformerEncoder(directory, context)


@hookimpl
def register_encoders(register: Register) -> None:
    """Sentence-transformers."""
    register("sbert", open_sbert, "a sentence-transformers model; by default the paper's SBERT")
