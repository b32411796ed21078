"""Cached vectors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from helpers.damaged_files import DAMAGE, flip

from mirrorbench.core.encoder_protocol import TextInput
from mirrorbench.storage.embedding_cache import EmbeddingCache


def inputs(*texts: str) -> list[TextInput]:
    return [TextInput(text) for text in texts]


def vectors(*texts: str) -> np.ndarray:
    """A vector that tells what text it is of."""
    return np.array([[len(text), ord(text[0]), 0.5] for text in texts], dtype=np.float32)


def test_cached_vectors_are_read_in_any_order(tmp_path: Path) -> None:
    # Two objects, as two processes would have them.
    store = EmbeddingCache(tmp_path)
    other = EmbeddingCache(tmp_path)
    assert store.missing(inputs("a", "bb")) == inputs("a", "bb")
    store.put(inputs("a", "bb"), vectors("a", "bb"))
    store.put(inputs("ccc"), vectors("ccc"))
    other.put(inputs("ffff", "bb", "gg", "a"), vectors("ffff", "bb", "gg", "a"))
    for again in (store, EmbeddingCache(tmp_path)):
        assert again.missing(inputs("dddd", "a", "ccc")) == inputs("dddd")
        found = again.get(inputs("ccc", "a", "bb", "a"))
        assert found.dtype == np.float32
        np.testing.assert_array_equal(found, vectors("ccc", "a", "bb", "a"))
        # Spans and languages are part of the key.
        others = [TextInput("a", ((0, 1),)), TextInput("a", language="de")]
        assert again.missing(others) == others
    everything = ("gg", "ccc", "a", "ffff", "bb")
    np.testing.assert_array_equal(again.get(inputs(*everything)), vectors(*everything))
    for keys in tmp_path.glob("*.keys.npy"):
        keys.unlink()  # as of processes that died in between
    assert EmbeddingCache(tmp_path).missing(inputs("a")) == inputs("a")


@pytest.mark.parametrize("damage", ["keys flipped", *DAMAGE])
def test_damaged_vectors_are_detected_and_replaced(
    tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    store = EmbeddingCache(tmp_path)
    store.put(inputs("a", "bb"), vectors("a", "bb"))
    store.put(inputs("ccc"), vectors("ccc"))
    keys = next(path for path in tmp_path.glob("*.keys.npy") if len(np.load(path)) == 2)
    values = keys.with_name(keys.name.replace(".keys", ""))
    DAMAGE.get(damage, flip)(keys if damage == "keys flipped" else values)
    again = EmbeddingCache(tmp_path)
    assert again.missing(inputs("a", "bb", "ccc")) == inputs("a", "bb")
    assert f"Vectors in {tmp_path} are damaged" in caplog.text
    again.put(inputs("a", "bb"), vectors("a", "bb"))
    caplog.clear()
    last = EmbeddingCache(tmp_path)
    assert last.missing(inputs("a", "bb", "ccc")) == []
    np.testing.assert_array_equal(last.get(inputs("ccc", "a", "bb")), vectors("ccc", "a", "bb"))
    assert caplog.text == ""
