"""WordNet 3.0: senses in WordNet's order with keys, glosses and examples, and base forms of words.

The database files are ``index.noun``, ``data.noun``, ``noun.exc`` ... (manual pages wndb, morphy).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath

from mirrorbench.core.errors import DataFormatError
from mirrorbench.core.quoting import shown
from mirrorbench.data.readers.files import read_bytes
from mirrorbench.data.readers.text import read_lines

POS = {"NOUN": "noun", "VERB": "verb", "ADJ": "adj", "ADV": "adv"}
"""Component of file names by part of speech, as the disambiguation data sets write it."""

ENDINGS = {
    "noun": (
        ("s", ""),
        ("ses", "s"),
        ("xes", "x"),
        ("zes", "z"),
        ("ches", "ch"),
        ("shes", "sh"),
        ("men", "man"),
        ("ies", "y"),
    ),
    "verb": (
        ("s", ""),
        ("ies", "y"),
        ("es", "e"),
        ("es", ""),
        ("ed", "e"),
        ("ed", ""),
        ("ing", "e"),
        ("ing", ""),
    ),
    "adj": (("er", ""), ("est", ""), ("er", "e"), ("est", "e")),
    "adv": (),
}
"""Endings of inflected forms and of their base forms, from morphy(7)."""
_NLTK_NOUN_ENDINGS = (*ENDINGS["noun"], ("ves", "f"))
_TYPES = {"n": 1, "v": 2, "a": 3, "r": 4, "s": 5}
_SATELLITE = 5
_MARKER = re.compile(r"\((?:a|p|ip)\)\Z")  # an adjective's syntactic marker, not part of the word
QUOTED = re.compile(r'"([^"]*)"')


@dataclass(frozen=True, slots=True)
class Sense:
    """A sense: its key (``art%1:06:00::``), the lemma as written (``Greenwich Village``), definition and examples.

    The examples are those of the WordNet entry, shared by all its words; ``gloss`` is the text of both in the entry.
    """

    key: str
    form: str
    definition: str
    examples: tuple[str, ...]
    gloss: str


class WordNet:
    """WordNet's database, from the index, data and exception files of each part of speech, by path."""

    def __init__(self, files: Mapping[str, Path]) -> None:
        self._paths = {PurePosixPath(name).name: path for name, path in files.items()}
        names = [
            name.format(pos) for pos in POS.values() for name in ("index.{}", "data.{}", "{}.exc")
        ]
        if absent := [name for name in names if name not in self._paths]:
            raise DataFormatError(f"WordNet is missing the files {', '.join(absent)}.")

    def senses(self, lemma: str, pos: str) -> list[Sense]:
        """Return the senses of a lemma (lower case, underscores for spaces) in WordNet's order, most frequent first."""
        name = POS[pos]
        if not (entry := self._indices[name].get(lemma, "").split()):
            return []
        try:
            count = int(entry[1])
            offsets = [int(offset) for offset in entry[-count:]]
        except (ValueError, IndexError):
            count, offsets = 0, []
        if not 0 < count == len(offsets):
            raise DataFormatError(
                f"{self._paths[f'index.{name}']}: the line of {shown(lemma)} is no entry."
            )
        return [self._sense(name, offset, lemma) for offset in offsets]

    def bases(self, word: str, pos: str) -> set[str]:
        """Return the possible base forms of a word, and the word itself, in lower case."""
        name = POS[pos]
        endings = (
            word.removesuffix(end) + base for end, base in ENDINGS[name] if word.endswith(end)
        )
        return {word, *endings, *self._exceptions[name].get(word, ())}

    def noun(self, form: str) -> str:
        """Return the shortest noun of a form in WordNet, or the form itself, as NLTK's ``WordNetLemmatizer`` does.

        Unlike ``bases`` it takes every word for a noun, distinguishes capitals, and detaches endings until a noun is
        found.
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
        """The index line of each lemma, without the lemma, by part of speech."""
        indices = {}
        for name in POS.values():
            lines = read_lines(self._paths[f"index.{name}"])
            split = (
                line.partition(" ") for line in lines if not line.startswith("  ")
            )  # without the licence
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
            type_, head = _TYPES[fields[2]], ":"
            if type_ == _SATELLITE:
                first = 4 + 2 * len(words) + 1
                pointers = [
                    fields[at : at + 4]
                    for at in range(first, first + 4 * int(fields[first - 1]), 4)
                ]
                target = next(int(pointer[1]) for pointer in pointers if pointer[0] == "&")
                word, number = _entry_words(self._entry(name, target)[0])[0]
                head = f"{word.lower()}:{number:02d}"
            key = f"{lemma}%{type_}:{fields[1]}:{lex_id:02d}:{head}"
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

    def _no_entry(self, name: str, offset: int, detail: str = "") -> DataFormatError:
        entry = f"no entry {detail}".rstrip()
        return DataFormatError(
            f"{self._paths[f'data.{name}']}: {entry} at offset {offset}; index and data differ, or are damaged."
        )


def _detached(forms: Iterable[str]) -> list[str]:
    return [
        form.removesuffix(end) + base
        for form in forms
        for end, base in _NLTK_NOUN_ENDINGS
        if form.endswith(end)
    ]


def _entry_words(fields: list[str]) -> list[tuple[str, int]]:
    """The words of an entry, each with its number (lex_id) in the lexicographer's file."""
    count = int(fields[3], 16)
    pairs = [(fields[4 + 2 * i], fields[5 + 2 * i]) for i in range(count)]
    return [(_MARKER.sub("", word), int(number, 16)) for word, number in pairs]


def _gloss(gloss: str) -> tuple[str, tuple[str, ...]]:
    """The definition of a gloss, and its quoted examples from the first ``; "`` on."""
    match = re.search(r'[;:]\s*"', gloss)
    if not match:
        return gloss, ()
    examples = (example.strip() for example in QUOTED.findall(gloss[match.start() :]))
    return gloss[: match.start()].strip(" ;"), tuple(example for example in examples if example)
