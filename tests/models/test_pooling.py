from __future__ import annotations

import numpy as np
import pytest
import torch

from mirrorbench.core.errors import UnknownNameError, UsageError
from mirrorbench.models.pooling import POOLING_MODES, Pooling, parse_layers, pool

LAYERS, BATCH, TOKENS, DIMENSIONS = 4, 3, 5, 2


@pytest.fixture
def states() -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(0)
    return tuple(torch.randn(BATCH, TOKENS, DIMENSIONS, generator=generator) for _ in range(LAYERS))


MASK = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0], [1, 0, 0, 0, 0]])


@pytest.mark.parametrize(
    ("layers", "chosen"), [("-1:", [3]), ("-2:", [2, 3]), (":", [0, 1, 2, 3]), ("1:3", [1, 2]), ("-1", [3]), ("0", [0])]
)
@pytest.mark.parametrize("pooling", ["cls", "mean", "mean-padded"])
def test_pooling_equals_a_naive_loop(
    states: tuple[torch.Tensor, ...], layers: str, chosen: list[int], pooling: str
) -> None:
    expected = np.zeros((BATCH, DIMENSIONS))
    for text in range(BATCH):
        tokens = {"cls": [0], "mean": [t for t in range(TOKENS) if MASK[text, t]], "mean-padded": range(TOKENS)}
        for token in tokens[pooling]:
            for layer in chosen:
                for d in range(DIMENSIONS):
                    value = float(states[layer][text, token, d])
                    expected[text, d] += value / len(chosen) / len(tokens[pooling])
    found = pool(states, MASK, Pooling(pooling, layers))
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-6)


def test_what_stands_in_fingerprints_stays() -> None:
    assert str(Pooling("cls", "0", 9)) == "Readout(pooling='cls', layers='0', max_length=9)"


def test_padding_is_read_by_mean_padded_alone(states: tuple[torch.Tensor, ...]) -> None:
    noisy = tuple(torch.where(MASK[:, :, None] == 1, state, 99.0) for state in states)
    for mode, same in (("cls", True), ("mean", True), ("mean-padded", False)):
        pooling = Pooling(mode)
        assert torch.equal(pool(states, MASK, pooling), pool(noisy, MASK, pooling)) == same


def test_half_precision_is_averaged_in_single(states: tuple[torch.Tensor, ...]) -> None:
    half = tuple(state.bfloat16() for state in states)
    found = pool(half, MASK, Pooling("mean", ":"))
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, pool(tuple(h.float() for h in half), MASK, Pooling("mean", ":")))


@pytest.mark.parametrize("pooling", POOLING_MODES)
def test_half_precision_around_it_changes_nothing(states: tuple[torch.Tensor, ...], pooling: str) -> None:
    """The model computes under autocast, which would make products, the mean over a target among them, half again."""
    target = MASK / MASK.sum(1, keepdim=True)
    expected = pool(states, MASK, Pooling(pooling, ":"), target)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = pool(states, MASK, Pooling(pooling, ":"), target)
    assert found.dtype == torch.float32
    assert torch.equal(found, expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("-4:", [6, 7, 8, 9]), ("1:3", [1, 2]), (":", list(range(10))), (":-8", [0, 1]), ("0", [0]), ("-1", [9]),
     ("-2", [8])],
)  # fmt: skip
def test_layers_are_slices(text: str, expected: list[int]) -> None:
    assert list(range(10))[parse_layers(text)] == expected


@pytest.mark.parametrize("text", ["", "a", "1:2:3", "--1", "1.5", " 1", "1,2"])
def test_what_is_no_range_of_layers(text: str) -> None:
    with pytest.raises(UsageError, match="not a range of layers"):
        Pooling("mean", text)


def test_an_empty_range_says_what_the_model_has(states: tuple[torch.Tensor, ...]) -> None:
    with pytest.raises(UsageError, match="selects no layer") as caught:
        pool(states, MASK, Pooling("mean", "12"))
    assert "0 to 3" in caught.value.hint


def test_wrong_values() -> None:
    with pytest.raises(UnknownNameError, match="'man'") as caught:
        Pooling("man")
    assert "mean" in caught.value.hint
    with pytest.raises(UsageError, match="max_length=2 is out of range"):
        Pooling("mean", max_length=2)
