"""Model directories: settings in JSON, modules of sentence-transformers, checksums, and formats that are not read."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mirrorbench.core.errors import ModelUnavailableError, UsageError
from mirrorbench.storage.checksums import content

_READ_FORMATS = ("*.safetensors", "*.bin")
_UNREAD_FORMATS = re.compile(
    r"\.(gguf|ggml|onnx|ort|tflite|h5|msgpack|mlmodel|mlpackage)$|[-_.](gguf|ggml|onnx)$"
)


def check_format(name: str) -> None:
    """Raise a ``UsageError`` for the name of a file or model with weights in a format that is not read."""
    if _UNREAD_FORMATS.search(name.lower()) and not os.path.isdir(os.path.expanduser(name)):
        raise _not_read(name)


def check_readable(path: Path) -> None:
    """Raise a ``UsageError`` if a model's directory has weights only in formats that are not read."""
    if any(any(path.glob(pattern)) for pattern in _READ_FORMATS):
        return
    for file in sorted(path.rglob("*")):
        if _UNREAD_FORMATS.search(file.name.lower()):
            raise _not_read(f"{path} with {file.relative_to(path)}")


def _not_read(what: str) -> UsageError:
    """Return the error for a file or directory with weights in a format that is not read."""
    return UsageError(
        f"{what}: weights in GGUF, ONNX and the like are not read",
        "Name the model that it was made from, with its weights in safetensors.",
    )


@dataclass(frozen=True, slots=True)
class Module:
    """An entry of ``modules.json``, the list of the modules of a model of sentence-transformers."""

    type: str
    """Import path of the class."""
    path: str
    """Folder of the module in the model's directory."""

    @property
    def class_name(self) -> str:
        """Name of a class of sentence-transformers, or the whole import path of any other class."""
        package, _, name = self.type.rpartition(".")
        if package.startswith("sentence_transformers."):
            return name
        return self.type


def modules(path: Path) -> list[Module]:
    """Read the list of modules of a sentence-transformers model; empty for any other directory.

    Raise a ``ModelUnavailableError`` for a damaged file, or for folders outside the model's directory.
    """
    file = path / "modules.json"
    if not file.is_file():
        return []
    import msgspec

    try:
        listed = msgspec.json.decode(file.read_bytes(), type=list[Module])
    except (OSError, ValueError, RecursionError) as error:
        raise ModelUnavailableError(f"{file} cannot be read: {error}") from error
    if any(os.path.isabs(module.path) or ".." in Path(module.path).parts for module in listed):
        raise ModelUnavailableError(f"{file} names a folder that is not inside its own")
    return listed


def json_object(path: Path) -> dict[str, Any]:
    """Read the object in a JSON file; anything else raises a ``ModelUnavailableError``."""
    try:
        settings = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError, RecursionError) as error:
        raise ModelUnavailableError(f"{path} cannot be read: {error}") from error
    if not isinstance(settings, dict):
        raise ModelUnavailableError(f"{path} is not a JSON object of settings")
    return settings


_IGNORED_NAMES = {
    "README.md",
    ".eval_results",
    "onnx",
    "openvino",
    ".git",
    ".gitattributes",
    ".cache",
}


def directory_checksum(path: Path) -> str:
    """Return the SHA-256 of all files below a model directory, except documentation and other weight formats."""
    return content(model_files(path))


def model_files(path: Path) -> list[tuple[str, Path]]:
    """Return the files of a model that its checksum covers: their names in the directory and their paths."""
    entries = []
    for file in sorted(path.rglob("*")):
        name = file.relative_to(path)
        if file.is_file() and _IGNORED_NAMES.isdisjoint(name.parts):
            entries.append((name.as_posix(), file))
    return entries
