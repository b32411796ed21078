"""An encoder that is tuned here gets from MTEB itself, on the pairs of STS-b, the score that mirrorbench stored."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import mirrorbench
from mirrorbench.data.card_files import builtin_cards
from mirrorbench.data.store import DataStore

PLUGIN = Path(__file__).resolve().parents[1] / "plugins" / "mirrorbench-mteb"

pytestmark = pytest.mark.real
PAIRS = 300


def rows_of(store: DataStore, split: str) -> list[dict[str, Any]]:
    """The pairs as they stand in the organisers' file: tab-separated, score and sentences in columns 4 to 6."""
    (path,) = store.fetch(builtin_cards()["stsb"], split).values()
    rows = [line.split("\t") for line in path.read_text(encoding="utf-8").split("\n") if line]
    return [{"sentence1": row[5], "sentence2": row[6], "score": float(row[4])} for row in rows]


@pytest.fixture
def stsb(real_store: DataStore, tmp_path: Path) -> Any:
    """MTEB's kind of task on the first test pairs, which it loads by itself from a file."""
    pytest.importorskip("mteb")
    from mteb.abstasks.sts import AbsTaskSTS
    from mteb.abstasks.task_metadata import TaskMetadata

    rows = rows_of(real_store, "test")[:PAIRS]
    folder = tmp_path / "stsb"
    folder.mkdir()
    (folder / "test.jsonl").write_text(
        "".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8"
    )

    class OriginalPairs(AbsTaskSTS):
        metadata = TaskMetadata(
            name="OriginalPairs",
            description="STS-b.",
            dataset={"path": str(folder), "revision": "1" * 40},
            type="STS",
            category="t2t",
            modalities=["text"],
            eval_splits=["test"],
            eval_langs=["eng-Latn"],
            main_score="cosine_spearman",
            date=("2012-01-01", "2017-12-31"),
            domains=["Written"],
            task_subtypes=[],
            license="not specified",
            annotations_creators="human-annotated",
            dialect=[],
            sample_creation="found",
            bibtex_citation="",
            reference="https://example.org",
        )

    return OriginalPairs()


@pytest.mark.full
def test_mteb_reproduces_stored_score(
    stsb: Any, real_store: DataStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import mteb
    from sentence_transformers import SentenceTransformer

    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "datasets")
    monkeypatch.syspath_prepend(PLUGIN)
    from mirrorbench_mteb.model import MirrorbenchModel

    texts = [row["sentence1"] for row in rows_of(real_store, "train")[:100]]
    mirrorbench.tune(texts, "tiny", tmp_path / "tuned", device="cpu", offline=True)
    specs = [tmp_path / "tuned", "tiny+base:pooling=mean"]
    session = mirrorbench.Session(
        tmp_path / "results", data_dir=real_store.root, device="cpu", offline=True
    )
    tuned, untuned = session.run(specs, "stsb", limit=PAIRS).results
    models = {
        "through the plugin": (MirrorbenchModel(tmp_path / "tuned", device="cpu"), tuned),
        "without mirrorbench": (SentenceTransformer(str(tmp_path / "tuned"), device="cpu"), tuned),
        "untuned": (MirrorbenchModel("tiny+base:pooling=mean", device="cpu"), untuned),
    }
    for how, (model, result) in models.items():
        done = mteb.evaluate(model, stsb, cache=None, co2_tracker=False, show_progress_bar=False)
        (found,) = done.task_results[0].scores["test"]
        for theirs, ours in (("main_score", "spearman"), ("cosine_pearson", "pearson")):
            assert found[theirs] == pytest.approx(result.metrics[ours], abs=5e-5), how
    assert round(tuned.main_score, 4) != round(untuned.main_score, 4)


@pytest.mark.full
def test_mteb_with_prompt_reproduces_stored_score(
    stsb: Any, real_store: DataStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sentence_transformers import SentenceTransformer

    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "datasets")
    import mteb
    from mteb.models.sentence_transformer_wrapper import SentenceTransformerEncoderWrapper

    prompts = {"similar": "Instruct: find what says the same\nQuery:", "other": "passage: "}
    texts = [row["sentence1"] for row in rows_of(real_store, "train")[:100]]
    mirrorbench.tune(
        texts, "tiny+mirror:prompt=find: {text}", tmp_path / "tuned", device="cpu", offline=True
    )
    SentenceTransformer(str(tmp_path / "tuned"), prompts=prompts, device="cpu").save(
        str(tmp_path / "own")
    )
    own = f"sbert:path={tmp_path}/own"
    ours = f"{tmp_path}/own+base:layers=:,pooling=mean,prompt=similar"
    specs = [f"{own},prompt=similar", own, f"{own},prompt=other", ours]
    session = mirrorbench.Session(
        tmp_path / "results", data_dir=real_store.root, device="cpu", offline=True
    )
    stored = {
        result.spec: result.main_score for result in session.run(specs, "stsb", limit=PAIRS).results
    }
    assert len(set(stored.values())) == 3
    assert stored[specs[3]] == pytest.approx(
        stored[specs[0]], abs=5e-5
    )  # the same model, read as a backbone

    def score(**named: Any) -> float:
        model = SentenceTransformerEncoderWrapper(
            SentenceTransformer(str(tmp_path / "own"), device="cpu"), **named
        )
        done = mteb.evaluate(model, stsb, cache=None, co2_tracker=False, show_progress_bar=False)
        return float(done.task_results[0].scores["test"][0]["main_score"])

    for prompt, spec in (("similar", specs[0]), ("other", specs[2])):
        assert score(model_prompts={"STS": prompts[prompt]}) == pytest.approx(
            stored[spec], abs=5e-5
        )
