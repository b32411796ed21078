"""Each kind of own data, read from files and scored on the same vectors as an independent computation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from helpers.documentation_pages import commands, files
from helpers.own_data_files import (
    OTHERS,
    TEXTS,
    Write,
    cosines,
    task_and_scores,
    write_collection,
)
from helpers.page_reader import Shell
from scipy.stats import spearmanr
from sklearn.metrics import f1_score, ndcg_score, precision_recall_fscore_support
from sklearn.model_selection import StratifiedGroupKFold

import mirrorbench
from mirrorbench.core.errors import DataFormatError
from mirrorbench.core.plugins import Plugins
from mirrorbench.data.store import DataStore
from mirrorbench.own_data.measures import fold_numbers


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.jsonl", "a.jsonl.gz", "a.parquet"])
def test_rated_pairs_are_scored_in_every_format(plugins: Plugins, write: Write, name: str) -> None:
    ratings = [n % 7 / 2 for n in range(40)]
    path = write(name, {"score": ratings, "sentence1": TEXTS, "sentence2": OTHERS})
    task, scores = task_and_scores(plugins, path)
    assert (task.name, task.title) == (path, name)
    expected = spearmanr(np.diag(cosines(TEXTS, OTHERS)), ratings).statistic
    assert scores.metrics["cosine_spearman"] == pytest.approx(expected)


def test_pair_threshold_is_fitted_on_disjoint_texts(plugins: Plugins, write: Write) -> None:
    left = [*TEXTS, *TEXTS]
    right = [*OTHERS, *TEXTS[::-1]]
    gold = np.array([n % 3 == 0 for n in range(80)])
    path = write("a.csv", {"sentence1": left, "sentence2": right, "label": gold.tolist()})
    _, scores = task_and_scores(plugins, f"{path}:metric=accuracy")

    values = np.diag(cosines(left, right))
    hits = np.zeros(80)
    groups = [min(n % 40, 39 - n % 40) for n in range(80)]
    splitter = StratifiedGroupKFold(5, shuffle=True, random_state=0)
    for fitted, scored in splitter.split(values, gold, groups):
        accuracies = {}
        for cut in [-2, *values[fitted]]:
            accuracies[cut] = np.mean((values[fitted] > cut) == gold[fitted])
        highest = max(accuracies.values())
        best = max(cut for cut, accuracy in accuracies.items() if accuracy == highest)
        hits[scored] = (values[scored] > best) == gold[scored]
    # The threshold of the task is midway between two cosines.
    assert scores.metrics["accuracy"] == pytest.approx(hits.mean(), abs=1 / 40)


def test_pair_accuracy_refuses_too_few_texts(plugins: Plugins, write: Write) -> None:
    columns = {"sentence1": ["a"] * 4, "sentence2": list("bcde"), "label": [0, 1] * 2}
    path = write("a.csv", columns)
    with pytest.raises(DataFormatError, match="each label needs 5 different texts, and '0' has 1"):
        task_and_scores(plugins, f"{path}:metric=accuracy")


def test_pair_decisions_use_thresholds_from_other_folds(plugins: Plugins, write: Write) -> None:
    labels = [int(n % 3 == 0) for n in range(40)]
    columns = {"sentence1": TEXTS, "sentence2": OTHERS, "label": labels}
    _, scores = task_and_scores(plugins, write("a.csv", columns))
    values = np.diag(cosines(TEXTS, OTHERS))
    gold = np.array(labels)

    def best(rows: np.ndarray) -> float:
        f1_by_cut = {cut: f1_score(gold[rows], values[rows] > cut) for cut in [-2, *values[rows]]}
        highest = max(f1_by_cut.values())
        return max(cut for cut, f1 in f1_by_cut.items() if f1 == highest)

    predicted = np.zeros(40, int)
    fold = fold_numbers(gold, np.arange(40))
    for number in range(5):
        scored = fold == number
        cut = best(np.flatnonzero(~scored))
        next_value = min(values[~scored][values[~scored] > cut])
        threshold = (cut + next_value) / 2 if cut > -2 else next_value
        predicted[scored] = values[scored] > threshold
    expected = precision_recall_fscore_support(gold, predicted, average="binary")
    found = [scores.metrics[name] for name in ("precision", "recall", "f1")]
    assert found == pytest.approx(expected[:3])
    chosen = scores.metrics["threshold"]
    assert chosen is not None
    assert f1_score(gold, values > chosen) == f1_score(gold, values > best(np.arange(40)))
    columns = {"sentence1": TEXTS[:6], "sentence2": OTHERS[:6], "label": labels[:6]}
    _, scores = task_and_scores(plugins, write("b.csv", columns))
    assert set(scores.metrics) == {"cosine_ap", "auc"}


def test_triplets_of_the_test_split_are_scored(plugins: Plugins, write: Write) -> None:
    rows = {
        "anchor": TEXTS,
        "positive": OTHERS,
        "negative": OTHERS[::-1],
        "split": ["train", "test"] * 20,
    }
    _, scores = task_and_scores(plugins, write("a.csv", rows))
    table = cosines(TEXTS, OTHERS)
    hits = [table[n, n] > table[n, 39 - n] for n in range(1, 40, 2)]
    assert (scores.metrics["accuracy"], len(scores.ids)) == (np.mean(hits), 20)


def test_disjoint_ids_of_mentions_and_names_are_shown(plugins: Plugins, write: Write) -> None:
    folder = Path(write("data/dictionary.csv", {"name": ["a", "b"], "id": ["C1", "C2"]})).parent
    write("data/mentions.csv", {"mention": ["c"], "id": ["MESH:1"]})
    with pytest.raises(DataFormatError, match="the first have 'MESH:1' and 'C1'"):
        task_and_scores(plugins, str(folder))


def test_linking_accuracy_counts_unknown_ids_as_errors(plugins: Plugins, write: Write) -> None:
    folder = Path(
        write("data/dictionary.csv", {"name": OTHERS, "id": [str(n % 20) for n in range(40)]})
    ).parent
    write("data/mentions.csv", {"mention": TEXTS, "id": [*map(str, range(20)), *["lost"] * 20]})
    _, scores = task_and_scores(plugins, str(folder))
    order = np.argsort(-cosines(TEXTS, OTHERS), axis=1)
    for k in (1, 5):
        right = [any(n == row % 20 for row in order[n, :k]) for n in range(20)]
        assert scores.metrics[f"accuracy@{k}"] == np.mean([*right, *[False] * 20])
    assert scores.notes == (
        "mentions with an id that is not in the dictionary, which are errors: 20, the first 'lost'",
    )


JUDGED = "q0\td1\t2\nq0\td7\t1\nq1\td3\t1\nq2\td9\t0\nq2\td5\t3\nq3\td0\t0\ngone\td0\t1\n"


def test_retrieval_measures_equal_independent_computations(
    plugins: Plugins, tmp_path: Path
) -> None:
    task, scores = task_and_scores(plugins, write_collection(tmp_path / "mine", JUDGED))
    assert scores.ids == ["q0", "q1", "q2"]
    assert scores.notes == (
        "judged queries that are not among the queries: 1",
        "queries without a relevant document, left out: 1",
        "no query has a word of a document, so BM25 has no row",
    )
    documents = [f"title {n} {OTHERS[n]}" if n != 3 else "title 3" for n in range(40)]
    gold = np.zeros((3, 40))
    for query, document, grade in ((0, 1, 2), (0, 7, 1), (1, 3, 1), (2, 5, 3)):
        gold[query, document] = grade
    measures: list[dict[str, float]] = []
    for scores_of_query, grades in zip(cosines(TEXTS[:3], documents), gold, strict=True):
        relevant = np.flatnonzero(grades)
        ranks = sorted(1 + (scores_of_query > scores_of_query[row]).sum() for row in relevant)
        precisions = [n / rank for n, rank in enumerate(ranks, start=1)]
        measures.append(
            {
                # trec_eval's gain is the grade, as scikit-learn's is.
                "ndcg_at_10": ndcg_score([grades], [scores_of_query], k=10),
                "map": np.mean(precisions),
                "mrr_at_10": 1 / ranks[0] if ranks[0] <= 10 else 0,
                "recall_at_10": np.mean([rank <= 10 for rank in ranks]),
                "recall_at_100": 1.0,
            }
        )
    expected = {name: np.mean([values[name] for values in measures]) for name in measures[0]}
    assert {name: scores.metrics[name] for name in expected} == pytest.approx(expected)
    items = task.load(DataStore(Path("nowhere")))
    assert len(set(task.shared(items).values())) == 3
    twice = replace(
        items, judged={**items.judged, "q1": {"d3": 1, "d7": 1}, "q2": {"d5": 3, "d7": 0}}
    )
    assert task.shared(twice)["q0"] == (
        "text 0",
        "document d1",
        "document d7",
    )  # with q1, two of three queries


@pytest.mark.parametrize(
    ("judged", "more", "message"),
    [
        ("q0\td1\t.5\n", {}, "'.5' is not a whole number"),
        ("q0\td1\t0\n", {}, "no query has a relevant document"),
        (JUDGED, {"queries": '{"_id": "q0", "text": "a"}\n'}, "the id 'q0' occurs a second time"),
        (JUDGED, {"queries": '{"_id": "q9", "text": " "}\n'}, "line 5: the query 'q9' has no text"),
        (JUDGED, {"queries": '{"_id": 9.5, "text": "a"}\n'}, "line 5: the _id is not a text"),
    ],
)
def test_invalid_collection_is_refused(
    plugins: Plugins, tmp_path: Path, judged: str, more: Mapping[str, str], message: str
) -> None:
    with pytest.raises(DataFormatError, match=message):
        task_and_scores(plugins, write_collection(tmp_path / "mine", judged, **more))


def test_run_and_evaluate_give_equal_scores(write: Write, tmp_path: Path) -> None:
    path = write("a.csv", {"anchor": TEXTS, "positive": OTHERS, "negative": OTHERS[::-1]})
    board = mirrorbench.run(
        ["tiny+base", "tiny+base:pooling=cls"], path, output=tmp_path / "results", offline=True
    )
    assert [column.title for column in board.table.columns] == ["a.csv"]
    assert not board.failures
    assert (
        mirrorbench.evaluate("tiny+base", path, offline=True)[path]
        == board.table.rows[0].scores[0].mean
    )


def test_commands_of_the_documentation_page_succeed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = Path(__file__).parents[2] / "docs" / "own_data.md"
    for name, text in files(page).items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    shell = Shell(tmp_path, monkeypatch, capsys.readouterr)
    for command in commands(page):
        done = shell(command)
        assert done.code == 0, (command, done.err)
        assert "tiny" in done.out or "--dry-run" in command, command


@pytest.mark.slow
@pytest.mark.real
def test_minilm_on_adi_equals_an_independent_computation(shared_data: Path, tmp_path: Path) -> None:
    """An independent computation: 256 tokens, mean, cosine, title and text joined by a space; BM25."""
    board = mirrorbench.evaluate("minilm", path := str(shared_data / "retrieval" / "adi"))
    (result,) = board.results
    assert board[path] == result.main_score == pytest.approx(0.4975, abs=0.001)
    assert result.metrics["bm25_ndcg_at_10"] == pytest.approx(0.4938, abs=0.001)
