"""Descriptions of encoders for MTEB's leaderboard: a complete ``model_meta.json``.

Facts come from a stored result or a loaded encoder, the backbone's files, the corpus's card, and MTEB's own entry of
the backbone, if it has one. What none of them says stays empty.
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

from mirrorbench_sbert import sbert_directory
from mteb.models import SentenceTransformerEncoderWrapper
from mteb.models.model_meta import FRAMEWORKS, ModelMeta, ScoringFunction
from mteb.types import Licenses

from mirrorbench.core.errors import MirrorbenchError
from mirrorbench.core.specs import EncoderSpec, parse_spec
from mirrorbench.data.cardfile import builtin_cards
from mirrorbench.models import backbones
from mirrorbench.runs.results import slug
from mirrorbench.texts.card import licence_of

if TYPE_CHECKING:
    from mirrorbench.data.cards import Card

ORGANISATION = "mirrorbench"
PAPERS = {
    "mirror": ("https://aclanthology.org/2021.emnlp-main.109", "words-en"),
    "mirrorwic": ("https://aclanthology.org/2021.conll-1.44", "quick-sentences"),
}
"""The page of a method's paper, and a corpus whose card cites it."""
LANGUAGES = {
    "ar": "ara-Arab", "bg": "bul-Cyrl", "bn": "ben-Beng", "da": "dan-Latn", "de": "deu-Latn", "en": "eng-Latn",
    "es": "spa-Latn", "et": "est-Latn", "eu": "eus-Latn", "fa": "fas-Arab", "fi": "fin-Latn", "fr": "fra-Latn",
    "he": "heb-Hebr", "hr": "hrv-Latn", "id": "ind-Latn", "it": "ita-Latn", "ja": "jpn-Jpan", "ka": "kat-Geor",
    "kk": "kaz-Cyrl", "ko": "kor-Hang", "nl": "nld-Latn", "pl": "pol-Latn", "ru": "rus-Cyrl", "tr": "tur-Latn",
    "ur": "urd-Arab", "zh": "zho-Hans",
}  # fmt: skip
"""MTEB's names (ISO 639-3 and script) of the languages of corpora and backbones."""
_RAW_TEXT = ("words-", "wiki", "wic-", "quick-")
_TRAINED_ON = {"sts-sentences": {"STSBenchmark"}}
"""Tasks of MTEB whose training texts a corpus holds; those in ``_RAW_TEXT`` are of none, others are not known."""


@dataclass(frozen=True)
class Facts:
    """The facts on an encoder that a run knows.

    Attributes:
        dimensions: of its vectors.
        parameters: how many; ``None`` if not counted.
        max_tokens: how many tokens of a text it reads; ``None`` if its files say.
        corpus: what it was tuned on; empty if on nothing.
        language: which of its monolingual backbones it is made of.
        contaminated: MTEB's names of tasks with texts that it was tuned on.
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
    """The models and data that an encoder was made of, as far as they are known.

    Attributes:
        method: of the tuning, also of one that ``mirrorbench tune`` did.
        corpus: of the tuning; empty where nothing was tuned.
        backbone: short name or hub id; empty for a directory.
        hub_id: of the backbone, where it is on the hub.
        published: the encoder's own hub id, if MTEB can load it as it was read.
        folder: the files of the backbone, if they are here.
        cards: of the corpus's parts; none if one of them has no card.
        known: MTEB's own description of the backbone.
    """

    method: str
    corpus: str
    backbone: str
    hub_id: str
    published: str
    folder: Path | None
    cards: list[Card]
    known: ModelMeta | None


def model_meta(name: str, revision: str, facts: Facts, protocol: str = "paper") -> ModelMeta:
    """MTEB's description of an encoder, as its own class checks it.

    It is called ``mirrorbench/<spec>``; a sentence-transformers model of the hub at a commit
    (``sbert@COMMIT:model=OWNER/NAME``) has its hub id and that commit, since MTEB itself loads it by them.

    Args:
        name: the encoder's spec.
        revision: identifies the weights.
        facts: see there.
        protocol: which reading of the recipe it was tuned under.
    """
    spec = parse_spec(name)
    of = _origin(spec, facts)
    parameters = facts.parameters or _parameters(of.folder)
    paper, cited = PAPERS.get(of.method, ("", "")) if of.corpus else ("", "")
    as_known = of.known if not of.corpus else None  # MTEB's entry says nothing of what was tuned further
    return ModelMeta(
        loader=SentenceTransformerEncoderWrapper if of.published else None,
        name=of.published or f"{ORGANISATION}/{slug(spec, protocol)}",
        revision=spec.revision if of.published else revision,
        release_date=facts.created or (as_known.release_date if as_known else None),
        languages=_languages(of, facts.language),
        n_parameters=parameters,
        n_embedding_parameters=_embedding_parameters(of.folder),
        memory_usage_mb=round(parameters * 4 / 2**20) if parameters else None,  # MTEB's own formula: float32
        max_tokens=facts.max_tokens or _max_tokens(of.folder),
        embed_dim=facts.dimensions,
        license=_licence(of),
        open_weights=True if of.hub_id or of.backbone == "tiny" else None,
        public_training_code=None,
        public_training_data=of.cards[0].homepage if of.cards else as_known.public_training_data if as_known else None,
        framework=_framework(spec, bool(of.folder or of.hub_id)),
        reference=_page(of.published) or paper or _page(of.hub_id),
        similarity_fn_name=ScoringFunction.COSINE,
        use_instructions=False,
        training_datasets=_training_datasets(of, facts.contaminated),
        adapted_from=of.hub_id if of.hub_id and of.hub_id != of.published else None,
        citation=builtin_cards()[cited].citation if cited else as_known.citation if as_known else None,
    )


def _origin(spec: EncoderSpec, facts: Facts) -> _Origin:
    folder = _folder(spec, facts.language)
    described = _description(folder)
    made = parse_spec(str(described.get("spec", spec)))
    corpus = described.get("corpus", {}).get("name", "") or facts.corpus
    backbone = _backbone(made)
    hub_id = _hub_id(backbone, facts.language)
    return _Origin(made.method, corpus, backbone, hub_id, _published(spec), folder, _cards(corpus), _registered(hub_id))


def _published(spec: EncoderSpec) -> str:
    """The hub id under which MTEB can load just this encoder, if it has one: read as its files say, at a commit."""
    model = str(spec.get("model", ""))
    whole = spec.backbone == "sbert" and "/" in model and spec.get("pooling") is None
    return model if whole and re.fullmatch("[0-9a-f]{40}", spec.revision) else ""


def _folder(spec: EncoderSpec, language: str) -> Path | None:
    """The files of the backbone, or of a sentence-transformers model, if they are here."""
    try:
        return sbert_directory(spec, True) if spec.backbone == "sbert" else backbones.locate(spec, language, True)
    except MirrorbenchError:
        return None


def _description(folder: Path | None) -> dict[str, Any]:
    """The description that ``mirrorbench tune`` wrote into a folder."""
    file = folder / backbones.DESCRIPTION if folder else None
    content: dict[str, Any] = json.loads(file.read_text(encoding="utf-8")) if file and file.is_file() else {}
    return content


def _backbone(spec: EncoderSpec) -> str:
    """Short name or hub id of the model that was tuned or read; empty for directories."""
    model = str(spec.get("model", ""))
    if not model:
        return "" if spec.is_path or spec.get("path") else spec.backbone
    return model if model in backbones.BACKBONES or "/" in model else f"sentence-transformers/{model}"


def _hub_id(backbone: str, language: str) -> str:
    """Its hub id; empty for the embedded model, directories and what is no model of the hub."""
    known = backbones.BACKBONES.get(backbone)
    hub_id = known.by_language.get(language, known.hub_id) if known else backbone if "/" in backbone else ""
    return "" if hub_id == backbones.EMBEDDED else hub_id


@cache
def _registered(hub_id: str) -> ModelMeta | None:
    """MTEB's own description of a model of the hub; asks no network."""
    import mteb

    try:
        return mteb.get_model_meta(hub_id, fetch_from_hf=False) if "/" in hub_id else None
    except (KeyError, ValueError):
        return None


def _cards(corpus: str) -> list[Card]:
    parts = corpus.split("+") if corpus else []
    return [builtin_cards()[part] for part in parts] if all(part in builtin_cards() for part in parts) else []


def _languages(of: _Origin, language: str) -> list[str] | None:
    """Those of the corpus, or of a backbone that has one language, or what MTEB knows."""
    known = backbones.BACKBONES.get(of.backbone)
    codes = [code for card in of.cards for code in card.languages]
    if not codes and known and known.language != "multilingual":
        codes = [language if known.by_language else known.language]
    languages = dict.fromkeys(LANGUAGES[code] for code in codes if code in LANGUAGES)
    return list(languages) if languages else of.known.languages if of.known else None


def _training_datasets(of: _Origin, contaminated: Iterable[str]) -> set[str] | None:
    """MTEB's names of what backbone and corpus hold; ``None`` where that is not known."""
    short = backbones.BACKBONES.get(of.backbone)
    language_model = short is not None and not short.unnamed and of.backbone not in ("sbert", "sapbert")
    of_backbone = set() if language_model else of.known.training_datasets if of.known else None
    raw = all(card.name in _TRAINED_ON or card.name.startswith(_RAW_TEXT) for card in of.cards)
    if of_backbone is None or (of.corpus and not (of.cards and raw)):
        return None
    return of_backbone.union(contaminated, *(_TRAINED_ON.get(card.name, ()) for card in of.cards))


def _licence(of: _Origin) -> str | None:
    """The backbone's, where MTEB has a name for it; a short name's is not that of its models of other languages."""
    short = backbones.BACKBONES.get(of.backbone)
    licence = licence_of(of.backbone if short and short.hub_id == of.hub_id else "", of.folder)
    licence = licence or (of.known.license if of.known else None)
    return licence if licence in get_args(Licenses) else None


def _embedding_parameters(folder: Path | None) -> int | None:
    """Those of the token embeddings."""
    config = backbones.configuration(folder) if folder and (folder / "config.json").is_file() else {}
    vocabulary, width = config.get("vocab_size"), config.get("embedding_size") or config.get("hidden_size")
    return vocabulary * width if vocabulary and width else None


def _parameters(folder: Path | None) -> int | None:
    """Counted in the headers of the weights."""
    from safetensors import safe_open

    total = 0
    for file in folder.rglob("*.safetensors") if folder else ():
        with safe_open(file, framework="numpy") as weights:
            tensors = [weights.get_slice(name) for name in weights.keys()]  # noqa: SIM118
            total += sum(prod(tensor.get_shape()) for tensor in tensors if "F" in tensor.get_dtype())  # no positions
    return total or None


def _max_tokens(folder: Path | None) -> int | None:
    """The number of tokens that a sentence-transformers model reads, as its files say."""
    file = folder / "sentence_bert_config.json" if folder else None
    return json.loads(file.read_text(encoding="utf-8")).get("max_seq_length") if file and file.is_file() else None


def _framework(spec: EncoderSpec, transformer: bool) -> list[FRAMEWORKS]:
    if spec.backbone == "sbert":
        return ["Sentence Transformers", "PyTorch"]
    return ["PyTorch", "Transformers"] if transformer else ["NumPy"] if spec.backbone in ("static", "fasttext") else []


def _page(hub_id: str) -> str | None:
    return f"https://huggingface.co/{hub_id}" if hub_id else None
