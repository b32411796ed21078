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
    corpus: str  # empty for untuned encoders
    backbone: str  # short name or hub id; empty for a directory
    hub_id: str  # of the backbone, if it is on the hub
    published: str  # the encoder's own hub id, if MTEB loads the same encoder by it
    folder: Path | None  # of the backbone, if it is here
    cards: list[Card]  # of the parts of the corpus; none if one of them has no card
    known: ModelMeta | None  # MTEB's own description of the backbone


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
    paper, cited = PAPERS.get(origin.method, ("", "")) if origin.corpus else ("", "")
    as_known = (
        origin.known if not origin.corpus else None
    )  # MTEB's entry does not describe a tuned backbone
    return ModelMeta(
        loader=SentenceTransformerEncoderWrapper if origin.published else None,
        name=origin.published or f"{ORGANISATION}/{slug(spec, protocol)}",
        revision=spec.revision if origin.published else revision,
        release_date=facts.created or (as_known.release_date if as_known else None),
        languages=_languages(origin, facts.language),
        n_parameters=parameters,
        n_embedding_parameters=_embedding_parameters(origin.folder),
        memory_usage_mb=round(parameters * 4 / 2**20)
        if parameters
        else None,  # MTEB's own formula: float32
        max_tokens=facts.max_tokens or _max_tokens(origin.folder),
        embed_dim=facts.dimensions,
        license=_licence(origin),
        open_weights=True if origin.hub_id or origin.backbone == "tiny" else None,
        public_training_code=None,
        public_training_data=origin.cards[0].homepage
        if origin.cards
        else as_known.public_training_data
        if as_known
        else None,
        framework=_framework(spec, bool(origin.folder or origin.hub_id)),
        reference=_page(origin.published) or paper or _page(origin.hub_id),
        similarity_fn_name=ScoringFunction.COSINE,
        use_instructions=False,
        training_datasets=_training_datasets(origin, facts.contaminated),
        adapted_from=origin.hub_id if origin.hub_id and origin.hub_id != origin.published else None,
        citation=builtin_cards()[cited].citation
        if cited
        else as_known.citation
        if as_known
        else None,
    )


def _origin(spec: EncoderSpec, facts: Facts) -> _Origin:
    folder = _folder(spec, facts.language)
    described = _description(folder)
    made = parse_spec(str(described.get("spec", spec)))
    corpus = described.get("corpus", {}).get("name", "") or facts.corpus
    backbone = _backbone(made)
    hub_id = _hub_id(backbone, facts.language)
    return _Origin(
        made.method,
        corpus,
        backbone,
        hub_id,
        _published(spec),
        folder,
        _cards(corpus),
        _registered(hub_id),
    )


def _published(spec: EncoderSpec) -> str:
    """The hub id by which MTEB loads the same encoder, if any: a model at a commit, read as its files state."""
    model = str(spec.get("model", ""))
    unchanged = spec.backbone == "sbert" and "/" in model and spec.get("pooling") is None
    return model if unchanged and re.fullmatch("[0-9a-f]{40}", spec.revision) else ""


def _folder(spec: EncoderSpec, language: str) -> Path | None:
    """The files of the backbone, or of a sentence-transformers model, if they are here."""
    try:
        return (
            sbert_directory(spec, True)
            if spec.backbone == "sbert"
            else backbones.locate(spec, language, True)
        )
    except MirrorbenchError:
        return None


def _description(folder: Path | None) -> dict[str, Any]:
    """The description that ``mirrorbench tune`` wrote into a folder."""
    file = folder / backbones.DESCRIPTION if folder else None
    content: dict[str, Any] = (
        json.loads(file.read_text(encoding="utf-8")) if file and file.is_file() else {}
    )
    return content


def _backbone(spec: EncoderSpec) -> str:
    """Short name or hub id of the backbone; empty for directories."""
    model = str(spec.get("model", ""))
    if not model:
        return "" if spec.is_path or spec.get("path") else spec.backbone
    return (
        model if model in backbones.BACKBONES or "/" in model else f"sentence-transformers/{model}"
    )


def _hub_id(backbone: str, language: str) -> str:
    """The hub id of a backbone; empty for the embedded model, directories and models not on the hub."""
    known = backbones.BACKBONES.get(backbone)
    hub_id = (
        known.by_language.get(language, known.hub_id)
        if known
        else backbone
        if "/" in backbone
        else ""
    )
    return "" if hub_id == backbones.EMBEDDED else hub_id


@cache
def _registered(hub_id: str) -> ModelMeta | None:
    """MTEB's own description of a model of the hub, without network."""
    import mteb

    try:
        return mteb.get_model_meta(hub_id, fetch_from_hf=False) if "/" in hub_id else None
    except (KeyError, ValueError):
        return None


def _cards(corpus: str) -> list[Card]:
    parts = corpus.split("+") if corpus else []
    return (
        [builtin_cards()[part] for part in parts]
        if all(part in builtin_cards() for part in parts)
        else []
    )


def _languages(origin: _Origin, language: str) -> list[str] | None:
    """The languages of the corpus, or of a backbone with one language, or those in MTEB's description."""
    known = backbones.BACKBONES.get(origin.backbone)
    codes = [code for card in origin.cards for code in card.languages]
    if not codes and known and known.language != "multilingual":
        codes = [language if known.by_language else known.language]
    languages = dict.fromkeys(LANGUAGES[code] for code in codes if code in LANGUAGES)
    return list(languages) if languages else origin.known.languages if origin.known else None


def _training_datasets(origin: _Origin, contaminated: Iterable[str]) -> set[str] | None:
    """MTEB's names of the training sets of backbone and corpus; ``None`` if unknown."""
    short = backbones.BACKBONES.get(origin.backbone)
    language_model = (
        short is not None and not short.unnamed and origin.backbone not in ("sbert", "sapbert")
    )
    of_backbone = (
        set() if language_model else origin.known.training_datasets if origin.known else None
    )
    raw = all(card.name in _TRAINED_ON or card.name.startswith(_RAW_TEXT) for card in origin.cards)
    if of_backbone is None or (origin.corpus and not (origin.cards and raw)):
        return None
    return of_backbone.union(
        contaminated, *(_TRAINED_ON.get(card.name, ()) for card in origin.cards)
    )


def _licence(origin: _Origin) -> str | None:
    """The backbone's licence, if MTEB has a name for it."""
    short = backbones.BACKBONES.get(origin.backbone)
    # The licence of a short name is not that of its models of other languages.
    licence = licence_of(
        origin.backbone if short and short.hub_id == origin.hub_id else "", origin.folder
    )
    licence = licence or (origin.known.license if origin.known else None)
    return licence if licence in get_args(Licenses) else None


def _embedding_parameters(folder: Path | None) -> int | None:
    """The number of parameters of the token embeddings."""
    config = (
        backbones.configuration(folder) if folder and (folder / "config.json").is_file() else {}
    )
    vocabulary, width = (
        config.get("vocab_size"),
        config.get("embedding_size") or config.get("hidden_size"),
    )
    return vocabulary * width if vocabulary and width else None


def _parameters(folder: Path | None) -> int | None:
    """The number of parameters, from the headers of the weights."""
    from safetensors import safe_open

    total = 0
    for file in folder.rglob("*.safetensors") if folder else ():
        with safe_open(file, framework="numpy") as weights:
            tensors = [weights.get_slice(name) for name in weights.keys()]  # noqa: SIM118
            total += sum(
                prod(tensor.get_shape()) for tensor in tensors if "F" in tensor.get_dtype()
            )  # no positions
    return total or None


def _max_tokens(folder: Path | None) -> int | None:
    """The most tokens of a text, in the files of a sentence-transformers model."""
    file = folder / "sentence_bert_config.json" if folder else None
    return (
        json.loads(file.read_text(encoding="utf-8")).get("max_seq_length")
        if file and file.is_file()
        else None
    )


def _framework(spec: EncoderSpec, transformer: bool) -> list[FRAMEWORKS]:
    if spec.backbone == "sbert":
        return ["Sentence Transformers", "PyTorch"]
    return (
        ["PyTorch", "Transformers"]
        if transformer
        else ["NumPy"]
        if spec.backbone in ("static", "fasttext")
        else []
    )


def _page(hub_id: str) -> str | None:
    return f"https://huggingface.co/{hub_id}" if hub_id else None
