"""Parser of word sense disambiguation: the unified evaluation framework (Raganato et al., 2017) with WordNet 3.0."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from random import Random
from typing import Any
from xml.etree import ElementTree

from mirrorbench.core.encoder_protocol import TextInput
from mirrorbench.core.errors import DataFormatError, DataUnavailableError
from mirrorbench.core.quoting import shown
from mirrorbench.data.items import Disambiguation, Occurrence, SenseContexts, example_choice
from mirrorbench.data.parsers.datasets.contexts import RELEASED, STATEMENTS, WORDPUNCT
from mirrorbench.data.readers.text import read_lines
from mirrorbench.data.readers.values import Ids
from mirrorbench.data.wordnet import POS, QUOTED, Sense, WordNet

_DATA, _GOLD = ".data.xml", ".gold.key.txt"
_WORD = re.compile(r"[^\W_]+(?:['’.][^\W_]+)*\.?")
_BETWEEN_WORDS = re.compile(r"[_ -]")


def parse_wsd(files: Mapping[str, Path], options: Mapping[str, Any]) -> list[Disambiguation]:
    """Read a data set of the framework (``ALL.data.xml``, ``ALL.gold.key.txt``) with WordNet's senses of its words.

    The words of a sentence are joined by single spaces. A sense's examples are those of its WordNet entry that contain
    the word, as lemma or inflected; separated forms ("look it up") do not count. The option ``examples`` chooses among
    them: the ``first`` ("one context example per label", MirrorWiC, section 4), one at ``random`` (by the option
    ``seed``), or ``all``. A gold key unknown to WordNet is an error (then it is not WordNet 3.0).

    Under the protocol ``released`` contexts are as in the authors' code (``test_wsd``): all examples represent a sense,
    and words are looked up as nouns, so that "ran" and "run" are two words; otherwise by their part of speech.
    """
    data, gold = (
        next((p for name, p in files.items() if name.endswith(end)), None) for end in (_DATA, _GOLD)
    )
    if data is None or gold is None:
        raise DataFormatError(f"Parser 'wsd': no file *{_GOLD if data else _DATA}.")
    wordnet = WordNet(files)
    keys = _gold_keys(gold)
    contexts: dict[str, SenseContexts] = {}
    occurrences = []
    contexts_of = _context_reader(wordnet, options)
    by_form = options.get("protocol") == RELEASED and options.get("of_target")
    senses = cache(wordnet.senses)
    for number, lemma, pos, target in _instances(data):
        candidates = senses(lemma, pos)
        candidate_keys, right = (
            tuple(sense.key for sense in candidates),
            keys.pop(number, frozenset()),
        )
        form = target.text[slice(*target.spans[0])] if by_form else ""
        names = tuple(f"{key} {form}" for key in candidate_keys) if form else candidate_keys
        for name, sense in zip(names, candidates, strict=True):
            if name not in contexts:
                contexts[name] = contexts_of(sense, lemma, pos, form)
        if not right or not right <= set(candidate_keys):
            unknown = ", ".join(sorted(right - set(candidate_keys))) or "no gold key"
            raise DataFormatError(
                f"{gold}: {number} ({lemma}, {pos}) has {unknown} among its keys, which WordNet does not know.",
                hint="The sense keys are those of WordNet 3.0; another version will not do.",
            )
        corpus, contexts_names = number.partition(".")[0], names if form else ()
        occurrences.append(
            Occurrence(number, target, candidate_keys, right, corpus, contexts_names)
        )
    if not occurrences:
        raise DataFormatError(f"{data}: no instances in it.")
    if keys:
        raise DataFormatError(
            f"{gold}: keys of {shown(min(keys))}, which is not in {data}, or twice in the file."
        )
    return [Disambiguation(tuple(occurrences), contexts)]


def _gold_keys(path: Path) -> dict[str, frozenset[str]]:
    """The sense keys of each instance, by its id."""
    ids = Ids()
    rows = ((line, text.split()) for line, text in enumerate(read_lines(path), start=1))
    return {ids.add(row[0], path, line): frozenset(row[1:]) for line, row in rows if row}


def _instances(path: Path) -> Iterator[tuple[str, str, str, TextInput]]:
    """Id, lemma, part of speech, and the word in its sentence, of each instance."""
    try:
        root = ElementTree.parse(path).getroot()
    except (
        ElementTree.ParseError,
        ValueError,
        LookupError,
    ) as error:  # the latter two for an unknown encoding
        raise DataFormatError(f"{path} is not well-formed XML ({error}).") from None
    except OSError as error:
        raise DataUnavailableError(f"Cannot read {path}: {error.strerror}.") from None
    in_sentences = [
        instance for sentence in root.iter("sentence") for instance in sentence.findall("instance")
    ]
    if in_sentences != list(root.iter("instance")):
        raise DataFormatError(f"{path}: an instance that is not right below a sentence.")
    for sentence in root.iter("sentence"):
        words = [element.text or "" for element in sentence]
        text, start = " ".join(words), 0
        for element, word in zip(sentence, words, strict=True):
            if element.tag == "instance":
                number, lemma, pos = (element.get(name, "") for name in ("id", "lemma", "pos"))
                if not word or pos not in POS:
                    raise DataFormatError(
                        f"{path}: the instance {number!r} has no word, or an unknown part of speech."
                    )
                yield number, lemma.lower(), pos, TextInput(text, ((start, start + len(word)),))
            start += len(word) + 1


def _context_reader(
    wordnet: WordNet, options: Mapping[str, Any]
) -> Callable[[Sense, str, str, str], SenseContexts]:
    """The function from sense, lemma, part of speech and form of an occurrence to the contexts of the sense."""
    if options.get("protocol") == RELEASED:
        read = _released_contexts if options.get("of_target") else _released_texts
        return lambda sense, lemma, pos, form: read(sense, form, wordnet)
    choice, seed = example_choice(options)

    def contexts(sense: Sense, lemma: str, pos: str, form: str) -> SenseContexts:
        spans = ((example, find_word(lemma, pos, example, wordnet)) for example in sense.examples)
        examples = tuple(TextInput(example, (span,)) for example, span in spans if span)
        if choice == "random" and examples:
            examples = (Random(f"{seed} {sense.key}").choice(examples),)
        return SenseContexts(
            examples if choice == "all" else examples[:1], _statement(sense.form, sense.definition)
        )

    return contexts


def _statement(form: str, definition: str) -> TextInput:
    return TextInput(STATEMENTS[1].format(target=form, definition=definition), ((0, len(form)),))


def _released_contexts(sense: Sense, form: str, wordnet: WordNet) -> SenseContexts:
    """The contexts of a sense in the released code, where quotations are examples, as in NLTK 3.5."""
    # The target is the first token of an example whose base as a noun is that of ``form``; other examples are left out.
    base, examples = wordnet.noun(form), []
    for tokens in map(WORDPUNCT.findall, QUOTED.findall(sense.gloss)):
        position = next((n for n, token in enumerate(tokens) if wordnet.noun(token) == base), None)
        if position is not None:
            start = sum(len(token) + 1 for token in tokens[:position])
            examples.append(TextInput(" ".join(tokens), ((start, start + len(tokens[position])),)))
    return SenseContexts(tuple(examples), _statement(form, _unquoted(sense.gloss)))


def _released_texts(sense: Sense, form: str, wordnet: WordNet) -> SenseContexts:
    """The same for encoders of whole texts: every example as tokens, and the definition alone."""
    texts = (" ".join(WORDPUNCT.findall(example)) for example in QUOTED.findall(sense.gloss))
    return SenseContexts(tuple(map(TextInput, texts)), TextInput(_unquoted(sense.gloss)))


def _unquoted(gloss: str) -> str:
    return QUOTED.sub("", gloss).strip().strip("; ")


def find_word(lemma: str, pos: str, text: str, wordnet: WordNet) -> tuple[int, int] | None:
    """Find the character span of a word's first occurrence in a text, in any inflected form; ``None`` without any.

    ``lemma`` is in lower case, with underscores for spaces; hyphens and spaces are treated as equal.
    """
    words = _BETWEEN_WORDS.split(lemma)
    matches = list(_WORD.finditer(text))
    for first in range(len(matches) - len(words) + 1):
        run = matches[first : first + len(words)]
        if all(
            _is_form(match[0].lower(), word, pos, wordnet)
            for match, word in zip(run, words, strict=True)
        ):
            return run[0].start(), run[-1].start() + len(run[-1][0].rstrip("."))
    return None


def _is_form(word: str, lemma: str, pos: str, wordnet: WordNet) -> bool:
    forms = {word, word.rstrip("."), word.removesuffix("'s")}
    return any(lemma.rstrip(".") in wordnet.bases(form, pos) for form in forms if form)
