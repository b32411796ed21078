"""Parser of word sense disambiguation: the unified evaluation framework (Raganato et al., 2017) with WordNet 3.0."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, NamedTuple
from xml.etree import ElementTree

from mirrorbench.core.encoder_protocol import TextInput
from mirrorbench.core.errors import DataFormatError, DataUnavailableError
from mirrorbench.core.quoting import shown
from mirrorbench.data.items import Disambiguation, Occurrence, SenseContexts, example_choice
from mirrorbench.data.parsers.datasets.contexts import RELEASED, STATEMENTS, WORDPUNCT
from mirrorbench.data.readers.text import read_lines
from mirrorbench.data.readers.values import Ids
from mirrorbench.data.wordnet import POS, QUOTED, Sense, WordNet

_DATA = ".data.xml"
_GOLD = ".gold.key.txt"
_WORD = re.compile(r"[^\W_]+(?:['’.][^\W_]+)*\.?")
_BETWEEN_WORDS = re.compile(r"[_ -]")


def parse_wsd(files: Mapping[str, Path], options: Mapping[str, Any]) -> list[Disambiguation]:
    """Read a data set of the framework (``ALL.data.xml``, ``ALL.gold.key.txt``) with WordNet's senses of its words.

    The words of a sentence are joined by single spaces. A sense's examples are those of its WordNet entry that contain
    the word, as lemma or inflected; separated forms ("look it up") do not count. The option ``examples`` chooses among
    them: the ``first`` ("one context example per label", MirrorWiC, section 4), one at ``random`` (by the option
    ``seed``), or ``all``. A gold key unknown to WordNet is an error (then it is not WordNet 3.0).

    The word is sought in an example by its part of speech. Under the protocol ``released`` contexts are as in the
    authors' code (``test_wsd``): all examples represent a sense, and the word is sought as a noun, so that "ran" and
    "run" are two words.
    """
    data = _file_ending_in(_DATA, files)
    gold = _file_ending_in(_GOLD, files)  # paths, ``None`` if there is none
    if data is None or gold is None:
        raise DataFormatError(f"Parser 'wsd': no file *{_GOLD if data else _DATA}.")
    wordnet = WordNet(files)
    keys_of_instances = _gold_keys(gold)
    contexts: dict[str, SenseContexts] = {}
    occurrences = []
    contexts_of = _context_maker(wordnet, options)
    senses_of = cache(wordnet.senses)
    # The released contexts of a sense depend on the form of the word in the sentence.
    depends_on_form = options.get("protocol") == RELEASED and options.get("of_target")
    for instance_id, lemma, pos, target in _instances(data):
        # The candidates, and names for their contexts: the sense keys, or key and form.
        senses = senses_of(lemma, pos)
        sense_keys = tuple(sense.key for sense in senses)
        form = target.text[slice(*target.spans[0])] if depends_on_form else ""
        context_names = sense_keys
        if form:
            context_names = tuple(f"{key} {form}" for key in sense_keys)
        # Make the contexts that no earlier instance had.
        for name, sense in zip(context_names, senses, strict=True):
            if name not in contexts:
                contexts[name] = contexts_of(sense, lemma, pos, form)
        # Taken out, so that the keys without an instance are left at the end.
        gold_keys = keys_of_instances.pop(instance_id, frozenset())
        if not gold_keys:
            raise DataFormatError(
                f"{gold}: {instance_id} ({lemma}, {pos}) has no gold key, or occurs twice in {data}."
            )
        unknown_keys = gold_keys - set(sense_keys)
        if unknown_keys:
            raise DataFormatError(
                f"{gold}: {instance_id} ({lemma}, {pos}) has keys that WordNet does not know: "
                f"{', '.join(sorted(unknown_keys))}.",
                hint="The sense keys must be those of WordNet 3.0, not of another version.",
            )
        occurrences.append(
            Occurrence(
                id=instance_id,
                target=target,
                candidates=sense_keys,
                gold=gold_keys,
                corpus=instance_id.partition(".")[0],
                contexts=context_names if form else (),  # empty: named by the sense keys
            )
        )
    if not occurrences:
        raise DataFormatError(f"{data} holds no instances.")
    if keys_of_instances:
        raise DataFormatError(
            f"{gold}: keys of {shown(min(keys_of_instances))}, which is not in {data}."
        )
    return [Disambiguation(tuple(occurrences), contexts)]


def _file_ending_in(suffix: str, files: Mapping[str, Path]) -> Path | None:
    for name, path in files.items():
        if name.endswith(suffix):
            return path
    return None


def _gold_keys(path: Path) -> dict[str, frozenset[str]]:
    """Return the sense keys of each instance, by its id."""
    ids = Ids()
    keys = {}
    for number, line in enumerate(read_lines(path), start=1):
        fields = line.split()
        if fields:
            instance_id = ids.add(fields[0], path, number)
            keys[instance_id] = frozenset(fields[1:])
    return keys


class _Instance(NamedTuple):
    """An instance of the data file: its id, lemma in lower case, part of speech, and the word in its sentence."""

    id: str
    lemma: str
    pos: str
    target: TextInput


def _instances(path: Path) -> Iterator[_Instance]:
    """Yield the words to disambiguate of a data file, in file order, each in its sentence."""
    try:
        root = ElementTree.parse(path).getroot()
    except (ElementTree.ParseError, ValueError, LookupError) as error:
        # An unknown encoding is a ValueError or a LookupError.
        raise DataFormatError(f"{path} is not well-formed XML ({error}).") from None
    except OSError as error:
        raise DataUnavailableError(f"Cannot read {path}: {error.strerror}.") from None
    in_sentences = [
        instance for sentence in root.iter("sentence") for instance in sentence.findall("instance")
    ]
    if in_sentences != list(root.iter("instance")):
        raise DataFormatError(f"{path}: an instance is not directly inside a sentence.")
    for sentence in root.iter("sentence"):
        words = [element.text or "" for element in sentence]
        text = " ".join(words)
        start = 0
        for element, word in zip(sentence, words, strict=True):
            end = start + len(word)
            if element.tag == "instance":
                instance_id = element.get("id", "")
                lemma = element.get("lemma", "").lower()
                pos = element.get("pos", "")
                if not word or pos not in POS:
                    raise DataFormatError(
                        f"{path}: the instance {instance_id!r} has no word, or an unknown part of speech."
                    )
                yield _Instance(instance_id, lemma, pos, TextInput(text, ((start, end),)))
            start = end + 1  # a space


def _context_maker(
    wordnet: WordNet, options: Mapping[str, Any]
) -> Callable[[Sense, str, str, str], SenseContexts]:
    """Return the function that makes the contexts of a sense, given an occurrence's lemma, part of speech and form.

    The released contexts depend on the form, all others on lemma and part of speech.
    """
    if options.get("protocol") == RELEASED:
        released = _released_contexts if options.get("of_target") else _released_texts
        return lambda sense, lemma, pos, form: released(sense, form, wordnet)
    choice, seed = example_choice(options)  # "first", "random" or "all" examples

    def contexts(sense: Sense, lemma: str, pos: str, form: str) -> SenseContexts:
        examples = []
        for example in sense.examples:
            span = find_word(lemma, pos, example, wordnet)
            if span is not None:
                examples.append(TextInput(example, (span,)))
        if examples and choice == "random":
            # The draw for a sense does not depend on the other senses.
            examples = [Random(f"{seed} {sense.key}").choice(examples)]
        elif choice == "first":
            examples = examples[:1]
        return SenseContexts(tuple(examples), _statement(sense.form, sense.definition))

    return contexts


def _statement(form: str, definition: str) -> TextInput:
    """Return the definition of a word as a statement about it, whose target is the word."""
    text = STATEMENTS[1].format(target=form, definition=definition)
    return TextInput(text, ((0, len(form)),))


def _released_contexts(sense: Sense, form: str, wordnet: WordNet) -> SenseContexts:
    """Return the contexts of a sense in the released code, where quotations are examples, as in NLTK 3.5.

    The target is the first token of an example whose base as a noun is that of ``form``. An example without such a
    token is left out.
    """
    base = wordnet.noun(form)
    examples = []
    for quotation in QUOTED.findall(sense.gloss):
        tokens = WORDPUNCT.findall(quotation)
        start = 0
        for token in tokens:
            end = start + len(token)
            if wordnet.noun(token) == base:
                examples.append(TextInput(" ".join(tokens), ((start, end),)))
                break
            start = end + 1  # a space
    return SenseContexts(tuple(examples), _statement(form, _unquoted(sense.gloss)))


def _released_texts(sense: Sense, form: str, wordnet: WordNet) -> SenseContexts:
    """Return the contexts of a sense in the released code for encoders of whole texts: examples and definition."""
    examples = []
    for quotation in QUOTED.findall(sense.gloss):
        examples.append(TextInput(" ".join(WORDPUNCT.findall(quotation))))
    return SenseContexts(tuple(examples), TextInput(_unquoted(sense.gloss)))


def _unquoted(gloss: str) -> str:
    """Return a gloss without its quotations: the definition."""
    return QUOTED.sub("", gloss).strip().strip("; ")


def find_word(lemma: str, pos: str, text: str, wordnet: WordNet) -> tuple[int, int] | None:
    """Return the character span of a word's first occurrence in a text, in any inflected form, or ``None``.

    ``lemma`` is in lower case, with underscores for spaces; hyphens and spaces are treated as equal.
    """
    words = _BETWEEN_WORDS.split(lemma)
    matches = list(_WORD.finditer(text))
    for first in range(len(matches) - len(words) + 1):
        run = matches[first : first + len(words)]
        is_found = all(
            _is_form(match[0].lower(), word, pos, wordnet)
            for match, word in zip(run, words, strict=True)
        )
        if is_found:
            last = run[-1]
            # A full stop may end the sentence and not the word.
            return run[0].start(), last.start() + len(last[0].rstrip("."))
    return None


def _is_form(word: str, lemma: str, pos: str, wordnet: WordNet) -> bool:
    forms = {word, word.rstrip("."), word.removesuffix("'s")}
    return any(lemma.rstrip(".") in wordnet.bases(form, pos) for form in forms if form)
