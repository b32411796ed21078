"""Formats of pairs of sentences and of words on made-up files, and on the original ones."""

from __future__ import annotations

import csv
import hashlib
import io
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers.parsed_files import PARSERS, SICK_HEADER, on_disk, run, simple

from mirrorbench.core.errors import DataFormatError, DataUnavailableError, UnknownNameError
from mirrorbench.data.card_files import builtin_cards
from mirrorbench.data.corpora import read_corpus
from mirrorbench.data.items import Pair
from mirrorbench.data.store import DataStore

STSB = "main-captions\tMSRvid\t2012test\t0001\t3.200\t{}\t{}"
QNLI_HEADER = "index\tquestion\tsentence\tlabel\n"
QNLI = '0\tWho said "no?\tHe did.\tentailment\n7\tWhen?\t"Never", null\tnot_entailment\n'


def test_sts_lines_without_score_are_skipped(tmp_path: Path) -> None:
    files = {
        "STS.input.belief.txt": 'A "cat".\tA dog. \nnot\tscored\n  x\ty\u2028z\n',
        "STS.gs.belief.txt": "4.5\n\n0\n",
        "STS.input.surprise.OnWN.txt": "\ufeffa\tb\r\n",
        "STS.gs.surprise.OnWN.txt": "5.000\r\n",
    }
    assert simple(run("sts", tmp_path, files)) == [
        ("belief/1", 'A "cat".', "A dog. ", 4.5, "belief"),
        ("belief/3", "  x", "y\u2028z", 0.0, "belief"),
        ("surprise.OnWN/1", "a", "b", 5.0, "surprise.OnWN"),
    ]
    files = {"STS2016.input.X.txt": "a\tb\tsource 1\tsource 2\n", "STS2016.gs.X.txt": "1\n"}
    assert simple(run("sts", tmp_path, files, columns=4)) == [("X/1", "a", "b", 1.0, "X")]


def test_stsb_allows_nine_columns_and_literal_quotes(tmp_path: Path) -> None:
    rows = [STSB.format('"A cat', "A dog"), STSB.format("x", 'y"') + "\tlicence\tmore"]
    got = run("stsb", tmp_path, {"sts-test.csv": "\n".join(rows) + "\n"})
    assert simple(got) == [
        ("sts-test/1", '"A cat', "A dog", 3.2, ""),
        ("sts-test/2", "x", 'y"', 3.2, ""),
    ]


def test_sick_splits_are_read_from_either_edition(tmp_path: Path) -> None:
    content = SICK_HEADER + "6\ta b\tc d\t3.3\tNEUTRAL\n7\te\tf\t5\tENTAILMENT\n"
    for end in ("\n", "\r\n"):
        got = simple(run("sick", tmp_path, {"SICK_train.txt": content.replace("\n", end)}))
        assert got == [("6", "a b", "c d", 3.3, ""), ("7", "e", "f", 5.0, "")]
    header = "pair_ID\tsentence_A\tsentence_B\tentailment_label\trelatedness_score\tSemEval_set\n"
    whole = (
        header
        + "1\ta\tb\tNEUTRAL\t4.5\tTRAIN\n2\tc\td\tNEUTRAL\t1\tTEST\n3\te\tf\tNEUTRAL\t2\tTRIAL\n"
    )
    for split, identity in (("train", "1"), ("test", "2"), ("dev", "3")):
        (pair,) = run("sick", tmp_path, {"SICK.txt": whole}, semeval_set=split)
        assert pair.id == identity
    for changed, options, message in (
        (whole, {}, "semeval_set must be one of"),
        (
            whole.replace("TRAIN", "X"),
            {"semeval_set": "test"},
            "line 2: the label 'X' is none of TRAIN",
        ),
    ):
        with pytest.raises(DataFormatError, match=message):
            run("sick", tmp_path, {"SICK.txt": changed}, **options)


QQP_ROWS = (
    '"5","1","2","How do I ""hack"",\nsay, it?","How?","1"\n"3","3","4","Why me?","Why, him?","0"\n'
    '"12","5","6","","Empty?","0"\n"8","7","8","What is 1/2?","What\'s half?","1"\n'
)


def test_qqp_is_read_from_kaggle_and_quora_editions(tmp_path: Path) -> None:
    wanted = [
        ("5", 'How do I "hack", say, it?', "How?", 1.0, ""),
        ("3", "Why me?", "Why, him?", 0.0, ""),
        ("8", "What is 1/2?", "What's half?", 1.0, ""),
    ]
    head = "id,qid1,qid2,question1,question2,is_duplicate\n"
    kaggle = head + QQP_ROWS
    quora = io.StringIO()
    assert simple(run("qqp", tmp_path, {"train.csv": kaggle})) == wanted
    rows = csv.reader(kaggle.splitlines(keepends=True))
    csv.writer(quora, delimiter="\t", lineterminator="\n").writerows(rows)
    assert simple(run("qqp", tmp_path, {"quora.tsv": quora.getvalue()})) == wanted
    for content, message in (
        (head.replace("qid2,", ""), "the header is not id, qid1"),
        (kaggle + "1,2,3,a,b\n", "line 7: 5 columns instead of 6"),
        (kaggle.replace('"0"', '"maybe"', 1), "line 4: the label 'maybe'"),
        (kaggle + "3,3,4,a,b,1\n", "line 7: .*3"),
    ):
        with pytest.raises(DataFormatError, match=message):
            run("qqp", tmp_path, {"train.csv": content})


def test_qqp_sample_does_not_depend_on_row_order(tmp_path: Path) -> None:
    """Mirror-BERT, section 4.4: "we randomly sample 1,000 sentence pairs"."""
    head = "id,qid1,qid2,question1,question2,is_duplicate\n"
    rows = [f"{n},0,0,q{n},r{n},{n % 2}\n" for n in range(4000)]
    pairs = run("qqp", tmp_path, {"q.csv": head + "".join(rows)}, sample=1000)
    lowest = sorted(range(4000), key=lambda n: hashlib.sha256(str(n).encode()).hexdigest())[:1000]
    assert [int(pair.id) for pair in pairs] == sorted(lowest)
    turned = run("qqp", tmp_path, {"q.csv": head + "".join(reversed(rows))}, sample=1000)
    assert sorted(map(repr, turned)) == sorted(map(repr, pairs))
    with pytest.raises(DataFormatError, match="sample of 4001 pairs cannot be drawn from 4000"):
        run("qqp", tmp_path, {"q.csv": head + "".join(rows)}, sample=4001)


def test_qqp_substitute_builds_negatives_from_duplicates(
    originals: Callable[..., DataStore],
) -> None:
    card, store = builtin_cards()["qqp-sub"], originals("qqp")
    data, pairs = store.resolve(card), store.items(card)
    with next(iter(data.files.values())).open(encoding="utf-8") as stream:
        known = {row["id"]: (row["question1"], row["question2"]) for row in csv.DictReader(stream)}
    assert [sum(pair.gold == label for pair in pairs) for label in (1, 0)] == [500, 500]
    for pair in pairs:
        one, _, other = pair.id.partition("+")
        assert bool(other) == (pair.gold == 0)
        assert one != other
        texts = known[one][0], known[other or one][1]
        assert (pair.left, pair.right) == tuple(" ".join(text.split()) for text in texts)
    assert len({pair.id.partition("+")[0] for pair in pairs}) == 1000


def test_qnli_quotes_are_text_in_pairs_and_corpus(tmp_path: Path) -> None:
    assert simple(run("qnli", tmp_path, {"dev.tsv": QNLI_HEADER + QNLI})) == [
        ("0", 'Who said "no?', "He did.", 1.0, ""),
        ("7", "When?", '"Never", null', 0.0, ""),
    ]
    cards = builtin_cards()
    store = DataStore(tmp_path, offline=True)
    with pytest.raises(DataUnavailableError, match="QNLIv2"):
        read_corpus(str(cards["qnli"].options["corpus"]), store, cards)
    on_disk(tmp_path, {"qnli-sentences/QNLI/train.tsv": QNLI_HEADER + QNLI})
    lines = [line.split("\t") for line in QNLI.splitlines()]
    assert read_corpus("qnli-sentences", store, cards).texts == tuple(
        text for line in lines for text in line[1:3]
    )


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("stsb", {"test": 1379, "dev": 1500, "train": 5749}),
        ("sickr", {"test": 4927, "dev": 500, "train": 4500}),
    ],
)
def test_original_sts_files_have_published_sizes(
    originals: Callable[..., DataStore], name: str, sizes: dict[str, int]
) -> None:
    card, store = builtin_cards()[name], originals("sts")
    data = store.resolve(card)
    assert len({pair.id for pair in store.items(card)}) == len(store.items(card)) == sizes["test"]
    assert (
        data.checksums
        == store.checksums(card)
        == {file.path: file.sha256 for file in card.files_of(card.split)}
    )
    found = {split: len(PARSERS[card.parser](store.fetch(card, split), {})) for split in sizes}
    assert found == sizes


# Rows of the original file, cut to the columns that matter here.
CONCEPTICON = """\
ID\tSIMLEX_IDS\tENGLISH\tESTONIAN\tENGLISH_IN_SOURCE\tESTONIAN_IN_SOURCE\tENGLISH_SCORE\tESTONIAN_SCORE
1\t2:1\tinfinity\tlõpmatus\tinfinity\tlõpmatus\t0.5\t0.9
2\t2:2\tzero\t[null]\tzero\t\t0.5\t0.9
3\t1:2 3:1\tgarden hose (hose)\tabikaasa (naine)\those garden hose\tabikaasa (naine)  abikaasa (naine)\t6 1.5\t4.8 3
4\t1:1 3:2\tpipe\ttoru (voolik/kraan)\tpipe pipe\tvoolik kraan \t6 1.5\t4.8 3
"""


def judged(pairs: list[Pair]) -> list[tuple[str, str, str, float]]:
    return [row[:4] for row in simple(pairs)]


class TestConcepticon:
    def read(
        self, tmp_path: Path, content: str, *languages: str
    ) -> list[tuple[str, str, str, float]]:
        return judged(
            run("multisimlex-concepticon", tmp_path, {"V.tsv": content}, languages=list(languages))
        )

    def test_concepticon_keeps_the_word_null(self, tmp_path: Path) -> None:
        """And expressions are cut at the forms of their concept."""
        assert self.read(tmp_path, CONCEPTICON, "ENGLISH") == [
            ("1", "pipe", "hose", 6.0),
            ("2", "infinity", "zero", 0.5),
            ("3", "garden hose", "pipe", 1.5),
        ]
        assert self.read(tmp_path, CONCEPTICON, "ESTONIAN") == [
            ("1", "voolik", "abikaasa (naine)", 4.8),
            ("2", "lõpmatus", "null", 0.9),
            ("3", "abikaasa (naine)", "kraan", 3.0),
        ]

    def test_crosslingual_pairs_require_agreeing_ratings(self, tmp_path: Path) -> None:
        # 6 and 4.8 differ by exactly 1.2 (and by a little more as floats), 1.5 and 3 by more.
        assert self.read(tmp_path, CONCEPTICON, "ENGLISH", "ESTONIAN") == [
            ("1/12", "pipe", "abikaasa (naine)", 5.4),
            ("1/21", "hose", "voolik", 5.4),
            ("2/12", "infinity", "null", 0.7),
            ("2/21", "zero", "lõpmatus", 0.7),
        ]

    @pytest.mark.parametrize(
        ("old", "new", "message"),
        [
            ("SIMLEX_IDS", "IDS", "the header is missing SIMLEX_IDS"),
            (
                "\those garden hose\t",
                "\those pipe\t",
                "line 4: 'hose pipe' cannot be cut into 2 words",
            ),
            ("(hose)\t", "(hose/garden/hose garden)\t", "cannot be cut"),  # more than one way
            ("\t6 1.5\t4.8 3\n4", "\t6\t4.8 3\n4", "cannot be cut into 2"),
            ("2:2\tzero", "2:3\tzero", "'2:3' is not a place"),
            ("2:2\tzero", "2:1\tzero", "pair 2 repeats or contradicts"),
            ("zero\t\t0.5", "zero\t\t0.6", "pair 2 repeats or contradicts"),
            ("2\t2:2", "2\t9:2", r"pair 2 has 1 word\(s\) in ENGLISH, not 2"),
            ("lõpmatus\t0.5", "lõpmatus\t6.5", "outside the scale"),
            ("\t0.5\t0.9\n2", "\t0.5\n2", "line 2: 7 columns instead of 8"),
        ],
    )
    def test_malformed_concepticon_table_is_refused(
        self, tmp_path: Path, old: str, new: str, message: str
    ) -> None:
        assert old in CONCEPTICON
        with pytest.raises(DataFormatError, match=message):
            self.read(tmp_path, CONCEPTICON.replace(old, new, 1), "ENGLISH")


def test_multisimlex_csv_yields_mono_and_crosslingual_pairs(tmp_path: Path) -> None:
    words = 'ID,POS,ENG 1,ENG 2,EST 1,EST 2\n1,nouns,infinity,zero,lõpmatus,null\n2,verbs,give up,"quit, stop",a,NA\n'
    files = {
        "translation.csv": words,
        "scores.csv": "ID,POS,ENG,EST\n1,nouns,0.5,1.7\n2,verbs,6,4.7\n",
    }

    def read(*languages: str) -> list[tuple[str, str, str, float]]:
        return judged(run("multisimlex", tmp_path, files, languages=list(languages)))

    assert read("EST") == [("1", "lõpmatus", "null", 1.7), ("2", "a", "NA", 4.7)]
    assert read("ENG")[1] == ("2", "give up", "quit, stop", 6.0)
    assert read("ENG", "EST") == [
        ("1/12", "infinity", "null", 1.1),
        ("1/21", "zero", "lõpmatus", 1.1),
    ]


@pytest.fixture
def word_store(originals: Callable[..., DataStore]) -> DataStore:
    return originals("wordsim")


def rows_of(path: Path) -> list[dict[str, str]]:
    with open(path, encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def test_concepticon_pairs_equal_the_official_tables(
    word_store: DataStore, shared_data: Path
) -> None:
    """The tables that were derived independently, in the official format, lack one word: the Estonian "null"."""
    folder = shared_data / "wordsim" / "multisimlex" / "derived"
    words = {row["ID"]: row for row in rows_of(folder / "translation.csv")}
    scores = {row["ID"]: row for row in rows_of(folder / "scores.csv")}
    assert words["953"]["EST 2"] == ""
    words["953"]["EST 2"] = "null"
    for code, column in (("et", "EST"), ("ar", "ARA")):
        pairs = word_store.items(builtin_cards()[f"multisimlex-{code}"])
        assert [pair.id for pair in pairs] == [str(number) for number in range(1, 1889)]
        for pair in pairs:
            row = words[pair.id]
            assert pair.left == " ".join(row[f"{column} 1"].split())
            assert pair.right == " ".join(row[f"{column} 2"].split())
            assert pair.gold == float(scores[pair.id][column])


@pytest.mark.slow
def test_crosslingual_pairs_equal_an_independent_derivation(
    word_store: DataStore, shared_data: Path
) -> None:
    rows = rows_of(shared_data / "wordsim" / "multisimlex" / "derived" / "clws" / "ENG-FRA.csv")
    got = judged(word_store.items(builtin_cards()["clws-en-fr"]))
    assert [row[:3] for row in got] == [
        (f"{row['ID']}/{row['direction']}", row["ENG"], row["FRA"]) for row in rows
    ]
    assert [row[3] for row in got] == pytest.approx([float(row["score"]) for row in rows])


def test_unknown_parser_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="nope"):
        run("nope", tmp_path, {})
