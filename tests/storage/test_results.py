from __future__ import annotations

import hashlib
import io
import json
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mirrorbench.core.errors import DataFormatError, StorageError
from mirrorbench.core.identity import COMPUTATION
from mirrorbench.core.specs import parse_spec
from mirrorbench.data.store import DataStore
from mirrorbench.runs.cells import Cell, ModelRef
from mirrorbench.runs.outcomes import predictions_of
from mirrorbench.storage.results import (
    Result,
    ResultStore,
    read_predictions,
    read_result,
    read_results,
)
from mirrorbench.tasks import Scores

SCORES = Scores({"spearman": 0.5}, ["a", "b"], np.array([0.1, 0.9]), np.array([1.0, 2.0]))


def cell(**changes: object) -> Cell:
    spec = parse_spec("toy")
    values = {
        "spec": spec,
        "task": "cats",
        "level": "sentence",
        "seed": 0,
        "model": ModelRef(spec, "f"),
        "pooling": None,
        "precision": "fp32",
        "protocol": "paper",
        "data": (("pairs", "1"),),
        "task_version": 1,
    }
    return Cell(**(values | changes))  # type: ignore[arg-type]


def result(of: Cell, score: float | None = 0.5) -> Result:
    """A result as it is stored with ``SCORES``."""
    archive = io.BytesIO()
    np.savez_compressed(archive, ids=SCORES.ids, scores=SCORES.scores, gold=SCORES.gold)
    return Result(
        cell=of.to_json(),
        cell_id=of.id,
        metrics={"spearman": score},
        main_metric="spearman",
        main_score=score,
        n_items=2,
        coverage=1.0,
        seconds={},
        data={},
        encoder={},
        environment={},
        created="2026-01-01",
        beside={".npz": hashlib.sha256(archive.getvalue()).hexdigest()},
    )


def write(store: ResultStore, of: Cell, result: Result, scores: Scores) -> Result:
    """Store a result with the arrays of scores, as a run does."""
    return store.write(of, result, predictions_of(scores), scores.submission)


@pytest.fixture
def store(tmp_path: Path) -> ResultStore:
    return ResultStore(tmp_path / "results")


def names(store: ResultStore) -> list[str]:
    return sorted(path.name for path in store.root.rglob("*") if path.is_file())


def test_a_result_comes_back_with_its_predictions(store: ResultStore) -> None:
    one = cell(seed=3)
    assert store.find(one) is None
    written = write(store, one, result(one), replace(SCORES, extra={"folds": np.array([0, 1])}))
    path = store.root / "toy" / "cats" / "seed-3.json"
    assert store.find(one) == written == read_result(path)
    assert replace(written, beside=result(one).beside) == result(one)
    assert written.beside == {
        ".npz": hashlib.sha256(path.with_suffix(".npz").read_bytes()).hexdigest()
    }
    assert json.loads(path.read_text())["cell"]["computation"] == COMPUTATION
    assert json.loads(path.read_text())["schema"] == 1
    with np.load(path.with_suffix(".npz")) as arrays:
        assert {name: arrays[name].tolist() for name in arrays} == {
            "ids": ["a", "b"],
            "scores": [0.1, 0.9],
            "gold": [1.0, 2.0],
            "folds": [0, 1],
        }


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs the names of open files")
def test_result_files_are_flushed_before_renaming(
    store: ResultStore, disk: list[tuple[str, str]]
) -> None:
    """A file's content is flushed before the rename, the folder's list of names after it."""
    write(store, cell(), result(cell()), SCORES)
    path = store.path(cell())
    assert [kind for kind, _ in disk] == ["flush", "rename", "flush"] * 2
    expected = [path.with_suffix(".npz"), path.parent, path, path.parent]
    assert [disk[n][1] for n in (1, 2, 4, 5)] == [str(place) for place in expected]
    disk.clear()
    other = cell(data=(("pairs", "2"),))
    write(store, other, result(other), SCORES)
    # The earlier result is moved aside after its predictions, which are found through it.
    moved = [Path(name).suffix for kind, name in disk if kind == "rename"][:2]
    assert moved == [".npz", ".json"]


def test_undefined_metric_is_stored_as_null(
    store: ResultStore,
) -> None:
    with pytest.raises(ValueError, match="Out of range float"):
        write(store, cell(), result(cell(), float("nan")), SCORES)
    assert store.find(cell()) is None
    written = write(store, cell(), result(cell(), None), SCORES)
    path = store.path(cell())
    assert json.loads(path.read_text())["metrics"] == {"spearman": None}
    path.write_text(json.dumps(json.loads(path.read_text()) | {"novelty": 1}))
    assert store.find(cell()) == written


def test_replaced_result_is_set_aside_and_restored(
    store: ResultStore,
) -> None:
    old = cell()
    new = cell(data=(("pairs", "2"),))
    first = write(store, old, result(old, 0.1), replace(SCORES, submission="1\tT\n"))
    assert store.find(new) is None
    second = write(store, new, result(new, 0.2), SCORES)
    files = {path.name: path.read_bytes() for path in store.path(new).parent.iterdir()}
    assert store.stored_path(new) == store.path(new) == store.path(old) != store.stored_path(old)
    assert store.restore(new, second) == second  # it is there
    assert {path.name: path.read_bytes() for path in store.path(new).parent.iterdir()} == files
    assert store.restore(old, first) == first
    assert list(read_results(store.root)) == [first]
    assert (store.find(old), store.find(new)) == (first, second)
    aside = f"seed-0.{new.id[:12]}"
    assert store.stored_path(new) == store.path(new).with_name(f"{aside}.json")
    assert names(store) == [
        f"{aside}.json",
        f"{aside}.npz",
        "seed-0.json",
        "seed-0.npz",
        "seed-0.submission.txt",
    ]
    store.restore(new, second)
    assert {path.name: path.read_bytes() for path in store.path(new).parent.iterdir()} == files
    assert write(store, old, result(old, 0.1), SCORES) == store.find(old)  # computed anew
    assert (store.find(new), list(read_results(store.root))) == (second, [store.find(old)])


def test_unreadable_result_file_is_renamed_not_overwritten(
    store: ResultStore, caplog: pytest.LogCaptureFixture
) -> None:
    write(store, cell(), result(cell()), SCORES)
    path = store.path(cell())
    path.write_bytes(b'{"schema": 99}')
    assert store.find(cell()) is None
    assert f"{path}" in caplog.text
    assert write(store, cell(), result(cell(), 0.7), SCORES) == store.find(cell())
    assert names(store) == [
        "seed-0.json",
        "seed-0.npz",
        "seed-0.unreadable.json",
        "seed-0.unreadable.npz",
    ]
    assert list(read_results(store.root)) == [result(cell(), 0.7)]


@pytest.mark.parametrize("failing", ["seed-0.npz", "seed-0.json"])
@pytest.mark.parametrize("before", [False, True])
def test_a_full_disk_leaves_no_half_result(
    store: ResultStore, full_disk: Callable[[str], None], failing: str, before: bool
) -> None:
    if before:
        write(store, cell(), result(cell(), 0.1), SCORES)
    left = names(store)
    full_disk(failing)
    with pytest.raises(
        StorageError, match=f"Cannot write to {store.root}: No space left on device"
    ):
        write(store, cell(), result(cell(), 0.2), SCORES)
    assert set(names(store)) <= {*left, "seed-0.npz"}
    assert store.find(cell()) == (result(cell(), 0.1) if before else None)


def test_tilde_expands_to_the_home_folder() -> None:
    assert ResultStore(Path("~/results")).root == Path.home() / "results"
    assert DataStore(Path("~/data")).root == Path.home() / "data"


def test_concurrent_writers_keep_results_with_their_arrays(
    store: ResultStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second writer starts after the first has written its arrays, and must wait for the first's result."""
    cells = [cell(), cell(data=(("pairs", "2"),))]
    replaced = os.replace
    started = threading.Event()
    scores = [SCORES, replace(SCORES, scores=np.array([0.5, 0.25]))]
    second: list[Future[Result]] = []

    def replace_slowly(source: str, target: str | Path) -> None:
        replaced(source, target)
        if Path(target).suffix == ".npz" and not started.is_set():
            started.set()
            other_store = ResultStore(store.root)
            other_result = result(cells[1], 0.1)
            second.append(pool.submit(write, other_store, cells[1], other_result, scores[1]))
            assert not wait(second, timeout=0.5).done

    monkeypatch.setattr(os, "replace", replace_slowly)
    with ThreadPoolExecutor(1) as pool:
        first_written = write(store, cells[0], result(cells[0], 0.0), scores[0])
        written = [first_written, second[0].result()]
    for one, expected, expected_scores in zip(cells, written, scores, strict=True):
        assert store.find(one) == expected
        arrays = read_predictions(store.stored_path(one), expected)
        assert arrays["scores"].tolist() == expected_scores.scores.tolist()
    assert list((store.root / ".leases").glob("*.lease")) == []


@pytest.mark.parametrize("content", [None, b"", b"PK\x03\x04cut", "cut", "another"])
def test_result_without_valid_predictions_is_recomputed(
    store: ResultStore, content: bytes | str | None, caplog: pytest.LogCaptureFixture
) -> None:
    """Results of a version without checksums are also computed again, unless the arrays are readable."""
    written = write(store, cell(), result(cell()), SCORES)
    path = store.path(cell())
    file = path.with_suffix(".npz")
    if content == "cut":
        file.write_bytes(file.read_bytes()[:-30])
    elif content == "another":
        np.savez_compressed(file, ids=["a", "b"], scores=[0.9, 0.1], gold=[1.0, 2.0])
    elif isinstance(content, bytes):
        file.write_bytes(content)
    else:
        file.unlink()
    assert store.find(cell()) is None
    assert (
        f"{file} is missing, damaged or belongs to another result: computed again." in caplog.text
    )
    with pytest.raises(DataFormatError, match=r"seed-0\.json"):
        read_predictions(path, written)
    earlier = json.loads(path.read_text())
    del earlier["beside"]
    path.write_text(json.dumps(earlier))
    assert (store.find(cell()) is not None) == (content == "another")
    assert write(store, cell(), result(cell()), SCORES) == store.find(cell())
    assert names(store) == ["seed-0.json", "seed-0.npz"]


GOOD = {"ids": ["a", "b"], "scores": [0.1, 0.9], "gold": [1.0, 2.0]}


@pytest.mark.parametrize("wrong", [{"scores": [0.1]}, {"scores": ["x", "y"]}, {"splits": ["dev"]}])
def test_malformed_prediction_arrays_raise_format_error(
    store: ResultStore, wrong: dict[str, object]
) -> None:
    """In a file whose result has no checksum of it."""
    write(store, cell(), result(cell()), SCORES)
    path = store.path(cell())
    bare = replace(result(cell()), beside={})
    np.savez(path.with_suffix(".npz"), **(GOOD | wrong))
    with pytest.raises(DataFormatError, match="cannot be read"):
        read_predictions(path, bare)
    np.savez(path.with_suffix(".npz"), **GOOD, similarities=np.zeros((2, 2)), roc=np.zeros(5))
    assert read_predictions(path, bare)["similarities"].shape == (2, 2)


def test_restore_records_the_current_computation_version(store: ResultStore) -> None:
    """Of a model for each language, whose parts stand in no file."""
    spec = parse_spec("bert+base")
    one = cell(model=ModelRef(spec, "f", members=(("en", ModelRef(spec, "e", method="base")),)))
    write(store, one, result(one), SCORES)
    path = store.path(one)
    stored = json.loads(path.read_text())
    del stored["cell"]["computation"]
    path.write_text(json.dumps(stored))
    found = store.find(one)
    assert found is not None
    assert found.computation is read_result(path).computation is None
    assert store.restore(one, found).computation == COMPUTATION
    assert store.find(one) == read_result(path) == result(one)


def test_restore_leaves_unwritable_folder_unchanged(
    store: ResultStore, full_disk: Callable[[str], None]
) -> None:
    old = cell()
    new = cell(data=(("pairs", "2"),))
    first = write(store, old, result(old, 0.1), SCORES)
    write(store, new, result(new, 0.2), SCORES)
    files = {path: path.read_bytes() for path in store.root.rglob("seed-*")}
    full_disk("results")
    unstated = replace(first, cell={**first.cell, "computation": None})
    assert store.restore(new, replace(unstated, cell_id=new.id)).computation == COMPUTATION
    assert {path: path.read_bytes() for path in store.root.rglob("seed-*")} == files
    assert read_predictions(store.stored_path(old), first)["scores"].tolist() == [0.1, 0.9]


RESULT: dict[str, Any] = {
    "cell": {
        "spec": "bert+base",
        "task": "cats",
        "seed": 0,
        "protocol": "paper",
        "precision": {"encoding": "fp32"},
    },
    "cell_id": "0" * 64,
    "metrics": {"spearman": 0.5},
    "main_metric": "spearman",
    "main_score": 0.5,
    "n_items": 3,
    "coverage": 1.0,
    "seconds": {},
    "data": {},
    "encoder": {},
    "environment": {},
    "created": "2026-01-01",
    "schema": 1,
}


def spoilt(**changes: Any) -> str:
    """A result file with some keys changed, without those that are ``absent``."""
    values = RESULT | changes
    return json.dumps({key: value for key, value in values.items() if value != "absent"})


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "[" * 100_000,
        '{"schema": 2}',
        spoilt()[:-40],
        spoilt(cell=RESULT["cell"] | {"precision": {}}),
        spoilt(cell=RESULT["cell"] | {"spec": "+:="}),
        spoilt(cell_id=5),
        spoilt(main_score=float("nan")),
        spoilt(main_score=17.3),
        spoilt(main_score=None),
        spoilt(main_metric="pearson"),
        spoilt(created="absent"),
    ],
)
def test_invalid_result_error_names_its_file(tmp_path: Path, content: str) -> None:
    path = tmp_path / "seed-0.json"
    path.write_text(spoilt())
    assert read_result(path).main_score == 0.5
    path.write_text(content)
    with pytest.raises(DataFormatError) as caught:
        read_result(path)
    assert str(path) in caught.value.message
    assert caught.value.hint
