"""The model behind an encoder, as its files on this machine and the list of backbones state it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mirrorbench.core.errors import MirrorbenchError
from mirrorbench.core.identity import DESCRIPTION
from mirrorbench.core.specs import EncoderSpec, as_spec, parse_spec
from mirrorbench.models.backbones import BACKBONES, EMBEDDED, Backbone, backbone_folder, locate
from mirrorbench.models.model_files import json_object
from mirrorbench.models.sbert import sbert_directory


@dataclass(frozen=True)
class ModelDescription:
    """What is known of the model behind an encoder without loading it.

    ``describe_model`` makes it; plugins read it, for example to fill the fields of another tool's model card.

    Attributes:
        method: method of the tuning, such as ``mirror``; ``base`` or empty if mirrorbench did not tune it.
        corpus: corpus of the tuning, for a directory of ``mirrorbench tune``; otherwise empty.
        backbone: short name or hub id; empty for a directory.
        hub_id: hub id of the backbone; empty for a directory, and for a model that is not on the hub.
        folder: path of the directory of the model's files; ``None`` if they are not on this machine.
        config: content of ``config.json`` as a dict; empty without the file.
        licence: id such as ``apache-2.0``; empty if unknown.
        language: ISO code or ``multilingual``; empty if unknown.
        is_language_model: whether it is known to be trained on raw text alone.

    Example:
        >>> from mirrorbench.plugin import describe_model
        >>> model = describe_model("tiny+base")
        >>> model.method, model.licence, model.config["hidden_size"]
        ('base', 'cc-by-sa-4.0', 256)
    """

    method: str
    corpus: str
    backbone: str
    hub_id: str
    folder: Path | None
    config: Mapping[str, Any] = field(default_factory=dict)
    licence: str = ""
    language: str = ""
    is_language_model: bool = False


def describe_model(encoder: str | Path | EncoderSpec, language: str = "en") -> ModelDescription:
    """Describe the model behind an encoder, without loading it and without network.

    Plugins call it for facts about an encoder: its backbone, licence, language and configuration. What is not on this
    machine, or not known, is empty in the description.

    Args:
        encoder: a spec as text or parsed, or the path of a model's directory.
        language: ISO code of the texts, for a short name that stands for a model of each language (default ``en``).

    Raises:
        UsageError: the spec is malformed.
        ModelUnavailableError: a file in the model's directory cannot be read.

    Example:
        >>> from mirrorbench.plugin import describe_model
        >>> model = describe_model("bert+mirror")
        >>> model.method, model.backbone, model.hub_id, model.licence
        ('mirror', 'bert', 'bert-base-uncased', 'apache-2.0')
    """
    spec = as_spec(encoder)
    folder = _folder(spec, language)
    # A directory of `mirrorbench tune` states the spec and the corpus that it was tuned by.
    statement = _json_of(folder, DESCRIPTION)
    tuned_spec = parse_spec(str(statement.get("spec", spec)))
    backbone = _backbone(tuned_spec)
    entry = BACKBONES.get(backbone)
    hub_id = _hub_id(backbone, entry, language)
    # The licence of a short name does not apply to its models for other languages.
    has_own_licence = entry is not None and entry.hub_id == hub_id
    licence = licence_of(backbone if has_own_licence else "", folder)
    language_of_model = ""
    if entry is not None:
        language_of_model = language if language in entry.by_language else entry.language
    return ModelDescription(
        method=tuned_spec.method,
        corpus=statement.get("corpus", {}).get("name", ""),
        backbone=backbone,
        hub_id=hub_id,
        folder=folder,
        config=_config(folder),
        licence=licence or "",
        language=language_of_model,
        is_language_model=entry is not None and entry.is_language_model,
    )


def licence_of(name: str, folder: Path | None) -> str | None:
    """Return the licence of a backbone, by its short name or else from the card in its folder; ``None`` if unknown."""
    from huggingface_hub import ModelCard

    if name in BACKBONES and BACKBONES[name].licence:
        return BACKBONES[name].licence
    if folder is None:
        return None
    card = folder / "README.md"
    if not card.is_file():
        return None
    try:
        licence = ModelCard.load(card, ignore_metadata_errors=True).data.license
    except (ValueError, OSError):
        return None
    return str(licence) if licence else None


def _folder(spec: EncoderSpec, language: str) -> Path | None:
    """Return the directory of a backbone or of a sentence-transformers model; ``None`` if it is not on this machine."""
    try:
        if spec.backbone == "sbert":
            return sbert_directory(spec, offline=True)
        return locate(spec, language, offline=True)
    except MirrorbenchError:
        return None


def _json_of(folder: Path | None, name: str) -> dict[str, Any]:
    """Return the JSON object in a file of a folder; empty without the file."""
    if folder is None or not (folder / name).is_file():
        return {}
    return json_object(folder / name)


def _config(folder: Path | None) -> dict[str, Any]:
    """Return the configuration in a folder, that of its backbone if the folder has an adapter; empty without one."""
    if folder is None or not (folder / "config.json").is_file():
        return {}
    return json_object(backbone_folder(folder) / "config.json")


def _backbone(spec: EncoderSpec) -> str:
    """Return the short name or hub id of the backbone; empty for directories."""
    model = str(spec.get("model", ""))
    if not model:
        return "" if spec.is_path or spec.get("path") else spec.backbone
    # A model of `sbert` without an organisation belongs to sentence-transformers.
    if model in BACKBONES or "/" in model:
        return model
    return f"sentence-transformers/{model}"


def _hub_id(backbone: str, entry: Backbone | None, language: str) -> str:
    """Return the hub id of a backbone; empty for the embedded model, directories and encoders of other kinds."""
    if entry is None:
        return backbone if "/" in backbone else ""
    hub_id = entry.by_language.get(language, entry.hub_id)
    return "" if hub_id == EMBEDDED else hub_id
