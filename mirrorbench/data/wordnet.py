"""WordNet 3.0: senses in WordNet's order with keys, glosses and examples, and base forms of words.

The database files are ``index.noun``, ``data.noun``, ``noun.exc`` ... (man pages wndb(5), morphy(7)).
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
"""The name of a part of speech in WordNet's file names, by its name in the disambiguation data sets."""

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
"""Endings of inflected forms, each with that of the base form, by part of speech (morphy(7))."""
_NLTK_NOUN_ENDINGS = (*ENDINGS["noun"], ("ves", "f"))
# Number of the synset type in a sense key, by its letter in the data files (senseidx(5)).
_TYPES = {"n": 1, "v": 2, "a": 3, "r": 4, "s": 5}
_SATELLITE = 5  # an adjective that is grouped around another, the head
_MARKER = re.compile(r"\((?:a|p|ip)\)\Z")  # an adjective's syntactic marker, not part of the word
QUOTED = re.compile(r'"([^"]*)"')
"""A quotation in a gloss, which is usually an example."""


@dataclass(frozen=True, slots=True)
class Sense:
    """A sense of a word.

    Attributes:
        key: sense key, e.g. ``art%1:06:00::``.
        form: the lemma as written, e.g. ``Greenwich Village``.
        definition: definition of the WordNet entry.
        examples: examples of the WordNet entry, which all its words share.
        gloss: definition and examples as one text, as in the entry.
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
        missing = []
        for file_pos in POS.values():
            required = (f"index.{file_pos}", f"data.{file_pos}", f"{file_pos}.exc")
            missing += [file for file in required if file not in self._paths]
        if missing:
            raise DataFormatError(f"WordNet is missing the files {', '.join(missing)}.")

    def senses(self, lemma: str, pos: str) -> list[Sense]:
        """Return the senses of a lemma (lower case, underscores for spaces) in WordNet's order, most frequent first."""
        file_pos = POS[pos]
        # Part of speech, number of senses, other fields, and the offset of each sense.
        fields = self._indices[file_pos].get(lemma, "").split()
        if not fields:
            return []
        # 0 for a line that is not an entry.
        try:
            n_senses = int(fields[1])
            offsets = [int(offset) for offset in fields[-n_senses:]]
        except (ValueError, IndexError):
            n_senses = 0
            offsets = []
        if n_senses <= 0 or len(offsets) != n_senses:
            raise DataFormatError(
                f"{self._paths[f'index.{file_pos}']}: the line of {shown(lemma)} is not an entry."
            )
        return [self._sense(file_pos, offset, lemma) for offset in offsets]

    def bases(self, word: str, pos: str) -> set[str]:
        """Return the possible base forms of a word, and the word itself, in lower case."""
        file_pos = POS[pos]
        detached = _detached([word], ENDINGS[file_pos])
        return {word, *detached, *self._exceptions[file_pos].get(word, ())}

    def noun(self, form: str) -> str:
        """Return the base form of a word as a noun, or the word itself, as NLTK's ``WordNetLemmatizer`` does.

        If several nouns of WordNet are possible, it is the shortest. Unlike in ``bases``, any word is looked up as a
        noun, capitals count, and endings are detached repeatedly until a noun is found.
        """
        nouns = self._indices["noun"]
        exceptions = self._exceptions["noun"].get(form)
        # A form with exceptions has no other candidates.
        shortened = [] if exceptions else _detached([form], _NLTK_NOUN_ENDINGS)
        candidates = [form, *(exceptions or shortened)]
        while True:
            bases = [candidate for candidate in candidates if candidate in nouns]
            if bases:
                return min(bases, key=len)
            if not shortened:
                return form
            shortened = _detached(shortened, _NLTK_NOUN_ENDINGS)
            candidates = shortened

    @cached_property
    def _indices(self) -> dict[str, dict[str, str]]:
        """The index by part of speech: the line of each lemma, without the lemma."""
        indices: dict[str, dict[str, str]] = {}
        for file_pos in POS.values():
            index: dict[str, str] = {}
            for line in read_lines(self._paths[f"index.{file_pos}"]):
                # The file begins with its licence, in indented lines.
                if not line.startswith("  "):
                    lemma, _, rest = line.partition(" ")
                    index[lemma] = rest
            indices[file_pos] = index
        return indices

    @cached_property
    def _exceptions(self) -> dict[str, dict[str, list[str]]]:
        """The base forms of irregular forms by part of speech."""
        exceptions: dict[str, dict[str, list[str]]] = {}
        for file_pos in POS.values():
            rows = [line.split() for line in read_lines(self._paths[f"{file_pos}.exc"])]
            exceptions[file_pos] = {row[0]: row[1:] for row in rows if row}
        return exceptions

    @cached_property
    def _data(self) -> dict[str, bytes]:
        # Entries are found by byte offset, so the data are kept as bytes and decoded entry by entry.
        return {file_pos: read_bytes(self._paths[f"data.{file_pos}"]) for file_pos in POS.values()}

    def _sense(self, file_pos: str, offset: int, lemma: str) -> Sense:
        """Return the sense of a lemma whose entry begins at a byte offset of a data file."""
        fields, gloss = self._entry(file_pos, offset)
        try:
            words = _entry_words(fields)
            form, lex_id = next((word, number) for word, number in words if word.lower() == lemma)
            synset_type = _TYPES[fields[2]]
            head = ":"
            if synset_type == _SATELLITE:
                head = self._head(file_pos, fields)
            key = f"{lemma}%{synset_type}:{fields[1]}:{lex_id:02d}:{head}"
        except (IndexError, ValueError, KeyError, StopIteration):  # a missing or invalid field
            raise self._no_entry(file_pos, offset, f"of {shown(lemma)}") from None
        definition, examples = _definition_and_examples(gloss)
        return Sense(key, form.replace("_", " "), definition, examples, gloss)

    def _head(self, file_pos: str, fields: list[str]) -> str:
        """Return the head word of a satellite adjective with its number, as the end of a sense key."""
        # The words are followed by the number of pointers, and each pointer has four fields: symbol, offset, part of
        # speech, words.
        index_of_n_pointers = 4 + 2 * int(fields[3], 16)
        n_pointers = int(fields[index_of_n_pointers])
        for pointer in range(n_pointers):
            first = index_of_n_pointers + 1 + 4 * pointer
            symbol, offset = fields[first : first + 2]
            if symbol == "&":
                head_fields, _ = self._entry(file_pos, int(offset))
                word, lex_id = _entry_words(head_fields)[0]
                return f"{word.lower()}:{lex_id:02d}"
        raise ValueError("a satellite without a head")

    def _entry(self, file_pos: str, offset: int) -> tuple[list[str], str]:
        """Return the fields and the gloss of the entry at a byte offset."""
        data = self._data[file_pos]
        line = b""
        if 0 <= offset < len(data):
            line = data[offset : data.find(b"\n", offset) + 1]
        # An entry begins with its own offset.
        if not line.startswith(f"{offset:08d} ".encode()):
            raise self._no_entry(file_pos, offset)
        try:
            fields, _, gloss = line.decode().partition(" | ")
        except UnicodeDecodeError:
            raise self._no_entry(file_pos, offset, "in UTF-8") from None
        return fields.split(), gloss.strip()

    def _no_entry(self, file_pos: str, offset: int, detail: str = "") -> DataFormatError:
        entry = f"no entry {detail}".rstrip()
        return DataFormatError(
            f"{self._paths[f'data.{file_pos}']}: {entry} at offset {offset}; index and data differ, or are damaged."
        )


def _detached(forms: Iterable[str], endings: Iterable[tuple[str, str]]) -> list[str]:
    """Return each form with its ending replaced by that of a base form, once for each of the ``endings`` that it has."""
    detached = []
    for form in forms:
        for ending, base_ending in endings:
            if form.endswith(ending):
                detached.append(form.removesuffix(ending) + base_ending)
    return detached


def _entry_words(fields: list[str]) -> list[tuple[str, int]]:
    """Return the words of an entry, each with its number (lex_id) in the lexicographer's file."""
    words = []
    for index in range(int(fields[3], 16)):
        word = _MARKER.sub("", fields[4 + 2 * index])
        lex_id = int(fields[5 + 2 * index], 16)
        words.append((word, lex_id))
    return words


def _definition_and_examples(gloss: str) -> tuple[str, tuple[str, ...]]:
    """Return the definition in a gloss, and the quoted examples, which begin at the first ``; "``."""
    match = re.search(r'[;:]\s*"', gloss)
    if match is None:
        return gloss, ()
    definition = gloss[: match.start()].strip(" ;")
    examples = [example.strip() for example in QUOTED.findall(gloss[match.start() :])]
    return definition, tuple(example for example in examples if example)
