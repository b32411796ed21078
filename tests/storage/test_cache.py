from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from helpers.damaged_files import DAMAGE, flip
from safetensors import SafetensorError

from mirrorbench.core.encoder_protocol import TextInput
from mirrorbench.core.errors import ReadBackError, StorageError
from mirrorbench.models.transformer import Transformer, load_transformer
from mirrorbench.storage.cache import Cache
from mirrorbench.storage.embedding_cache import EmbeddingCache


def inputs(*texts: str) -> list[TextInput]:
    return [TextInput(text) for text in texts]


def vectors(*texts: str) -> np.ndarray:
    """A vector that tells what text it is of."""
    return np.array([[len(text), ord(text[0]), 0.5] for text in texts], dtype=np.float32)


@pytest.fixture
def transformer(random_model: Callable[[str], Path]) -> Transformer:
    return load_transformer(random_model("bert"), torch.device("cpu"))


def test_a_full_disk_is_a_storage_error(tmp_path: Path, full_disk: Callable[[str], None]) -> None:
    store = EmbeddingCache(tmp_path / "store")
    full_disk("store")
    with pytest.raises(StorageError, match="No space left"):
        store.put(inputs("a"), vectors("a"))
    assert list((tmp_path / "store").iterdir()) == []


def test_saved_model_has_valid_sha256sums(tmp_path: Path, transformer: Transformer) -> None:
    cache = Cache(tmp_path)
    assert cache.model("key") is None
    path = cache.save_model("key", transformer, {"spec": "x", "tuning": {"seconds": 1.5}})
    cache.save_model("key", transformer, {"spec": "of a slower process"})
    assert cache.model("key") == path
    assert cache.describe_model("key") == {"spec": "x", "tuning": {"seconds": 1.5}}
    assert load_transformer(path, torch.device("cpu")).n_parameters == transformer.n_parameters
    assert [found.name for found in path.parent.iterdir()] == ["key"]
    lines = dict(
        reversed(line.split("  ")) for line in (path / "SHA256SUMS").read_text().splitlines()
    )
    files = [file for file in path.iterdir() if file.name != "SHA256SUMS"]
    assert {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files} == lines
    assert {"model.safetensors", "config.json", "mirrorbench.json"} <= set(lines)


def test_model_on_full_disk_raises_storage_error(
    tmp_path: Path, transformer: Transformer, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = Mock(side_effect=SafetensorError("I/O error: No space left on device"))
    monkeypatch.setattr(transformer.model, "save_pretrained", full)
    with pytest.raises(
        StorageError, match=r"the tuned model cannot be written.*No space left"
    ) as caught:
        Cache(tmp_path).save_model("key", transformer, {})
    assert "MIRRORBENCH_CACHE" in caught.value.hint
    assert list((tmp_path / "models").iterdir()) == []


def test_model_saved_with_wrong_tensors_is_refused(
    tmp_path: Path, transformer: Transformer, random_model: Callable[[str], Path]
) -> None:
    from transformers.core_model_loading import WeightRenaming

    cache = Cache(tmp_path)
    transformer.model._weight_conversions = [WeightRenaming("layers.1.", "layer.1.")]
    with pytest.raises(ReadBackError, match=r"missing \d+ tensors of a bert model"):
        cache.save_model("key", transformer, {})
    assert list((tmp_path / "models").iterdir()) == []
    whole = load_transformer(random_model("bert"), torch.device("cpu"))
    cache.save_model("key", whole, {})
    with torch.no_grad():
        next(whole.model.parameters())[0, 0] += 1
    with pytest.raises(ReadBackError, match=r"1 tensors are read back differently \(embeddings"):
        whole.check_saved(tmp_path / "models" / "key")


def test_damaged_cached_model_is_detected_and_replaced(
    tmp_path: Path, transformer: Transformer, caplog: pytest.LogCaptureFixture
) -> None:
    for file, damage in (
        ("model.safetensors", "flipped"),
        ("model.safetensors", "lost"),
        ("SHA256SUMS", "lost"),
    ):
        path = Cache(tmp_path).save_model("key", transformer, {"damage": damage})
        cache = Cache(tmp_path)
        assert cache.model("key") == path  # and it is looked at again when its files change
        assert cache.describe_model("key") == {"damage": damage}
        DAMAGE[damage](path / file)
        assert cache.model("key") is None
        wrong = "no SHA256SUMS" if file == "SHA256SUMS" else file
        assert f"{path} is damaged ({wrong}); it is tuned again" in caplog.text
        caplog.clear()
    cache.save_model("key", transformer, {})
    assert Cache(tmp_path).model("key") == path


def test_cached_corpus_is_verified_by_its_checksum(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    texts = ("a", "b\u2028c", 'd "e"')
    checksum = hashlib.sha256("\n".join(texts).encode()).hexdigest()
    cache = Cache(tmp_path)
    assert cache.corpus(checksum) is None
    cache.save_corpus(checksum, texts)
    assert Cache(tmp_path).corpus(checksum) == texts
    flip(tmp_path / "corpora" / f"{checksum}.json", 3)
    assert cache.corpus(checksum) is None
    assert "damaged" in caplog.text
    cache.save_corpus(checksum, texts)
    assert cache.corpus(checksum) == texts


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs the names of open files")
def test_models_are_flushed_to_disk_before_renaming(
    tmp_path: Path, transformer: Transformer, disk: list[tuple[str, str]]
) -> None:
    """But for vectors, which are named by their hash: empty ones would be computed again."""
    EmbeddingCache(tmp_path / "store").put(inputs("a"), vectors("a"))
    assert [kind for kind, _ in disk] == ["rename"] * 3
    disk.clear()
    path = Cache(tmp_path).save_model("key", transformer, {})
    renamed = disk.index(("rename", str(path)))
    flushed = {Path(name).name for kind, name in disk[:renamed] if kind == "flush"}
    assert {file.name for file in path.iterdir()} <= flushed
    assert disk[renamed + 1 :] == [("flush", str(tmp_path / "models"))]
