from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from mirrorbench.core.encoder_protocol import TextInput, check_vectors
from mirrorbench.core.errors import EncodingError


def test_good_vectors_become_float32() -> None:
    assert check_vectors([[1, 2], [3, 4]], 2, "toy").tolist() == [[1, 2], [3, 4]]
    assert check_vectors(np.zeros((0, 3)), 0, "toy").shape == (0, 3)
    for vectors in (
        [[1, 2], [3, 4]],
        [[1, 2.5], [3, 4]],
        np.ones((2, 3), int),
        torch.ones(2, 3),
        np.ones((2, 1)) > 0,
    ):
        assert check_vectors(vectors, 2, "toy").dtype == np.float32


@pytest.mark.parametrize(
    ("vectors", "message"),
    [
        ([[1.0, 2.0]], r"toy returned an array of shape \(1, 2\) for 2 texts"),
        ([1.0, 2.0], r"shape \(2,\) for 2 texts"),
        (np.zeros((2, 0)), r"shape \(2, 0\)"),
        (np.zeros((2, 3, 4)), r"shape \(2, 3, 4\)"),
        (np.array([[1, np.nan], [1, 1]]), "NaN or infinite vectors for 1 of 2 texts"),
        (np.array([[1, np.inf], [1, -np.inf]]), "NaN or infinite vectors for 2 of 2 texts"),
        ([[1e300, 1], [1, 1]], "NaN or infinite vectors for 1 of 2"),
        ([[1], [1, 2]], "toy did not return an array of numbers"),
        ([["a"], ["b"]], "toy did not return an array of num"),
        (None, "toy"),
        (np.array([[None, 1]] * 2), "toy"),
        (np.ones((2, 2)) * 1j, "toy"),
        ("two texts", "toy"),
        (np.zeros((2, 2), dtype="datetime64[s]"), "toy"),
        (torch.ones(2, 3, requires_grad=True), "detach"),
    ],
)
@pytest.mark.filterwarnings("ignore:overflow")
def test_invalid_encoder_output_is_rejected(vectors: Any, message: str) -> None:
    with pytest.raises(EncodingError, match=message):
        check_vectors(vectors, 2, "toy")


def test_different_inputs_have_different_keys() -> None:
    inputs = [
        TextInput("a"),
        TextInput("b"),
        TextInput("a", ((0, 1),)),
        TextInput("a", ((0, 1), (2, 3))),
        TextInput("a", language="de"),
        TextInput("a\0()"),
        TextInput("\ud800"),
    ]
    assert len({item.key() for item in inputs}) == len(inputs)
    assert {len(item.key()) for item in inputs} == {16}
    assert TextInput("a").key() == TextInput("a").key()
