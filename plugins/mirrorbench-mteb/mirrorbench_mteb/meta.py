"""Descriptions of encoders for MTEB's leaderboard: a complete ``model_meta.json``.

Sources are a stored result or a loaded encoder, the backbone's files, the corpus's card, and MTEB's own entry of the
backbone, if it has one. Other fields stay empty.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from math import prod
from pathlib import Path
from typing import Any, get_args

from mteb.models import SentenceTransformerEncoderWrapper
from mteb.models.model_meta import FRAMEWORKS, ModelMeta, ScoringFunction
from mteb.types import Licenses

from mirrorbench.plugin import (
    Card,
    EncoderSpec,
    ModelDescription,
    corpus_cards,
    describe_model,
    parse_spec,
)

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

    model: ModelDescription
    """The model behind the encoder."""
    corpus: str
    """Name of the tuning corpus; empty for untuned encoders."""
    loadable_id: str
    """The hub id by which MTEB loads the same encoder; empty if it cannot load it."""
    cards: tuple[Card, ...]
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
    model = origin.model

    parameters = facts.parameters or _parameters(model.folder)
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
    if origin.corpus and model.method in PAPERS:
        paper, cited_by = PAPERS[model.method]
        citation = corpus_cards(cited_by)[0].citation

    # An encoder that MTEB loads itself is the model of the hub, not adapted from it.
    is_adapted = model.hub_id and model.hub_id != origin.loadable_id
    # Fields that are not known stay ``None``.
    return ModelMeta(
        loader=SentenceTransformerEncoderWrapper if origin.loadable_id else None,
        name=origin.loadable_id or f"{ORGANISATION}/{spec.folder_name(protocol)}",
        revision=spec.revision if origin.loadable_id else revision,
        release_date=release_date,
        languages=_languages(origin),
        n_parameters=parameters,
        n_embedding_parameters=_embedding_parameters(model.config),
        memory_usage_mb=memory_in_mb,
        max_tokens=facts.max_tokens or _max_tokens(model.folder),
        embed_dim=facts.dimensions,
        license=_licence(origin),
        open_weights=True if model.hub_id or model.backbone == "tiny" else None,
        public_training_code=None,
        public_training_data=training_data,
        framework=_framework(spec, bool(model.folder or model.hub_id)),
        reference=_page(origin.loadable_id) or paper or _page(model.hub_id),
        similarity_fn_name=ScoringFunction.COSINE,
        use_instructions=False,
        training_datasets=_training_datasets(origin, facts.contaminated),
        adapted_from=model.hub_id if is_adapted else None,
        citation=citation,
    )


def _origin(spec: EncoderSpec, facts: Facts) -> _Origin:
    """Return the models and data behind the encoder of a spec."""
    model = describe_model(spec, facts.language)
    corpus = model.corpus or facts.corpus
    return _Origin(
        model=model,
        corpus=corpus,
        loadable_id=_loadable_id(spec),
        cards=corpus_cards(corpus),
        entry=_entry_of_mteb(model.hub_id),
    )


def _loadable_id(spec: EncoderSpec) -> str:
    """Return the hub id by which MTEB loads the same encoder, a model at a commit, read as its files state; else ""."""
    model = str(spec.get("model", ""))
    is_unchanged = spec.backbone == "sbert" and "/" in model and spec.get("pooling") is None
    is_commit = re.fullmatch("[0-9a-f]{40}", spec.revision)
    return model if is_unchanged and is_commit else ""


def _max_tokens(folder: Path | None) -> int | None:
    """Return the largest number of tokens of a text in the files of a sentence-transformers model."""
    file = folder / "sentence_bert_config.json" if folder else None
    if file is None or not file.is_file():
        return None
    settings: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return settings.get("max_seq_length")


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


def _languages(origin: _Origin) -> list[str] | None:
    """Return the languages of the corpus, or else of a monolingual backbone, or else those in MTEB's description."""
    codes = [code for card in origin.cards for code in card.languages]
    if not codes and origin.model.language:
        codes = [origin.model.language]
    languages = dict.fromkeys(LANGUAGES[code] for code in codes if code in LANGUAGES)
    if languages:
        return list(languages)
    return origin.entry.languages if origin.entry else None


def _training_datasets(origin: _Origin, contaminated: Iterable[str]) -> set[str] | None:
    """Return MTEB's names of the training sets of backbone and corpus; ``None`` if unknown."""
    # A language model was trained on raw text, and on no task of MTEB.
    if origin.model.is_language_model:
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
    licence = origin.model.licence
    if not licence and origin.entry:
        licence = origin.entry.license or ""
    return licence if licence in get_args(Licenses) else None


def _embedding_parameters(config: Mapping[str, Any]) -> int | None:
    """Return the number of parameters of the token embeddings; ``None`` if unknown."""
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
