"""Collections in BEIR's layout: queries that are documents, and judgements as published data have them."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from helpers.own_data_files import task_and_scores

from mirrorbench.core.errors import DataFormatError
from mirrorbench.core.plugins import Plugins
from mirrorbench.data.store import DataStore
from mirrorbench.own_data.rankings import DEPTH
from mirrorbench.own_data.retrieval import Collection
from mirrorbench.runs.registry import load_plugins

Written = Callable[..., Path]


@pytest.fixture
def collection(tmp_path: Path) -> Written:
    """A function that writes documents (id, title, text), queries and judgements, and returns the folder."""

    def write(
        documents: list[tuple[str, str, str]], queries: Mapping[str, str], judged: str
    ) -> Path:
        rows = [{"_id": name, "title": title, "text": text} for name, title, text in documents]
        asked = [{"_id": name, "text": text} for name, text in queries.items()]
        for file, lines in (("corpus.jsonl", rows), ("queries.jsonl", asked)):
            (tmp_path / file).write_text("".join(json.dumps(line) + "\n" for line in lines))
        (tmp_path / "qrels").mkdir()
        (tmp_path / "qrels" / "test.tsv").write_text(f"query-id\tcorpus-id\tscore\n{judged}")
        return tmp_path

    return write


def read(plugins: Plugins, folder: Path) -> Collection:
    items = plugins.tasks[str(folder)].load(DataStore(folder))
    assert isinstance(items, Collection)
    return items


def test_query_that_is_a_document_does_not_find_itself(
    collection: Written, plugins: Plugins
) -> None:
    """By text, or title and text, but for white space; an id alone may be the same by chance."""
    documents = [
        ("a", "cats", "sleep  well"),
        ("b", "cats", "sleep well"),
        ("c", "dogs", "bark"),
        ("d", "", "other"),
    ]
    queries = {"a": "cats sleep\nwell", "b": "sleep well ", "c": "where do dogs bark", "d": "other"}
    folder = collection(documents, queries, "a\tb\t1\nb\ta\t1\nc\tc\t1\nd\td\t1\n")
    items = read(plugins, folder)
    assert items.documents_too == {"a", "b"}
    assert items.notes == (
        "judgements of a query as its own document, left out: 1",
        "queries that are documents, not searched for themselves: 2",
        "queries without a relevant document, left out: 1",
    )
    task, scores = task_and_scores(plugins, str(folder))
    for row, query in enumerate(("a", "b")):
        assert query not in scores.extra["found"][row]
        assert query not in items.bm25[row]
    assert task.version == 2


def test_few_documents_are_found_beside_a_query_that_is_one(
    collection: Written, plugins: Plugins
) -> None:
    documents = [("a", "", "cats sleep"), ("b", "", "dogs bark"), ("c", "", "birds sing")]
    queries = {"a": "cats sleep", "q": "what do birds do"}
    task, scores = task_and_scores(
        plugins, str(collection(documents, queries, "a\tb\t1\nq\tc\t1\n"))
    )
    found = scores.extra["found"].tolist()
    assert found[0][2] == ""
    assert len(set(found[1])) == 3
    items = task.load(DataStore(Path("nowhere")))
    assert len(task.retrieved(items, "a", found[0])) == 2


def test_query_that_becomes_a_document_changes_the_identity(
    collection: Written, plugins: Plugins
) -> None:
    """The joined text of title and text is the same, and so are the vectors."""
    folder = collection([("a", "cats", "sleep"), ("b", "", "x")], {"a": "sleep"}, "a\tb\t1\n")
    task, data = plugins.tasks[str(folder)], DataStore(folder)
    items = task.load(data)
    before = task.identity_of(items, data)
    (folder / "corpus.jsonl").write_text(
        '{"_id": "a", "text": "cats sleep"}\n{"_id": "b", "text": "x"}\n'
    )
    after = task.load(data)
    assert dict(after.documents) == dict(items.documents)
    assert task.identity_of(after, data) != before


def test_rankings_keep_their_depth_without_the_query() -> None:
    queries = {"q": "a", "r": "b"}
    items = Collection({}, queries, {}, (), "en", frozenset("q"))
    ranking = {name: 1.0 for name in ["x", "q", *map(str, range(DEPTH))]}
    without, other = items.without_queries([ranking, ranking])
    assert list(without) == ["x", *map(str, range(DEPTH - 1))]
    assert list(other) == ["x", "q", *map(str, range(DEPTH - 2))]


def test_judgements_as_published_data_have_them(collection: Written, plugins: Plugins) -> None:
    documents = [("a", "", "x"), ("b", "", "y")]
    judged = "q\ta\t1\nq\ta\t1.0\nq\tgone\t1\nq\tb\t0\n"
    items = read(plugins, collection(documents, {"q": "x"}, judged))
    assert items.judged == {"q": {"a": 1, "gone": 1, "b": 0}}
    assert items.notes == (
        "judgements that stand twice, counted once: 1",
        "judged documents that are not in the corpus: 1, the first 'gone'",
    )


def test_contradicting_judgements_are_refused(collection: Written, plugins: Plugins) -> None:
    folder = collection([("a", "", "x")], {"q": "x"}, "q\ta\t1\nq\ta\t2\n")
    with pytest.raises(DataFormatError, match="line 3: the score of a for the query q is 2, and 1"):
        read(plugins, folder)


def test_collection_without_common_words_has_no_row_of_bm25(
    collection: Written, plugins: Plugins
) -> None:
    folder = collection([("a", "", "cats"), ("b", "", "dogs")], {"q": "pets"}, "q\ta\t1\n")
    _, scores = task_and_scores(plugins, str(folder))
    assert not [name for name in scores.metrics if name.startswith(("bm25_", "fused_"))]
    assert scores.notes == ("no query has a word of a document, so BM25 has no row",)


def test_reading_by_pairs_of_characters_is_said(collection: Written, plugins: Plugins) -> None:
    folder = collection([("a", "", "开门"), ("b", "", "停车")], {"q": "停车吗"}, "q\tb\t1\n")
    _, scores = task_and_scores(plugins, str(folder))
    assert scores.metrics["bm25_ndcg_at_10"] == 1
    assert scores.notes == ("BM25 reads scripts without spaces by pairs of characters",)


def test_judgements_may_be_compressed_and_lie_beside_files_of_macos(
    collection: Written, plugins: Plugins
) -> None:
    folder = collection([("a", "", "x"), ("b", "", "y")], {"q": "x"}, "q\ta\t1\n")
    plain = folder / "qrels" / "test.tsv"
    (folder / "qrels" / "._dev.tsv").write_bytes(b"\0")
    (folder / "qrels" / "dev.tsv.gz").write_bytes(gzip.compress(plain.read_bytes()))
    assert "judgements of dev.tsv.gz" not in read(plugins, folder).notes
    plain.unlink()
    assert read(load_plugins(discover=False), folder).notes == ("judgements of dev.tsv.gz",)
