"""Model directories: settings in JSON, the modules of sentence-transformers, and weights that are not read."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mirrorbench.core.errors import ModelUnavailableError, UsageError

_READ = ("*.safetensors", "*.bin")
_UNREAD = re.compile(r"\.(gguf|ggml|onnx|ort|tflite|h5|msgpack|mlmodel|mlpackage)$|[-_.](gguf|ggml|onnx)$")


def check_format(name: str) -> None:
    """Raise for the name of a file or model whose weights are in none of the formats that are read."""
    if os.path.isdir(os.path.expanduser(name)):
        return
    if _UNREAD.search(name.lower()):
        raise _not_read(name)


def check_readable(path: Path) -> None:
    """Raise for a model's directory with weights in other formats only."""
    if any(file for pattern in _READ for file in path.glob(pattern)):
        return
    if file := next((file for file in sorted(path.rglob("*")) if _UNREAD.search(file.name.lower())), None):
        raise _not_read(f"{path} with {file.relative_to(path)}")


def _not_read(what: str) -> UsageError:
    return UsageError(
        f"{what}: weights in GGUF, ONNX and the like are not read",
        "Name the model that it was made from, with its weights in safetensors.",
    )


@dataclass(frozen=True, slots=True)
class Module:
    """An entry of ``modules.json``, the list of what a model of sentence-transformers consists of."""

    type: str
    """The class."""
    path: str
    """Its folder in the model's directory."""

    @property
    def class_name(self) -> str:
        """The name of a class of sentence-transformers; of another the whole path, which is code beside the model."""
        package, _, name = self.type.rpartition(".")
        return name if package.startswith("sentence_transformers.") else self.type


def modules(path: Path) -> list[Module]:
    """The modules of sentence-transformers that a directory lists; none for any other directory."""
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
    """The object in a JSON file; a ``ModelUnavailableError`` for anything else."""
    try:
        settings = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError, RecursionError) as error:
        raise ModelUnavailableError(f"{path} cannot be read: {error}") from error
    if not isinstance(settings, dict):
        raise ModelUnavailableError(f"{path} is not a JSON object of settings")
    return settings
