from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from helpers.recording_reporter import Log
from helpers.runner_bench import Bench
from helpers.toy_plugin import CATS, DOGS, ToyEncoder, ToyPlugin, toy_tasks
from helpers.workspace_parts import parts
from scipy.stats import spearmanr

from mirrorbench.core.encoder_protocol import TextInput
from mirrorbench.core.errors import DataFormatError
from mirrorbench.core.plugins import Plugins
from mirrorbench.core.specs import parse_spec
from mirrorbench.data.items import Lexicon, RatedContexts
from mirrorbench.models import backbones
from mirrorbench.models.pooling import Pooling
from mirrorbench.models.transformer_encoder import TransformerEncoder
from mirrorbench.runs.cells import Cell
from mirrorbench.runs.plan import merged
from mirrorbench.runs.requests import Request
from mirrorbench.runs.runner import Runner
from mirrorbench.runs.settings import Settings
from mirrorbench.runs.workspace import Workspace
from mirrorbench.storage.files import temporary_prefix
from mirrorbench.storage.leases import Leases
from mirrorbench.storage.results import ResultStore, read_results
from mirrorbench.tasks import PairSimilarity, UsageSimilarity
from mirrorbench.tasks.lexical import LexiconInduction
from mirrorbench.workspace_functions import execute_plan, make_plan

TEXTS = sorted({text for pair in CATS + DOGS for text in (pair.left, pair.right)})


def test_each_text_is_encoded_once_for_all_tasks(bench: Bench, toy: ToyEncoder) -> None:
    log = Log()
    outcome = bench.run("toy", log=log)
    assert sorted(toy.asked) == TEXTS
    assert log.stages == log.done == {"encoding toy": len(TEXTS)}
    assert [result.task for result in outcome.results] == ["cats", "dogs"]
    assert (outcome.computed, outcome.failures) == (2, ())
    for result, pairs in zip(outcome.results, (CATS, DOGS), strict=True):
        left, right = (
            toy.encode([TextInput(getattr(p, side)) for p in pairs]) for side in ("left", "right")
        )
        cosines = (
            (left * right).sum(1) / np.linalg.norm(left, axis=1) / np.linalg.norm(right, axis=1)
        )
        expected = spearmanr(cosines, [pair.gold for pair in pairs]).statistic
        assert result.main_score == result.metrics["spearman"] == pytest.approx(expected)
        assert result.n_items == len(pairs)
        assert result.encoder["texts"] == len(
            {text for pair in pairs for text in (pair.left, pair.right)}
        )
        assert result.encoder["dimensions"] == 26
        assert torch.__version__.startswith(
            result.environment["packages"]["torch"]
        )  # perhaps without the build tag


def test_fallback_to_the_english_model_is_noted(
    bench: Bench, random_model: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backbones, "_from_hub", lambda *asked: random_model("bert"))
    tasks = [
        PairSimilarity(f"cats-{language}", CATS, languages=(language,))
        for language in ("en", "fr", "he")
    ]
    bench.plugins.add(ToyPlugin(tasks=tasks), "toys")
    results = bench.run("bert+base", "mbert+base", tasks=[task.name for task in tasks]).results
    assert {(result.spec, result.task): result.notes for result in results if result.notes} == {
        ("bert+base", "cats-he"): ["bert+base has no model for he; its English one was used"]
    }


LEXICON = Lexicon((("cat", "Katze"), ("dog", "Hund")), (("pig", "Ferkel"),), ("cow",), ("Kuh",))


class WordList(ToyEncoder):
    """A toy encoder that knows words of two languages, and nothing of zebras."""

    def vocabulary(self, language: str) -> list[str]:
        return {"en": ["apple", "pear", "plum"], "de": ["Apfel", "Birne", "Pflaume"]}[language]

    def encode(self, inputs: Sequence[TextInput]) -> Any:
        if any("zebras" in item.text for item in inputs):
            raise ValueError("nothing is known of zebras")
        return super().encode(inputs)


def test_encoder_vocabulary_replaces_the_tasks_candidates(bench: Bench) -> None:
    task = LexiconInduction("words-bli", LEXICON, languages=("en", "de"))
    with_words = WordList("words")
    without = ToyEncoder("no words")
    bench.plugins.add(ToyPlugin({"with": with_words, "without": without}, [task]), "toys")
    assert not bench.run("with", "without", "with", tasks=("words-bli",)).failures
    dictionaries = {"cat", "dog", "pig", "katze", "hund", "ferkel"}
    assert set(with_words.asked) == dictionaries | {
        "apple",
        "pear",
        "plum",
        "apfel",
        "birne",
        "pflaume",
    }
    assert set(without.asked) == dictionaries | {"cow", "kuh"}


class Read(UsageSimilarity):
    """A task whose texts say by what they are read."""

    def reading(self, protocol: str, of_target: bool = False) -> UsageSimilarity:
        name = f"{protocol} {'word' if of_target else 'text'}"
        items = [
            RatedContexts(
                n, TextInput(name, ((0, 1),)), TextInput(f"{name} {n}", ((0, 1),)), int(n)
            )
            for n in "12"
        ]
        return UsageSimilarity(self.name, items)


def test_task_reading_follows_protocol_and_pooling(
    bench: Bench, random_model: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: set[tuple[str, str]] = set()
    encode = TransformerEncoder.encode_pooled

    def listen(
        self: TransformerEncoder,
        inputs: Sequence[TextInput],
        poolings: Sequence[Pooling],
        *rest: Any,
    ) -> Any:
        asked.update(
            (item.text.rstrip(" 12"), pooling.mode) for item in inputs for pooling in poolings
        )
        return encode(self, inputs, poolings, *rest)

    monkeypatch.setattr(TransformerEncoder, "encode_pooled", listen)
    unread = [RatedContexts("1", TextInput("a"), TextInput("b"), 1.0)]
    bench.plugins.add(ToyPlugin(tasks=[Read("read", unread)]), "toys")
    specs = [f"{random_model('bert')}+base:pooling={mode}" for mode in ("target", "cls")]
    plan = merged(
        [
            bench.plan(*specs, tasks=["read"], protocol=protocol)
            for protocol in ("paper", "released")
        ]
    )
    outcome = execute_plan(bench.workspace(), plan)
    assert (len(outcome.results), outcome.failures) == (4, ())
    assert asked == {
        ("paper word", "target"),
        ("released word", "target-marked"),
        ("paper text", "cls"),
        ("released text", "cls"),
    }


def test_finished_cells_and_vectors_are_reused(bench: Bench, toy: ToyEncoder) -> None:
    """Tables show what was run last."""
    cats = bench.run("toy", tasks=["cats"]).results
    created = {path: path.stat().st_mtime_ns for path in bench.results.root.rglob("seed-*")}
    log = Log()
    first = bench.run("toy", log=log).results
    assert log.lines == ["toy cats cached", "toy dogs computed"]
    assert first[:1] == cats
    assert {path: path.stat().st_mtime_ns for path in created} == created
    assert sorted(toy.asked) == TEXTS  # each of them once
    toy.fingerprint = "letters-2"  # another encoder
    second = bench.run("toy").results
    assert len(toy.asked) == 2 * len(TEXTS)
    assert list(read_results(bench.results.root)) == list(second) != list(first)
    toy.fingerprint = "letters-1"
    again = bench.run("toy")
    assert (again.computed, again.results) == (0, first)
    assert list(read_results(bench.results.root)) == list(first)
    bench.results = ResultStore(bench.results.root.with_name("other"))
    again = bench.run("toy")
    assert len(toy.asked) == 2 * len(TEXTS)
    assert (again.computed, [r.metrics for r in again.results]) == (2, [r.metrics for r in first])


@pytest.mark.parametrize(
    ("where", "reason"),
    [
        ("load", "not today"),
        ("inputs", "ZeroDivisionError: not today"),
        ("score", "ZeroDivisionError: not today"),
        ("no inputs", ".*4 ids, 0 scores.*"),  # what the task makes of it, not what the cache does
    ],
)
def test_a_failing_task_stops_no_other(
    bench: Bench, toy: ToyEncoder, where: str, reason: str
) -> None:
    task = PairSimilarity("bad", CATS)
    error = DataFormatError if where == "load" else ZeroDivisionError
    task.identity = lambda data: {"pairs": "bad"}  # type: ignore[method-assign]
    failing = (
        Mock(return_value=[]) if where == "no inputs" else Mock(side_effect=error("not today"))
    )
    setattr(task, where.removeprefix("no "), failing)
    bench.plugins.add(ToyPlugin(tasks=[task]), "bad")
    log = Log()
    for tasks in (["bad"], ["bad", "cats"]):
        outcome = bench.run("toy", tasks=tasks, log=log)
        (failure,) = outcome.failures
        assert (failure.task, failure.seed) == ("bad", 0)
        assert re.fullmatch(reason, failure.reason)
    assert [result.task for result in outcome.results] == ["cats"]
    assert sorted(log.lines) == ["toy bad failed", "toy bad failed", "toy cats computed"]


def test_encoder_error_on_one_task_spares_others(bench: Bench) -> None:
    tasks = [
        LexiconInduction(f"words-{code}", LEXICON, languages=("en", code)) for code in ("de", "xx")
    ]
    bench.plugins.add(ToyPlugin({"toy": WordList()}, [*toy_tasks(), *tasks]), "toys")
    outcome = bench.run("toy", tasks=["words-xx", "cats", "dogs", "words-de"])
    assert [result.task for result in outcome.results] == ["dogs", "words-de"]
    reasons = {failure.task: failure.reason.partition(" (")[0] for failure in outcome.failures}
    assert reasons == {
        "words-xx": "KeyError: 'xx'",
        "cats": "ValueError: nothing is known of zebras",
    }


def test_encoders_sharing_a_fingerprint_are_kept_apart(bench: Bench) -> None:
    """A copied class whose fingerprint nobody changed."""

    one = ToyEncoder("same")
    other = ToyEncoder("same")
    bench.plugins.add(ToyPlugin({"one": one, "other": other}, toy_tasks()), "toys")
    assert [result.spec for result in bench.run("one", "other").results] == [
        "one",
        "one",
        "other",
        "other",
    ]
    assert sorted(one.asked) == sorted(other.asked) == TEXTS
    assert bench.run("other").computed == 0


def test_failures_are_retried_and_constant_vectors_score_undefined(
    bench: Bench, toy: ToyEncoder
) -> None:
    toy.broken = RuntimeError("not today")
    reasons = [failure.reason for failure in bench.run("toy").failures]
    assert [reason.partition(" (")[0] for reason in reasons] == 2 * ["RuntimeError: not today"]
    toy.broken = np.ones((5, 4))
    outcome = bench.run("toy", tasks=["cats"])
    assert (outcome.computed, outcome.failures) == (1, ())
    (result,) = outcome.results
    assert result.main_score is None
    assert "undefined" in result.notes[0]


def test_results_are_reported_after_they_are_stored(
    bench: Bench, toy: ToyEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = list[str]()
    leases = bench.results.root / ".leases"

    class Looking(Log):
        def cell(self, cell: Cell, score: float | None, cached: bool) -> None:
            held = (leases / f"{cell.model.key}.lease").exists()
            lines.append(f"{cell.task} {bench.results.path(cell).is_file()} {held}")

    folder = bench.results.root / "toy" / "cats"
    folder.mkdir(parents=True)
    half, of_another = (
        folder / f"{temporary_prefix(folder / name)}1" for name in ("seed-0.json", "seed-1.json")
    )
    half.write_text("of a run that was killed")
    of_another.write_text("of a run that is writing")
    bench.run("toy", log=Looking())
    assert lines == ["cats True True", "dogs True True"]
    assert not list(leases.glob("*.lease"))
    assert [half.exists(), of_another.exists()] == [False, True]


def test_interrupted_run_keeps_results_and_releases_lease(
    bench: Bench, toy: ToyEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcomes = Runner(*parts(bench.workspace()), {}).compute(
        list(bench.plan("toy").groups.values())
    )
    next(outcomes)
    outcomes.close()
    assert sorted(path.parent.name for path in bench.results.root.rglob("seed-0.json")) == ["cats"]
    assert not list((bench.results.root / ".leases").glob("*.lease"))


def test_group_leased_by_another_process_is_deferred(bench: Bench, toy: ToyEncoder) -> None:
    """Another process holds the first group's lease, stores one of its cells and goes."""
    bench.plugins.add(ToyPlugin({"other": ToyEncoder("letters-2")}), "other")
    elsewhere = Bench(bench.corpus.parent, bench.plugins)
    elsewhere.results = ResultStore(bench.results.root.with_name("elsewhere"))
    (first, *_) = bench.plan("toy").groups
    held = Leases(bench.results.root / ".leases").take(first)
    assert held is not None

    class Releasing(Log):
        def note(self, message: str) -> None:
            super().note(message)
            elsewhere.run("toy", tasks=["cats"])
            (elsewhere.results.root / "toy").rename(bench.results.root / "toy")
            held.__exit__(None, None, None)

    log = Releasing()
    outcome = bench.run("toy", "other", log=log)
    assert [(result.spec, result.task) for result in outcome.results] == [
        ("toy", "cats"),
        ("toy", "dogs"),
        ("other", "cats"),
        ("other", "dogs"),
    ]
    assert outcome.computed == 3
    assert log.lines[:2] == ["other cats computed", "other dogs computed"]
    assert re.fullmatch(
        r"toy: process \d+ on .+ is at work on it; waiting for its results", log.lines[2]
    )
    assert log.lines[3:] == ["toy cats cached", "toy dogs computed"]


def test_failing_encoder_fails_only_its_cells(plugins: Plugins, tmp_path: Path) -> None:
    wrong = {
        "raises": ZeroDivisionError("division by zero"),
        "rows": np.zeros((1, 3)),
        "words": "five texts",
    }
    encoders: dict[str, Any] = {
        kind: ToyEncoder(kind, broken=broken) for kind, broken in wrong.items()
    }
    encoders |= {
        "unopened": Mock(side_effect=KeyError("x")),
        "five": lambda: 5,
        "exits": ToyEncoder("exits"),
    }
    encoders["exits"].encode = Mock(side_effect=SystemExit(3))
    plugins.add(
        ToyPlugin({**encoders, "good": ToyEncoder()}, [PairSimilarity("cats", CATS)]), "toys"
    )
    data, results, cache = (tmp_path / name for name in ("data", "results", "cache"))
    workspace = Workspace(Settings(results, data, cache, "cpu"), plugins)
    request = Request(tuple(map(parse_spec, [*encoders, "good"])), ("cats",))
    outcome = execute_plan(workspace, make_plan(workspace, request))
    assert {failure.spec.backbone for failure in outcome.failures} == set(encoders)
    assert [result.spec for result in outcome.results] == ["good"]
    assert {path.relative_to(results).parts[0] for path in results.rglob("seed-*")} == {"good"}
    assert len(list((cache / "embeddings").iterdir())) == 1
