"""Word sense disambiguation: the unified evaluation framework (Raganato et al., 2017) with WordNet 3.0.

WordNet's database files are ``index.noun``, ``data.noun``, ``noun.exc`` ... (manual pages wndb, morphy). Only what the
task needs is read: senses in WordNet's order with keys, glosses and examples, and base forms.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path, PurePosixPath
from random import Random
from typing import Any
from xml.etree import ElementTree

from mirrorbench.plugin import (
    RELEASED,
    STATEMENTS,
    WORDPUNCT,
    DataFormatError,
    DataUnavailableError,
    Ids,
    TextInput,
    read_bytes,
    read_lines,
    shown,
)
from mirrorbench_lexical.items import Disambiguation, Occurrence, SenseContexts, which_examples

_DATA, _GOLD = ".data.xml", ".gold.key.txt"
_WORD = re.compile(r"[^\W_]+(?:['’.][^\W_]+)*\.?")
_BETWEEN_WORDS = re.compile(r"[_ -]")
POS = {"NOUN": "noun", "VERB": "verb", "ADJ": "adj", "ADV": "adv"}
"""File name component by part of speech as the disambiguation data sets write it."""

# Endings of inflected forms and of their base forms, from morphy(7).
ENDINGS = {
    "noun": (
        ("s", ""), ("ses", "s"), ("xes", "x"), ("zes", "z"), ("ches", "ch"), ("shes", "sh"), ("men", "man"),
        ("ies", "y"),
    ),
    "verb": (("s", ""), ("ies", "y"), ("es", "e"), ("es", ""), ("ed", "e"), ("ed", ""), ("ing", "e"), ("ing", "")),
    "adj": (("er", ""), ("est", ""), ("er", "e"), ("est", "e")),
    "adv": (),
}  # fmt: skip
_NLTK_NOUN_ENDINGS = (*ENDINGS["noun"], ("ves", "f"))
_TYPES = {"n": 1, "v": 2, "a": 3, "r": 4, "s": 5}
_SATELLITE = 5
_MARKER = re.compile(r"\((?:a|p|ip)\)\Z")  # an adjective's syntactic marker, not part of the word
_QUOTED = re.compile(r'"([^"]*)"')


@dataclass(frozen=True, slots=True)
class Sense:
    """A sense: its key (``art%1:06:00::``), the lemma as written (``Greenwich Village``), definition and examples.

    The examples are those of the WordNet entry, shared by all its words; ``gloss`` is the entry's text that has both.
    """

    key: str
    form: str
    definition: str
    examples: tuple[str, ...]
    gloss: str


class WordNet:
    """WordNet's database; ``files``: index, data and exception files of each part of speech, by path."""

    def __init__(self, files: Mapping[str, Path]) -> None:
        self._paths = {PurePosixPath(name).name: path for name, path in files.items()}
        names = [name.format(pos) for pos in POS.values() for name in ("index.{}", "data.{}", "{}.exc")]
        if absent := [name for name in names if name not in self._paths]:
            raise DataFormatError(f"WordNet is missing the files {', '.join(absent)}.")

    def senses(self, lemma: str, pos: str) -> list[Sense]:
        """The senses of a lemma (lower case, underscores for spaces) in WordNet's order, most frequent first."""
        name = POS[pos]
        if not (entry := self._indices[name].get(lemma, "").split()):
            return []
        try:
            count = int(entry[1])
            offsets = [int(offset) for offset in entry[-count:]]
        except (ValueError, IndexError):
            count, offsets = 0, []
        if not 0 < count == len(offsets):
            raise DataFormatError(f"{self._paths[f'index.{name}']}: the line of {shown(lemma)} is no entry.")
        return [self._sense(name, offset, lemma) for offset in offsets]

    def bases(self, word: str, pos: str) -> set[str]:
        """The possible base forms of a word, and the word itself; lower case."""
        name = POS[pos]
        endings = (word.removesuffix(end) + base for end, base in ENDINGS[name] if word.endswith(end))
        return {word, *endings, *self._exceptions[name].get(word, ())}

    def noun(self, form: str) -> str:
        """The shortest noun in WordNet that a form may be one of, or the form itself: NLTK's ``WordNetLemmatizer``.

        Unlike ``bases`` it takes every word for a noun, minds capitals, and detaches endings until a noun is found.
        """
        known, exceptions = self._indices["noun"], self._exceptions["noun"].get(form)
        shorter = [] if exceptions else _detached([form])
        tried = [form, *(exceptions or shorter)]
        while True:
            if nouns := [word for word in tried if word in known]:
                return min(nouns, key=len)
            if not shorter:
                return form
            tried = shorter = _detached(shorter)

    @cached_property
    def _indices(self) -> dict[str, dict[str, str]]:
        """By part of speech: the index line of each lemma, without the lemma."""
        indices = {}
        for name in POS.values():
            lines = read_lines(self._paths[f"index.{name}"])
            split = (line.partition(" ") for line in lines if not line.startswith("  "))  # the licence
            indices[name] = {lemma: rest for lemma, _, rest in split}
        return indices

    @cached_property
    def _exceptions(self) -> dict[str, dict[str, list[str]]]:
        exceptions: dict[str, dict[str, list[str]]] = {}
        for name in POS.values():
            rows = [line.split() for line in read_lines(self._paths[f"{name}.exc"])]
            exceptions[name] = {row[0]: row[1:] for row in rows if row}
        return exceptions

    @cached_property
    def _data(self) -> dict[str, bytes]:
        # Entries are found by byte offset, so the data are kept as bytes and decoded entry by entry.
        return {name: read_bytes(self._paths[f"data.{name}"]) for name in POS.values()}

    def _sense(self, name: str, offset: int, lemma: str) -> Sense:
        fields, gloss = self._entry(name, offset)
        try:
            words = _entry_words(fields)
            form, lex_id = next((word, number) for word, number in words if word.lower() == lemma)
            kind, head = _TYPES[fields[2]], ":"
            if kind == _SATELLITE:
                first = 4 + 2 * len(words) + 1
                pointers = [fields[at : at + 4] for at in range(first, first + 4 * int(fields[first - 1]), 4)]
                target = next(int(pointer[1]) for pointer in pointers if pointer[0] == "&")
                word, number = _entry_words(self._entry(name, target)[0])[0]
                head = f"{word.lower()}:{number:02d}"
            key = f"{lemma}%{kind}:{fields[1]}:{lex_id:02d}:{head}"
        except (IndexError, ValueError, KeyError, StopIteration):  # a missing or invalid field
            raise self._no_entry(name, offset, f"of {shown(lemma)}") from None
        return Sense(key, form.replace("_", " "), *_gloss(gloss), gloss)

    def _entry(self, name: str, offset: int) -> tuple[list[str], str]:
        """The fields and the gloss of the entry at a byte offset."""
        data = self._data[name]
        line = data[offset : data.find(b"\n", offset) + 1] if 0 <= offset < len(data) else b""
        if not line.startswith(f"{offset:08d} ".encode()):
            raise self._no_entry(name, offset)
        try:
            fields, _, gloss = line.decode().partition(" | ")
        except UnicodeDecodeError:
            raise self._no_entry(name, offset, "in UTF-8") from None
        return fields.split(), gloss.strip()

    def _no_entry(self, name: str, offset: int, what: str = "") -> DataFormatError:
        where = self._paths[f"data.{name}"]
        entry = f"no entry {what}".rstrip()
        return DataFormatError(f"{where}: {entry} at offset {offset}; index and data differ, or are damaged.")


def _detached(forms: Iterable[str]) -> list[str]:
    return [form.removesuffix(end) + base for form in forms for end, base in _NLTK_NOUN_ENDINGS if form.endswith(end)]


def _entry_words(fields: list[str]) -> list[tuple[str, int]]:
    """The words of an entry, each with its number (lex_id) in the lexicographer's file."""
    count = int(fields[3], 16)
    pairs = [(fields[4 + 2 * i], fields[5 + 2 * i]) for i in range(count)]
    return [(_MARKER.sub("", word), int(number, 16)) for word, number in pairs]


def _gloss(gloss: str) -> tuple[str, tuple[str, ...]]:
    """The definition, and the quoted examples from the first ``; "`` on."""
    match = re.search(r'[;:]\s*"', gloss)
    if not match:
        return gloss, ()
    examples = (example.strip() for example in _QUOTED.findall(gloss[match.start() :]))
    return gloss[: match.start()].strip(" ;"), tuple(example for example in examples if example)


def parse_wsd(files: Mapping[str, Path], options: Mapping[str, Any]) -> list[Disambiguation]:
    """One data set of the framework (``ALL.data.xml``, ``ALL.gold.key.txt``) with WordNet's senses of its words.

    The words of a sentence are joined by single spaces. A sense's examples are those of its WordNet entry that contain
    the word, as lemma or inflected; separated forms ("look it up") do not count. The option ``examples`` picks among
    them: the ``first`` ("one context example per label", MirrorWiC, section 4), one at ``random`` (by the option
    ``seed``), or ``all``. A gold key unknown to WordNet is an error (then it is not WordNet 3.0).

    ``released``: see ``_released_contexts``; all examples stand for a sense. Otherwise a word is looked for by its own
    part of speech: taken for nouns, "ran" and "run" are two words.
    """
    data, gold = (next((p for name, p in files.items() if name.endswith(end)), None) for end in (_DATA, _GOLD))
    if data is None or gold is None:
        raise DataFormatError(f"Parser 'wsd': no file *{_GOLD if data else _DATA}.")
    wordnet = WordNet(files)
    keys = _gold_keys(gold)
    contexts: dict[str, SenseContexts] = {}
    occurrences = []
    contexts_of, by_form = _reader(wordnet, options), options.get("protocol") == RELEASED and options.get("of_target")
    senses = cache(wordnet.senses)
    for number, lemma, pos, target in _instances(data):
        candidates = senses(lemma, pos)
        own, right = tuple(sense.key for sense in candidates), keys.pop(number, frozenset())
        form = target.text[slice(*target.spans[0])] if by_form else ""
        names = tuple(f"{key} {form}" for key in own) if form else own
        for name, sense in zip(names, candidates, strict=True):
            if name not in contexts:
                contexts[name] = contexts_of(sense, lemma, pos, form)
        if not right or not right <= set(own):
            what = ", ".join(sorted(right - set(own))) or "no gold key"
            raise DataFormatError(
                f"{gold}: {number} ({lemma}, {pos}) has {what} among its keys, which WordNet does not know.",
                hint="The sense keys are those of WordNet 3.0; another version will not do.",
            )
        occurrences.append(Occurrence(number, target, own, right, number.partition(".")[0], names if form else ()))
    if not occurrences:
        raise DataFormatError(f"{data}: no instances in it.")
    if keys:
        raise DataFormatError(f"{gold}: keys of {shown(min(keys))}, which is not in {data}, or twice in the file.")
    return [Disambiguation(tuple(occurrences), contexts)]


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


def _reader(wordnet: WordNet, options: Mapping[str, Any]) -> Callable[[Sense, str, str, str], SenseContexts]:
    """The function from a sense, lemma, part of speech and form of an occurrence to the sense's contexts."""
    if options.get("protocol") == RELEASED:
        read = _released_contexts if options.get("of_target") else _released_texts
        return lambda sense, lemma, pos, form: read(sense, form, wordnet)
    which, seed = which_examples(options)

    def contexts(sense: Sense, lemma: str, pos: str, form: str) -> SenseContexts:
        spans = ((example, find(lemma, pos, example, wordnet)) for example in sense.examples)
        examples = tuple(TextInput(example, (span,)) for example, span in spans if span)
        if which == "random" and examples:
            examples = (Random(f"{seed} {sense.key}").choice(examples),)
        return SenseContexts(examples if which == "all" else examples[:1], _statement(sense.form, sense.definition))

    return contexts


def _statement(form: str, definition: str) -> TextInput:
    return TextInput(STATEMENTS[1].format(target=form, definition=definition), ((0, len(form)),))


def _released_contexts(sense: Sense, form: str, wordnet: WordNet) -> SenseContexts:
    """The contexts of a sense for a word that occurs as ``form``, as the released code (``test_wsd``) has them.

    Examples are cut into tokens, of which the first with the occurrence's lemma, both as nouns, is the target; an
    example without one is left out. The occurrence's form, not the lemma, stands before "means". Examples are all
    quotations of the gloss, and the definition is the rest, as in NLTK 3.5, which that code requires.
    """
    base, examples = wordnet.noun(form), []
    for tokens in map(WORDPUNCT.findall, _QUOTED.findall(sense.gloss)):
        position = next((n for n, token in enumerate(tokens) if wordnet.noun(token) == base), None)
        if position is not None:
            start = sum(len(token) + 1 for token in tokens[:position])
            examples.append(TextInput(" ".join(tokens), ((start, start + len(tokens[position])),)))
    return SenseContexts(tuple(examples), _statement(form, _unquoted(sense.gloss)))


def _released_texts(sense: Sense, form: str, wordnet: WordNet) -> SenseContexts:
    """The same for an encoder of whole texts: every example, cut into tokens, and the definition alone."""
    texts = (" ".join(WORDPUNCT.findall(example)) for example in _QUOTED.findall(sense.gloss))
    return SenseContexts(tuple(map(TextInput, texts)), TextInput(_unquoted(sense.gloss)))


def _unquoted(gloss: str) -> str:
    return _QUOTED.sub("", gloss).strip().strip("; ")


def find(lemma: str, pos: str, text: str, wordnet: WordNet) -> tuple[int, int] | None:
    """The character span of a word's first occurrence in a text, in any inflected form; ``None`` if there is none.

    ``lemma`` is in lower case, with underscores for spaces; hyphens and spaces are treated as equal.
    """
    wanted = _BETWEEN_WORDS.split(lemma)
    matches = list(_WORD.finditer(text))
    for first in range(len(matches) - len(wanted) + 1):
        run = matches[first : first + len(wanted)]
        if all(_is_form(match[0].lower(), word, pos, wordnet) for match, word in zip(run, wanted, strict=True)):
            return run[0].start(), run[-1].start() + len(run[-1][0].rstrip("."))
    return None


def _is_form(word: str, lemma: str, pos: str, wordnet: WordNet) -> bool:
    forms = {word, word.rstrip("."), word.removesuffix("'s")}
    return any(lemma.rstrip(".") in wordnet.bases(form, pos) for form in forms if form)
