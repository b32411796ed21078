from __future__ import annotations

import hashlib
import io
import json
import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrorbench.core.errors import DataFormatError, StorageError
from mirrorbench.core.identity import COMPUTATION
from mirrorbench.core.specs import EncoderSpec, parse_spec
from mirrorbench.data.store import DataStore
from mirrorbench.runs.cells import Cell, ModelRef
from mirrorbench.runs.results import (
    RESULT_SCHEMA,
    Result,
    ResultStore,
    read_result,
    read_results,
    slug,
)  # fmt: skip
from mirrorbench.tasks import Scores

SCORES = Scores({"spearman": 0.5}, ["a", "b"], np.array([0.1, 0.9]), np.array([1.0, 2.0]))


def cell(**changes: object) -> Cell:
    spec = parse_spec("toy")
    values = {
        "spec": spec, "task": "cats", "level": "sentence", "seed": 0, "model": ModelRef(spec, "f"), "pooling": None,
        "precision": "fp32", "protocol": "paper", "data": (("pairs", "1"),), "task_version": 1,
    }  # fmt: skip
    return Cell(**(values | changes))  # type: ignore[arg-type]


def result(of: Cell, score: float | None = 0.5) -> Result:
    """A result as it is stored with ``SCORES``."""
    np.savez_compressed(packed := io.BytesIO(), ids=SCORES.ids, scores=SCORES.scores, gold=SCORES.gold)
    beside = {".npz": hashlib.sha256(packed.getvalue()).hexdigest()}
    metrics = {"spearman": score}
    return Result(
        of.to_json(), of.id, metrics, "spearman", score, 2, 1.0, {}, {}, {}, {}, "now", beside=beside
    )  # fmt: skip


@pytest.fixture
def store(tmp_path: Path) -> ResultStore:
    return ResultStore(tmp_path / "results")


def names(store: ResultStore) -> list[str]:
    return sorted(path.name for path in store.root.rglob("*") if path.is_file())


def test_a_result_comes_back_with_its_predictions(store: ResultStore) -> None:
    one = cell(seed=3)
    assert store.find(one) is None
    written = store.write(one, result(one), replace(SCORES, extra={"folds": np.array([0, 1])}))
    path = store.root / "toy" / "cats" / "seed-3.json"
    assert store.find(one) == written == read_result(path)
    assert replace(written, beside=result(one).beside) == result(one)
    assert written.beside == {".npz": hashlib.sha256(path.with_suffix(".npz").read_bytes()).hexdigest()}
    assert json.loads(path.read_text())["cell"]["computation"] == COMPUTATION
    assert json.loads(path.read_text())["schema"] == RESULT_SCHEMA
    with np.load(path.with_suffix(".npz")) as arrays:
        assert {name: arrays[name].tolist() for name in arrays} == {
            "ids": ["a", "b"], "scores": [0.1, 0.9], "gold": [1.0, 2.0], "folds": [0, 1]
        }  # fmt: skip


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs the names of open files")
def test_files_are_on_the_disk_before_they_have_their_names(store: ResultStore, disk: list[tuple[str, str]]) -> None:
    """A file's content is flushed before the rename, the folder's list of names after it."""
    store.write(cell(), result(cell()), SCORES)
    path = store.path(cell())
    assert [kind for kind, _ in disk] == ["flush", "rename", "flush"] * 2
    assert [disk[n][1] for n in (1, 2, 4, 5)] == [
        str(at) for at in (path.with_suffix(".npz"), path.parent, path, path.parent)
    ]


def test_an_undefined_metric_is_null_and_fields_of_a_later_version_are_passed_over(store: ResultStore) -> None:
    written, path = store.write(cell(), result(cell(), None), SCORES), store.path(cell())
    assert json.loads(path.read_text())["metrics"] == {"spearman": None}
    path.write_text(json.dumps(json.loads(path.read_text()) | {"novelty": 1}))
    assert store.find(cell()) == written


def test_a_result_of_another_identity_moves_aside_and_is_found_again(store: ResultStore) -> None:
    old, new = cell(), cell(data=(("pairs", "2"),))
    assert store.path(old) == store.path(new)
    store.write(old, result(old, 0.1), SCORES)
    assert store.find(new) is None
    store.write(new, result(new, 0.2), SCORES)
    assert store.find(old) == result(old, 0.1)
    assert store.find(new) == result(new, 0.2)
    aside = f"seed-0.{old.id[:12]}"
    assert names(store) == [f"{aside}.json", f"{aside}.npz", "seed-0.json", "seed-0.npz"]
    store.write(old, result(old, 0.1), SCORES)  # and back
    assert (store.find(old), store.find(new)) == (result(old, 0.1), result(new, 0.2))
    assert list(read_results(store.root)) == [result(old, 0.1)]


def test_a_result_that_moved_aside_comes_back_to_its_place(store: ResultStore) -> None:
    old, new = cell(), cell(data=(("pairs", "2"),))
    first = store.write(old, result(old, 0.1), replace(SCORES, submission="1\tT\n"))
    second = store.write(new, result(new, 0.2), SCORES)
    files = {path.name: path.read_bytes() for path in store.path(new).parent.iterdir()}
    assert store.where(new) == store.path(new) != store.where(old)
    assert store.restore(new, second) == second  # it is there
    assert {path.name: path.read_bytes() for path in store.path(new).parent.iterdir()} == files
    assert store.restore(old, first) == first
    assert list(read_results(store.root)) == [first]
    assert (store.find(old), store.find(new)) == (first, second)
    aside = f"seed-0.{new.id[:12]}"
    assert store.where(new) == store.path(new).with_name(f"{aside}.json")
    assert names(store) == [
        f"{aside}.json", f"{aside}.npz", "seed-0.json", "seed-0.npz", "seed-0.submission.txt"
    ]  # fmt: skip
    store.restore(new, second)
    assert {path.name: path.read_bytes() for path in store.path(new).parent.iterdir()} == files


@pytest.mark.parametrize("content", ["", "{", "[]", '{"schema": 1}', '{"schema": 99}', "\udcff"])
def test_an_unreadable_file_is_no_result_and_is_kept(
    store: ResultStore, content: str, caplog: pytest.LogCaptureFixture
) -> None:
    store.write(cell(), result(cell()), SCORES)
    path = store.path(cell())
    path.write_bytes(content.encode("utf-8", "surrogateescape"))
    with pytest.raises(DataFormatError, match=str(path)) as caught:
        read_result(path)
    assert caught.value.hint
    with caplog.at_level(logging.WARNING):
        assert store.find(cell()) is None
    assert f"{path}" in caplog.text
    store.write(cell(), result(cell(), 0.7), SCORES)
    assert store.find(cell()) == result(cell(), 0.7)
    assert names(store) == ["seed-0.json", "seed-0.npz", "seed-0.unreadable.json", "seed-0.unreadable.npz"]
    assert list(read_results(store.root)) == [result(cell(), 0.7)]


@pytest.mark.parametrize("failing", ["seed-0.npz", "seed-0.json"])
@pytest.mark.parametrize("before", [False, True])
def test_a_full_disk_leaves_no_half_result(
    store: ResultStore, full_disk: Callable[[str], None], failing: str, before: bool
) -> None:
    if before:
        store.write(cell(), result(cell(), 0.1), SCORES)
    left = names(store)
    full_disk(failing)
    with pytest.raises(StorageError, match="No space left on device") as caught:
        store.write(cell(), result(cell(), 0.2), SCORES)
    assert caught.value.message == f"Cannot write to {store.root}: No space left on device."
    assert "--data-dir" not in caught.value.hint
    assert set(names(store)) <= {*left, "seed-0.npz"}
    assert store.find(cell()) == (result(cell(), 0.1) if before else None)


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="annot write"):
        ResultStore(tmp_path / "file" / "results").write(cell(), result(cell()), SCORES)


def test_a_score_that_is_no_number_is_never_stored(store: ResultStore) -> None:
    with pytest.raises(ValueError, match="Out of range float"):
        store.write(cell(), result(cell(), float("nan")), SCORES)
    assert store.find(cell()) is None


specs = st.builds(
    EncoderSpec,
    st.text("abAB./~: +@%=é_-", min_size=1, max_size=150),
    method=st.sampled_from(["", "mirror", "base"]),
    params=st.lists(st.tuples(st.just("corpus"), st.text("aA/.,~", min_size=1)), max_size=1).map(tuple),
)


@given(specs, specs, st.sampled_from(["paper", "released"]), st.sampled_from(["paper", "released"]))
def test_slugs_are_safe_and_different(one: EncoderSpec, other: EncoderSpec, first: str, second: str) -> None:
    name = slug(one, first)
    assert name.strip(". ") == name != ""
    assert len(name) <= 120
    assert not set(name) & set('/\\:*?"<>| \n')
    same = (one, first) == (other, second)
    assert (name.lower() == slug(other, second).lower()) == same


def test_plain_specs_keep_their_names() -> None:
    assert slug(parse_spec("roberta+mirror")) == "roberta+mirror"
    assert slug(parse_spec("roberta+mirror"), "released") == "roberta+mirror~released"
    assert slug(parse_spec("bert+base:pooling=cls")).startswith("bert+base_pooling=cls-")


@pytest.mark.parametrize("times", [1, 2])
def test_what_is_swept_away_under_a_writer_is_written_again(
    store: ResultStore, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    """Another process took this one for dead while it was suspended, and removed what it had half-written."""
    swept = []

    def sweep(path: str, mode: int) -> None:
        if len(swept) < times:
            swept.append(path)
            store.sweep(cell())

    monkeypatch.setattr("mirrorbench.core.files.os.chmod", sweep)
    if times > 1:
        with pytest.raises(StorageError, match=f"Cannot write to {store.root}: No such file"):
            store.write(cell(), result(cell()), SCORES)
        return
    store.write(cell(), result(cell()), SCORES)
    assert len(set(swept)) == times
    assert store.find(cell()) == result(cell())
    assert names(store) == ["seed-0.json", "seed-0.npz"]


def test_a_tilde_is_the_home_folder_also_where_no_shell_has_seen_it() -> None:
    assert ResultStore(Path("~/results")).root == Path.home() / "results"
    assert DataStore(Path("~/data")).root == Path.home() / "data"
