"""Word sense disambiguation: the unified evaluation framework (Raganato et al., 2017) with WordNet 3.0."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from mirrorbench.core.errors import DataFormatError, DataUnavailableError
from mirrorbench.core.inputs import TextInput
from mirrorbench.data.formats.contexts import STATEMENTS
from mirrorbench.data.formats.wordnet import POS, Sense, WordNet
from mirrorbench.data.items import Disambiguation, Occurrence, SenseContexts
from mirrorbench.data.textfiles import Ids, read_lines, shown

_DATA, _GOLD = ".data.xml", ".gold.key.txt"
_WORD = re.compile(r"[^\W_]+(?:['’.][^\W_]+)*\.?")
_BETWEEN_WORDS = re.compile(r"[_ -]")


def parse_wsd(files: Mapping[str, Path], options: Mapping[str, Any]) -> list[Disambiguation]:
    """One data set of the framework (``ALL.data.xml``, ``ALL.gold.key.txt``) with WordNet's senses of its words.

    The words of a sentence are joined by single spaces. A sense's examples are those of its WordNet entry that contain
    the word, as lemma or inflected; separated forms ("look it up") do not count. A gold key unknown to WordNet is an
    error (then it is not WordNet 3.0).
    """
    data, gold = (next((p for name, p in files.items() if name.endswith(end)), None) for end in (_DATA, _GOLD))
    if data is None or gold is None:
        raise DataFormatError(f"Parser 'wsd': no file *{_GOLD if data else _DATA}.")
    wordnet = WordNet(files)
    keys = _gold_keys(gold)
    senses: dict[str, SenseContexts] = {}
    candidates: dict[tuple[str, str], tuple[str, ...]] = {}
    occurrences = []
    for number, lemma, pos, target in _instances(data):
        if (lemma, pos) not in candidates:
            found = wordnet.senses(lemma, pos)
            candidates[lemma, pos] = tuple(sense.key for sense in found)
            senses |= {sense.key: _contexts(sense, lemma, pos, wordnet) for sense in found}
        own, right = candidates[lemma, pos], keys.pop(number, frozenset())
        if not right or not right <= set(own):
            what = ", ".join(sorted(right - set(own))) or "no gold key"
            raise DataFormatError(
                f"{gold}: {number} ({lemma}, {pos}) has {what} among its keys, which WordNet does not know.",
                hint="The sense keys are those of WordNet 3.0; another version will not do.",
            )
        occurrences.append(Occurrence(number, target, own, right, number.partition(".")[0]))
    if not occurrences:
        raise DataFormatError(f"{data}: no instances in it.")
    if keys:
        raise DataFormatError(f"{gold}: keys of {shown(min(keys))}, which is not in {data}, or twice in the file.")
    return [Disambiguation(tuple(occurrences), senses)]


def _gold_keys(path: Path) -> dict[str, frozenset[str]]:
    """The sense keys of each instance, by its id."""
    ids = Ids()
    rows = ((line, text.split()) for line, text in enumerate(read_lines(path), start=1))
    return {ids.add(row[0], path, line): frozenset(row[1:]) for line, row in rows if row}


def _instances(path: Path) -> Iterator[tuple[str, str, str, TextInput]]:
    """Id, lemma, part of speech, and the word in its sentence."""
    try:
        root = ElementTree.parse(path).getroot()
    except (ElementTree.ParseError, ValueError, LookupError) as error:  # the latter two for an unknown encoding
        raise DataFormatError(f"{path} is not well-formed XML ({error}).") from None
    except OSError as error:
        raise DataUnavailableError(f"Cannot read {path}: {error.strerror}.") from None
    inside = [instance for sentence in root.iter("sentence") for instance in sentence.findall("instance")]
    if inside != list(root.iter("instance")):
        raise DataFormatError(f"{path}: an instance that is not right below a sentence.")
    for sentence in root.iter("sentence"):
        words = [element.text or "" for element in sentence]
        text, start = " ".join(words), 0
        for element, word in zip(sentence, words, strict=True):
            if element.tag == "instance":
                number, lemma, pos = (element.get(name, "") for name in ("id", "lemma", "pos"))
                if not word or pos not in POS:
                    raise DataFormatError(f"{path}: the instance {number!r} has no word, or an unknown part of speech.")
                yield number, lemma.lower(), pos, TextInput(text, ((start, start + len(word)),))
            start += len(word) + 1


def _contexts(sense: Sense, lemma: str, pos: str, wordnet: WordNet) -> SenseContexts:
    spans = ((example, find(lemma, pos, example, wordnet)) for example in sense.examples)
    examples = tuple(TextInput(example, (span,)) for example, span in spans if span)
    gloss = STATEMENTS[1].format(target=sense.form, definition=sense.definition)
    return SenseContexts(examples, TextInput(gloss, ((0, len(sense.form)),)))


def find(lemma: str, pos: str, text: str, wordnet: WordNet) -> tuple[int, int] | None:
    """The character span of a word's first occurrence in a text, in any inflected form; ``None`` if there is none.

    ``lemma`` is in lower case, with underscores for spaces; hyphens and spaces are treated as equal.
    """
    wanted = _BETWEEN_WORDS.split(lemma)
    found = list(_WORD.finditer(text))
    for first in range(len(found) - len(wanted) + 1):
        run = found[first : first + len(wanted)]
        if all(_is_form(match[0].lower(), word, pos, wordnet) for match, word in zip(run, wanted, strict=True)):
            return run[0].start(), run[-1].start() + len(run[-1][0].rstrip("."))
    return None


def _is_form(word: str, lemma: str, pos: str, wordnet: WordNet) -> bool:
    forms = {word, word.rstrip("."), word.removesuffix("'s")}
    return any(lemma.rstrip(".") in wordnet.bases(form, pos) for form in forms if form)
