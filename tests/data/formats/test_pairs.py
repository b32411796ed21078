"""Formats of pairs of sentences and of words on made-up files, and on the original ones."""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from parsing import SICK_HEADER, on_disk, run, simple
from suites import few, slow

from mirrorbench.core.errors import DataFormatError, DataUnavailableError, UnknownNameError
from mirrorbench.data.cardfile import builtin_cards
from mirrorbench.data.corpora import read_corpus
from mirrorbench.data.formats import parse, parser_of
from mirrorbench.data.items import Lexicon, Pair
from mirrorbench.data.store import DataStore

STSB = "main-captions\tMSRvid\t2012test\t0001\t3.200\t{}\t{}"
QNLI_HEADER = "index\tquestion\tsentence\tlabel\n"
QNLI = '0\tWho said "no?\tHe did.\tentailment\n7\tWhen?\t"Never", null\tnot_entailment\n'


def test_sts_has_two_columns_and_unscored_lines(tmp_path: Path) -> None:
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


def test_stsb_has_seven_or_nine_columns_and_quotes_are_text(tmp_path: Path) -> None:
    rows = [STSB.format('"A cat', "A dog"), STSB.format("x", 'y"') + "\tlicence\tmore"]
    got = run("stsb", tmp_path, {"sts-test.csv": "\n".join(rows) + "\n"})
    assert simple(got) == [("sts-test/1", '"A cat', "A dog", 3.2, ""), ("sts-test/2", "x", 'y"', 3.2, "")]


def test_sick_in_three_files_or_one(tmp_path: Path) -> None:
    content = SICK_HEADER + "6\ta b\tc d\t3.3\tNEUTRAL\n7\te\tf\t5\tENTAILMENT\n"
    for end in ("\n", "\r\n"):
        got = simple(run("sick", tmp_path, {"SICK_train.txt": content.replace("\n", end)}))
        assert got == [("6", "a b", "c d", 3.3, ""), ("7", "e", "f", 5.0, "")]
    header = "pair_ID\tsentence_A\tsentence_B\tentailment_label\trelatedness_score\tSemEval_set\n"
    rows = "1\ta\tb\tNEUTRAL\t4.5\tTRAIN\n2\tc\td\tNEUTRAL\t1\tTEST\n3\te\tf\tNEUTRAL\t2\tTRIAL\n"
    for split, identity in (("train", "1"), ("test", "2"), ("dev", "3")):
        (pair,) = run("sick", tmp_path, {"SICK.txt": header + rows}, semeval_set=split)
        assert pair.id == identity
    with pytest.raises(DataFormatError, match="semeval_set must be one of"):
        run("sick", tmp_path, {"SICK.txt": header + rows})
    with pytest.raises(DataFormatError, match="line 2: the label 'X' is none of TRAIN"):
        run("sick", tmp_path, {"SICK.txt": header + rows.replace("TRAIN", "X")}, semeval_set="test")


QQP_ROWS = (
    '"5","1","2","How do I ""hack"",\nsay, it?","How?","1"\n"3","3","4","Why me?","Why, him?","0"\n'
    '"12","5","6","","Empty?","0"\n"8","7","8","What is 1/2?","What\'s half?","1"\n'
)


def test_qqp_in_the_editions_of_kaggle_and_of_quora(tmp_path: Path) -> None:
    wanted = [
        ("5", 'How do I "hack", say, it?', "How?", 1.0, ""),
        ("3", "Why me?", "Why, him?", 0.0, ""),
        ("8", "What is 1/2?", "What's half?", 1.0, ""),
    ]
    head = "id,qid1,qid2,question1,question2,is_duplicate"
    kaggle = ",".join(f'"{name}"' for name in head.split(",")) + "\n" + QQP_ROWS
    assert simple(run("qqp", tmp_path, {"train.csv": kaggle})) == wanted
    rows = csv.reader(QQP_ROWS.splitlines(keepends=True))
    quora = "".join(
        "\t".join(f'"{v.replace(chr(34), chr(34) * 2)}"' if '"' in v else v for v in row) + "\n" for row in rows
    )
    assert simple(run("qqp", tmp_path, {"quora.tsv": head.replace(",", "\t") + "\n" + quora})) == wanted
    for content, message in (
        (head.replace("qid2,", "") + "\n", "the header is not id, qid1"),
        (kaggle + "1,2,3,a,b\n", "line 7: 5 columns instead of 6"),
        (kaggle.replace('"0"', '"maybe"', 1), "line 4: the label 'maybe'"),
        (kaggle + "3,3,4,a,b,1\n", "line 7: .*3"),
    ):
        with pytest.raises(DataFormatError, match=message):
            run("qqp", tmp_path, {"train.csv": content})


def test_a_sample_of_qqp_is_random_and_the_same_in_every_edition(tmp_path: Path) -> None:
    """Mirror-BERT, section 4.4: "we randomly sample 1,000 sentence pairs"."""
    head, rows = (
        "id,qid1,qid2,question1,question2,is_duplicate\n",
        [f"{n},0,0,q{n},r{n},{n % 2}\n" for n in range(4000)],
    )
    pairs = run("qqp", tmp_path, {"q.csv": head + "".join(rows)}, sample=1000)
    ids = [int(pair.id) for pair in pairs]
    assert ids == sorted(ids)
    assert len(set(ids)) == 1000
    lowest = sorted(hashlib.sha256(str(n).encode()).hexdigest() for n in range(4000))[:1000]
    assert {hashlib.sha256(str(n).encode()).hexdigest() for n in ids} == set(lowest)
    assert sum(pair.gold for pair in pairs) == pytest.approx(500, abs=50)
    assert sum(ids) / 1000 == pytest.approx(2000, rel=0.05)
    turned = run("qqp", tmp_path, {"q.csv": head + "".join(reversed(rows))}, sample=1000)
    assert sorted(map(repr, turned)) == sorted(map(repr, pairs))
    with pytest.raises(DataFormatError, match="sample of 4001 pairs cannot be drawn from 4000"):
        run("qqp", tmp_path, {"q.csv": head + "".join(rows)}, sample=4001)


def test_duplicates_alone_become_negatives_too(originals: Callable[..., DataStore]) -> None:
    data = originals("qqp").resolve(builtin_cards()["qqp-sub"])
    pairs = parse(data)
    with next(iter(data.files.values())).open(encoding="utf-8") as stream:
        known = {row["id"]: (row["question1"], row["question2"]) for row in csv.DictReader(stream)}
    assert len(known) == 14_926
    assert [sum(pair.gold == label for pair in pairs) for label in (1, 0)] == [500, 500]
    for pair in pairs:
        one, _, other = pair.id.partition("+")
        assert bool(other) == (pair.gold == 0)
        texts = known[one][0], known[other or one][1]
        assert (pair.left, pair.right) == tuple(" ".join(text.split()) for text in texts)
    assert len({pair.id.partition("+")[0] for pair in pairs}) == 1000


def test_quotes_of_qnli_are_text_and_its_sentences_a_corpus(tmp_path: Path) -> None:
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
    assert read_corpus("qnli-sentences", store, cards).texts == tuple(text for line in lines for text in line[1:3])


TEXT = st.text(st.characters(exclude_characters="\n\r\0\t", exclude_categories=["Cs"]), min_size=1).filter(str.strip)
GOLD = st.one_of(st.just(""), st.floats(0, 5).map(repr))


@settings(max_examples=settings().max_examples // 4)
@given(st.lists(st.tuples(TEXT, TEXT, GOLD), min_size=1, max_size=20))
def test_sts_gives_every_scored_row_exactly(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str, str]]
) -> None:
    rows = [(left.lstrip("\ufeff") or "x", right, gold) for left, right, gold in rows]
    files: dict[str, str | bytes] = {
        "STS.input.X.txt": "".join(f"{left}\t{right}\n" for left, right, _ in rows),
        "STS.gs.X.txt": "".join(f"{gold}\n" for _, _, gold in rows),
    }
    got = run("sts", tmp_path_factory.mktemp("sts"), files)
    wanted = [(left, right, float(gold)) for left, right, gold in rows if gold]
    assert [(pair.left, pair.right, pair.gold) for pair in got] == wanted
    assert len({pair.id for pair in got}) == len(got)


PUBLISHED = {
    "sts12": 3108, "sts13": 1500, "sts14": 3750, "sts15": 3000, "sts16": 1186, "stsb": 1379, "stsb-dev": 1500,
    "sickr": 4927, "sts17-es": 250, "sts17-ar": 250, "sts17-en": 250, "sts-ru-mt": 1379, "qnli": 5463,
}  # fmt: skip
SPLITS = {("stsb", "train"): 5749, ("stsb", "dev"): 1500, ("sickr", "train"): 4500, ("sickr", "dev"): 500}


@pytest.mark.parametrize("name", few(PUBLISHED, "stsb", "sickr"))
def test_the_original_files_have_the_published_sizes(originals: Callable[..., DataStore], name: str) -> None:
    card, store = builtin_cards()[name], originals("qnli" if name == "qnli" else "sts")
    data = store.resolve(card)
    pairs = parse(data)
    assert len(pairs) == len({pair.id for pair in pairs}) == PUBLISHED[name]
    assert data.verified
    assert data.checksums == store.checksums(card)
    assert set(data.checksums.values()) == {file.sha256 for file in card.files_of(card.split)}
    for split in ("train", "dev"):
        if (name, split) in SPLITS:
            assert len(parser_of(card.parser)(store.fetch(card, split), {})) == SPLITS[name, split]
    if name == "qnli":
        assert sum(pair.gold for pair in pairs) == 2702


def test_texts_are_those_of_a_reader_of_a_few_lines(originals: Callable[..., DataStore]) -> None:
    card, store = builtin_cards()["sts14"], originals("sts")
    files = store.fetch(card)
    wanted = []
    for name in ("OnWN", "deft-forum", "deft-news", "headlines", "images", "tweet-news"):
        with open(files[f"STS.input.{name}.txt"], encoding="utf-8", newline="\n") as stream:
            wanted += [tuple(line.rstrip("\n").split("\t")) for line in stream]
    assert [(pair.left, pair.right) for pair in parse(store.resolve(card))] == wanted


# Rows of the original file, cut to the columns that matter here.
CONCEPTICON = """\
ID\tSIMLEX_IDS\tENGLISH\tESTONIAN\tENGLISH_IN_SOURCE\tESTONIAN_IN_SOURCE\tENGLISH_SCORE\tESTONIAN_SCORE
1\t2:1\tinfinity\tlõpmatus\tinfinity\tlõpmatus\t0.5\t0.9
2\t2:2\tzero\t[null]\tzero\t\t0.5\t0.9
3\t1:2 3:1\tgarden hose (hose)\tabikaasa (naine)\those garden hose\tabikaasa (naine)  abikaasa (naine)\t6 1.5\t4.8 3
4\t1:1 3:2\tpipe\ttoru (voolik/kraan)\tpipe pipe\tvoolik kraan \t6 1.5\t4.8 3
"""
TRANSLATION = 'ID,POS,ENG 1,ENG 2,EST 1,EST 2\n1,nouns,infinity,zero,lõpmatus,null\n2,verbs,give up,"quit, stop",a,NA\n'
SCORES = "ID,POS,ENG,EST\n1,nouns,0.5,1.7\n2,verbs,6,4.7\n"


def judged(pairs: list[Pair]) -> list[tuple[str, str, str, float]]:
    return [row[:4] for row in simple(pairs)]


class TestConcepticon:
    def read(self, tmp_path: Path, content: str, *languages: str) -> list[tuple[str, str, str, float]]:
        return judged(run("multisimlex-concepticon", tmp_path, {"V.tsv": content}, languages=list(languages)))

    def test_null_is_a_word(self, tmp_path: Path) -> None:
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

    def test_two_languages_are_crossed_where_people_agree(self, tmp_path: Path) -> None:
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
            ("SIMLEX_IDS", "IDS", "the header lacks SIMLEX_IDS"),
            ("\those garden hose\t", "\those pipe\t", "line 4: 'hose pipe' cannot be cut into 2 words"),
            ("(hose)\t", "(hose/garden/hose garden)\t", "cannot be cut"),  # more than one way
            ("\t6 1.5\t4.8 3\n4", "\t6\t4.8 3\n4", "cannot be cut into 2"),
            ("2:2\tzero", "2:3\tzero", "'2:3' is no place"),
            ("2:2\tzero", "2:1\tzero", "pair 2 contradicts"),
            ("zero\t\t0.5", "zero\t\t0.6", "pair 2 contradicts"),
            ("2\t2:2", "2\t9:2", "pair 2 has 1 words of ENGLISH"),
            ("lõpmatus\t0.5", "lõpmatus\t6.5", "outside the scale"),
            ("\t0.5\t0.9\n2", "\t0.5\n2", "line 2: 7 columns instead of 8"),
        ],
    )
    def test_what_breaks_the_format(self, tmp_path: Path, old: str, new: str, message: str) -> None:
        assert old in CONCEPTICON
        with pytest.raises(DataFormatError, match=message):
            self.read(tmp_path, CONCEPTICON.replace(old, new, 1), "ENGLISH")


class TestOfficial:
    def read(self, tmp_path: Path, words: str, scores: str, *languages: str) -> list[tuple[str, str, str, float]]:
        files = {"translation.csv": words, "scores.csv": scores}
        return judged(run("multisimlex", tmp_path, files, languages=list(languages)))

    def test_words_as_they_stand_in_one_language_and_two(self, tmp_path: Path) -> None:
        assert self.read(tmp_path, TRANSLATION, SCORES, "EST") == [
            ("1", "lõpmatus", "null", 1.7),
            ("2", "a", "NA", 4.7),
        ]
        assert self.read(tmp_path, TRANSLATION, SCORES, "ENG")[1] == ("2", "give up", "quit, stop", 6.0)
        got = self.read(tmp_path, TRANSLATION, SCORES, "ENG", "EST")
        assert got == [("1/12", "infinity", "null", 1.1), ("1/21", "zero", "lõpmatus", 1.1)]


@pytest.fixture
def word_store(originals: Callable[..., DataStore]) -> DataStore:
    return originals("wordsim")


@pytest.mark.full
def test_the_original_pairs_of_words_have_the_published_sizes(word_store: DataStore) -> None:
    cards = builtin_cards()
    codes = ("ar", "cy", "en", "es", "et", "fi", "fr", "he", "pl", "ru", "yue", "zh")
    for code in codes:
        pairs = parse(word_store.resolve(cards[f"multisimlex-{code}"]))
        assert [pair.id for pair in pairs] == [str(number) for number in range(1, 1889)]
    assert len(parse(word_store.resolve(cards["simlex999"]))) == 999


def test_the_official_format_and_concepticon_give_the_same_pairs(word_store: DataStore, shared_data: Path) -> None:
    """The tables that were derived independently, in the official format, lack one word: the Estonian "null"."""
    derived = shared_data / "wordsim" / "multisimlex" / "derived"
    with open(derived / "translation.csv", encoding="utf-8", newline="") as stream:
        words = {row["ID"]: row for row in csv.DictReader(stream)}
    with open(derived / "scores.csv", encoding="utf-8", newline="") as stream:
        scores = {row["ID"]: row for row in csv.DictReader(stream)}
    assert words["953"]["EST 2"] == ""
    words["953"]["EST 2"] = "null"
    for code, column in (("et", "EST"), ("ar", "ARA")):
        for pair in parse(word_store.resolve(builtin_cards()[f"multisimlex-{code}"])):
            assert (pair.left, pair.right) == tuple(" ".join(words[pair.id][f"{column} {n}"].split()) for n in (1, 2))
            assert pair.gold == float(scores[pair.id][column])


@pytest.mark.parametrize("languages", few(["en-fr", "en-zh", "en-he", "fr-zh", "fr-he", "zh-he"], suite=slow))
def test_cross_lingual_pairs_equal_an_independent_derivation(
    word_store: DataStore, shared_data: Path, languages: str
) -> None:
    codes = {"en": "ENG", "fr": "FRA", "zh": "CMN", "he": "HEB"}
    table = "-".join(codes[language] for language in languages.split("-"))
    path = shared_data / "wordsim" / "multisimlex" / "derived" / "clws" / f"{table}.csv"
    with open(path, encoding="utf-8", newline="") as stream:
        rows = list(csv.reader(stream))[1:]
    wanted = [(f"{number}/{way}", left, right, float(score)) for number, way, left, right, score in rows]
    got = judged(parse(word_store.resolve(builtin_cards()[f"clws-{languages}"])))
    assert [row[:3] for row in got] == [row[:3] for row in wanted]
    assert [row[3] for row in got] == pytest.approx([row[3] for row in wanted])


XLING = {
    "yacle.test.freq.2k.it-fr.tsv": "dedicazione\tdévouement\ndesideri\tdésirs\ndesideri\tsouhaits\n",
    "yacle.train.freq.5k.it-fr.tsv": "null\tNA\nnan\tnul\n",
    "yacle.train.freq.1k.it-fr.tsv": "null\tNA\n",
}


def test_pairs_in_file_order_of_the_size_asked_for(tmp_path: Path) -> None:
    test = (("dedicazione", "dévouement"), ("desideri", "désirs"), ("desideri", "souhaits"))
    assert run("xling-eval", tmp_path, XLING, train="5k") == [Lexicon((("null", "NA"), ("nan", "nul")), test)]
    assert run("xling-eval", tmp_path, XLING, train="1k") == [Lexicon((("null", "NA"),), test)]
    with pytest.raises(UnknownNameError, match="nope"):
        run("nope", tmp_path, XLING)


@pytest.mark.full
def test_the_original_dictionaries_have_the_published_sizes(originals: Callable[..., DataStore]) -> None:
    store = originals("bli")
    cards = {name: card for name, card in builtin_cards().items() if name.startswith("bli-")}
    assert len(cards) == 28 * 3
    for name, card in cards.items():
        (lexicon,) = parse(store.resolve(card))
        assert len(lexicon.train) == {"1k": 1000, "3k": 3000}.get(name.split("-")[-1], 5000)
        assert len(lexicon.test) == 2000
    italian = parse(store.resolve(cards["bli-it-fr"]))[0].test
    assert len({source for source, _ in italian}) == 1936
    assert len(list(store.root.glob("bli-*"))) == 28  # the three sizes of a pair share their files
