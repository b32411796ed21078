"""Tables and folders of own data whose columns have other names."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
from helpers.own_data_files import (
    OTHERS,
    TEXTS,
    Write,
    cosines,
    task_and_scores,
    write_collection,
)
from sklearn.metrics import average_precision_score

from mirrorbench.core.errors import UsageError
from mirrorbench.core.plugins import Plugins
from mirrorbench.data.store import DataStore
from mirrorbench.own_data.layouts import TABLES, find_layout


def test_files_of_each_part_are_found(write: Write, tmp_path: Path) -> None:
    pairs = write("a.csv", {"sentence1": TEXTS, "sentence2": OTHERS, "score": range(len(TEXTS))})
    layout = find_layout(Path(pairs), "", {})
    assert layout is not None
    assert (layout.kind, layout.files()) == ("similarity", [("0", Path(pairs))])
    number, values = next(layout.rows("test", ["sentence1", "score"]))
    assert (number, values[0]) == (2, TEXTS[0])
    (tmp_path / "notes.txt").write_text("no table\n")
    assert find_layout(tmp_path / "notes.txt", "", {}) is None


def test_pair_columns_may_be_renamed(plugins: Plugins, write: Write) -> None:
    labels = [n % 3 == 0 for n in range(40)]
    path = write("a.csv", {"question": TEXTS, "sentence2": OTHERS, "label": labels})
    with pytest.raises(UsageError, match="columns question, sentence2, label") as caught:
        plugins.tasks[path]
    assert (
        f"For pairs it needs sentence1. Columns of other names: {path}:sentence1=ITS_NAME,"
        in caught.value.hint
    )
    _, scores = task_and_scores(plugins, f"{path}:sentence1=question")
    assert scores.metrics["cosine_ap"] == pytest.approx(
        average_precision_score(labels, np.diag(cosines(TEXTS, OTHERS)))
    )


def test_collection_columns_may_be_renamed(plugins: Plugins, tmp_path: Path) -> None:
    path = Path(write_collection(tmp_path / "mine", "q0\td1\t1\n"))
    expected = task_and_scores(plugins, str(path))[1].metrics
    with gzip.open(path / "corpus.jsonl.gz", "rt") as source:
        corpus = source.read()
    (path / "corpus.jsonl.gz").unlink()
    queries = (path / "queries.jsonl").read_text()
    for part, text in (("corpus", corpus), ("queries", queries)):
        (path / f"{part}.jsonl").write_text(
            text.replace('"_id"', '"key"').replace('"text"', '"body"')
        )
    judged = (
        (path / "qrels" / "test.tsv").read_text().replace("query-id", "q").replace("corpus-id", "d")
    )
    (path / "qrels" / "test.tsv").write_text(judged)
    assert (
        task_and_scores(plugins, f"{path}:id=key,text=body,query=q,corpus=d")[1].metrics == expected
    )


@pytest.mark.parametrize(
    ("columns", "kind"),
    [
        (("question1", "question2", "is_duplicate"), "pairs"),
        (("premise", "hypothesis", "label"), "pairs"),
        (("Text1", "Text2", "Similarity"), "similarity"),
        (("sentence_A", "sentence_B", "relatedness_score"), "similarity"),
        (("query", "passage", "label"), "pairs"),
        (("query", "pos", "neg"), "triplets"),
        (("review", "sentiment"), "classification"),
        (("id", "text", "category"), "classification"),
    ],
)
def test_usual_names_of_columns_are_recognised_and_said(
    write: Write, columns: tuple[str, ...], kind: str
) -> None:
    layout = find_layout(Path(write("a.csv", {key: ["1", "2"] for key in columns})), "", {})
    assert layout is not None
    assert layout.kind == kind
    read = [layout.file_column(column) for column in TABLES[kind]]
    assert read == list(columns[-len(read) :])
    (remark,) = layout.remarks
    assert remark.startswith("columns ")
    assert " read as " in remark


def test_exact_and_given_names_precede_usual_ones(write: Write) -> None:
    columns = {key: ["1", "2"] for key in ("text1", "text2", "similarity", "label", "mine")}
    path = Path(write("a.csv", columns))
    named = find_layout(path, "similarity", {"score": "mine"})
    assert named is not None
    assert [named.file_column(c) for c in TABLES["similarity"]] == ["text1", "text2", "mine"]
    with pytest.raises(UsageError, match="has the columns of similarity and of pairs"):
        find_layout(path, "", {})
    own = Path(write("b.csv", {key: ["1", "2"] for key in ("text", "label", "sentence")}))
    layout = find_layout(own, "", {})
    assert layout is not None
    assert (layout.kind, layout.remarks) == ("classification", [])


@pytest.mark.parametrize(
    "columns",
    [
        ("question", "sentence", "label"),  # QNLI
        ("text", "category", "topic"),
        ("query", "passage", "content", "label"),
    ],
)
def test_uncertain_columns_are_not_recognised(write: Write, columns: tuple[str, ...]) -> None:
    with pytest.raises(UsageError, match="which are those of no kind of data"):
        find_layout(Path(write("a.csv", {key: ["1", "2"] for key in columns})), "", {})


def test_option_split_none_keeps_the_split_by_files(
    plugins: Plugins, write: Write, tmp_path: Path
) -> None:
    for split in ("train", "test"):
        columns = {"text": TEXTS, "label": ["x", "y"] * 20, "split": range(40)}
        write(f"mine/{split}.csv", columns if split == "test" else {**columns, "split": "a"})
    items = plugins.tasks[f"{tmp_path / 'mine'}:split=none"].load(DataStore(tmp_path))
    assert sum(item.train for item in items) == 40


def test_split_is_recognised_in_names_of_shards(write: Write, tmp_path: Path) -> None:
    columns = {"text": TEXTS, "label": ["x", "y"] * 20}
    for split in ("train", "test"):
        write(f"data/{split}-00000-of-00001.parquet", columns)
    layout = find_layout(tmp_path / "data", "", {})
    assert layout is not None
    assert {part: table.file.name for part, table in layout.tables.items()} == {
        part: f"{part}-00000-of-00001.parquet" for part in ("train", "test")
    }


def test_split_is_recognised_within_file_names(write: Write, tmp_path: Path) -> None:
    """``SICK_test_annotated.txt``, ``sts-train.csv``; which file is scored is said."""
    columns = {"text": TEXTS, "label": ["x", "y"] * 20}
    for name in ("my_train", "my-dev", "my_test_2", "latest"):
        write(f"data/{name}.csv", columns)
    layout = find_layout(tmp_path / "data", "", {})
    assert layout is not None
    assert {part: table.name for part, table in layout.tables.items()} == {
        "train": "my_train",
        "test": "my_test_2",
    }
    assert layout.remarks == ["rows of my_test_2.csv", "trained on my_train.csv"]
    write("data/other-test.csv", columns)
    with pytest.raises(UsageError, match=r"several tables test: my_test_2\.csv, other-test\.csv"):
        find_layout(tmp_path / "data", "", {})
    write("data/test.csv", columns)
    with pytest.raises(UsageError, match=r"not certain that my_train\.csv is trained on for test"):
        find_layout(tmp_path / "data", "", {})
    write("data/train.csv", columns)
    layout = find_layout(tmp_path / "data", "", {})
    assert layout is not None
    assert (layout.tables["test"].name, layout.remarks) == ("test", [])
    for train in ("train_old", "imdb-train"):
        for test in ("test", "sst-test"):
            names = {"train": f"{train}.csv", "test": f"{test}.csv"}
            for name in names.values():
                write(f"{train}{test}/{name}", columns)
            with pytest.raises(UsageError, match="not certain that"):
                find_layout(tmp_path / f"{train}{test}", "", {})


def test_split_is_a_whole_word_in_any_case(write: Write, tmp_path: Path) -> None:
    for name in ("contest-Train", "contest-Test"):
        write(f"data/{name}.csv", {"text": TEXTS, "label": ["x", "y"] * 20})
    layout = find_layout(tmp_path / "data", "", {})
    assert layout is not None
    assert layout.tables["train"].name == "contest-Train"
    assert layout.tables["test"].name == "contest-Test"


def test_one_of_several_shards_is_said(write: Write) -> None:
    path = write("test-00000-of-00003.csv", {"text": TEXTS, "label": ["x", "y"] * 20})
    layout = find_layout(Path(path), "", {})
    assert layout is not None
    (remark,) = layout.remarks
    assert remark.startswith("one of 3 shards")


def test_text_file_with_tabs_is_a_table(tmp_path: Path) -> None:
    """As SICK's, and as Excel writes Unicode text."""
    lines = ["pair_ID\tsentence_A\tsentence_B\trelatedness_score", "1\ta cat\ta dog\t3.5"]
    path = tmp_path / "sick.txt"
    path.write_bytes("\r\n".join(lines).encode("utf-16"))
    layout = find_layout(path, "", {})
    assert layout is not None
    assert layout.kind == "similarity"
    assert list(layout.rows("test", TABLES["similarity"])) == [(2, ("a cat", "a dog", "3.5"))]
    in_folder = find_layout(tmp_path, "", {})
    assert in_folder is not None
    assert in_folder.tables == layout.tables
