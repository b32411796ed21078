"""``+static`` against model2vec, and against its steps restated."""

from __future__ import annotations

import json
import shutil
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers import plain_transformers
from helpers.random_models import Models
from helpers.suite_marks import few, slow
from sklearn.decomposition import PCA
from transformers import AutoTokenizer

from mirrorbench.core.encoder_protocol import TextInput
from mirrorbench.core.errors import UsageError
from mirrorbench.core.specs import EncoderSpec, parse_spec
from mirrorbench.models import backbones
from mirrorbench.models.encoder_systems import EncoderContext, LazyModel
from mirrorbench.session import Session
from mirrorbench.training import static_distillation as distillation
from mirrorbench.training.static_distillation import create_distilled

TEXTS = ["a cat sat.", "  Dogs bark, cats don't", "unaffable", "Grüße aus 東京 ☃", "", "ice cream"]


def opened(path: Path, **params: Any) -> LazyModel:
    return create_distilled(
        EncoderSpec(str(path), "", "static", tuple(params.items())), path, EncoderContext()
    )


@cache
def alone(path: Path) -> tuple[list[int], np.ndarray]:
    """The tokens of a model without special ones, and the mean vector of each between those of start and end."""
    tokenizer, model = plain_transformers.opened(path)
    unused = {tokenizer.cls_token_id, tokenizer.sep_token_id, tokenizer.mask_token_id}
    tokens = [i for i in range(len(tokenizer)) if i not in unused]
    rows = []
    for token in tokens:
        ids = torch.tensor([[tokenizer.cls_token_id, token, tokenizer.sep_token_id]])
        with torch.no_grad():
            rows.append(model(ids).last_hidden_state[0].mean(0).numpy())
    return tokens, np.stack(rows).astype(np.float64)


@pytest.mark.parametrize("architecture", few(["roberta", "bert", "deberta"]))
@pytest.mark.parametrize(("dims", "sif"), [(7, 1e-4), (0, 1e-3), (7, 0.0)])
def test_static_vectors_equal_a_plain_reimplementation(
    random_model: Models, architecture: str, dims: int, sif: float
) -> None:
    path = random_model(architecture)
    tokenizer = plain_transformers.opened(path)[0]
    (tokens, table) = alone(path)
    if dims:
        table = PCA(dims, svd_solver="full").fit_transform(table)
    p = np.array([1 / (rank + 2) for rank in range(len(tokens))])
    if sif:
        table = table * (sif / (sif + p / p.sum()))[:, None]
    space = (
        " " if architecture == "roberta" else ""
    )  # its byte-level tokens know the space before them
    expected = []
    for text in TEXTS:
        ids = tokenizer((space + text.strip()).rstrip(), add_special_tokens=False)["input_ids"]
        known = [table[tokens.index(i)] for i in ids if i != tokenizer.unk_token_id]
        expected.append(np.mean(known, axis=0) if known else np.zeros(table.shape[1]))
    encoded = opened(path, dims=dims, sif=sif).encode(TEXTS)
    assert encoded.shape == (len(TEXTS), table.shape[1])
    grams = (
        encoded @ encoded.T,
        np.array(expected) @ np.array(expected).T,
    )  # PCA leaves signs open
    np.testing.assert_allclose(*grams, rtol=1e-4, atol=1e-5 * np.abs(grams[1]).max())


@pytest.mark.parametrize("name", few(["tiny", "minilm"], suite=slow))
def test_static_vectors_equal_model2vec(
    name: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """Single coordinates differ more: model2vec's PCA in single precision mixes axes of nearly equal variance."""
    pytest.importorskip("skeletoken", reason="model2vec distils with it")
    from model2vec.distill import distill

    path = backbones.embedded_directory()
    if (
        name == "minilm"
    ):  # a vocabulary with unused tokens; one layer of six says as much in a quarter of the time
        path = shutil.copytree(request.getfixturevalue("minilm"), tmp_path / "minilm")
        config = json.loads((path / "config.json").read_text()) | {"num_hidden_layers": 1}
        (path / "config.json").write_text(json.dumps(config))
    theirs = distill(str(path), device="cpu", quantize_to="float32")
    texts = [text for text in TEXTS if text]
    encoded = opened(path).encode(texts)
    expected = theirs.encode(texts, normalize=False)
    np.testing.assert_allclose(encoded, expected, atol=1e-3 * np.abs(expected).max())
    np.testing.assert_allclose(
        encoded @ encoded.T, expected @ expected.T, atol=1e-5 * np.abs(expected @ expected.T).max()
    )
    kept = distillation.vocabulary(AutoTokenizer.from_pretrained(path))
    assert AutoTokenizer.from_pretrained(path).convert_ids_to_tokens(kept) == list(theirs.tokens)


def test_distillation_runs_once_and_words_ignore_context(
    random_model: Models, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = opened(random_model("bert")).encode(TEXTS)
    monkeypatch.setattr(distillation, "distilled", None)
    np.testing.assert_array_equal(opened(random_model("bert")).encode(TEXTS), expected)
    in_context, alone = opened(random_model("bert")).encode(
        [TextInput("river bank", ((6, 10),)), "bank"]
    )
    np.testing.assert_array_equal(in_context, alone)


def test_settings_change_vectors_and_fingerprint(random_model: Models) -> None:
    path = random_model("bert")
    settings: list[dict[str, Any]] = [{}, {"dims": 8}, {"dims": 0}, {"sif": 1e-3}, {"layers": ":"}]
    encoders = [opened(path, **params) for params in settings]
    assert len({encoder.fingerprint for encoder in encoders}) == len(settings)
    vectors = [encoder.encode(TEXTS)[0] for encoder in encoders]
    assert len({vector.tobytes() for vector in vectors}) == len(settings)


def test_invalid_static_settings_are_rejected(tmp_path: Path, random_model: Models) -> None:
    session = Session(tmp_path, device="cpu", offline=True)
    for setting, message in (
        ("pooling=mean", "unknown key of tiny 'pooling'"),
        ("dims=-1", "dims=-1 is not a number of dimensions"),
        ("dims=x", "dims=x is not a whole number"),
        ("sif=1", "sif=1 is out of range"),
    ):
        with pytest.raises(UsageError, match=message):
            session.plan(f"tiny+static:{setting}", "quick-sts")
    with pytest.raises(UsageError, match="dims=33, but the model has 32 dimensions"):
        opened(random_model("bert"), dims=33).encode(TEXTS)


def test_static_encoders_run_without_seeds_or_tuning(random_model: Models, tmp_path: Path) -> None:
    """It has no seeds, ``load`` returns an encoder of the same identity, and ``tune`` refuses it."""
    session = Session(tmp_path / "results", cache=tmp_path / "cache", device="cpu", offline=True)
    path = random_model("bert")
    typed = [f"{path}+base", f"{path}+static", f"{path}+static:dims=8"]
    board = session.run(typed, ["quick-simlex"], seeds=3)
    assert [row.label for row in board.table.rows[:3]] == typed
    assert len(board.results) == 3
    assert not board.failures
    static = board.results[1]
    assert (static.cell["method"], static.cell["recipe"]) == ("static", None)
    assert static.encoder["fingerprint"] == session.load(f"{path}+static").fingerprint
    plans = [session.plan(f"{path}+{method}", "quick") for method in ("static", "base")]
    assert len({plan.cells[0].model.key for plan in plans}) == 2
    with pytest.raises(UsageError, match=r"\+static tunes nothing"):
        session.tune(TEXTS, parse_spec(f"{path}+static"), tmp_path / "tuned")
