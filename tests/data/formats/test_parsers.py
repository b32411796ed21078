from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from parsing import SICK_HEADER, run

from mirrorbench.core.errors import MirrorbenchError, UnknownNameError
from mirrorbench.data.catalogue import builtin_cards
from mirrorbench.data.formats import parse, parser_of
from mirrorbench.data.store import DataStore, ResolvedData


def test_an_unknown_parser_is_named() -> None:
    with pytest.raises(UnknownNameError, match="nope"):
        parse(ResolvedData({}, "nope", {}, {}, True))


@given(st.sampled_from(["stsb", "sick", "table-tsv", "table-csv", "table-jsonl"]), st.data())
def test_a_parser_reads_all_rows_or_raises(
    tmp_path_factory: pytest.TempPathFactory, parser: str, data: st.DataObject
) -> None:
    cell = st.sampled_from(["a", "b c", "1", "2.5", '"', '"x"', "", "\ufeff", "TEST", "{}", '{"0": "a"}', "é"])
    width = st.sampled_from([1, 3, 5, 5, 7, 7, 9])
    separator = {"table-csv": ",", "table-jsonl": " "}.get(parser, "\t")
    row = width.flatmap(lambda n: st.lists(cell, min_size=n, max_size=n)).map(separator.join)
    rows = data.draw(st.lists(row, max_size=6))
    if parser == "sick":
        rows.insert(0, SICK_HEADER.rstrip())
    options: dict[str, Any] = {}
    if parser.startswith("table"):
        parser, form = parser.split("-")
        options = {"format": form, "columns": {"left": 0, "right": 1, "gold": 2}, "scale": [0, 5]}
    body = "".join(line + "\n" for line in rows)
    try:
        pairs = run(parser, tmp_path_factory.mktemp("any"), {"a.csv": body}, **options)
    except MirrorbenchError:
        return
    assert len(pairs) == len(rows) - (parser == "sick")


@pytest.mark.parametrize(
    ("name", "published"),
    [
        ("sts12", 3108),
        ("sts13", 1500),
        ("sts14", 3750),
        ("sts15", 3000),
        ("sts16", 1186),
        ("stsb", 1379),
        ("stsb-dev", 1500),
        ("sickr", 4927),
        ("sts17-es", 250),
        ("sts17-ar", 250),
        ("sts17-en", 250),
        ("sts-ru-mt", 1379),
    ],
)
def test_the_original_files_have_the_published_sizes(real_store: DataStore, name: str, published: int) -> None:
    card = builtin_cards()[name]
    data = real_store.resolve(card)
    pairs = parse(data)
    assert len(pairs) == published
    assert len({pair.id for pair in pairs}) == published
    assert data.verified
    assert data.checksums == real_store.checksums(card)
    assert set(data.checksums.values()) == {file.sha256 for file in card.files_of(card.split)}


@pytest.mark.parametrize(
    ("name", "split", "published"),
    [("stsb", "train", 5749), ("stsb", "dev", 1500), ("sickr", "train", 4500), ("sickr", "dev", 500)],
)
def test_the_other_splits_have_the_published_sizes(
    real_store: DataStore, name: str, split: str, published: int
) -> None:
    card = builtin_cards()[name]
    assert len(parser_of(card.parser)(real_store.files(card, split), {})) == published
