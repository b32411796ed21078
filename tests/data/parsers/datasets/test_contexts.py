"""Formats of words in context on made-up files: spans and labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers.format_samples import COSIMLEX as COSIMLEX_HEADER
from helpers.format_samples import SAMPLES
from helpers.parsed_files import read_sample, run

from mirrorbench.core.encoder_protocol import TextInput
from mirrorbench.data.card_files import builtin_cards, builtin_suites
from mirrorbench.data.store import DataStore


def words(item: TextInput) -> list[str]:
    return [item.text[start:end] for start, end in item.spans]


def test_usim_pairs_consecutive_lines(tmp_path: Path) -> None:
    (pair,) = read_sample("usim", tmp_path, {})
    left, right = TextInput("He is bright .", ((6, 12),)), TextInput("bright light", ((0, 6),))
    assert (pair.id, pair.rating, pair.left, pair.right) == ("bright.a/1-12", 1.5, left, right)


ROW = (
    'bank\tshore\tA "<strong>bank</strong>" near the <strong>shores</strong>.\t<strong>Shore</strong> or'
    " <strong>banks</strong>\t2.5\t7\t1\t1\t0.01\tbank\tshores\tbanks\tShore\n"
)


COSIMLEX = f"{COSIMLEX_HEADER}\n{ROW}"


def test_cosimlex_marks_are_assigned_to_their_words(tmp_path: Path) -> None:
    (change,) = run("cosimlex", tmp_path, {"cosimlex_en.csv": COSIMLEX})
    assert (change.id, change.first.rating, change.second.rating) == ("1", 2.5, 7.0)
    assert change.first.left == TextInput('A "bank" near the shores.', ((3, 7),))
    assert words(change.first.right) == ["shores"]
    assert (words(change.second.left), words(change.second.right)) == (["banks"], ["Shore"])
    assert change.second.left.text == change.second.right.text == "Shore or banks"


AM2ICO = 'context1\tcontext2\tlabel\n在  <word>大学</word> 任"\t"The  <word>University</word> of null\tT\n'


def test_am2ico_contexts_carry_their_language(tmp_path: Path) -> None:
    files = {"zh/dev.tsv": AM2ICO, "zh/test.tsv": AM2ICO.replace("\tT", "\tF")}
    dev, test = run("am2ico", tmp_path, files, language="zh")
    assert dev.left == TextInput('在  大学 任"', ((3, 5),), "zh")
    assert dev.right == TextInput('"The  University of null', ((6, 16),), "en")
    assert [(item.id, item.split, item.label) for item in (dev, test)] == [
        ("dev/1", "dev", 1),
        ("test/1", "test", 0),
    ]


VALID = "鬆\tV\t1\t2\t0\t1\t牙鬆了。\t鬆一\t1\n"


TEST = "鬆\tV\t1\t2\t0\t1\t牙鬆了。\t鬆一\n轉\tV\t0\t1\t0\t1\t轉\t轉出\n"


def test_xlwic_test_labels_are_optional(tmp_path: Path) -> None:
    old = {"zh/valid.txt": VALID, "zh/test.txt": TEST}
    assert [(i.id, i.label) for i in run("xlwic", tmp_path, old)] == [
        ("dev/1", 1),
        ("test/1", None),
        ("test/2", None),
    ]
    assert run("xlwic", tmp_path, old)[0].left == TextInput("牙鬆了。", ((1, 2),))
    new = {"zh/zh_valid.txt": VALID, "zh/zh_test_data.txt": TEST, "zh/zh_test_gold.txt": "0\n1\n"}
    assert [(i.id, i.label) for i in run("xlwic", tmp_path, new)] == [
        ("dev/1", 1),
        ("test/1", 0),
        ("test/2", 1),
    ]
    mixed = {"zh/zh_test_gold.txt": "0\n1\n", **old}
    assert [i.label for i in run("xlwic", tmp_path, mixed)] == [1, 0, 1]


def test_wic_targets_labels_and_splits_are_read(tmp_path: Path) -> None:
    first, second = read_sample("wic", tmp_path, {})
    assert (first.id, first.label, first.split) == ("dev/1", 0, "dev")
    assert (first.left.text, words(first.left), words(first.right)) == (
        "Room and board .",
        ["board"],
        ["boards"],
    )
    assert (second.id, second.label, words(second.left), words(second.right)) == (
        "dev/2",
        1,
        ["run"],
        ["run"],
    )
    unlabelled = run("wic", tmp_path, {"test.data.txt": SAMPLES["wic"].files["dev.data.txt"]})
    assert [(p.label, p.split) for p in unlabelled] == [(None, "test")] * 2


@pytest.mark.parametrize(
    ("subtask", "statements"),
    [
        (1, ["zero means a digit", "Foot means the lower part"]),
        (2, ["zero is a kind of digit, natural number", "Foot is a kind of"]),
        (
            3,
            [
                "zero is a kind of digit, natural number and means a digit",
                "Foot means the lower part",
            ],
        ),
    ],
)
def test_wic_tsv_statements_depend_on_the_subtask(
    tmp_path: Path, subtask: int, statements: list[str]
) -> None:
    pairs = read_sample("wic-tsv", tmp_path, {}, subtask=subtask)
    assert [p.right.text for p in pairs] == statements
    assert [words(p.left) for p in pairs] == [words(p.right) for p in pairs] == [["zero"], ["Foot"]]
    assert [p.label for p in pairs] == [1, 0]


@pytest.fixture
def store(originals: Callable[..., DataStore]) -> DataStore:
    return originals("wic")


def test_wic_sets_have_the_published_sizes(store: DataStore) -> None:
    for name, published in {
        "am2ico-ur": (108, 400),
        "wic": (638, 1400),
        "xlwic-et": (98, 390),
    }.items():
        pairs = store.items(builtin_cards()[name])
        sizes = Counter(pair.split for pair in pairs)
        assert (sizes["dev"], sizes["test"]) == published
        assert all(words(side)[0].strip() for pair in pairs for side in (pair.left, pair.right))
        dev = Counter(pair.label for pair in pairs if pair.split == "dev")
        assert dev[0] == dev[1]


def test_wic_suites_hold_every_wic_task() -> None:
    names = ("usim", "cosimlex", "wic", "tsv", "xlwic", "am2ico", "wsd")
    held = [task for name in names for task in builtin_suites()[name]]
    family = [
        name
        for name, card in builtin_cards().items()
        if card.level == "wic" and card.kind != "corpus"
    ]
    assert sorted(held) == sorted(name for name in family if name != "quick-wic")
    assert len(held) == 1 + 4 + 1 + 3 + 12 + 14 + 1


@pytest.mark.full
def test_wsd_has_published_sizes_and_baseline(
    originals: Callable[..., DataStore],
) -> None:
    """Keys and order of senses: "WN 1st sense" of Raganato et al. (2017), Table 2."""
    wordnet = Path("/usr/share/wordnet")  # Debian's package wordnet-base
    if not wordnet.is_dir():
        pytest.skip(f"no WordNet at {wordnet}")
    (data,) = originals("wsd", str(wordnet)).items(builtin_cards()["wsd"])
    sizes = {
        "senseval2": 2282,
        "senseval3": 1850,
        "semeval2007": 455,
        "semeval2013": 1644,
        "semeval2015": 1022,
    }
    assert Counter(word.corpus for word in data.occurrences) == sizes
    assert sum(len(word.gold) for word in data.occurrences) == 7611
    first = Counter(word.corpus for word in data.occurrences if word.candidates[0] in word.gold)
    percent = {corpus: round(100 * first[corpus] / size, 1) for corpus, size in sizes.items()}
    assert percent == dict(zip(sizes, [66.8, 66.2, 55.2, 63.0, 67.8], strict=True))
