"""Descriptions of encoders for MTEB's leaderboard: a complete ``model_meta.json``.

Sources are a stored result or a loaded encoder, the backbone's files, the corpus's card, and MTEB's own entry of the
backbone, if it has one. Other fields stay empty.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from mteb.models import SentenceTransformerEncoderWrapper
from mteb.models.model_meta import FRAMEWORKS, ModelMeta, ScoringFunction
from mteb.types import Licenses

from mirrorbench.core.errors import MirrorbenchError
from mirrorbench.core.specs import EncoderSpec, parse_spec
from mirrorbench.data.card_files import builtin_cards
from mirrorbench.models import backbones
from mirrorbench.models.sbert import sbert_directory
from mirrorbench.storage.results import slug
from mirrorbench.texts.model_card import licence_of

if TYPE_CHECKING:
    from mirrorbench.data.cards import Card

ORGANISATION = "mirrorbench"
PAPERS = {
    "mirror": ("https://aclanthology.org/2021.emnlp-main.109", "words-en"),
    "mirrorwic": ("https://aclanthology.org/2021.conll-1.44", "quick-sentences"),
}
"""Page of a method's paper, and a corpus whose card cites the paper, by method."""
LANGUAGES = {
    "ar": "ara-Arab",
    "bg": "bul-Cyrl",
    "bn": "ben-Beng",
    "da": "dan-Latn",
    "de": "deu-Latn",
    "en": "eng-Latn",
    "es": "spa-Latn",
    "et": "est-Latn",
    "eu": "eus-Latn",
    "fa": "fas-Arab",
    "fi": "fin-Latn",
    "fr": "fra-Latn",
    "he": "heb-Hebr",
    "hr": "hrv-Latn",
    "id": "ind-Latn",
    "it": "ita-Latn",
    "ja": "jpn-Jpan",
    "ka": "kat-Geor",
    "kk": "kaz-Cyrl",
    "ko": "kor-Hang",
    "nl": "nld-Latn",
    "pl": "pol-Latn",
    "ru": "rus-Cyrl",
    "tr": "tur-Latn",
    "ur": "urd-Arab",
    "zh": "zho-Hans",
}
"""MTEB's names (ISO 639-3 and script) of the languages of corpora and backbones, by two-letter code."""
_RAW_TEXT = ("words-", "wiki", "wic-", "quick-")
_TRAINED_ON = {"sts-sentences": {"STSBenchmark"}}
"""Tasks of MTEB with training texts in a corpus; corpora in ``_RAW_TEXT`` have none, others are unknown."""


@dataclass(frozen=True)
class Facts:
    """The facts on an encoder that a run knows.

    Attributes:
        dimensions: number of dimensions of its vectors.
        parameters: number of parameters; ``None`` if not counted.
        max_tokens: most tokens of a text; ``None`` for the number in its files.
        corpus: its tuning corpus; empty for untuned encoders.
        language: language of its monolingual backbone.
        contaminated: MTEB's names of tasks with texts of the tuning corpus.
        created: the day of its tuning.
    """

    dimensions: int | None = None
    parameters: int | None = None
    max_tokens: int | None = None
    corpus: str = ""
    language: str = "en"
    contaminated: Iterable[str] = ()
    created: str = ""


@dataclass(frozen=True)
class _Origin:
    """The models and data behind an encoder, as far as they are known."""

    method: str
    """Method of the encoder; empty for an encoder system."""
    corpus: str
    """Name of the tuning corpus; empty for untuned encoders."""
    backbone: str
    """Short name or hub id of the backbone; empty for a directory."""
    hub_id: str
    """Hub id of the backbone; empty if it is not on the hub."""
    loadable_id: str
    """The hub id by which MTEB loads the same encoder; empty if it cannot load it."""
    folder: Path | None
    """The files of the backbone, if they are on this machine."""
    cards: list[Card]
    """Cards of the parts of the corpus; empty if one of them has no card."""
    entry: ModelMeta | None
    """MTEB's own description of the backbone."""


def model_meta(name: str, revision: str, facts: Facts, protocol: str = "paper") -> ModelMeta:
    """Describe an encoder for MTEB, whose own class checks the description.

    The name is ``mirrorbench/<spec>``; a sentence-transformers model of the hub at a commit
    (``sbert@COMMIT:model=OWNER/NAME``) has its hub id and that commit, since MTEB itself loads it by them.

    Args:
        name: the encoder's spec.
        revision: identifier of the weights.
        facts: further facts on the encoder.
        protocol: protocol of its tuning.
    """
    spec = parse_spec(name)
    origin = _origin(spec, facts)

    parameters = facts.parameters or _parameters(origin.folder)
    memory_in_mb = None
    if parameters:
        memory_in_mb = round(parameters * 4 / 2**20)  # MTEB's own formula: float32

    # A backbone that is not tuned has the date, data and citation of MTEB's entry.
    release_date = None
    training_data = None
    citation = None
    if origin.entry and not origin.corpus:
        release_date = origin.entry.release_date
        training_data = origin.entry.public_training_data
        citation = origin.entry.citation
    # A tuned encoder has the day and the corpus of its tuning and, for the methods of ``PAPERS``, their paper.
    if facts.created:
        release_date = facts.created
    if origin.cards:
        training_data = origin.cards[0].homepage
    paper = ""
    if origin.corpus and origin.method in PAPERS:
        paper, cited_by = PAPERS[origin.method]
        citation = builtin_cards()[cited_by].citation

    # An encoder that MTEB loads itself is the model of the hub, not adapted from it.
    is_adapted = origin.hub_id and origin.hub_id != origin.loadable_id
    # Fields that are not known stay ``None``.
    return ModelMeta(
        loader=SentenceTransformerEncoderWrapper if origin.loadable_id else None,
        name=origin.loadable_id or f"{ORGANISATION}/{slug(spec, protocol)}",
        revision=spec.revision if origin.loadable_id else revision,
        release_date=release_date,
        languages=_languages(origin, facts.language),
        n_parameters=parameters,
        n_embedding_parameters=_embedding_parameters(origin.folder),
        memory_usage_mb=memory_in_mb,
        max_tokens=facts.max_tokens or _max_tokens(origin.folder),
        embed_dim=facts.dimensions,
        license=_licence(origin),
        open_weights=True if origin.hub_id or origin.backbone == "tiny" else None,
        public_training_code=None,
        public_training_data=training_data,
        framework=_framework(spec, bool(origin.folder or origin.hub_id)),
        reference=_page(origin.loadable_id) or paper or _page(origin.hub_id),
        similarity_fn_name=ScoringFunction.COSINE,
        use_instructions=False,
        training_datasets=_training_datasets(origin, facts.contaminated),
        adapted_from=origin.hub_id if is_adapted else None,
        citation=citation,
    )


def _origin(spec: EncoderSpec, facts: Facts) -> _Origin:
    """Return the models and data behind the encoder of a spec."""
    folder = _folder(spec, facts.language)
    description = _description(folder)
    # The directory of a tuned encoder states the spec that it was tuned by.
    tuned_spec = parse_spec(str(description.get("spec", spec)))
    corpus = description.get("corpus", {}).get("name", "") or facts.corpus
    backbone = _backbone(tuned_spec)
    hub_id = _hub_id(backbone, facts.language)
    return _Origin(
        method=tuned_spec.method,
        corpus=corpus,
        backbone=backbone,
        hub_id=hub_id,
        loadable_id=_loadable_id(spec),
        folder=folder,
        cards=_cards(corpus),
        entry=_entry_of_mteb(hub_id),
    )


def _loadable_id(spec: EncoderSpec) -> str:
    """Return the hub id by which MTEB loads the same encoder, a model at a commit, read as its files state; else ""."""
    model = str(spec.get("model", ""))
    is_unchanged = spec.backbone == "sbert" and "/" in model and spec.get("pooling") is None
    is_commit = re.fullmatch("[0-9a-f]{40}", spec.revision)
    return model if is_unchanged and is_commit else ""


def _folder(spec: EncoderSpec, language: str) -> Path | None:
    """Return the files of the backbone, or of a sentence-transformers model, if they are on this machine."""
    try:
        if spec.backbone == "sbert":
            return sbert_directory(spec, offline=True)
        return backbones.locate(spec, language, offline=True)
    except MirrorbenchError:
        return None


def _json_of(folder: Path | None, name: str) -> dict[str, Any]:
    """Return the JSON object in a file of a folder; empty without the file."""
    if folder is None or not (folder / name).is_file():
        return {}
    content: dict[str, Any] = json.loads((folder / name).read_text(encoding="utf-8"))
    return content


def _description(folder: Path | None) -> dict[str, Any]:
    """Return the description that ``mirrorbench tune`` wrote into a folder; empty without one."""
    return _json_of(folder, backbones.DESCRIPTION)


def _backbone(spec: EncoderSpec) -> str:
    """Return the short name or hub id of the backbone; empty for directories."""
    model = str(spec.get("model", ""))
    if not model:
        return "" if spec.is_path or spec.get("path") else spec.backbone
    if model in backbones.BACKBONES or "/" in model:
        return model
    return f"sentence-transformers/{model}"


def _hub_id(backbone: str, language: str) -> str:
    """Return the hub id of a backbone; empty for the embedded model, directories and models not on the hub."""
    entry = backbones.BACKBONES.get(backbone)
    if entry is None:
        return backbone if "/" in backbone else ""
    hub_id = entry.by_language.get(language, entry.hub_id)
    return "" if hub_id == backbones.EMBEDDED else hub_id


@cache
def _entry_of_mteb(hub_id: str) -> ModelMeta | None:
    """Return MTEB's own description of a model of the hub, without network; ``None`` without one."""
    import mteb

    if "/" not in hub_id:
        return None
    try:
        return mteb.get_model_meta(hub_id, fetch_from_hf=False)
    except (KeyError, ValueError):
        return None


def _cards(corpus: str) -> list[Card]:
    """Return the cards of the parts of a corpus; empty if one of them has no card."""
    if not corpus:
        return []
    parts = corpus.split("+")
    if not all(part in builtin_cards() for part in parts):
        return []
    return [builtin_cards()[part] for part in parts]


def _languages(origin: _Origin, language: str) -> list[str] | None:
    """Return the languages of the corpus, or else of a monolingual backbone, or else those in MTEB's description."""
    codes = [code for card in origin.cards for code in card.languages]
    backbone = backbones.BACKBONES.get(origin.backbone)
    if not codes and backbone and backbone.language != "multilingual":
        codes = [language if backbone.by_language else backbone.language]
    languages = dict.fromkeys(LANGUAGES[code] for code in codes if code in LANGUAGES)
    if languages:
        return list(languages)
    return origin.entry.languages if origin.entry else None


def _training_datasets(origin: _Origin, contaminated: Iterable[str]) -> set[str] | None:
    """Return MTEB's names of the training sets of backbone and corpus; ``None`` if unknown."""
    # A registered language model was trained on raw text, and on no task of MTEB.
    backbone = backbones.BACKBONES.get(origin.backbone)
    is_registered = backbone is not None and not backbone.unnamed
    if is_registered and origin.backbone not in ("sbert", "sapbert"):
        datasets: set[str] | None = set()
    else:
        datasets = origin.entry.training_datasets if origin.entry else None
    if datasets is None:
        return None
    # The tasks of a corpus are known if it has a card, and is raw text or listed here.
    if origin.corpus and not (origin.cards and all(map(_has_known_texts, origin.cards))):
        return None
    datasets_of_corpus = [_TRAINED_ON.get(card.name, set()) for card in origin.cards]
    return datasets.union(contaminated, *datasets_of_corpus)


def _has_known_texts(card: Card) -> bool:
    return card.name in _TRAINED_ON or card.name.startswith(_RAW_TEXT)


def _licence(origin: _Origin) -> str | None:
    """Return the backbone's licence, if MTEB has a name for it."""
    backbone = backbones.BACKBONES.get(origin.backbone)
    # The licence of a short name does not apply to its models for other languages.
    name = origin.backbone if backbone and backbone.hub_id == origin.hub_id else ""
    licence = licence_of(name, origin.folder)
    if not licence and origin.entry:
        licence = origin.entry.license
    return licence if licence in get_args(Licenses) else None


def _embedding_parameters(folder: Path | None) -> int | None:
    """Return the number of parameters of the token embeddings; ``None`` if unknown."""
    if folder is None or not (folder / "config.json").is_file():
        return None
    config = backbones.configuration(folder)
    vocabulary = config.get("vocab_size")
    width = config.get("embedding_size") or config.get("hidden_size")
    return vocabulary * width if vocabulary and width else None


def _parameters(folder: Path | None) -> int | None:
    """Return the number of parameters, from the headers of the weights; ``None`` without weights."""
    from safetensors import safe_open

    total = 0
    for file in folder.rglob("*.safetensors") if folder else ():
        with safe_open(file, framework="numpy") as weights:
            for name in weights.keys():  # noqa: SIM118
                tensor = weights.get_slice(name)
                # Tensors of integers are positions, not parameters.
                if "F" in tensor.get_dtype():
                    total += prod(tensor.get_shape())
    return total or None


def _max_tokens(folder: Path | None) -> int | None:
    """Return the largest number of tokens of a text in the files of a sentence-transformers model."""
    return _json_of(folder, "sentence_bert_config.json").get("max_seq_length")


def _framework(spec: EncoderSpec, is_transformer: bool) -> list[FRAMEWORKS]:
    """Return the libraries that load an encoder."""
    if spec.backbone == "sbert":
        return ["Sentence Transformers", "PyTorch"]
    if is_transformer:
        return ["PyTorch", "Transformers"]
    if spec.backbone in ("static", "fasttext"):
        return ["NumPy"]
    return []


def _page(hub_id: str) -> str | None:
    return f"https://huggingface.co/{hub_id}" if hub_id else None
