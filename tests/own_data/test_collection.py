"""Collections in BEIR's layout: queries that are documents, and judgements as published data have them."""

from __future__ import annotations

import gzip
import json
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pandas as pd
import pytest
from helpers.own_data_files import task_and_scores

from mirrorbench.core.errors import DataFormatError, UsageError
from mirrorbench.core.plugins import Plugins
from mirrorbench.data.store import DataStore
from mirrorbench.own_data.collection import Collection
from mirrorbench.own_data.rankings import DEPTH
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


def test_query_among_the_documents_never_finds_itself(
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
    assert items.queries_in_corpus == {"a", "b"}
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


def test_missing_predictions_of_small_collections_are_empty(
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
    without, other = items.without_query_itself([ranking, ranking])
    assert list(without) == ["x", *map(str, range(DEPTH - 1))]
    assert list(other) == ["x", "q", *map(str, range(DEPTH - 2))]


def test_judgements_as_published_data_have_them(collection: Written, plugins: Plugins) -> None:
    documents = [("a", "", "x"), ("b", "", "y")]
    judged = "q\ta\t1\nq\ta\t1.0\nq\tgone\t1\nq\tb\t0\n"
    items = read(plugins, collection(documents, {"q": "x"}, judged))
    assert items.judged == {"q": {"a": 1, "gone": 1, "b": 0}}
    assert items.notes == (
        "repeated judgements, counted once: 1",
        "judged documents that are not in the corpus: 1, the first 'gone'",
    )


def test_contradicting_judgements_are_refused(collection: Written, plugins: Plugins) -> None:
    folder = collection([("a", "", "x")], {"q": "x"}, "q\ta\t1\nq\ta\t2\n")
    with pytest.raises(
        DataFormatError, match="line 3: the score of 'a' for the query 'q' is 2, and 1"
    ):
        read(plugins, folder)


def test_bm25_has_no_row_without_common_words(collection: Written, plugins: Plugins) -> None:
    folder = collection([("a", "", "cats"), ("b", "", "dogs")], {"q": "pets"}, "q\ta\t1\n")
    _, scores = task_and_scores(plugins, str(folder))
    assert not [name for name in scores.metrics if name.startswith(("bm25_", "fused_"))]
    assert scores.notes == ("no query has a word of a document, so BM25 has no row",)


def test_reading_by_pairs_of_characters_is_said(collection: Written, plugins: Plugins) -> None:
    folder = collection([("a", "", "开门"), ("b", "", "停车")], {"q": "停车吗"}, "q\tb\t1\n")
    _, scores = task_and_scores(plugins, str(folder))
    assert scores.metrics["bm25_ndcg_at_10"] == 1
    assert scores.notes == ("BM25 reads scripts without spaces by pairs of characters",)


def test_compressed_judgements_are_read_beside_files_of_macos(
    collection: Written, plugins: Plugins
) -> None:
    folder = collection([("a", "", "x"), ("b", "", "y")], {"q": "x"}, "q\ta\t1\n")
    plain = folder / "qrels" / "test.tsv"
    (folder / "qrels" / "._dev.tsv").write_bytes(b"\0")
    (folder / "qrels" / "dev.tsv.gz").write_bytes(gzip.compress(plain.read_bytes()))
    assert "judgements of dev.tsv.gz" not in read(plugins, folder).notes
    plain.unlink()
    assert read(load_plugins(discover=False), folder).notes == ("judgements of dev.tsv.gz",)


DOCUMENTS = [("a", "", "cats sleep"), ("b", "", "dogs bark"), ("c", "", "cows moo")]
QUERIES = {"1": "who sleeps", "2": "who barks"}
JUDGED = {"1": {"a": 2}, "2": {"b": 1, "c": 0}}


@pytest.mark.parametrize(
    ("name", "lines", "remark"),
    [
        ("qrels/test.tsv", "1\ta\t2\n2\tb\t1\n2\tc\t0\n", "read as query, document and grade"),
        ("qrels/test.tsv", "1\t0\ta\t2\n2\t0\tb\t1\n2\t0\tc\t0\n", "read as TREC's four"),
        ("qrels.txt", "1 0 a 2\n2 0 b 1\n2 0 c 0\n", "read as TREC's four columns"),
        (
            "qrels/dev.tsv",
            "query_id\tdoc_id\trelevance\n1\ta\t2\n2\tb\t1\n2\tc\t0\n",
            "columns query_id, doc_id, relevance read as query-id, corpus-id, score",
        ),
        (
            "qrels.csv",
            "qid,docno,rel\n1,a,2\n2,b,1.0\n2,c,0\n",
            "qrels.csv: columns qid, docno, rel read as query-id, corpus-id, score",
        ),
        ("qrels.csv", "1;a;2\n2;b;1.0\n2;c;0\n", "without a header, read as query, document"),
        (
            "qrels.csv",
            '"1","a","2"\n"2","b","1"\n"2","c","0"\n',
            "read as query, document and grade",
        ),
        (
            "qrels/dev.csv",
            "query-id,corpus-id,score\n1.0,a,2\n2.0,b,1\n2.0,c,0\n",
            "judgements with ids such as 1.0, read as 1: 3",
        ),
        (
            "qrels/dev.jsonl",
            "".join(
                json.dumps({"query-id": query, "corpus-id": document, "score": grade}) + "\n"
                for query, document, grade in ((1, "a", 2.0), (2, "b", 1), ("2", "c", 0))
            ),
            "judgements of dev.jsonl",
        ),
    ],
)
def test_judgements_are_read_as_others_write_them(
    collection: Written, plugins: Plugins, name: str, lines: str, remark: str
) -> None:
    folder = collection(DOCUMENTS, QUERIES, "")
    (folder / "qrels" / "test.tsv").unlink()
    (folder / name).write_text(lines)
    task = plugins.tasks[str(folder)]
    items = task.load(DataStore(folder))
    assert items.judged == JUDGED
    assert remark in task.summary(items)


def test_judgements_of_the_test_split_come_first(collection: Written, plugins: Plugins) -> None:
    """Then those of no split; other files beside them are none."""
    folder = collection(DOCUMENTS, QUERIES, "1\ta\t2\n")
    others = ("qrels.train.tsv", "qrels.tsv.bak", "qrels.md", "qrels.tsv", "qrels/test (1).tsv")
    for name in (*others, "qrels/test-old.tsv"):
        (folder / name).write_text("2\tb\t1\n")
    assert read(plugins, folder).judged == {"1": {"a": 2}}
    (folder / "qrels" / "test.csv").write_text("query-id,corpus-id,score\n")
    with pytest.raises(UsageError, match=r"several files of judgements: test\.csv, test\.tsv"):
        read(load_plugins(discover=False), folder)
    (folder / "qrels" / "test.csv").unlink()
    for name in (*others[3:], "qrels/test-old.tsv"):
        (folder / name).unlink()
    (folder / "qrels" / "test.tsv").unlink()
    (folder / "qrels.txt").write_text("2\tb\t1\n")
    assert read(load_plugins(discover=False), folder).judged == {"2": {"b": 1}}


@pytest.mark.parametrize("names", ["pid\tpassage", "docno\tbody", "_id\ttext"])
def test_header_of_documents_is_no_document(
    collection: Written, plugins: Plugins, names: str
) -> None:
    folder = collection(DOCUMENTS, QUERIES, "1\ta\t2\n")
    (folder / "corpus.jsonl").unlink()
    (folder / "corpus.tsv").write_text(f"{names}\na\tcats sleep\nb\tdogs bark\n")
    assert list(read(plugins, folder).documents) == ["a", "b"]


def test_uncertain_ids_are_not_recognised(collection: Written, plugins: Plugins) -> None:
    folder = collection(DOCUMENTS, QUERIES, "1\ta\t2\n")
    (folder / "corpus.jsonl").unlink()
    (folder / "corpus.csv").write_text("id,doc_id,text\n0,a,cats sleep\n")
    with pytest.raises(DataFormatError, match="has no column '_id'"):
        read(plugins, folder)


def test_lines_of_judgements_have_equal_columns(collection: Written, plugins: Plugins) -> None:
    folder = collection(DOCUMENTS, QUERIES, "")
    (folder / "qrels" / "test.tsv").write_text("1 0 a 2\n2 b 1\n")
    with pytest.raises(
        DataFormatError, match=r"test\.tsv, line 2: 3 columns, where the first line"
    ):
        read(plugins, folder)


def test_collection_of_the_hub_is_read(tmp_path: Path, plugins: Plugins) -> None:
    """A folder for each table, some in shards, and judgements in ``data``, as MTEB uploads them."""
    corpus = pd.DataFrame(DOCUMENTS, columns=["_id", "title", "text"])
    queries = pd.DataFrame(QUERIES.items(), columns=["_id", "text"])
    judged = pd.DataFrame(
        [(query, name, grade) for query, own in JUDGED.items() for name, grade in own.items()],
        columns=["query-id", "corpus-id", "score"],
    )
    tables = {
        "corpus/corpus-00000-of-00002": corpus[:1],
        "corpus/corpus-00001-of-00002": corpus[1:],
        "queries/queries-00000-of-00001": queries,
        "data/test-00000-of-00001": judged.astype({"score": float}),
        "data/train-00000-of-00001": judged[:1],
    }
    for name, table in tables.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        table.to_parquet(tmp_path / f"{name}.parquet")
    items = read(plugins, tmp_path)
    assert list(items.documents) == [name for name, *_ in DOCUMENTS]
    assert (dict(items.queries), items.judged) == (QUERIES, JUDGED)


def test_judgements_in_shards_are_all_read(collection: Written, plugins: Plugins) -> None:
    folder = collection(DOCUMENTS, QUERIES, "")
    (folder / "qrels" / "test.tsv").unlink()
    for shard, line in enumerate(("1\ta\t2\n", "2\tb\t1\n2\tc\t0\n")):
        (folder / "qrels" / f"test-{shard:05}-of-00002.tsv").write_text(line)
    assert read(plugins, folder).judged == JUDGED


def test_zip_of_beir_is_read_as_its_folder(collection: Written, plugins: Plugins) -> None:
    folder = collection(DOCUMENTS, QUERIES, "1\ta\t2\n2\tb\t1\n2\tc\t0\n")
    path = folder.parent / f"{folder.name}.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(folder.rglob("*.*")):
            archive.write(file, f"beir/{file.relative_to(folder)}")
    unpacked, packed = read(plugins, folder), read(plugins, path)
    assert packed == unpacked
    with zipfile.ZipFile(path, "a") as archive, pytest.warns(UserWarning, match="Duplicate name"):
        archive.writestr("beir/queries.jsonl", "")
    with pytest.raises(DataFormatError, match="is empty"):  # the last of one name, as for others
        read(plugins, path)
    path.unlink()
    with zipfile.ZipFile(path, "w") as archive:
        archive.write(folder / "corpus.jsonl", "corpus.jsonl")
        archive.write(folder / "queries.jsonl", "queries.jsonl")
    with pytest.raises(UsageError, match="has no judgements"):
        plugins.tasks[f"{path}:kind=retrieval"]


def test_tables_of_ms_marco_are_read(tmp_path: Path, plugins: Plugins) -> None:
    """Without headers: collection.tsv, queries.tsv and judgements of four columns."""
    (tmp_path / "collection.tsv").write_text(
        "".join(f"{name}\t{text}\n" for name, _, text in DOCUMENTS)
    )
    (tmp_path / "queries.dev.tsv").write_text(
        "".join(f"{name}\t{text}\n" for name, text in QUERIES.items())
    )
    (tmp_path / "qrels.dev.tsv").write_text("1\t0\ta\t2\n2\t0\tb\t1\n2\t0\tc\t0\n")
    items = read(plugins, tmp_path)
    assert dict(items.documents) == {name: text for name, _, text in DOCUMENTS}
    assert (dict(items.queries), items.judged) == (QUERIES, JUDGED)
    assert "collection.tsv: without a header, read as id and text" in plugins.tasks[
        str(tmp_path)
    ].summary(items)


def test_ids_of_texts_may_have_other_usual_names(collection: Written, plugins: Plugins) -> None:
    folder = collection(DOCUMENTS, QUERIES, "1\ta\t2\n2\tb\t1\n2\tc\t0\n")
    for name, column in (("corpus.jsonl", "doc_id"), ("queries.jsonl", "query_id")):
        text = (folder / name).read_text().replace('"_id"', f'"{column}"')
        (folder / name).write_text(text)
    items = read(plugins, folder)
    assert (dict(items.queries), items.judged) == (QUERIES, JUDGED)
