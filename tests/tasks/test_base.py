"""What all tasks have in common: identity, first items, reading of cards, and checks of scores."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.small_data_sets import as_here, make, write
from helpers.toy_plugin import CATS, DOGS, STORE, letter_counts, vectors_of
from scipy.stats import kendalltau, spearmanr

from mirrorbench.core.encoder_protocol import TextInput
from mirrorbench.core.errors import DataFormatError, PluginError, UnknownNameError, UsageError
from mirrorbench.core.plugins import Registry
from mirrorbench.data.card_files import builtin_cards
from mirrorbench.data.items import Pair, RatedContexts
from mirrorbench.data.store import DataStore
from mirrorbench.runs.registry import load_plugins
from mirrorbench.tasks import PairSimilarity, Scores, UsageSimilarity
from mirrorbench.tasks.base import score_task
from mirrorbench.tasks.kinds import as_task

PLUGINS = load_plugins(discover=False)
KINDS = PLUGINS.task_kinds
LEXICAL = ("ncbi-disease", "askapatient", "cometa-sg", "wsd")


@pytest.mark.parametrize(
    ("metrics", "ids", "message"),
    [
        ({"m": float("nan")}, ["1"], "the metric 'm' is nan"),
        ({"m": "high"}, ["1"], "the metric 'm' is 'high'"),
        ({"m": [1.0]}, ["1"], "the metric 'm'"),
        ({"m": 0.5}, ["1"], "1 ids, 2 scores and 2 references"),
        ({}, ["1", "1"], "equal ids"),
        ({}, ["1", "2"], "scores that are not finite numbers"),
    ],
)
def test_invalid_task_scores_are_rejected(metrics: Any, ids: Iterable[str], message: str) -> None:
    with pytest.raises(PluginError, match=message):
        Scores(metrics, list(ids), np.array([0, np.nan]), np.zeros(2))
    plain = Scores({"m": np.float32(0.5)}, [], np.zeros(0), np.zeros(0)).metrics["m"]  # type: ignore[dict-item]
    assert type(plain) is float


def test_main_metric_can_be_a_registered_metric() -> None:
    metrics: Registry[Any] = Registry("metric")
    metrics.add("kendall", lambda scores, gold: kendalltau(scores, gold).statistic, "this test")
    metrics.add("spearman", lambda scores, gold: 2.0, "this test")

    def with_main(name: str) -> Scores:
        task = PairSimilarity("toy", CATS, main_metric=name)
        return score_task(task, CATS, vectors_of(task, CATS, letter_counts), "paper", metrics)

    found = with_main("kendall")
    assert found.metrics["kendall"] == pytest.approx(kendalltau(found.scores, found.gold).statistic)
    assert found.metrics.keys() == {"spearman", "pearson", "kendall"}
    assert with_main("spearman").metrics["spearman"] == pytest.approx(
        spearmanr(found.scores, found.gold)[0]
    )
    with pytest.raises(UnknownNameError, match="unknown metric 'kendal'"):
        with_main("kendal")


def test_task_identity_follows_the_pairs() -> None:
    identities = {
        PairSimilarity("toy", pairs).identity(STORE)["pairs"]
        for pairs in (CATS, DOGS, CATS[::-1], (replace(CATS[0], gold=4.9), *CATS[1:]))
    }
    assert len(identities) == 4
    assert PairSimilarity("a", CATS).identity(STORE) == PairSimilarity(
        "b", lambda data: CATS
    ).identity(STORE)
    sides = TextInput("one", ((0, 3),)), TextInput("two", ((0, 3),))
    one, other = (
        UsageSimilarity("toy", [RatedContexts("1", *sides, rating)]).identity(STORE)
        for rating in (2.0, 3.0)
    )
    assert one != other


def test_limit_takes_the_first_pairs() -> None:
    pairs = [Pair(str(i), "a", "b", i) for i in range(5)]
    task = PLUGINS.tasks["stsb"]
    assert task.first(pairs, 2) == pairs[:2]
    with pytest.raises(UsageError, match="no first items"):
        task.first({"items": pairs}, 2)


@pytest.mark.parametrize(
    "name",
    [
        "sts12",
        "stsb",
        "sickr",
        "simlex999",
        "multisimlex-en",
        "qnli",
        "wic",
        "wic-tsv-1",
        "usim",
        *LEXICAL,
    ],
)
def test_released_protocol_reads_every_task_format(name: str, tmp_path: Path) -> None:
    made = make([name])
    write(made, tmp_path)
    task = KINDS[builtin_cards()[name].kind].from_card(as_here(builtin_cards()[name], made))
    for of_target in (True, False):
        assert task.reading("released", of_target).load(DataStore(tmp_path, True, PLUGINS.parsers))


@pytest.mark.parametrize("kind", KINDS.names())
def test_mismatched_parser_and_kind_are_refused(kind: str, tmp_path: Path) -> None:
    (tmp_path / "pets.tsv").write_text("a cat\ta dog\t1\na cat\ta bus\t0\n", encoding="utf-8")
    options = "{format: tsv, columns: {left: 0, right: 1, gold: 2}, scale: [0, 5]}"
    (tmp_path / "pets.yaml").write_text(
        f"name: pets\nkind: {kind}\nlevel: wic\nlanguages: [en, fr]\nmetric: m\nparser: table\noptions: {options}\n"
        "files: [pets.tsv]\n"
    )
    task, store = as_task(tmp_path / "pets.yaml", KINDS), DataStore(tmp_path / "store")
    if kind in ("pair-similarity", "pair-classification"):
        assert len(task.load(store)) == 2
        return
    told = rf"'{kind}' works on \w+, and the parser 'table' .* returns Pair"
    with pytest.raises(DataFormatError, match=told) as caught:
        task.load(store)
    assert "'marks'" in caught.value.hint
