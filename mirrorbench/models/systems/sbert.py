"""``sbert``: any sentence-transformers model, with its own pooling, normalisation and maximum length.

Spec keys: ``model`` (hub id; a name without slash is one of the ``sentence-transformers`` organisation) or ``path`` (a
directory). With neither it is the paper's SBERT (paper 1, Table 15).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mirrorbench.core.errors import ModelUnavailableError
from mirrorbench.core.hooks import Register, hookimpl
from mirrorbench.core.specs import EncoderSpec
from mirrorbench.models import backbones
from mirrorbench.models.systems import EncoderContext, LazyEncoder, checked_params

if TYPE_CHECKING:
    from mirrorbench.core.inputs import Array, TextInput

_IGNORED = {"README.md", "onnx", "openvino", ".git", ".gitattributes", ".cache"}


def sentence_transformer(path: Path, context: EncoderContext) -> LazyEncoder:
    """The encoder of a sentence-transformers model's directory: whole texts, as its own ``encode`` reads them."""

    def load() -> Callable[[list[TextInput]], Array]:
        import numpy as np
        import torch

        from mirrorbench.core.devices import autocast

        model = _load(path, context.device)

        def encode(inputs: list[TextInput]) -> Array:
            with autocast(torch.device(context.device), context.precision):
                vectors = model.encode([i.text for i in inputs], convert_to_tensor=True, show_progress_bar=False)
            return vectors.float().cpu().numpy().astype(np.float32, copy=False)  # type: ignore[no-any-return]

        return encode

    return LazyEncoder(path, directory_checksum(path), load)


def _load(path: Path, device: str) -> Any:
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
    named = ((file.relative_to(path), file) for file in sorted(path.rglob("*")) if file.is_file())
    return backbones.checksum((name.as_posix(), file) for name, file in named if _IGNORED.isdisjoint(name.parts))


def create_sbert(spec: EncoderSpec, context: EncoderContext) -> LazyEncoder:
    """The encoder of a spec.

    Raises:
        UnknownNameError: a key that is not known.
        ModelUnavailableError: the model cannot be had.
    """
    params: dict[str, Any] = checked_params(spec, model=str, path=str)
    if params.get("path"):
        directory = Path(params["path"]).expanduser().resolve()
        if not (directory / "modules.json").is_file() and not (directory / "config.json").is_file():
            raise ModelUnavailableError(
                f"{spec}: {directory} is no directory of a sentence-transformers model",
                "It holds modules.json, as written by SentenceTransformer.save().",
            )
    else:
        name = params.get("model", "sbert")
        known = name in backbones.BACKBONES or "/" in name
        hub = EncoderSpec(name if known else f"sentence-transformers/{name}", spec.revision)
        directory = backbones.locate(hub, "en", context.offline)
    return sentence_transformer(directory, context)


@hookimpl
def register_encoders(register: Register) -> None:
    """Sentence-transformers."""
    register("sbert", create_sbert, "a sentence-transformers model; by default the paper's SBERT")
