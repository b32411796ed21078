from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from helpers.plain_transformers import hidden_states
from helpers.random_models import Models

import mirrorbench
from mirrorbench.core.encoder_protocol import TextInput
from mirrorbench.core.errors import UnknownNameError, UsageError
from mirrorbench.models.pooling import POOLINGS, Pooling, Tokens, pool
from mirrorbench.runs.registry import load_plugins

LAYERS = 4
BATCH = 3
TOKENS = 5
DIMENSIONS = 2


@pytest.fixture
def states() -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(0)
    return tuple(torch.randn(BATCH, TOKENS, DIMENSIONS, generator=generator) for _ in range(LAYERS))


MASK = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0], [1, 0, 0, 0, 0]])
IDS = torch.arange(BATCH * TOKENS).view(BATCH, TOKENS)


def tokens(target: torch.Tensor | None = None, mask: torch.Tensor = MASK) -> Tokens:
    return Tokens(mask, lambda: IDS, None, target)


@pytest.mark.parametrize(
    ("layers", "chosen"),
    [
        ("-2:", [2, 3]),
        (":", [0, 1, 2, 3]),
        ("1:3", [1, 2]),
        (":-2", [0, 1]),
        ("-1", [3]),
        ("-2", [2]),
    ],
)
@pytest.mark.parametrize("pooling", ["cls", "mean", "mean-padded", "last", "weighted-mean"])
@pytest.mark.parametrize("side", ["right", "left"])
def test_poolings_equal_numpy_averages(
    states: tuple[torch.Tensor, ...], layers: str, chosen: list[int], pooling: str, side: str
) -> None:
    """SGPT (Muennighoff 2022), Eq. 2: w_i = i / sum of 1 to S, for the S tokens of a text."""
    mask = MASK if side == "right" else MASK.flip(1)
    real = mask.numpy()
    places = real.cumsum(1) * real
    weights = {
        "cls": np.eye(TOKENS)[[0] * BATCH],
        "mean": real,
        "mean-padded": np.ones_like(real),
        "last": places == real.sum(1, keepdims=True),
        "weighted-mean": places,
    }[pooling]
    means = np.stack(states)[chosen].mean(0)
    expected = [np.average(text, 0, weight) for text, weight in zip(means, weights, strict=True)]
    actual = pool(states, tokens(mask=mask), Pooling(pooling, layers))
    np.testing.assert_allclose(actual.numpy(), expected, atol=1e-6)


@pytest.mark.parametrize("pooling", POOLINGS)
def test_autocast_does_not_change_pooling(states: tuple[torch.Tensor, ...], pooling: str) -> None:
    """The model computes under autocast, which would make products, the mean over a target among them, half again."""
    target = MASK / MASK.sum(1, keepdim=True)
    half = tuple(state.bfloat16() for state in states)  # averaged in single precision
    for given in (states, half):
        expected = pool(
            tuple(state.float() for state in given), tokens(target), Pooling(pooling, ":")
        )
        with torch.autocast("cpu", dtype=torch.bfloat16):
            actual = pool(given, tokens(target), Pooling(pooling, ":"))
        assert actual.dtype == torch.float32
        assert torch.equal(actual, expected)


def test_invalid_pooling_settings_are_rejected(states: tuple[torch.Tensor, ...]) -> None:
    with pytest.raises(UnknownNameError, match="'man'") as caught:
        pool(states, tokens(), Pooling("man"))
    assert "mean" in caught.value.hint
    with pytest.raises(UsageError, match="max_length=2 is out of range"):
        Pooling("mean", max_length=2)
    for text in ("", "a", "1:2:3", "--1", "1.5", " 1", "1,2"):
        with pytest.raises(UsageError, match="not a range of layers"):
            Pooling("mean", text)
    with pytest.raises(UsageError, match="selects no layer") as caught:
        pool(states, tokens(), Pooling("mean", "12"))
    assert "0 to 3" in caught.value.hint


AT_THE_MASK = """
import torch
from mirrorbench import hookimpl
def at_mask(states, tokens):
    where = (tokens.ids == tokens.tokenizer.mask_token_id).float()
    return torch.cat([(where[..., None] * states).sum(1), states[:, 0]], 1)
@hookimpl
def register_poolings(register):
    register("at-mask", at_mask, "the mask token, then [CLS]")
"""


def test_plugin_pooling_works_untuned_and_tuned(random_model: Models, tmp_path: Path) -> None:
    """The first token and the mask token make more dimensions than the model has, in a run, tuned and untuned."""
    (tmp_path / "plugin.py").write_text(AT_THE_MASK)
    plugins = load_plugins(discover=False)
    plugins.add_file(tmp_path / "plugin.py")
    session = mirrorbench.Session(
        tmp_path / "results", cache=tmp_path / "cache", device="cpu", plugins=plugins
    )
    texts = [TextInput("ab [MASK] cd"), TextInput("e [MASK]"), TextInput("fgh [MASK] i")]
    path = random_model("bert")
    actual = session.load(f"{path}:pooling=at-mask").encode(texts)
    for item, vector in zip(texts, actual, strict=True):
        states, offsets = hidden_states(path, item.text)
        position = [start for start, _ in offsets].index(item.text.index("[MASK]"), 1)
        np.testing.assert_allclose(
            vector, np.concatenate([states[-1][position], states[-1][0]]), atol=1e-5
        )
    corpus = tmp_path / "texts.txt"
    corpus.write_text("".join(f"{a}{b} [MASK]\n" for a in "abcd" for b in "efg"))
    spec = f"{path}+mirror:pooling=at-mask,corpus={corpus},span_mask=0,batch_size=4"
    tuned = session.load(spec).encode(texts)
    assert tuned.shape == actual.shape
    assert np.abs(tuned - actual).max() > 1e-4
