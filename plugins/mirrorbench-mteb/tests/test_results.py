"""Evaluation by MTEB itself, and the export of stored results."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import mteb
import numpy as np
import pytest
from helpers.plugin_fixtures import Said
from mirrorbench_mteb.evaluation import evaluate
from mirrorbench_mteb.export import export
from mirrorbench_mteb.model import MirrorbenchModel
from mteb.models import EncoderProtocol
from mteb.results import TaskResult

import mirrorbench
from mirrorbench.plugin import Plugins, read_results

pytestmark = pytest.mark.slow


def test_mteb_reproduces_the_stored_score(
    results: Path, similarity: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An encoder tuned here and evaluated by MTEB itself: the stored score, to 4 decimals."""
    monkeypatch.setenv("MIRRORBENCH_CACHE", str(results.parent / "cache"))
    stored = {r.spec: r for r in read_results(results)}
    assert len(stored) == 2
    scores = set()
    for spec, result in stored.items():
        model = MirrorbenchModel(spec, offline=True)
        done = mteb.evaluate(
            model, similarity, cache=None, co2_tracker=False, show_progress_bar=False
        )
        (row,) = done.task_results[0].scores["test"]
        for theirs, mine in (
            ("cosine_spearman", "spearman"),
            ("main_score", "spearman"),
            ("spearman", "spearman"),
            ("cosine_pearson", "pearson"),
        ):
            assert row[theirs] == pytest.approx(result.metrics[mine], abs=5e-5), (spec, theirs)
        scores.add(round(row["cosine_spearman"], 4))
    assert len(scores) == 2  # tuning has changed the encoder


def test_mteb_results_are_not_recomputed(plugins: Plugins, similarity: Any, tmp_path: Path) -> None:
    model = MirrorbenchModel("tiny+base:pooling=mean", offline=True)
    first = evaluate(model, similarity, tmp_path / "mteb")
    ((split, subset, score),) = first.scores
    assert (split, subset, first.failure) == ("test", "default", "")
    meta = model.mteb_model_meta
    written = TaskResult.from_disk(
        mteb.ResultCache(tmp_path / "mteb").get_task_result_path("InMemory", meta)
    )
    assert written.scores["test"][0]["cosine_spearman"] == pytest.approx(score, abs=1e-6)
    model.encode = None  # type: ignore[assignment, method-assign]
    ((*where, again),) = evaluate(model, similarity, tmp_path / "mteb").scores
    assert where == [split, subset]
    assert again == pytest.approx(score, abs=1e-6)
    assert "EncoderProtocol" in evaluate(model, similarity, tmp_path / "other").failure


def test_the_model_follows_mtebs_protocol(plugins: Plugins) -> None:
    encoder = mirrorbench.load("tiny", offline=True)
    model = MirrorbenchModel(encoder)
    assert isinstance(model, EncoderProtocol)
    texts = ["a cat", "the river is wide", "a cat"]
    batches = [{"text": texts[:2]}, {"text": texts[2:]}]
    vectors = model.encode(
        batches, task_metadata=None, hf_split="test", hf_subset="default", batch_size=1
    )
    np.testing.assert_array_equal(vectors, encoder.encode(texts))
    assert model.mteb_model_meta.name == f"mirrorbench/{encoder.name}"
    assert model.mteb_model_meta.revision == encoder.fingerprint[:12]
    similarity = np.asarray(model.similarity(vectors, vectors))
    assert similarity.shape == (3, 3)
    assert similarity[0, 2] == pytest.approx(1, abs=1e-5)


def test_exported_results_are_read_by_mteb(results: Path, tmp_path: Path) -> None:
    """Files pass the checks of mteb's repository of results: names agree with folders, settings are there."""
    stored = {r.spec: r for r in read_results(results)}
    exported = export(read_results(results), tmp_path / "mteb")
    assert len(exported.files) == 2
    for path in exported.files:
        read = TaskResult.from_disk(path)
        assert (read.task_name, path.name) == ("STS17", "STS17.json")
        assert read.dataset_revision.startswith("original-files-")
        assert read.date is not None
        (row,) = read.scores["test"]
        spec = next(
            s
            for s in stored
            if stored[s].metrics["spearman"] == pytest.approx(row["main_score"], abs=1e-6)
        )
        assert row["cosine_pearson"] == pytest.approx(stored.pop(spec).metrics["pearson"], abs=1e-6)
        assert (row["hf_subset"], row["languages"]) == ("en-en", ["eng-Latn"])
        assert all(
            int(part["mteb_version"].split(".")[0]) >= 2
            for part in (json.loads(path.read_text()), row)
        )
        meta = json.loads((path.parent / "model_meta.json").read_text(encoding="utf-8"))
        assert meta["name"].startswith("mirrorbench/")
        folder = meta["name"].replace(" ", "_").replace("/", "__")
        assert path.parent == tmp_path / "mteb" / "results" / folder / meta["revision"]
        (line,) = (path.parent / "run_settings.jsonl").read_text().splitlines()
        settings = json.loads(line)
        assert (settings["task"], settings["splits"], settings["subsets"]) == (
            "STS17",
            ["test"],
            ["en-en"],
        )
    assert not stored
    loaded = mteb.ResultCache(tmp_path / "mteb").load_results(tasks=["STS17"], include_remote=False)
    assert [len(model.task_results) for model in loaded.model_results] == [1, 1]


def test_incompatible_results_are_left_out_of_export(results: Path, tmp_path: Path) -> None:
    (computation,) = {r.cell["computation"] for r in read_results(results)}
    earlier = (
        f"it is from computation {computation - 1}, which is not the current one: run it again"
    )
    changes: list[tuple[int, dict[str, Any], str]] = [
        (249, {}, "it has 249 items, and MTEB's STS17 250"),
        (250, {"computation": computation - 1}, earlier),
        (250, {"task": "quick-simlex"}, "MTEB has no such task"),
        (250, {"task": "sickr"}, "all pairs: mirrorbench run --tasks mteb-SICK-R"),
    ]
    for n_items, cell, expected in changes:
        stored = [
            dataclasses.replace(r, n_items=n_items, cell=r.cell | cell)
            for r in read_results(results)
        ]
        exported = export(stored, tmp_path / "mteb")
        assert not exported.files
        assert [expected in reason for *_, reason in exported.left_out] == [True, True]


def test_command_line_exports_and_reports_errors(
    results: Path, tmp_path: Path, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("datasets.config.HF_HUB_OFFLINE", True)
    code, out, err = said("mteb", "export", str(results), "-o", "mteb")
    assert code == 0, err
    assert len(out.splitlines()) == 2
    assert all((tmp_path / line).is_file() for line in out.splitlines())
    assert "2 of 2 results in 2 files." in err
    code, _, err = said("mteb", "run", "tiny", "--tasks", "mteb-STS17-en-en,STS12", "--offline")
    assert code == 1, err
    assert "0 of 2 tasks done" in err
    assert "HF_HOME" in err
    assert "Traceback" not in err
    code, _, err = said("mteb", "run", "tiny", "--tasks", "STSBenchmrk", "--offline")
    assert code == 2
    assert "Did you mean STSBenchmark" in err
