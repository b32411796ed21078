"""Word sense disambiguation on a small, made-up WordNet."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from helpers.parsed_files import on_disk

from mirrorbench.core.encoder_protocol import TextInput
from mirrorbench.core.errors import DataFormatError
from mirrorbench.data.items import SenseContexts
from mirrorbench.data.parsers.datasets.word_senses import find_word, parse_wsd
from mirrorbench.data.wordnet import WordNet


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
def test_inflected_lemma_is_found_in_text(
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


def test_wsd_occurrences_have_candidates_and_sense_contexts(
    tmp_path: Path, wordnet_files: dict[str, Path]
) -> None:
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


def test_examples_option_selects_sense_examples(
    tmp_path: Path, wordnet_files: dict[str, Path]
) -> None:
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
        ({"examples": "two"}, "must be one of first, random, all"),
        ({"seed": 3}, "examples=first"),
    ):
        with pytest.raises(DataFormatError, match=message):
            chosen(**options)


def test_wsd_contexts_follow_the_released_code(
    tmp_path: Path, wordnet_files: dict[str, Path]
) -> None:
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


def test_wsd_files_inconsistent_with_wordnet_are_refused(
    tmp_path: Path, wordnet_files: dict[str, Path]
) -> None:
    with pytest.raises(DataFormatError, match="google%2:32:00::"):
        parse_wsd({**task_files(tmp_path, gold=GOLD.replace("2:41", "2:32")), **wordnet_files}, {})
    with pytest.raises(DataFormatError, match="has no gold key"):
        parse_wsd({**task_files(tmp_path, gold=GOLD.splitlines()[0]), **wordnet_files}, {})
    with pytest.raises(DataFormatError, match="not well-formed"):
        parse_wsd({**task_files(tmp_path, xml=XML[:-10]), **wordnet_files}, {})
