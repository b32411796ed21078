"""Mutations of values, rows, ids and splits."""

from __future__ import annotations

from helpers.broken_data_cases import (
    FORMATS,
    GOLD,
    JSON,
    LINES,
    TABLES,
    Case,
    gold_column,
    mutate_values,
    mutation,
)


# Values.
@mutation("refused", "is empty", parts=TABLES)
def text_empty(case: Case) -> None:
    case.put(case.rng.choice(case.texts()) if case.texts() else "text", "")


@mutation("refused", "is empty", parts=TABLES)
def text_white(case: Case) -> None:
    case.put(case.rng.choice(case.texts()), "  \u00a0 ")


@mutation("refused", "is empty", parts=TABLES, formats=(*JSON, "parquet"))
def text_null(case: Case) -> None:
    case.put(case.rng.choice(case.texts()), None)


@mutation("refused", "not a text", parts=(*TABLES, "corpus", "queries"), formats=JSON)
def text_number_or_list(case: Case) -> None:
    case.put(case.rng.choice(case.texts()), case.rng.choice([7, 1.5, True, ["a"], {"a": 1}]))


@mutation("refused", "not a text", parts=(*TABLES, "corpus", "queries"), formats=("parquet",))
def column_of_numbers_or_bytes(case: Case) -> None:
    column, value = case.rng.choice(case.texts()), case.rng.choice([7, 1.5, [1], b"a"])
    for row in case.rows:
        row[column] = value
    case.expect_at(0)


@mutation("refused", "is empty", **GOLD)
def answer_empty(case: Case) -> None:
    case.put(gold_column(case), case.rng.choice(["", " "]))


@mutation("refused", "is empty|not a text", **GOLD, formats=JSON)
def answer_null_or_list(case: Case) -> None:
    case.put(gold_column(case), case.rng.choice([None, float("nan"), ["x"], {}]))


@mutation("refused", "is empty", **GOLD, formats=("parquet",))
def answer_not_a_number(case: Case) -> None:
    for row in case.rows:
        row[gold_column(case)] = 1.0
    case.put(gold_column(case), float("nan"))


@mutation("same", **GOLD)
def answer_in_spaces(case: Case) -> None:
    row = case.random_row()
    case.put(
        gold_column(case),
        f" {case.rows[row][gold_column(case)]} ",
        row,
        case.rows[row][gold_column(case)],
    )


mutate_values(
    "refused",
    "the score '.*' is not a number",
    "score",
    ["high", "nan", "inf", "-Infinity", "1,5", "1e999", "1_0", "١", "0x1"],
    kinds=("similarity",),
)
mutate_values("refused", "the column 'score' is empty", "score", ["", "  "], kinds=("similarity",))
mutate_values(
    "refused",
    "the column 'score' is empty",
    "score",
    [None],
    kinds=("similarity",),
    formats=FORMATS,
)
mutate_values("refused", "not a text", "score", [[1]], kinds=("similarity",), formats=JSON)
mutate_values(
    "refused", "is not a number", "score", [True, float("inf")], kinds=("similarity",), formats=JSON
)
mutate_values("same", "", "score", [1e100, -1e100, -1], kinds=("similarity",))
mutate_values(
    "refused", "is not 1 or 0", "label", ["2", "equal", "0.5", "-1", "1e400"], kinds=("pairs",)
)
mutate_values("refused", "is empty", "label", ["", " ", None], kinds=("pairs",))
GRADE = "is not a whole number of at most nine digits"
mutate_values(
    "refused",
    GRADE,
    "score",
    ["1.5", "nan", "", "high", "9" * 20, "1,0", "--1", "²"],
    kinds=("retrieval",),
    parts=("qrels",),
)
mutate_values("same", "", "score", ["1", "1000", " 2"], kinds=("retrieval",), parts=("qrels",))


@mutation("same", kinds=("similarity",))
def score_in_spaces(case: Case) -> None:
    row = case.random_row()
    case.put("score", f" {case.rows[row]['score']} ", row, case.rows[row]["score"])


@mutation("same", kinds=("pairs",), formats=("csv", "tsv", *JSON))
def label_written_otherwise(case: Case) -> None:
    row = case.random_row()
    words = {0: ["0.0", "False", " 0", False, "no"], 1: ["1.0", "TRUE", "1 ", True, "yes"]}[
        case.rows[row]["label"]
    ]
    case.put("label", case.rng.choice(words), row, case.rows[row]["label"])


@mutation("refused", "different texts", ("folds",))
def label_of_one_text(case: Case) -> None:
    case.put("label", "another")
    case.line = 0


@mutation(
    "noted",
    "scored texts whose label is not in the training split, each an error: 1",
    ("folder",),
    ("test",),
)
def label_that_is_not_trained_on(case: Case) -> None:
    case.put("label", "another")


@mutation(
    "refused",
    "all (label|score)s (that are trained on )?are equal",
    ("similarity", "pairs", "folds", "folder"),
    ("table", "train"),
)
def all_equal(case: Case) -> None:
    for row in case.rows:
        row.update(dict.fromkeys({"label", "score"} & row.keys(), 1))


@mutation(
    "refused",
    "all (label|score)s (that are trained on )?are equal",
    ("similarity", "pairs", "folds", "folder"),
    ("table", "train"),
)
def one_row_alone(case: Case) -> None:
    del case.rows[1:]


@mutation("refused", "no query has a relevant document", ("retrieval",), ("qrels",))
def no_grade_above_zero(case: Case) -> None:
    for row in case.rows:
        row["score"] = case.rng.choice(["0", "-1"])


@mutation("same", "", ("retrieval",), ("qrels",))
def grade_below_zero(case: Case) -> None:
    case.put("score", "-1", 3)


# Rows and ids.
@mutation(
    "same", "", ("similarity", "pairs", "triplets", "folds", "linking"), ("table", "mentions")
)
def row_twice(case: Case) -> None:
    case.add(dict(case.rng.choice(case.rows)))


@mutation("same", "", ("linking",), ("names",))
def name_twice(case: Case) -> None:
    case.add(dict(case.rng.choice(case.rows)), read=False)


@mutation("refused", "a second time", ("retrieval",), ("corpus", "queries"))
def row_twice_in_a_collection(case: Case) -> None:
    case.add(dict(case.rng.choice(case.rows)))


@mutation("noted", "repeated judgements, counted once: 1", ("retrieval",), ("qrels",))
def row_of_judgements_twice(case: Case) -> None:
    case.add(dict(case.rng.choice(case.rows)), read=False)


@mutation("refused", "the id '.*' occurs a second time", ("retrieval",), ("corpus", "queries"))
def id_twice(case: Case) -> None:
    case.put("_id", case.rows[0]["_id"], case.expect_at(case.rng.randrange(1, len(case.rows))))


@mutation("refused", "the _id is not a text", ("retrieval",), ("corpus", "queries"))
def id_empty(case: Case) -> None:
    case.put("_id", "" if case.format in LINES[:2] else case.rng.choice(["", None]))


@mutation("refused", "the _id is not a text", ("retrieval",), ("corpus", "queries"), JSON)
def id_a_fraction(case: Case) -> None:
    case.put("_id", 5.5)


@mutation("refused", "line .*: the query 'q1' has no text", ("retrieval",), ("queries",))
def query_without_text(case: Case) -> None:
    case.put("text", case.rng.choice(["", "  "]), 1)


@mutation("same", "", ("retrieval",), ("corpus",))
def document_without_body(case: Case) -> None:
    case.put("text", None if case.format in (*JSON, "parquet") else "", case.random_row(), "")


@mutation("noted", "documents without text: 1", ("retrieval",), ("corpus",))
def document_without_text(case: Case) -> None:
    row = case.random_row()
    for column in ("title", "text"):
        case.put(column, "", row)


@mutation("noted", "documents without text: 15", ("retrieval",), ("corpus",))
def no_document_has_text(case: Case) -> None:
    for rows in (case.rows, case.read["corpus"]):
        for row in rows:
            row.update(title="", text="")
    case.names = "ties"


@mutation("same", "", ("retrieval",), ("corpus",))
def documents_without_titles(case: Case) -> None:
    for row in (*case.rows, *case.read["corpus"]):
        del row["title"]


@mutation("refused", "has no column 'title'", ("retrieval",), ("corpus",), JSON)
def document_without_title(case: Case) -> None:
    del case.rows[case.expect_at(case.rng.choice([0, 0, 4]))]["title"]


@mutation("noted", "judged queries that are not among the queries: 1", ("retrieval",), ("qrels",))
def query_unknown(case: Case) -> None:
    case.add({"query-id": "gone", "corpus-id": "d1", "score": "1"}, read=False)


@mutation("noted", "judged documents that are not in the corpus: 1", ("retrieval",), ("qrels",))
def document_unknown(case: Case) -> None:
    case.add({"query-id": "q1", "corpus-id": "gone", "score": case.rng.choice("012")})


@mutation(
    "refused",
    "the score of 'd1' for the query 'q0' is ., and 2 in an earlier line",
    ("retrieval",),
    ("qrels",),
)
def judgement_contradicted(case: Case) -> None:
    case.add({"query-id": "q0", "corpus-id": "d1", "score": case.rng.choice("01")})


@mutation("noted", "queries without a relevant document, left out: 1", ("retrieval",), ("queries",))
def query_without_judgement(case: Case) -> None:
    case.add({"_id": "q9", "text": "another"})


@mutation("noted", "mentions with an id that is not in the dictionary", ("linking",), ("mentions",))
def mention_of_an_unknown_id(case: Case) -> None:
    case.put("id", "gone")


@mutation("noted", "scored texts that are also trained on: 1", ("folder",), ("test",))
def text_of_train_in_test(case: Case) -> None:
    case.add(dict(case.rng.choice(case.data["train"])))


@mutation(
    "refused",
    "a second time|is not a whole number|the split 'split'",
    parts=(*TABLES, "qrels"),
    formats=("csv", "tsv"),
)
def header_among_the_rows(case: Case) -> None:
    case.add({column: column for column in case.rows[0]})


# The split.
@mutation("refused", "the split .* is none of train, test", ("split",))
def split_unknown(case: Case) -> None:
    case.put("split", case.rng.choice(["Test", "", "tset", "2"]))


@mutation("refused", "has no rows of the split (test|train)", ("split",))
def split_without_rows(case: Case) -> None:
    only = case.rng.choice(["train", "test", "dev"])
    for row in case.rows:
        row["split"] = only


@mutation("same", "", ("split",))
def split_for_development(case: Case) -> None:
    case.add({"text": "another", "label": "z", "split": "dev"}, read=False)


@mutation("same", "", ("split",))
def split_of_another_name(case: Case) -> None:
    for row in case.rows:
        row["part"] = row.pop("split")
    case.options = ":split=part"


@mutation("refused", "has no column 'part'", ("split", "folds"))
def split_of_another_name_that_is_not_there(case: Case) -> None:
    case.options = ":split=part"
