"""Candidates of queries against naive sums and pytrec_eval: tables of lists and texts, and files beside a collection."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import pytrec_eval
from helpers.own_data_files import OTHERS, TEXTS, cosines, task_and_scores, write_collection

from mirrorbench.core.errors import DataFormatError, UsageError
from mirrorbench.core.plugins import Plugins
from mirrorbench.data.store import DataStore
from mirrorbench.own_data.bm25 import bm25_candidate_rankings, bm25_rankings

ROWS: list[dict[str, Any]] = [
    {"query": TEXTS[n], "positive": OTHERS[n : n + 1 + n % 3], "negative": OTHERS[n + 5 : n + 20]}
    for n in range(12)
]


def write_rows(path: Path, rows: Sequence[Mapping[str, Any]], **names: str) -> str:
    """Write rows of lists in the format of the ending; ``names`` are those of columns in the file."""
    renamed = [{names.get(key, key): value for key, value in row.items()} for row in rows]
    if path.suffix == ".parquet":
        pd.DataFrame(renamed).to_parquet(path)
    elif path.suffix == ".csv":
        with path.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(renamed[0])
            writer.writerows(
                [cell if isinstance(cell, str) else json.dumps(cell) for cell in row.values()]
                for row in renamed
            )
    elif path.suffix == ".json":
        path.write_text(json.dumps(renamed))
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in renamed))
    return str(path)


def expected(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """The measures of cosines by pytrec_eval."""
    relevant: dict[str, dict[str, int]] = {}
    run: dict[str, dict[str, float]] = {}
    for number, row in enumerate(rows):
        texts = [*row["positive"], *row["negative"]]
        scores = cosines([row["query"]], texts)[0]
        relevant[str(number)] = {text: int(text in row["positive"]) for text in texts}
        run[str(number)] = dict(zip(texts, map(float, scores), strict=True))
    names = {"ndcg_cut.10", "map", "recip_rank"}
    measures = list(pytrec_eval.RelevanceEvaluator(relevant, names).evaluate(run).values())
    reciprocal_ranks = [values["recip_rank"] for values in measures]
    return {
        "ndcg_at_10": np.mean([values["ndcg_cut_10"] for values in measures]),
        "map": np.mean([values["map"] for values in measures]),
        "mrr_at_10": np.mean([value if value >= 0.1 else 0 for value in reciprocal_ranks]),
    }


@pytest.mark.parametrize("ending", ["jsonl", "json", "parquet", "csv"])
def test_lists_of_candidates_equal_pytrec_eval(
    plugins: Plugins, tmp_path: Path, ending: str
) -> None:
    path = write_rows(tmp_path / f"a.{ending}", ROWS)
    task, scores = task_and_scores(plugins, path)
    assert (task.kind, len(scores.ids)) == ("reranking", 12)
    assert {name: scores.metrics[name] for name in expected(ROWS)} == pytest.approx(expected(ROWS))


def test_rows_of_single_texts_are_taken_together(plugins: Plugins, tmp_path: Path) -> None:
    """Without the option they are triplets."""
    rows = [
        {
            "query": row["query"],
            "positive": row["positive"][n % len(row["positive"])],
            "negative": negative,
        }
        for row in ROWS
        for n, negative in enumerate(row["negative"])
    ]
    path = write_rows(tmp_path / "a.csv", rows)
    assert plugins.tasks[path].kind == "triplets"
    _, scores = task_and_scores(plugins, f"{path}:kind=reranking")
    assert {name: scores.metrics[name] for name in expected(ROWS)} == pytest.approx(expected(ROWS))
    assert "rows of a query that other rows have too, taken together: 168" in scores.notes


def test_query_may_read_like_a_line_number(plugins: Plugins, tmp_path: Path) -> None:
    single = {"query": "line 1", "positive": OTHERS[30], "negative": OTHERS[31]}
    path = write_rows(tmp_path / "a.jsonl", [ROWS[0], single, ROWS[1]])
    _, scores = task_and_scores(plugins, f"{path}:kind=reranking")
    assert len(scores.ids) == 3


def test_rows_of_lists_are_queries_each(plugins: Plugins, tmp_path: Path) -> None:
    rows = [*ROWS, {**ROWS[0], "negative": OTHERS[30:]}]
    _, scores = task_and_scores(plugins, write_rows(tmp_path / "a.jsonl", rows))
    assert {name: scores.metrics[name] for name in expected(rows)} == pytest.approx(expected(rows))


def test_other_usual_names_are_recognised_and_said(plugins: Plugins, tmp_path: Path) -> None:
    path = write_rows(
        tmp_path / "a.jsonl", ROWS, query="anchor", positive="positives", negative="negatives"
    )
    task, scores = task_and_scores(plugins, path)
    assert task.kind == "reranking"
    said = "columns anchor, positives, negatives read as query, positive, negative"
    assert said in scores.notes


def test_what_rows_lack_is_counted(plugins: Plugins, tmp_path: Path) -> None:
    rows = [*ROWS, {"query": "a", "positive": [], "negative": ["b"]}]
    rows.append({"query": "a", "positive": ["b", "b"], "negative": []})
    _, scores = task_and_scores(plugins, write_rows(tmp_path / "a.jsonl", rows))
    assert "queries without a positive candidate, left out: 1" in scores.notes
    assert "queries without a negative candidate, whose scores are 1: 1" in scores.notes
    assert "candidates repeated within a row, counted once: 1" in scores.notes
    assert len(scores.ids) == 13


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ({"positive": ["a", "b"], "negative": ["b"]}, "line 2: 'b' is a positive and a negative"),
        (
            {"positive": ["a", " "], "negative": ["b"]},
            "line 2: the column 'positive' holds an empty text",
        ),
        (
            {"positive": ["a"], "negative": ["b", 3]},
            "'negative' holds a value of type int, and no text",
        ),
        ({"query": "", "positive": ["a"], "negative": ["b"]}, "'query' holds an empty text"),
    ],
)
def test_wrong_rows_are_refused(
    plugins: Plugins, tmp_path: Path, row: dict[str, Any], problem: str
) -> None:
    path = write_rows(tmp_path / "a.jsonl", [ROWS[0], {"query": "q", **row}])
    with pytest.raises(DataFormatError, match=problem):
        task_and_scores(plugins, path)


def test_lists_behind_texts_are_no_triplets(plugins: Plugins, tmp_path: Path) -> None:
    rows = [{"query": "q", "positive": "a", "negative": "b"}, ROWS[0], ROWS[1]]
    for ending in ("csv", "jsonl"):
        path = write_rows(tmp_path / f"a.{ending}", rows)
        with pytest.raises(DataFormatError, match="list") as raised:
            task_and_scores(plugins, path)
        assert "kind=reranking" in raised.value.hint
        _, scores = task_and_scores(plugins, f"{path}:kind=reranking")
        assert len(scores.ids) == 3
    nothing = {"query": "q", "positive": None, "negative": None}
    path = write_rows(tmp_path / "b.jsonl", [nothing, *ROWS])
    assert plugins.tasks[path].kind == "reranking"


def test_equal_scores_put_negatives_first(plugins: Plugins, tmp_path: Path) -> None:
    """Also of a negative that another row has before."""
    rows = [
        {"query": f"q{n}", "positive": [f"same {n}"], "negative": ["same", f"same {n}b"]}
        for n in range(6)
    ]
    path = write_rows(tmp_path / "a.jsonl", rows)
    _, scores = task_and_scores(plugins, path, lambda text: np.ones(3))
    for system in ("", "bm25_", "fused_"):
        assert scores.metrics.get(f"{system}mrr_at_10", 1 / 3) == pytest.approx(1 / 3)


def test_queries_that_stand_in_several_rows_are_counted(plugins: Plugins, tmp_path: Path) -> None:
    rows = [*ROWS, {"query": ROWS[0]["query"], "positive": ["x"], "negative": ["y"]}]
    _, scores = task_and_scores(plugins, write_rows(tmp_path / "a.jsonl", rows))
    assert "rows with the query of another row, ranked separately: 1" in scores.notes


@pytest.mark.parametrize("cell", ["['a', 'b']", "['a' 'b']", '["a", "b"'])
def test_lists_that_are_not_json_are_refused(plugins: Plugins, tmp_path: Path, cell: str) -> None:
    rows = [ROWS[0], {"query": "q", "positive": cell, "negative": ["c"]}]
    path = write_rows(tmp_path / "a.csv", rows)
    with pytest.raises(DataFormatError, match=r"line 3: .*'positive' holds a list that is not"):
        task_and_scores(plugins, path)
    folder = Path(write_collection(tmp_path / "own", "q0\td1\t1\n"))
    (folder / "top_ranked.csv").write_text(
        f'query-id,corpus-ids\nq0,"{cell.replace(chr(34), chr(39))}"\n'
    )
    with pytest.raises(DataFormatError, match=r"'corpus-ids' holds a list that is not"):
        task_and_scores(plugins, str(folder))


def test_candidate_files_are_named_or_refused(plugins: Plugins, tmp_path: Path) -> None:
    folder = Path(write_collection(tmp_path / "own", "q0\td1\t1\n"))
    (folder / "top_ranked.pkl").write_text("x")
    with pytest.raises(UsageError, match=r"candidates in top_ranked.pkl are not read"):
        plugins.tasks[str(folder)].load(DataStore(tmp_path))
    (folder / "top_ranked_bm25.txt").write_text("x")
    (folder / "top_ranked_bm25.jsonl").write_text(candidate_lines("top_ranked.jsonl"))
    _, scores = task_and_scores(plugins, f"{folder}/")
    assert "candidates of top_ranked_bm25.jsonl" in scores.notes
    (folder / "top_ranked_other.jsonl").write_text(candidate_lines("top_ranked.jsonl"))
    with pytest.raises(UsageError, match="has several files of candidates"):
        plugins.tasks[f"{folder}/."].load(DataStore(tmp_path))


def test_texts_in_brackets_are_no_lists(plugins: Plugins, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("query,positive,negative\na,[deleted],[removed]\nb,c,d\n")
    assert plugins.tasks[str(tmp_path / "a.csv")].kind == "triplets"
    _, scores = task_and_scores(plugins, f"{tmp_path}/a.csv:kind=reranking")
    assert len(scores.ids) == 2


CANDIDATES = {f"q{n}": [f"d{m}" for m in range(n, n + 8)] for n in range(3)} | {
    "q3": ["d9", "gone"]
}
FORMS = {
    "top_ranked.jsonl": '{{"query-id": "{query}", "corpus-ids": {names}}}',
    "top_ranked/test.tsv": "{query}\t{name}",
    "top_ranked.txt": "{query} Q0 {name} {rank} {score} bm25",
    "top_ranked.run": "{query}\tQ0\t{name}\t{rank}\t{score}\tbm25",
    "top_ranked/test.csv": "{query};{name}",
    "top_ranked.csv": '"{query}","{name}"',
}
"""Files of candidates, and the form of their lines."""


def candidate_lines(file_name: str) -> str:
    """Return the candidates as lines of a file; JSON lines hold all candidates of a query."""
    form = FORMS[file_name]
    lines = ["query_id\tdoc_id"] if file_name == "top_ranked/test.tsv" else []
    for query, names in CANDIDATES.items():
        if file_name.endswith(".jsonl"):
            lines.append(form.format(query=query, names=json.dumps(names)))
        else:
            for rank, name in enumerate(names):
                lines.append(form.format(query=query, name=name, rank=rank, score=9 - rank))
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("name", FORMS)
def test_candidates_of_a_collection_are_ranked(plugins: Plugins, tmp_path: Path, name: str) -> None:
    """Relevant documents that are no candidates are missed, as in MTEB."""
    judged = {"q0": {"d1": 2, "d4": 1}, "q1": {"d2": 1, "d30": 1}, "q3": {"d1": 1}}
    lines = "".join(
        f"{query}\t{document}\t{grade}\n"
        for query, grades in judged.items()
        for document, grade in grades.items()
    )
    folder = Path(write_collection(tmp_path / "own", lines))
    assert plugins.tasks[str(folder)].kind == "retrieval"
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text(candidate_lines(name))
    task, scores = task_and_scores(plugins, f"{folder}/")
    texts = {
        f"d{n}": " ".join(filter(None, [f"title {n}", "" if n == 3 else OTHERS[n]]))
        for n in range(40)
    }
    run = {}
    for query in judged:
        names = [document for document in CANDIDATES[query] if document in texts]
        query_text = TEXTS[int(query[1:])]
        values = cosines([query_text], [texts[document] for document in names])[0]
        run[query] = dict(zip(names, map(float, values), strict=True))
    found = pytrec_eval.RelevanceEvaluator(judged, {"ndcg_cut.10", "map"}).evaluate(run)
    assert task.kind == "reranking"
    for metric, own in (("ndcg_at_10", "ndcg_cut_10"), ("map", "map")):
        assert scores.metrics[metric] == pytest.approx(np.mean([q[own] for q in found.values()]))
    assert (
        "relevant documents that are not candidates, which no encoder can find: 2" in scores.notes
    )
    assert "queries without a relevant candidate, whose scores are 0: 1" in scores.notes
    assert "candidates that are not in the corpus, left out: 1, the first 'gone'" in scores.notes
    assert plugins.tasks[f"{folder}:kind=retrieval"].kind == "retrieval"


def test_candidates_of_other_ids_are_refused(plugins: Plugins, tmp_path: Path) -> None:
    folder = Path(write_collection(tmp_path / "own", "q0\td1\t1\n"))
    (folder / "top_ranked.tsv").write_text("d1\tq0\n")
    problem = "no judged query, such as 'q0', has a document of the corpus; the first unknown query is 'd1'"
    with pytest.raises(DataFormatError, match=problem):
        task_and_scores(plugins, str(folder))


def test_a_collection_without_candidates_is_no_reranking(plugins: Plugins, tmp_path: Path) -> None:
    folder = write_collection(tmp_path / "own", "q0\td1\t1\n")
    with pytest.raises(UsageError, match="has no file of candidates"):
        plugins.tasks[f"{folder}:kind=reranking"].load(DataStore(tmp_path))


def test_bm25_ranks_all_candidates() -> None:
    """Those with words of the query as among all documents, the others behind them."""
    documents = {f"d{n}": f"word{n % 3} word{n % 5} other" for n in range(10)}
    queries = {"a": "word1 word2", "b": "nothing"}
    (whole, _) = bm25_rankings(documents, queries, "en", 10)
    candidates = {"a": ("d0", "d1", "d7", "d6"), "b": ("d2", "d3")}
    first, second = bm25_candidate_rankings(documents, queries, candidates, "en")
    shared = [name for name in whole if name in candidates["a"]]
    assert list(first)[: len(shared)] == shared
    assert {first[name] for name in candidates["a"] if name not in shared} <= {0.0}
    assert second == {"d3": 0.0, "d2": 0.0}
