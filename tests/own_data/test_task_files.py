"""Tables of own data that hold something else than their columns say, and options that nothing reads."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from helpers.own_data_files import OTHERS, TEXTS, Write, task_and_scores

import mirrorbench
from mirrorbench.core.errors import DataFormatError, UsageError
from mirrorbench.core.plugins import Plugins
from mirrorbench.data.store import DataStore
from mirrorbench.own_data.task_files import unify_ids, unify_numbers


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("sentence1,sentence2,score\na,b,high\n", "line 2: the score 'high' is not a number"),
        ("sentence1,sentence2,score\na,b,nan\n", "line 2: the score 'nan' is not a number"),
        ("sentence1,sentence2,label\na,b,2\n", "line 2: the label '2' is not 1 or 0"),
        ("sentence1,sentence2,label\na,b,1\n", "all labels are equal"),
        ("anchor,positive,negative\na,,c\n", "line 2: the column 'positive' is empty"),
        ("anchor,positive,negative\n", "has no rows"),
        ("text,label\na,x\nb,y\n", r"each label needs 5 different texts, and '.' has 1"),
        ("text,label\na,x\n", "all labels that are trained on are equal"),
        ("a,b\n1\n", "the columns a, b"),
    ],
)
def test_invalid_table_is_refused(
    plugins: Plugins, tmp_path: Path, content: str, message: str
) -> None:
    (tmp_path / "a.csv").write_text(content)
    with pytest.raises((DataFormatError, UsageError), match=message):
        task_and_scores(plugins, str(tmp_path / "a.csv"))


def test_invalid_data_paths_are_rejected(plugins: Plugins, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a\n")
    (tmp_path / "b.csv").write_text("sentence1,sentence2,score\na,b,1\n")
    for name, message in (
        ("./nothing", "there is no file or folder ./nothing"),
        (f"{tmp_path}/a.txt", "no installed reader can read"),
        (f"{tmp_path}:kind=tripels", "unknown kind of own data 'tripels'"),
        (f"{tmp_path}:k=1", "option of own data 'k'"),
    ):
        with pytest.raises(UsageError, match=message):
            plugins.tasks[name]


def test_equal_numbers_are_one_label_or_id() -> None:
    assert unify_numbers(["1", "0"], ["1.0", "0.00", "-0.0", "2.50"]) == [
        ["1", "0"],
        ["1", "0", "0", "2.50"],
    ]
    for columns in ((["1", "a"], ["1.0"]), (["007"], ["7"]), (["1"], ["1e0"])):
        assert unify_numbers(*columns) == list(columns)
    assert unify_ids(["1.0", "2.0"], ["1", "2"]) == [["1", "2"], ["1", "2"]]
    assert unify_ids(["1.0", "1"], ["1.0"]) == [["1.0", "1"], ["1.0"]]
    assert unify_numbers(["1.0", "1"]) == [["1", "1"]]


@pytest.mark.parametrize("name", ["{}.csv", "{}.jsonl", "{}.parquet"])
def test_labels_and_ids_are_equal_as_numbers(plugins: Plugins, write: Write, name: str) -> None:
    """As where pandas makes fractions of a column with a missing value."""
    labels = [n % 2 for n in range(40)]
    write("a/" + name.format("train"), {"text": TEXTS, "label": labels})
    path = write("a/" + name.format("test"), {"text": OTHERS, "label": [*map(float, labels)]})
    _, scores = task_and_scores(plugins, str(Path(path).parent))
    assert set(scores.extra["label"]) == {"0", "1"}
    assert scores.notes == ("logistic regression of vectors of length 1, trained on 40 texts",)
    write("b/" + name.format("dictionary"), {"name": OTHERS, "id": [float(n) for n in range(40)]})
    path = write("b/" + name.format("mentions"), {"mention": TEXTS, "id": list(range(40))})
    _, scores = task_and_scores(plugins, str(Path(path).parent))
    assert scores.notes == ()


@pytest.mark.parametrize(
    ("labels", "like"),
    [
        (
            ["Food", "Travel"],
            "; labels that differ only in case: 'food' and 'Food', 'travel' and 'Travel'",
        ),
        (["-1"], ""),
    ],
)
def test_labels_that_are_not_trained_on_are_refused(
    plugins: Plugins, write: Write, labels: list[str], like: str
) -> None:
    write("a/train.csv", {"text": TEXTS, "label": ["food", "travel"] * 20})
    path = write("a/test.csv", {"text": OTHERS, "label": labels * (40 // len(labels))})
    folder = Path(path).parent
    message = f"none of the {len(labels)} scored labels (the first is '{labels[0]}') is trained on"
    with pytest.raises(DataFormatError, match=re.escape(message)) as caught:
        task_and_scores(plugins, str(folder))
    assert f"is 'food'){like}" in caught.value.message
    board = mirrorbench.run("tiny+base", str(folder), offline=True, output=folder / "results")
    assert message in board.failures[0].reason


def test_labels_that_differ_in_case_alone_are_named(plugins: Plugins, write: Write) -> None:
    labels = ["food", "Food", "travel", "bus"] * 10
    _, scores = task_and_scores(plugins, write("a.csv", {"text": TEXTS, "label": labels}))
    assert "labels that differ only in case: 'food' and 'Food'" in scores.notes


def test_split_of_a_file_beside_another_is_refused(plugins: Plugins, write: Write) -> None:
    table = {"text": TEXTS, "label": ["a", "b"] * 20}
    write("a/train.csv", table)
    path = write("a/test.csv", {**table, "split": ["train", "test"] * 20})
    with pytest.raises(UsageError, match=r"has a column 'split', and train.csv lies beside it"):
        plugins.tasks[str(Path(path).parent)]


def test_readings_are_remarks_on_the_data(plugins: Plugins, tmp_path: Path) -> None:
    rows = [f'"a ""b"" {n}"\tc {n}\t{n % 5}' for n in range(9)]
    path = tmp_path / "a.tsv"
    path.write_text("\n".join(["sentence1\tsentence2\tscore", *rows, "\t\t"]) + "\n")
    task, scores = task_and_scores(plugins, str(path))
    assert scores.notes == (
        "quotation marks around fields are read as in CSV (RFC 4180)",
        "empty rows at the end, left out: 1",
    )
    items = task.load(DataStore(tmp_path))
    assert items[0].left == 'a "b" 0'
    assert task.summary(items).startswith("9 pairs; quotation marks")


def labels_of(plugins: Plugins, path: str) -> list[float]:
    return [pair.gold for pair in plugins.tasks[path].load(DataStore(Path("nowhere")))]


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (["yes", "no", "Yes"], [1, 0, 1]),
        ([True, False, True], [1, 0, 1]),
        ([1, -1, -1], [1, 0, 0]),
        ([1.0, 0.0, 1.0], [1, 0, 1]),
        (["T", "F", "f"], [1, 0, 0]),
    ],
)
def test_labels_of_certain_meaning_are_read(
    plugins: Plugins, write: Write, written: list[object], expected: list[float]
) -> None:
    columns = {"sentence1": TEXTS[:3], "sentence2": OTHERS[:3], "label": written}
    assert labels_of(plugins, write("a.csv", columns)) == expected


def test_positive_label_is_named_where_it_is_uncertain(plugins: Plugins, write: Write) -> None:
    columns = {"sentence1": TEXTS[:4], "sentence2": OTHERS[:4]}
    path = write("a.csv", {**columns, "label": ["same", "other", "same", "other"]})
    with pytest.raises(DataFormatError, match="the labels are 'other', 'same'") as caught:
        labels_of(plugins, path)
    assert caught.value.hint == f"Name it: {path}:positive=other or {path}:positive=same"
    assert labels_of(plugins, f"{path}:positive=same") == [1, 0, 1, 0]
    numbers = write("e.csv", {**columns, "label": [2.0, 1.0, 2.0, 1.0]})
    assert labels_of(plugins, f"{numbers}:positive=2.0") == [1, 0, 1, 0]
    with pytest.raises(DataFormatError, match="no label is 'equal'") as caught:
        labels_of(plugins, f"{path}:positive=equal")
    assert caught.value.hint == "There are: 'other', 'same'"
    three = write("b.csv", {**columns, "label": ["yes it is", "neutral", "no", "neutral"]})
    assert labels_of(plugins, f"{three}:positive=neutral") == [0, 1, 0, 1]
    two = write("f.csv", {**columns, "label": ["yes", "same", "no", "equal"]})
    with pytest.raises(DataFormatError, match="line 3: the label 'same' is not 1 or 0"):
        labels_of(plugins, two)
    for wrong in ([1, 0, -1, 1], ["yes", "no", "equal", "no"]):  # -1 may stand for no label
        with pytest.raises(DataFormatError, match=r"line 4: the label '(-1|equal)' is not 1 or 0"):
            labels_of(plugins, write("c.csv", {**columns, "label": wrong}))
    scores = write("d.csv", {**columns, "score": [1, 2, 3, 4]})
    with pytest.raises(UsageError, match="positive= is a label of pairs or a column of triplets"):
        plugins.tasks[f"{scores}:positive=1"]


@pytest.mark.parametrize(
    ("written", "hint"),
    [
        ([1, 2, 1, 2], "Name it: {0}:positive=1 or {0}:positive=2"),
        (["si", "no", "si", "no"], "Name it: {0}:positive=no or {0}:positive=si"),
        ([0, 1, 2, 1], "all others are negative: {0}:positive=LABEL"),
        (["a,b", "c", "c", "c"], "Name it: {0}:positive=LABEL"),  # which no option could name
    ],
)
def test_option_for_the_positive_label_is_proposed(
    plugins: Plugins, write: Write, written: list[object], hint: str
) -> None:
    columns = {"sentence1": TEXTS[:4], "sentence2": OTHERS[:4], "label": written}
    path = write("a.csv", columns)
    with pytest.raises(DataFormatError) as caught:
        labels_of(plugins, path)
    assert caught.value.hint.endswith(hint.format(path))


def test_labels_of_premises_are_uncertain(plugins: Plugins, write: Write) -> None:
    """0 is entailment in GLUE."""
    columns = {"premise": TEXTS[:3], "hypothesis": OTHERS[:3], "label": [0, 1, 0]}
    path = write("a.csv", columns)
    with pytest.raises(DataFormatError, match="not certain which is the positive one"):
        labels_of(plugins, path)
    assert labels_of(plugins, f"{path}:positive=0") == [1, 0, 1]


def test_decimal_commas_are_read_if_all_scores_agree(plugins: Plugins, write: Write) -> None:
    columns = {"sentence1": TEXTS[:3], "sentence2": OTHERS[:3]}
    path = write("a.tsv", {**columns, "score": ["4,5", "3", "2,25"]})
    task = plugins.tasks[path]
    items = task.load(DataStore(Path("nowhere")))
    assert [pair.gold for pair in items] == [4.5, 3, 2.25]
    assert "scores have decimal commas" in task.summary(items)
    for name, scores in (
        ("b.tsv", ["4,5", "3.5", "2"]),
        ("c.tsv", ["1,000", "999", "2,500"]),  # thousands
        ("d.csv", ["4,5", "3", "2,25"]),
    ):
        with pytest.raises(DataFormatError, match=f"line 2: the score '{scores[0]}' is not a num"):
            labels_of(plugins, write(name, {**columns, "score": scores}))


def test_labels_may_have_decimal_commas(plugins: Plugins, write: Write) -> None:
    """As pandas writes labels that it holds as floats, for spreadsheets."""
    columns = {"sentence1": TEXTS[:3], "sentence2": OTHERS[:3], "label": ["1,0", "0,0", "1,0"]}
    assert labels_of(plugins, write("a.tsv", columns)) == [1, 0, 1]


def test_label_studio_ratings_are_read_as_scores(plugins: Plugins, write: Write) -> None:
    ratings = [f'[{{"rating":{n}}}]' for n in (5, 4, 0)]
    added = {name: [1, 2, 3] for name in ("annotation_id", "annotator", "id", "lead_time")}
    columns = {"text1": TEXTS[:3], "text2": OTHERS[:3], "rating": ratings, **added}
    assert labels_of(plugins, write("a.csv", columns)) == [5, 4, 0]


def test_columns_without_a_header_are_read_by_number(plugins: Plugins, tmp_path: Path) -> None:
    """As in the files of STS-B, which are separated by tabs, hold bare quotation marks and have rows of several widths."""
    path = tmp_path / "sts.csv"
    path.write_text('x\t1\t5.0\ta, "b"\tc\nx\t2\t1.5\t"d\te, f\tlicence\tsource\nx\t3\t2.0\tg\th\n')
    task = plugins.tasks[f"{path}:score=2,sentence1=3,sentence2=4"]
    items = task.load(DataStore(tmp_path))
    assert [(pair.left, pair.right, pair.gold) for pair in items] == [
        ('a, "b"', "c", 5.0),
        ('"d', "e, f", 1.5),
        ("g", "h", 2.0),
    ]
    assert "rows of 5 to 7 columns, read by their numbers" in task.summary(items)
    with pytest.raises(UsageError, match="no column '9'"):
        plugins.tasks[f"{path}:score=2,sentence1=3,sentence2=9"]


def test_column_named_split_may_be_none(plugins: Plugins, write: Write) -> None:
    columns = {"sentence1": TEXTS[:3], "sentence2": OTHERS[:3], "score": [1, 2, 3]}
    path = write("a.csv", {**columns, "split": [0, 1, 2]})
    with pytest.raises(DataFormatError, match="the split '0' is none of") as caught:
        labels_of(plugins, path)
    assert caught.value.hint == f"If the column is no split: {path}:split=none"
    assert labels_of(plugins, f"{path}:split=none") == [1, 2, 3]
