"""BM25, and its fusion with vectors."""

from __future__ import annotations

import numpy as np
import pytest

from mirrorbench.own_data.bm25 import bm25_rankings, is_unspaced, with_spaces
from mirrorbench.own_data.rankings import fuse


def test_bm25_and_rank_fusion_equal_their_formulas() -> None:
    """BM25 by Lucene's formula, without documents that have none of the words, and sums of reciprocal ranks."""
    documents = {
        "a": "cats sleep and cats eat",
        "b": "the cat and a dog",
        "c": "a bird sings",
        "d": "dogs bark at cats",
    }
    stems = {
        "a": ["cat", "sleep", "cat", "eat"],
        "b": ["cat", "dog"],
        "c": ["bird", "sing"],
        "d": ["dog", "bark", "cat"],
    }
    queries = {"q": "a cat that sleeps", "r": "of the"}
    expected = {}
    for name, words in stems.items():
        for word in ("cat", "sleep"):
            n, tf = sum(word in document for document in stems.values()), words.count(word)
            weight = (
                np.log(1 + (4 - n + 0.5) / (n + 0.5))
                * tf
                / (tf + 1.5 * (0.25 + 0.75 * len(words) / (11 / 4)))
            )
            expected[name] = expected.get(name, 0) + weight
    by_words = bm25_rankings(documents, queries, "en", 10)
    assert by_words == [
        pytest.approx({name: value for name, value in expected.items() if value}),
        {},
    ]
    assert list(by_words[0]) == ["a", "b", "d"]
    both = fuse(by_words, [{"c": 0.9, "b": 0.8}, {"c": 0.9}])
    assert both == [
        pytest.approx({"b": 1 / 62 + 1 / 62, "c": 1 / 61, "a": 1 / 61, "d": 1 / 63}),
        {"c": 1 / 61},
    ]
    assert [next(iter(ranking)) for ranking in both] == ["b", "c"]


def test_equal_bm25_scores_are_ordered_by_descending_ids() -> None:
    documents = {f"d{n}": "a cat" for n in range(9)} | {"e": "cat cat"}
    (ranking,) = bm25_rankings(documents, {"q": "cat"}, "en", 4)
    assert list(ranking) == ["e", "d8", "d7", "d6"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("停车场", "停车 车场"),
        ("在9点开门。", "在 9 点开 开门 。"),
        ("iPhone手机 ok", "iPhone 手机 ok"),
        ("カード・ケース", "カー ード ・ ケー ース"),
        ("ที่", "ที ี่"),
        ("한국어 text", "한국어 text"),
        ("plain words", "plain words"),
    ],
)
def test_scripts_without_spaces_become_pairs_of_characters(text: str, words: str) -> None:
    assert with_spaces(text).split() == words.split()
    assert is_unspaced(text) == (text != words)


@pytest.mark.parametrize(
    ("documents", "query"),
    [
        (["停车场在大楼后面。", "我们早上九点开门。"], "几点开门"),  # Chinese
        (["駐車場は建物の裏にあります。", "朝九時に開きます。"], "何時に開きますか"),  # Japanese
        (["ที่จอดรถอยู่หลังอาคาร", "เราเปิดเก้าโมงเช้า"], "เปิดกี่โมง"),  # Thai
        (["ចំណតរថយន្តនៅខាងក្រោយ", "យើងបើកនៅម៉ោងប្រាំបួន"], "បើកម៉ោងណា"),  # Khmer
        (["ບ່ອນຈອດລົດຢູ່ຫຼັງຕຶກ", "ພວກເຮົາເປີດເກົ້າໂມງ"], "ເປີດຈັກໂມງ"),  # Lao
        (["ကားရပ်နားရန်နေရာ", "မနက်ကိုးနာရီဖွင့်သည်"], "ဘယ်နာရီဖွင့်"),  # Burmese
    ],
)
def test_queries_without_spaces_find_their_document(documents: list[str], query: str) -> None:
    by_id = {str(n): text for n, text in enumerate(documents)}
    (ranking,) = bm25_rankings(by_id, {"q": query}, "en", 10)
    assert next(iter(ranking)) == "1"
