from __future__ import annotations

import json
from pathlib import Path

import pytest

import mirrorbench
from mirrorbench.core.errors import UsageError
from mirrorbench.texts.model_description import describe_model
from mirrorbench.texts.tune import OWN_TEXTS

TEXTS = ["the river", "a stone bridge", "some music", "the old garden"]


def test_tuned_directories_state_method_and_corpus(tmp_path: Path) -> None:
    tuned = mirrorbench.tune(TEXTS, "tiny", tmp_path / "mine", held_out=0)
    model = describe_model(tuned.folder)
    assert (model.method, model.backbone, model.hub_id) == ("mirror", "tiny", "")
    assert model.corpus == OWN_TEXTS
    assert model.folder == tuned.folder
    assert model.config["model_type"] == "bert"


def test_short_names_have_a_model_for_each_language() -> None:
    english = describe_model("bert")
    turkish = describe_model("bert+mirror", language="tr")
    assert (english.hub_id, english.language) == ("bert-base-uncased", "en")
    assert (turkish.hub_id, turkish.language) == ("dbmdz/bert-base-turkish-uncased", "tr")
    assert english.is_language_model
    assert english.licence
    assert not turkish.licence  # that of the English model is not said to be that of others
    assert describe_model("bert", language="de") == english  # it has no German one


@pytest.mark.parametrize(
    ("spec", "hub_id"),
    [
        ("sbert:model=all-mpnet-base-v2", "sentence-transformers/all-mpnet-base-v2"),
        ("sbert:model=BAAI/bge-m3", "BAAI/bge-m3"),
        ("someone/model", "someone/model"),
        ("tiny", ""),
        ("fasttext:path=vectors.txt", ""),
    ],
)
def test_hub_ids_follow_the_spec(spec: str, hub_id: str) -> None:
    model = describe_model(spec)
    assert model.hub_id == hub_id
    assert not model.is_language_model or spec == "tiny"


def test_a_card_in_the_folder_states_the_licence(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "bert"}))
    (tmp_path / "README.md").write_text("---\nlicense: mit\n---\n")
    assert describe_model(tmp_path).licence == "mit"


def test_malformed_specs_are_usage_errors() -> None:
    with pytest.raises(UsageError):
        describe_model("tiny+")
