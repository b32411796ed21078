from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

import pytest
from parsing import run

from mirrorbench.core.errors import DataFormatError, DataUnavailableError
from mirrorbench.data.cardfile import builtin_cards, builtin_suites
from mirrorbench.data.formats import parse
from mirrorbench.data.items import Lexicon, Pair
from mirrorbench.data.store import DataStore

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


def simple(pairs: list[Pair]) -> list[tuple[str, str, str, float]]:
    return [(pair.id, pair.left, pair.right, pair.gold) for pair in pairs]


class TestConcepticon:
    def read(self, tmp_path: Path, content: str, *languages: str) -> list[tuple[str, str, str, float]]:
        return simple(run("multisimlex-concepticon", tmp_path, {"V.tsv": content}, languages=list(languages)))

    def test_expressions_are_cut_at_the_forms_of_their_concept(self, tmp_path: Path) -> None:
        assert self.read(tmp_path, CONCEPTICON, "ENGLISH") == [
            ("1", "pipe", "hose", 6.0),
            ("2", "infinity", "zero", 0.5),
            ("3", "garden hose", "pipe", 1.5),
        ]

    def test_null_is_a_word(self, tmp_path: Path) -> None:
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
        return simple(run("multisimlex", tmp_path, files, languages=list(languages)))

    def test_words_as_they_stand(self, tmp_path: Path) -> None:
        assert self.read(tmp_path, TRANSLATION, SCORES, "EST") == [
            ("1", "lõpmatus", "null", 1.7),
            ("2", "a", "NA", 4.7),
        ]
        assert self.read(tmp_path, TRANSLATION, SCORES, "ENG")[1] == ("2", "give up", "quit, stop", 6.0)

    def test_two_languages(self, tmp_path: Path) -> None:
        got = self.read(tmp_path, TRANSLATION, SCORES, "ENG", "EST")
        assert got == [("1/12", "infinity", "null", 1.1), ("1/21", "zero", "lõpmatus", 1.1)]


@pytest.fixture
def real_store(originals: Callable[..., DataStore]) -> DataStore:
    return originals("wordsim")


def test_the_original_files_have_the_published_sizes(real_store: DataStore) -> None:
    cards = builtin_cards()
    codes = ("ar", "cy", "en", "es", "et", "fi", "fr", "he", "pl", "ru", "yue", "zh")
    for code in codes:
        pairs = parse(real_store.resolve(cards[f"multisimlex-{code}"]))
        assert [pair.id for pair in pairs] == [str(number) for number in range(1, 1889)]
    assert len(parse(real_store.resolve(cards["simlex999"]))) == 999


def test_cards_made_from_one_file_share_it(real_store: DataStore) -> None:
    assert len(list(real_store.root.rglob("Vulic-2020-2244.tsv"))) == 1


def test_the_official_format_and_concepticon_give_the_same_pairs(real_store: DataStore, shared_data: Path) -> None:
    """The tables that were derived independently, in the official format, lack one word: the Estonian "null"."""
    derived = shared_data / "wordsim" / "multisimlex" / "derived"
    with open(derived / "translation.csv", encoding="utf-8", newline="") as stream:
        words = {row["ID"]: row for row in csv.DictReader(stream)}
    with open(derived / "scores.csv", encoding="utf-8", newline="") as stream:
        scores = {row["ID"]: row for row in csv.DictReader(stream)}
    assert words["953"]["EST 2"] == ""
    words["953"]["EST 2"] = "null"
    for code, column in (("en", "ENG"), ("et", "EST"), ("pl", "POL"), ("zh", "CMN"), ("ar", "ARA")):
        for pair in parse(real_store.resolve(builtin_cards()[f"multisimlex-{code}"])):
            assert (pair.left, pair.right) == tuple(" ".join(words[pair.id][f"{column} {n}"].split()) for n in (1, 2))
            assert pair.gold == float(scores[pair.id][column])


@pytest.mark.parametrize("languages", ["en-fr", "en-zh", "en-he", "fr-zh", "fr-he", "zh-he"])
def test_cross_lingual_pairs_equal_an_independent_derivation(
    real_store: DataStore, shared_data: Path, languages: str
) -> None:
    codes = {"en": "ENG", "fr": "FRA", "zh": "CMN", "he": "HEB"}
    table = "-".join(codes[language] for language in languages.split("-"))
    path = shared_data / "wordsim" / "multisimlex" / "derived" / "clws" / f"{table}.csv"
    with open(path, encoding="utf-8", newline="") as stream:
        rows = list(csv.reader(stream))[1:]
    wanted = [(f"{number}/{way}", left, right, float(score)) for number, way, left, right, score in rows]
    got = simple(parse(real_store.resolve(builtin_cards()[f"clws-{languages}"])))
    assert [row[:3] for row in got] == [row[:3] for row in wanted]
    assert [row[3] for row in got] == pytest.approx([row[3] for row in wanted])


def test_suites_and_missing_originals() -> None:
    cards, suites = builtin_cards(), builtin_suites()
    codes = ["en", "fr", "et", "ar", "zh", "ru", "es", "pl"]
    assert suites["simlex"] == tuple(f"multisimlex-{code}" for code in codes)
    assert [cards[name].label for name in suites["clws"]] == ["EN-FR", "EN-ZH", "EN-HE", "FR-ZH", "FR-HE", "ZH-HE"]
    assert sum(name.startswith("clws-") for name in cards) == 66
    with pytest.raises(DataUnavailableError, match=r"multisimlex\.com/data/scores\.csv"):
        DataStore(Path("nowhere"), offline=True).resolve(cards["multisimlex-sw"])


XLING = {
    "yacle.test.freq.2k.it-fr.tsv": "dedicazione\tdévouement\ndesideri\tdésirs\ndesideri\tsouhaits\n",
    "yacle.train.freq.5k.it-fr.tsv": "null\tNA\nnan\tnul\n",
    "yacle.train.freq.1k.it-fr.tsv": "null\tNA\n",
}


def test_pairs_in_file_order_of_the_size_asked_for(tmp_path: Path) -> None:
    test = (("dedicazione", "dévouement"), ("desideri", "désirs"), ("desideri", "souhaits"))
    assert run("xling-eval", tmp_path, XLING, train="5k") == [Lexicon((("null", "NA"), ("nan", "nul")), test)]
    assert run("xling-eval", tmp_path, XLING, train="1k") == [Lexicon((("null", "NA"),), test)]


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


def test_the_suite_of_dictionaries_is_that_of_the_paper() -> None:
    labels = [builtin_cards()[name].label for name in builtin_suites()["bli"]]
    assert labels == ["EN-FR", "EN-IT", "EN-RU", "EN-TR", "IT-FR", "RU-FR"]
