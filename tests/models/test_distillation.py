"""``+static`` against model2vec, and against its steps restated."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from damage import DAMAGE, flip
from random_models import Models
from sklearn.decomposition import PCA
from suites import few
from transformers import AutoModel, AutoTokenizer

from mirrorbench.core.errors import ModelUnavailableError, UsageError
from mirrorbench.core.files import cache_root
from mirrorbench.core.inputs import TextInput
from mirrorbench.core.specs import EncoderSpec, parse_spec
from mirrorbench.models import backbones, distillation
from mirrorbench.models.distillation import create_distilled
from mirrorbench.models.systems import EncoderContext, LazyEncoder
from mirrorbench.session import Session

TEXTS = ["a cat sat.", "  Dogs bark, cats don't", "unaffable", "Grüße aus 東京 ☃", "", "ice cream"]


def opened(path: Path, **params: Any) -> LazyEncoder:
    return create_distilled(EncoderSpec(str(path), "", "static", tuple(params.items())), path, EncoderContext())


@pytest.mark.parametrize("architecture", few(["roberta", "bert", "deberta"]))
@pytest.mark.parametrize(("dims", "sif"), [(7, 1e-4), (0, 1e-3), (7, 0.0)])
def test_each_token_alone_then_pca_then_weights(random_model: Models, architecture: str, dims: int, sif: float) -> None:
    path = random_model(architecture)
    tokenizer, model = AutoTokenizer.from_pretrained(path), AutoModel.from_pretrained(path).eval()
    unused = {tokenizer.cls_token_id, tokenizer.sep_token_id, tokenizer.mask_token_id}
    tokens, rows = [i for i in range(len(tokenizer)) if i not in unused], []
    for token in tokens:
        ids = torch.tensor([[tokenizer.cls_token_id, token, tokenizer.sep_token_id]])
        with torch.no_grad():
            rows.append(model(ids).last_hidden_state[0].mean(0).numpy())
    table = np.stack(rows).astype(np.float64)
    if dims:
        table = PCA(dims, svd_solver="full").fit_transform(table)
    p = np.array([1 / (rank + 2) for rank in range(len(tokens))])
    if sif:
        table *= (sif / (sif + p / p.sum()))[:, None]
    space = " " if architecture == "roberta" else ""  # its byte-level tokens know the space before them
    expected = []
    for text in TEXTS:
        ids = tokenizer((space + text.strip()).rstrip(), add_special_tokens=False)["input_ids"]
        known = [table[tokens.index(i)] for i in ids if i != tokenizer.unk_token_id]
        expected.append(np.mean(known, axis=0) if known else np.zeros(table.shape[1]))
    found = opened(path, dims=dims, sif=sif).encode(TEXTS)
    assert found.shape == (len(TEXTS), table.shape[1])
    grams = (found @ found.T, np.array(expected) @ np.array(expected).T)  # PCA leaves signs open
    np.testing.assert_allclose(*grams, rtol=1e-4, atol=1e-5 * np.abs(grams[1]).max())


def assert_same_as_model2vec(path: Path) -> None:
    """Tokens, coordinates and inner products.

    model2vec computes its PCA in single precision, in which axes of nearly equal variance mix: inner products do not
    change by that, single coordinates do.
    """
    pytest.importorskip("skeletoken", reason="model2vec distils with it")
    from model2vec.distill import distill

    theirs = distill(str(path), device="cpu", quantize_to="float32")
    ours = opened(path)
    texts = [text for text in TEXTS if text]
    found, expected = ours.encode(texts), theirs.encode(texts, normalize=False)
    np.testing.assert_allclose(found, expected, atol=1e-3 * np.abs(expected).max())
    np.testing.assert_allclose(found @ found.T, expected @ expected.T, atol=1e-5 * np.abs(expected @ expected.T).max())
    kept = distillation.vocabulary(AutoTokenizer.from_pretrained(path))
    assert AutoTokenizer.from_pretrained(path).convert_ids_to_tokens(kept) == list(theirs.tokens)


@pytest.mark.slow
def test_the_embedded_model_as_model2vec_distils_it() -> None:
    assert_same_as_model2vec(backbones.embedded_directory())


@pytest.mark.slow
@pytest.mark.real
def test_minilm_as_model2vec_distils_it(minilm: Path, tmp_path: Path) -> None:
    """Its vocabulary with unused tokens; one layer of six, which says as much in a quarter of the time."""
    path = tmp_path / "minilm"
    shutil.copytree(minilm, path)
    config = json.loads((path / "config.json").read_text()) | {"num_hidden_layers": 1}
    (path / "config.json").write_text(json.dumps(config))
    assert_same_as_model2vec(path)


def test_it_is_distilled_once(random_model: Models, monkeypatch: pytest.MonkeyPatch) -> None:
    first = opened(random_model("bert")).encode(TEXTS)
    monkeypatch.setattr(distillation, "distilled", None)
    np.testing.assert_array_equal(opened(random_model("bert")).encode(TEXTS), first)


@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_in_the_cache_is_healed_with_one_warning(
    random_model: Models, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    expected = opened(random_model("bert")).encode(TEXTS)
    (entry,) = (cache_root() / "vectors").iterdir()
    DAMAGE[damage](entry / "vectors.npy")
    for _ in range(2):
        np.testing.assert_array_equal(opened(random_model("bert")).encode(TEXTS), expected)
    assert caplog.text.count(f"is damaged ({entry}: vectors.npy); it is made again") == 1


def test_a_backbone_that_changes_before_it_is_distilled_is_not_read_under_its_old_checksum(
    random_model: Models, tmp_path: Path
) -> None:
    path = shutil.copytree(random_model("bert"), tmp_path / "bert")
    encoder = opened(path)
    flip(path / "model.safetensors")
    with pytest.raises(ModelUnavailableError, match="changed after they were checksummed"):
        encoder.encode(TEXTS)
    assert opened(path).fingerprint != encoder.fingerprint


def test_what_changes_vectors_changes_the_fingerprint(random_model: Models) -> None:
    path = random_model("bert")
    settings: list[dict[str, Any]] = [{}, {"dims": 8}, {"dims": 0}, {"sif": 1e-3}, {"layers": ":"}]
    encoders = [opened(path, **params) for params in settings]
    assert len({encoder.fingerprint for encoder in encoders}) == len(settings)
    vectors = [encoder.encode(TEXTS)[0] for encoder in encoders]
    assert len({vector.tobytes() for vector in vectors}) == len(settings)


def test_a_word_has_no_context(random_model: Models) -> None:
    encoder = opened(random_model("bert"))
    in_context, alone = encoder.encode([TextInput("river bank", ((6, 10),)), "bank"])
    np.testing.assert_array_equal(in_context, alone)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("tiny+static:lr=1e-4", "unknown key of tiny 'lr'"),
        ("tiny+static:dims=-1", "dims=-1 is not a number of dimensions"),
        ("tiny+static:dims=x", "dims=x is not a whole number"),
        ("tiny+static:sif=1", "sif=1 is out of range"),
        ("tiny+static:sif=x", "sif=x is not a number"),
        ("tiny+static:pooling=mean", "unknown key of tiny 'pooling'"),
    ],
)
def test_wrong_settings(spec: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=message):
        Session(tmp_path, device="cpu", offline=True).plan(spec, "quick-sts")


def test_more_dimensions_than_the_model_has(random_model: Models) -> None:
    with pytest.raises(UsageError, match="dims=33, but the model has 32 dimensions"):
        opened(random_model("bert"), dims=33).encode(TEXTS)


@pytest.mark.slow
def test_a_row_like_others(tmp_path: Path) -> None:
    """It has no seeds, and the encoder that ``load`` gives has the same identity; ``tune`` says what it would do."""
    session = Session(tmp_path / "results", cache=tmp_path / "cache", device="cpu", offline=True)
    board = session.run(["tiny+base", "tiny+static", "tiny+static:dims=64"], ["quick-simlex", "quick-wic"], seeds=3)
    assert [row.label for row in board.table.rows[:3]] == ["tiny-mp", "tiny-static", "tiny-static (dims=64)"]
    assert len(board.results) == 6
    assert not board.failures
    static = board.results[2]
    assert (static.cell["method"], static.cell["recipe"]) == ("static", None)
    assert static.encoder["fingerprint"] == session.load("tiny+static").fingerprint
    assert (
        session.plan("tiny+static", "quick").plan.cells[0].model.key
        != session.plan("tiny+base", "quick").plan.cells[0].model.key
    )
    with pytest.raises(UsageError, match=r"\+static tunes nothing"):
        session.tune(TEXTS, parse_spec("tiny+static"), tmp_path / "tuned")
