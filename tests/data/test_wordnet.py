"""WordNet on a small, made-up database."""

from __future__ import annotations

from pathlib import Path

from mirrorbench.data.wordnet import WordNet


def test_wordnet_senses_have_keys_glosses_and_examples(wordnet_files: dict[str, Path]) -> None:
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


def test_plural_nouns_are_lemmatised(wordnet_files: dict[str, Path]) -> None:
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
