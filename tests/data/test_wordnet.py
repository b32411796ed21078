"""WordNet on a small, made-up database."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.parsed_files import on_disk

from mirrorbench.core.errors import DataFormatError
from mirrorbench.data.parsers.datasets.word_senses import parse_wsd
from mirrorbench.data.wordnet import WordNet


def test_senses_in_order_with_keys_glosses_and_examples(wordnet_files: dict[str, Path]) -> None:
    wordnet = WordNet(wordnet_files)
    first, second = wordnet.senses("dog_house", "NOUN")
    assert (first.key, second.key) == ("dog_house%1:03:00::", "dog_house%1:03:02::")
    assert (first.form, first.definition) == ("dog house", "outbuilding for a dog")
    assert first.examples == ("three dog houses", "a kennel")
    assert (second.definition, second.examples) == ("trouble: the usual (so it is called)", ())
    assert wordnet.senses("google", "VERB")[0].form == "Google"
    assert wordnet.senses("dog_house", "VERB") == []
    (quick,), (fast,), (soon,) = (
        wordnet.senses(*asked) for asked in (("quick", "ADJ"), ("fast", "ADJ"), ("soon", "ADV"))
    )
    assert (quick.key, quick.form) == (
        "quick%5:00:00:fast:01",
        "quick",
    )  # a satellite names its head
    assert (fast.key, soon.key) == ("fast%3:00:01::", "soon%4:02:00::")


XML = """<?xml version="1.0" encoding="UTF-8" ?>
<corpus><text id="one.d0"><sentence id="one.d0.s0"><wf lemma="the" pos="DET">The</wf>
<instance id="one.d0.s0.t0" lemma="dog_house" pos="NOUN">dog &amp; house</instance>
<wf lemma="google" pos="VERB">googles</wf></sentence></text>
<text id="two.d0"><sentence id="two.d0.s0"><instance id="two.d0.s0.t0" lemma="Google" pos="VERB">Google</instance>
</sentence></text></corpus>
"""


GOLD = "one.d0.s0.t0 dog_house%1:03:02:: dog_house%1:03:00::\ntwo.d0.s0.t0 google%2:41:00::\n"


def task_files(folder: Path, xml: str = XML, gold: str = GOLD) -> dict[str, Path]:
    return on_disk(folder, {"ALL.data.xml": xml, "ALL.gold.key.txt": gold})


def test_the_lemmatiser_of_nouns(wordnet_files: dict[str, Path]) -> None:
    wordnet = WordNet(wordnet_files)
    nouns = ("dog", "church", "aardwolf", "abacus", "wolf", "glass", "man", "us", "u", "bass")
    vars(wordnet)["_indices"] = {"noun": dict.fromkeys(nouns, "")}
    vars(wordnet)["_exceptions"] = {
        "noun": {"abaci": ["abacus"], "aardwolves": ["aardwolf"], "went": ["go"]}
    }
    wanted = {
        "dogs": "dog",
        "churches": "church",
        "aardwolves": "aardwolf",
        "abaci": "abacus",
        "hardrock": "hardrock",  # these five as in the doctest of NLTK's WordNetLemmatizer
        "wolves": "wolf",
        "Dogs": "Dogs",
        "went": "went",
        "glasses": "glass",
        "men": "man",
        "us": "u",
        "bass": "bass",
        "churchess": "church",  # endings are detached until a noun is found
    }
    assert {form: wordnet.noun(form) for form in wanted} == wanted


def test_another_wordnet_is_refused(tmp_path: Path, wordnet_files: dict[str, Path]) -> None:
    with pytest.raises(DataFormatError, match="google%2:32:00::"):
        parse_wsd({**task_files(tmp_path, gold=GOLD.replace("2:41", "2:32")), **wordnet_files}, {})
    with pytest.raises(DataFormatError, match="has no gold key"):
        parse_wsd({**task_files(tmp_path, gold=GOLD.splitlines()[0]), **wordnet_files}, {})
    with pytest.raises(DataFormatError, match="not well-formed"):
        parse_wsd({**task_files(tmp_path, xml=XML[:-10]), **wordnet_files}, {})
