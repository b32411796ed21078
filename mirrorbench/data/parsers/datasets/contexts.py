"""Formats of words in context: WiC, WiC-TSV, XL-WiC, AM2iCo, Usim, CoSimLex.

Where the options name the protocol ``released``, texts are made as MirrorWiC's released code makes them: without square
brackets, which mark the target there; the parsers of CoSimLex and WiC-TSV describe further differences.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from typing import Any, TypeVar

from mirrorbench.core.encoder_protocol import TextInput
from mirrorbench.core.errors import DataFormatError
from mirrorbench.core.quoting import shown
from mirrorbench.data.cards import text_option, whole_number
from mirrorbench.data.items import ContextChange, ContextPair, RatedContexts
from mirrorbench.data.readers.dataset_tables import (
    Columns,
    TableRow,
    by_name,
    parallel_labels,
    parallel_lines,
)
from mirrorbench.data.readers.marks import unmark
from mirrorbench.data.readers.values import Ids, parse_index

STATEMENTS = {
    1: "{target} means {definition}",
    2: "{target} is a kind of {hypernyms}",
    3: "{target} is a kind of {hypernyms} and means {definition}",
}
"""Second context in each subtask of WiC-TSV: a statement about the target (MirrorWiC, footnote 5)."""

RELEASED = "released"
"""Value of the option ``protocol`` under which texts are made as the released code makes them."""
WORDPUNCT = re.compile(r"\w+|[^\w\s]+")
"""Words and runs of punctuation, as in NLTK's ``wordpunct_tokenize``, which the released code uses."""

_TRUE_FALSE = {"T": 1, "F": 0}
_Sides = TypeVar("_Sides", ContextPair, RatedContexts)


def parse_wic(files: Mapping[str, Path], options: Mapping[str, Any]) -> list[ContextPair]:
    """Parse WiC in its original form, which SuperGLUE adopted.

    ``dev.data.txt`` holds target, part of speech, ``i-j`` and two sentences; ``i`` and ``j`` index the sentences'
    words, which are separated by single spaces. ``dev.gold.txt``, if public, holds T or F. The id is ``dev/<line>``.
    """
    columns = Columns(("target", "pos", "indices", "first", "second"))
    names = r"(?P<group>train|dev|test)\.(?P<part>data|gold)\.txt"
    pairs = []
    for split, parts in by_name(
        files, names, "SPLIT.data.txt or SPLIT.gold.txt", ("data",)
    ).items():
        rows = columns.read(parts["data"])
        for row, label in zip(
            rows, parallel_labels(parts.get("gold"), rows, _TRUE_FALSE), strict=True
        ):
            first, dash, second = row.values["indices"].partition("-")
            if not dash or "-" in second:
                raise row.error(f"{shown(row.values['indices'])} is not of the form i-j")
            left, right = _nth_word(row, "first", first), _nth_word(row, "second", second)
            pairs.append(ContextPair(f"{split}/{row.line}", left, right, label, split))
    return _as_read(pairs, options)


def parse_wic_tsv(files: Mapping[str, Path], options: Mapping[str, Any]) -> list[ContextPair]:
    """Parse WiC-TSV, target sense verification; the option ``subtask`` is 1 (definition), 2 (hypernyms) or 3 (both).

    ``dev_examples.txt`` holds target, word index and context, words separated by single spaces; ``dev_definitions.txt``
    a definition; ``dev_hypernyms.txt`` tab-separated hypernyms with underscores for spaces; ``dev_labels.txt``, if
    public, T or F. Definition and hypernyms make a statement, the second context ("plant is a kind of building complex
    and means ..."), with spaces for underscores: a tokenizer knows the words, not their underscores. One original
    training item has no hypernyms: its statement ends before them in subtask 2, and is that of subtask 1 in subtask 3.
    The id is ``dev/<line>``.

    ``released``: hypernyms with their underscores, joined by commas without spaces. An encoder of whole texts reads no
    statement but the definition, the hypernyms separated by spaces, or both with ``||`` between.
    """
    subtask = whole_number(options, "subtask", 0)
    if subtask not in STATEMENTS:
        raise DataFormatError(f"Parser 'wic-tsv': subtask {subtask} is none of 1, 2 and 3.")
    columns = Columns(("target", "index", "context"))
    names = r"(?P<group>train|dev|test)_(?P<part>examples|definitions|hypernyms|labels)\.txt"
    needed = ("examples", "definitions", "hypernyms")
    pairs = []
    for split, parts in by_name(files, names, "SPLIT_PART.txt", needed).items():
        rows = columns.read(parts["examples"])
        definitions, hypernyms = (parallel_lines(parts[part], rows) for part in needed[1:])
        labels = parallel_labels(parts.get("labels"), rows, _TRUE_FALSE)
        for row, definition, hypernym_line, label in zip(
            rows, definitions, hypernyms, labels, strict=True
        ):
            if not definition.strip():
                raise DataFormatError(f"{parts['definitions']}, line {row.line}: an empty line.")
            left = _nth_word(row, "context", row.values["index"])
            right = _second_context(
                subtask, left.text[slice(*left.spans[0])], definition, hypernym_line, options
            )
            pairs.append(ContextPair(f"{split}/{row.line}", left, right, label, split))
    return _as_read(pairs, options)


def _second_context(
    subtask: int, target: str, definition: str, hypernyms: str, options: Mapping[str, Any]
) -> TextInput:
    released = options.get("protocol") == RELEASED
    if released and not options.get("of_target"):
        listed = " ".join(hypernyms.split())
        return TextInput({1: definition, 2: listed, 3: f"{definition}||{listed}"}[subtask])
    listed = (
        ",".join(hypernyms.split())
        if released
        else ", ".join(hypernyms.replace("_", " ").split("\t"))
    )
    statement = STATEMENTS[1 if subtask == 3 and not listed else subtask]
    text = statement.format(target=target, definition=definition, hypernyms=listed)
    return TextInput(text.rstrip(), ((0, len(target)),))


def parse_xlwic(files: Mapping[str, Path], options: Mapping[str, Any]) -> list[ContextPair]:
    """Parse XL-WiC: words in context in twelve languages, in the files of its two official archives.

    A line holds target, part of speech, start and end of the target in both contexts (in characters), the two contexts,
    and 1 or 0 if labels are public. Files: ``valid.txt`` and ``test.txt``, or ``zh_valid.txt``, ``zh_test_data.txt``
    and ``zh_test_gold.txt`` (labels of the test split). The id is ``dev/<line>``.
    """
    columns = Columns(
        ("target", "pos", "s1", "e1", "s2", "e2", "first", "second", "label"), widths=(8, 9)
    )
    names = r"(?:[^_]*_)?(?P<group>valid|test)(?:(?<=test)(?:_data|_(?P<part>gold)))?\.\w+"
    bits = {"1": 1, "0": 0}
    pairs = []
    for group, parts in by_name(
        files, names, "[XX_]valid.txt, [XX_]test[_data].txt, [XX_]test_gold.txt", ("data",)
    ).items():
        split = "dev" if group == "valid" else "test"
        rows = columns.read(parts["data"])
        labels = parallel_labels(parts.get("gold"), rows, bits)
        for row, label in zip(rows, labels, strict=True):
            own = (
                row.label("label", bits) if "label" in row.values and "gold" not in parts else label
            )
            left, right = _between(row, "first", "s1", "e1"), _between(row, "second", "s2", "e2")
            pairs.append(ContextPair(f"{split}/{row.line}", left, right, own, split))
    return _as_read(pairs, options)


def parse_am2ico(files: Mapping[str, Path], options: Mapping[str, Any]) -> list[ContextPair]:
    """Parse AM2iCo: a context in another language (option ``language``), one in English, and T or F.

    ``<word>...</word>`` marks the target in both; the marks are removed. A file is named after its split (``dev.tsv``).
    The id is ``dev/<line>``, from 1 after the header.
    """
    language = text_option(options, "language")
    columns = Columns(("context1", "context2", "label"), header="exact")
    names = r"(?P<group>train|dev|test)(?P<part>)\..*"
    pairs = []
    for split, parts in by_name(files, names, "SPLIT.tsv", ("data",)).items():
        for row in columns.read(parts["data"]):
            left, right = (
                _only_marked(row, "context1", language),
                _only_marked(row, "context2", "en"),
            )
            pairs.append(
                ContextPair(
                    f"{split}/{row.line - 1}", left, right, row.label("label", _TRUE_FALSE), split
                )
            )
    return _as_read(pairs, options)


def parse_usim(files: Mapping[str, Path], options: Mapping[str, Any]) -> list[RatedContexts]:
    """Parse Usim (how similar are two uses of a word?) in the form used by the authors of MirrorWiC.

    A line holds a context (words separated by single spaces), the index of the target, the mean rating from 1 to 5, and
    the lemma with the sentence's number (``bright.a 1``). Two consecutive lines are a pair and have the same rating.
    The id is lemma and sentence numbers: ``bright.a/1-2``.
    """
    columns = Columns(("context", "index", "rating", "name"))
    ids = Ids()
    pairs = []
    for path in files.values():
        rows = columns.read(path, ids)
        if len(rows) % 2:
            raise DataFormatError(
                f"{path}: an odd number of lines ({len(rows)}); the last one has no partner."
            )
        for first, second in zip(rows[::2], rows[1::2], strict=True):
            lemma, _, first_number = first.values["name"].rpartition(" ")
            second_lemma, _, second_number = second.values["name"].rpartition(" ")
            for row, parts in (
                (first, (lemma, first_number)),
                (second, (second_lemma, second_number)),
            ):
                if not all(parts):
                    raise row.error("not a lemma, a space and a number in the last column")
            if first.values["rating"] != second.values["rating"] or lemma != second_lemma:
                raise DataFormatError(
                    f"{path}, lines {first.line} and {second.line}: they are no pair."
                )
            left, right = (
                _nth_word(row, "context", row.values["index"]) for row in (first, second)
            )
            identity = first.unique(f"{lemma}/{first_number}-{second_number}")
            pairs.append(RatedContexts(identity, left, right, first.number("rating", (1, 5))))
    return _as_read(pairs, options)


_COSIMLEX = (
    "word1",
    "word2",
    "context1",
    "context2",
    "sim1",
    "sim2",
    "stdev1",
    "stdev2",
    "pvalue",
    "word1_context1",
    "word2_context1",
    "word1_context2",
    "word2_context2",
)


def parse_cosimlex(files: Mapping[str, Path], options: Mapping[str, Any]) -> list[ContextChange]:
    """Parse CoSimLex (SemEval-2020 task 3): two words, both in each of two contexts; tab-separated despite ``.csv``.

    ``<strong>`` marks the words in both contexts, in any order; ``word1_context1`` etc. are the forms that occur. The
    marks are removed. The id is the number of the row, from 1.

    ``released``: the text is cut into words and runs of punctuation, with spaces between; the target is the first of
    those that a mark encloses.
    """
    released = options.get("protocol") == RELEASED

    def in_context(row: TableRow, number: str) -> RatedContexts:
        text, spans = unmark(row.values[f"context{number}"], "<strong>", "</strong>")
        wanted = [row.values[f"word{word}_context{number}"] for word in "12"]
        marked = [text[start:end] for start, end in spans]
        if marked not in (wanted, wanted[::-1]):
            raise row.error(f"context {number} does not mark {' and '.join(map(shown, wanted))}")
        sides = (
            _cut_apart(text, spans) if released else [TextInput(text, (span,)) for span in spans]
        )
        left, right = sides if marked == wanted else sides[::-1]
        return RatedContexts(
            f"{row.line - 1}/{number}", left, right, row.number(f"sim{number}", (0, 10))
        )

    return [
        ContextChange(row.unique(str(row.line - 1)), in_context(row, "1"), in_context(row, "2"))
        for row in Columns(_COSIMLEX, header="exact").read_all(files)
    ]


def _cut_apart(text: str, spans: Sequence[tuple[int, int]]) -> list[TextInput]:
    """The targets of a text, each in the text as the released code (``test_cosimlex``) makes it."""
    marked, done = "", 0
    for start, end in spans:
        marked += f"{_unbracketed(text[done:start])} [ {_unbracketed(text[start:end])} ] "
        done = end
    tokens = WORDPUNCT.findall(marked + _unbracketed(text[done:]))
    sides = []
    for index in (number for number, token in enumerate(tokens, start=1) if token == "["):
        before, after = (
            _unbracketed(" ".join(some)).strip() for some in (tokens[:index], tokens[index + 1 :])
        )
        start = len(before) + 1
        sides.append(
            TextInput(f"{before} {tokens[index]} {after}", ((start, start + len(tokens[index])),))
        )
    return sides


def _as_read(pairs: list[_Sides], options: Mapping[str, Any]) -> list[_Sides]:
    """The pairs as the protocol reads them: under ``released`` without square brackets."""
    if options.get("protocol") != RELEASED:
        return pairs
    return [replace(pair, left=_bare(pair.left), right=_bare(pair.right)) for pair in pairs]


def _bare(item: TextInput) -> TextInput:
    """An input without square brackets, which are removed from its target too."""
    before = [
        0,
        *accumulate(character not in "[]" for character in item.text),
    ]  # kept characters before each
    return replace(
        item,
        text=_unbracketed(item.text),
        spans=tuple((before[s], before[e]) for s, e in item.spans),
    )


def _unbracketed(text: str) -> str:
    return text.replace("[", "").replace("]", "")


def _nth_word(row: TableRow, column: str, index: str) -> TextInput:
    """The word at an index from 0, in a text whose words are separated by single spaces."""
    text = row.values[column]
    words = text.split(" ")
    number = parse_index(index)
    if not 0 <= number < len(words) or not words[number]:
        asked = index if number >= 0 else shown(index)
        raise row.error(f"there is no word {asked} in {shown(text)} (counted from 0)")
    start = sum(len(word) + 1 for word in words[:number])
    return TextInput(text, ((start, start + len(words[number])),))


def _between(row: TableRow, column: str, first: str, last: str) -> TextInput:
    """The word between two character positions of a text."""
    text, bounds = row.values[column], (row.values[first], row.values[last])
    start, end = map(parse_index, bounds)
    if not 0 <= start < end <= len(text):
        raise row.error(f"there is no target from {shown('-'.join(bounds))} in {shown(text)}")
    return TextInput(text, ((start, end),))


def _only_marked(row: TableRow, column: str, language: str) -> TextInput:
    """The only word of a text that is marked as ``<word>...</word>``."""
    text, spans = unmark(row.values[column], "<word>", "</word>")
    if len(spans) != 1 or not text[slice(*spans[0])].strip():
        raise row.error(f"{len(spans)} targets instead of one in {shown(row.values[column])}")
    return TextInput(text, spans, language)
