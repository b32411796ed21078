"""Word sense disambiguation on a small, made-up WordNet."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from parsing import on_disk

from mirrorbench.core.encoder_protocol import TextInput
from mirrorbench.core.errors import DataFormatError
from mirrorbench.data.items import SenseContexts
from mirrorbench.data.parsers.datasets.word_senses import find_word, parse_wsd
from mirrorbench.data.wordnet import WordNet

LICENCE = "  1 This is a licence.\n"
# Two nouns, a verb with a capital, an adjective with a satellite that is marked, an adverb.
ENTRIES = {
    "noun": [
        (
            "dog_house",
            '03 n 02 dog_house 0 kennel 0 000 | outbuilding for a dog; "three dog houses"; "a kennel"',
        ),
        ("dog_house", "03 n 01 dog_house 2 000 | trouble: the usual (so it is called)"),
        (
            "dog",
            """05 n 01 dog 0 000 | a "canine" pet; "the dogs' bones, two dogs"; "Dogs bark"; "a hot-dog\"""",
        ),
    ],
    "verb": [
        (
            "google",
            '41 v 01 Google 0 000 01 + 08 00 | search; "he Googled it"; "google the word"; "it is googled"',
        )
    ],
    "adj": [
        ("fast", '00 a 01 fast 1 001 & {1} a 0000 | quick; "runs faster than null"'),
        ("quick", "00 s 02 quick(a) 0 swift 3 001 & {0} a 0000 | done soon"),
    ],
    "adv": [("soon", "02 r 01 soon 0 000 | in the near future")],
}


@pytest.fixture
def wordnet_files(tmp_path: Path) -> dict[str, Path]:
    letters = {"noun": "n", "verb": "v", "adj": "a", "adv": "r"}
    for pos, entries in ENTRIES.items():
        offsets, at = [], len(LICENCE)
        for _, entry in entries:
            offsets.append(f"{at:08d}")
            at += len(entry.replace("{0}", "0" * 8).replace("{1}", "0" * 8)) + 10
        lines = [
            f"{offset} {entry.format(*offsets)}\n"
            for offset, (_, entry) in zip(offsets, entries, strict=True)
        ]
        index = {
            lemma: [o for o, (word, _) in zip(offsets, entries, strict=True) if word == lemma]
            for lemma, _ in entries
        }
        index_lines = [
            f"{lemma} {letters[pos]} {len(own)} 1 & {len(own)} 0 {' '.join(own)}  \n"
            for lemma, own in index.items()
        ]
        (tmp_path / f"data.{pos}").write_text(LICENCE + "".join(lines))
        (tmp_path / f"index.{pos}").write_text(LICENCE + "".join(index_lines))
        (tmp_path / f"{pos}.exc").write_text("went go\nbetter good well\n" if pos == "verb" else "")
    return {f"wordnet/{path.name}": path for path in tmp_path.iterdir()}


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


@pytest.mark.parametrize(
    ("lemma", "pos", "text", "form"),
    [
        ("dog_house", "NOUN", "The Dog-Houses burn.", "Dog-Houses"),
        ("dog_house", "NOUN", "dog", None),
        ("go", "VERB", "it went, going", "went"),
        ("go", "VERB", "it went.", "went"),
        ("go", "NOUN", "it went", None),
        ("hot-dog", "NOUN", "two hot dogs", "hot dogs"),
        ("boy", "NOUN", "the boy's hat", "boy's"),
        ("a.m.", "ADV", "at 5 a.m.", "a.m"),
        ("art", "NOUN", "the artist", None),
        ("church", "NOUN", "churches", "churches"),
        ("woman", "NOUN", "two women", "women"),
        ("fly", "VERB", "it flies", "flies"),
        ("well", "VERB", "better", "better"),
        ("make", "VERB", "making", "making"),
        ("fast", "ADJ", "faster", "faster"),
        ("nice", "ADJ", "the nicest", "nicest"),
    ],
)
def test_a_word_is_found_in_its_forms(
    wordnet_files: dict[str, Path], lemma: str, pos: str, text: str, form: str | None
) -> None:
    span = find_word(lemma, pos, text, WordNet(wordnet_files))
    assert (text[slice(*span)] if span else None) == form


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


def test_words_candidates_and_contexts(tmp_path: Path, wordnet_files: dict[str, Path]) -> None:
    (data,) = parse_wsd({**task_files(tmp_path), **wordnet_files}, {})
    first, second = data.occurrences
    assert (first.id, first.corpus, second.corpus) == ("one.d0.s0.t0", "one", "two")
    assert first.target.text == "The dog & house googles"
    assert first.target.text[slice(*first.target.spans[0])] == "dog & house"
    assert first.candidates == ("dog_house%1:03:00::", "dog_house%1:03:02::")
    assert first.gold == {"dog_house%1:03:00::", "dog_house%1:03:02::"}
    with_example, without = data.senses["dog_house%1:03:00::"], data.senses["dog_house%1:03:02::"]
    (example,) = with_example.examples
    assert (example.text, example.text[slice(*example.spans[0])]) == (
        "three dog houses",
        "dog houses",
    )
    assert without.examples == ()
    assert without.gloss.text == "dog house means trouble: the usual (so it is called)"
    assert without.gloss.spans == ((0, 9),)
    assert [e.spans for e in data.senses["google%2:41:00::"].examples] == [((3, 10),)]


def spans(contexts: SenseContexts) -> list[tuple[str, str]]:
    """Each example, and its word."""
    return [(example.text, example.text[slice(*example.spans[0])]) for example in contexts.examples]


def test_one_example_represents_a_sense(tmp_path: Path, wordnet_files: dict[str, Path]) -> None:
    """ "One context example per label" (MirrorWiC, section 4): the first in WordNet's order."""
    files, key = {**task_files(tmp_path), **wordnet_files}, "google%2:41:00::"
    every = [
        ("he Googled it", "Googled"),
        ("google the word", "google"),
        ("it is googled", "googled"),
    ]

    def chosen(**options: Any) -> list[tuple[str, str]]:
        return spans(parse_wsd(files, options)[0].senses[key])

    assert chosen() == chosen(examples="first", seed=0) == every[:1]
    assert chosen(examples="all") == every
    drawn = [chosen(examples="random", seed=seed) for seed in range(20)]
    assert {example for (example,) in drawn} == set(every)
    assert drawn == [chosen(examples="random", seed=seed) for seed in range(20)]
    for options, message in (
        ({"examples": "two"}, "none of first, random, all"),
        ({"seed": 3}, "examples=first"),
    ):
        with pytest.raises(DataFormatError, match=message):
            chosen(**options)


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


def test_contexts_as_in_the_released_code(tmp_path: Path, wordnet_files: dict[str, Path]) -> None:
    xml = """<corpus><text id="d"><sentence id="s"><instance id="one" lemma="dog" pos="NOUN">dogs</instance>
    <wf>see</wf><instance id="two" lemma="dog" pos="NOUN">Dog</instance></sentence></text></corpus>"""
    gold = "one dog%1:05:00::\ntwo dog%1:05:00::\n"
    files = {**task_files(tmp_path, xml, gold), **wordnet_files}
    released = {"protocol": "released", "of_target": True}
    (data,) = parse_wsd(files, released)
    assert [word.candidates for word in data.occurrences] == [("dog%1:05:00::",)] * 2
    small, capital = (data.senses[name] for word in data.occurrences for name in word.contexts)
    assert spans(small) == [("the dogs ' bones , two dogs", "dogs"), ("a hot - dog", "dog")]
    assert (small.gloss.text, small.gloss.spans) == ("dogs means a  pet", ((0, 4),))
    assert (spans(capital), capital.gloss.text) == ([], "Dog means a  pet")
    (data,) = parse_wsd(files, {**released, "of_target": False})
    assert [word.contexts for word in data.occurrences] == [(), ()]
    (whole,) = data.senses.values()
    texts = ("canine", "the dogs ' bones , two dogs", "Dogs bark", "a hot - dog")
    assert whole == SenseContexts(tuple(map(TextInput, texts)), TextInput("a  pet"))


def test_another_wordnet_is_refused(tmp_path: Path, wordnet_files: dict[str, Path]) -> None:
    with pytest.raises(DataFormatError, match="google%2:32:00::"):
        parse_wsd({**task_files(tmp_path, gold=GOLD.replace("2:41", "2:32")), **wordnet_files}, {})
    with pytest.raises(DataFormatError, match="has no gold key"):
        parse_wsd({**task_files(tmp_path, gold=GOLD.splitlines()[0]), **wordnet_files}, {})
    with pytest.raises(DataFormatError, match="not well-formed"):
        parse_wsd({**task_files(tmp_path, xml=XML[:-10]), **wordnet_files}, {})
