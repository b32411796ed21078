"""Rows with a transformation: what it is fitted on, what rows share, and what is found again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import Mock, patch

import numpy as np
import pytest
from helpers.damaged_files import flip
from helpers.recording_reporter import Log
from helpers.runner_bench import Bench
from helpers.toy_plugin import CATS, DOGS, ToyEncoder, ToyPlugin
from helpers.workspace_parts import parts
from scipy.stats import spearmanr
from sklearn.decomposition import PCA

from mirrorbench.analysis.analyses import analyze
from mirrorbench.core.encoder_protocol import TextInput
from mirrorbench.core.errors import UsageError
from mirrorbench.core.specs import parse_spec
from mirrorbench.data.corpora import DEFAULT_CORPORA
from mirrorbench.data.items import Pair
from mirrorbench.models import transformations
from mirrorbench.models.pooling import Pooling
from mirrorbench.runs import embedding
from mirrorbench.runs.encoder_loading import EncoderLoader
from mirrorbench.runs.planning import PlanMaker
from mirrorbench.runs.requests import Request
from mirrorbench.storage.cache import Cache
from mirrorbench.storage.results import ResultStore
from mirrorbench.tasks import PairSimilarity
from mirrorbench.texts.export import claiming
from mirrorbench.texts.tune import plan_tuning, tune_texts
from mirrorbench.workspace_functions import load_encoder

LINES = [f"line number {n}" for n in range(30)]
MEAN = "+base:pooling=mean"


@pytest.fixture
def bert(random_model: Callable[[str], Path], toy: ToyEncoder) -> str:
    """A spec; the toy tasks are registered beside it."""
    return str(random_model("bert"))


def naive_spearman(pairs: Sequence[Any], encode: Callable[[list[TextInput]], np.ndarray]) -> float:
    left, right = (
        encode([TextInput(getattr(pair, side)) for pair in pairs]) for side in ("left", "right")
    )
    cosines = (left * right).sum(1) / np.linalg.norm(left, axis=1) / np.linalg.norm(right, axis=1)
    return float(spearmanr(cosines, [p.gold for p in pairs])[0])


def spied(monkeypatch: pytest.MonkeyPatch) -> Mock:
    """Sees the vectors of each fit."""
    fit = Mock(wraps=transformations.fit)
    monkeypatch.setattr(embedding, "fit", fit)
    return fit


def test_transformation_is_fitted_on_corpus_texts_only(
    bench: Bench, bert: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fit = spied(monkeypatch)
    plain = f"{bert}{MEAN}"
    white = f"{bert}{MEAN},post=whiten,whiten=9"
    outcome = bench.run(plain, white)
    assert outcome.failures == ()
    raw = load_encoder(bench.workspace(), parse_spec(plain))[0]
    ((fitted, _),) = (call.args for call in fit.call_args_list)
    alone = raw.encode([TextInput(line) for line in LINES])  # and no text of a task
    np.testing.assert_allclose(fitted, alone, atol=1e-5)
    whitening = PCA(9, whiten=True).fit(fitted.astype(float))
    for result, pairs in zip(outcome.results[2:], (CATS, DOGS), strict=True):
        expected = naive_spearman(pairs, lambda texts: whitening.transform(raw.encode(texts)))
        assert result.main_score == pytest.approx(expected, abs=1e-9)
        assert (
            result.encoder["dimensions"],
            result.cell["corpus"]["n"],
            result.cell["recipe"],
        ) == (9, 30, None)
        assert result.cell["post"][""][:2] == ["whiten", 9]
        assert result.overlap is not None
    assert all("post" not in result.cell for result in outcome.results[:2])
    vectors, _ = load_encoder(bench.workspace(), parse_spec(f"{white},corpus={bench.corpus}"))
    texts = [TextInput(pair.left) for pair in CATS]
    assert (
        np.abs(np.abs(vectors.encode(texts)) - np.abs(whitening.transform(raw.encode(texts)))).max()
        < 1e-5
    )
    assert vectors.fingerprint != raw.fingerprint


def test_transformations_share_one_tuning_and_encoding(
    bench: Bench, bert: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fit = spied(monkeypatch)
    log = Log()
    tuned = f"{bert}+mirror"
    first = bench.run(tuned, f"{tuned}:post=abtt", f"{tuned}:post=zscore", log=log)
    assert (len(first.results), first.failures) == (6, ())
    assert len(list((bench.cache.root / "models").iterdir())) == 1
    assert len(list((bench.cache.root / "embeddings").iterdir())) == 1
    assert log.done[f"tuning {tuned} seed 0"] == len(LINES)
    assert np.array_equal(*(call.args[0] for call in fit.call_args_list))  # both of them
    ids = {cell.id for cell in bench.plan(tuned).cells}
    assert ids == {result.cell_id for result in first.results if result.spec == tuned}
    assert len({result.cell_id for result in first.results}) == 6
    bench.results = ResultStore(bench.results.root.with_name("again"))
    again = bench.run(f"{tuned}:post=abtt")
    assert [r.metrics for r in again.results] == [
        r.metrics for r in first.results if "abtt" in r.spec
    ]
    assert fit.call_count == 2  # found in the cache


def test_killed_fit_reuses_stored_vectors(bench: Bench, toy: ToyEncoder) -> None:
    killed = patch.object(embedding, "fit", Mock(side_effect=KeyboardInterrupt))
    with killed, pytest.raises(KeyboardInterrupt):
        bench.run("toy:post=center")
    assert set(LINES) <= set(toy.asked)
    toy.asked.clear()
    assert bench.run("toy:post=center").failures == ()
    assert toy.asked == []


def test_damaged_transformation_is_fitted_again(
    bench: Bench, toy: ToyEncoder, caplog: pytest.LogCaptureFixture
) -> None:
    first = bench.run("toy:post=center")
    (file,) = (bench.cache.root / "transformations").iterdir()
    flip(file, 300)
    bench.results, bench.cache = ResultStore(bench.folder / "again"), Cache(bench.cache.root)
    second = bench.run("toy:post=center")
    assert [r.metrics for r in second.results] == [r.metrics for r in first.results]
    assert "it is fitted again" in caplog.text


def test_impossible_transformation_fails_only_its_row(
    bench: Bench, toy: ToyEncoder, bert: str
) -> None:
    outcome = bench.run("toy", "toy:post=center", "toy:post=whiten,whiten=26")
    assert [r.spec for r in outcome.results] == ["toy", "toy", "toy:post=center", "toy:post=center"]
    assert [failure.task for failure in outcome.failures] == ["cats", "dogs"]
    assert all(
        "whiten=26 keeps more axes than the" in failure.reason for failure in outcome.failures
    )
    corpus = toy.encode([TextInput(line) for line in LINES])
    expected = naive_spearman(CATS, lambda texts: toy.encode(texts) - corpus.mean(0))
    assert outcome.results[2].main_score == pytest.approx(expected, abs=1e-9)
    with pytest.raises(
        UsageError, match="whiten=9999 cannot be fitted on 30 texts with vectors of 32 dimensions"
    ):
        bench.plan(
            f"{bert}{MEAN},post=whiten,whiten=9999"
        )  # where their number is known, before anything is encoded
    encoders = [f"{bert}{MEAN},post=center,corpus={bench.corpus}"]
    with pytest.raises(UsageError, match="single layers are not transformed"):
        analyze("layers", {"encoders": encoders, "task": "cats"}, *parts(bench.workspace()))


def test_fit_inputs_follow_pooling_and_paired_lines(bench: Bench, bert: str) -> None:
    work = bench.workspace()
    cell = bench.plan(f"{bert}+base:pooling=target,post=center").cells[0]
    found = embedding.fit_inputs(LINES, cell.model, cell.pooling, work.plugins)
    assert [item.text for item in found] == LINES
    assert {item.text[slice(*item.spans[0])] for item in found} == {"line", "number"}
    assert found == embedding.fit_inputs(
        LINES, cell.model, cell.pooling, work.plugins
    )  # the same draw
    assert embedding.fit_inputs(LINES, cell.model, Pooling(), work.plugins) == [
        TextInput(line) for line in LINES
    ]
    pairs = [f"left {n}||right {n}" for n in range(20)]
    bench.corpus.write_text("\n".join(pairs))
    cell = bench.plan(f"{bert}+pairs:post=center").cells[0]
    texts = [text for pair in pairs for text in pair.split("||")]
    assert sorted(
        item.text for item in embedding.fit_inputs(pairs, cell.model, cell.pooling, work.plugins)
    ) == sorted(texts)
    untuned = bench.plan(f"{bert}+base:post=zscore").cells
    bench.corpus.write_text("\n".join(texts))
    assert bench.plan(f"{bert}+base:post=zscore").cells == untuned


def test_transformation_is_fitted_per_language(
    bench: Bench, random_model: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """``bert`` has a model of its own for each language."""
    models = {"en": random_model("bert"), "fr": random_model("roberta")}
    monkeypatch.setattr(
        "mirrorbench.models.backbones.locate", lambda spec, language, offline: models[language]
    )
    for language in models:
        text = bench.folder / f"{language}.txt"
        text.write_text("".join(f"{language} line {n}\n" for n in range(20)))
        monkeypatch.setitem(DEFAULT_CORPORA, ("word", language), str(text))
    crossing = PairSimilarity(
        "crossing",
        (Pair("1", "a", "b", 1.0), Pair("2", "c", "d", 2.0)),
        level="word",
        languages=("en", "fr"),
    )
    texts = [
        TextInput(text, (), language)
        for text, language in zip("abcd", ("en", "fr") * 2, strict=True)
    ]
    crossing.inputs = lambda items: texts  # type: ignore[method-assign]
    bench.plugins.add(ToyPlugin({}, [crossing]), "toys")
    maker = PlanMaker(*parts(bench.workspace()))
    (cell,) = maker.plan(Request((parse_spec(f"bert{MEAN},post=center"),), ("crossing",))).cells
    assert [language for language, _ in cell.model.posts] == ["en", "fr"]
    assert len(cell.model.corpora) == 2
    encoder, _ = EncoderLoader(*parts(bench.workspace())).load_transformed(
        cell.model, cell.pooling, "fp32", maker.corpora.by_ref
    )
    for language in models:
        lines = maker.corpora.by_ref[dict(cell.model.posts)[language].corpus].texts  # type: ignore[index]
        vectors = encoder.encode([TextInput(line, (), language) for line in lines])
        assert lines[0].startswith(language)
        assert np.abs(vectors.mean(0)).max() < 1e-5


def test_first_dimensions_may_be_more_than_the_texts_of_the_corpus(
    bench: Bench, toy: ToyEncoder
) -> None:
    bench.plugins.add(ToyPlugin({"other": ToyEncoder("letters-2")}), "other")
    few = bench.folder / "few.txt"
    few.write_text("abc\nbcd\ncde\n")
    outcome = bench.run(f"other:dims=20,type=int8,corpus={few}")
    assert (len(outcome.results), outcome.failures) == (2, ())


def test_tuned_directory_uses_its_stored_transformation(bench: Bench, bert: str) -> None:
    """``post=stored`` in a run: no corpus, no fit, and the numbers of the directory."""
    folder = bench.folder / "enc"
    spec = parse_spec(f"{bert}+mirror:post=abtt")
    with claiming(folder, force=False) as workplace:
        plugins, folders, compute, reporter = parts(bench.workspace())
        planned = plan_tuning(LINES, spec, folder, plugins, folders, compute, reporter, held_out=0)
        tune_texts(planned, workplace, plugins, folders, compute, reporter)
    outcome = bench.run(str(folder), f"{folder}:post=zscore")
    assert (len(outcome.results), outcome.failures) == (4, ())
    first = outcome.results[0]
    assert parse_spec(first.spec).get("post") == "stored"
    assert (first.cell["corpus"], first.overlap) == (None, None)
    vectors, _ = load_encoder(bench.workspace(), parse_spec(str(folder)))
    expected = naive_spearman(CATS, vectors.encode)
    assert first.main_score == pytest.approx(expected, abs=1e-9)
    with pytest.raises(UsageError, match="these are tuned further"):
        bench.plan(f"{folder}+mirror:post=stored")
    for key, message in (
        ("dims=4", "dims= and post= cannot"),
        ("type=int8", "post=stored and type= cannot"),
    ):
        with pytest.raises(UsageError, match=message):
            bench.plan(f"{folder}:{key}")  # not silently of other vectors than the directory's
