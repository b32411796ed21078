"""Formats of words in context: WiC, WiC-TSV, XL-WiC, AM2iCo, Usim, CoSimLex.

If the option ``protocol`` is ``released``, texts are made as MirrorWiC's released code makes them: without square
brackets, which mark the target there. The parsers of CoSimLex and WiC-TSV describe further differences.
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
_Pair = TypeVar("_Pair", ContextPair, RatedContexts)


def parse_wic(files: Mapping[str, Path], options: Mapping[str, Any]) -> list[ContextPair]:
    """Parse WiC in its original form, which SuperGLUE adopted.

    ``dev.data.txt`` holds target, part of speech, ``i-j`` and two sentences; ``i`` and ``j`` index the sentences'
    words, which are separated by single spaces. ``dev.gold.txt``, if public, holds T or F. The id is ``dev/<line>``.
    """
    columns = Columns(("target", "pos", "indices", "first", "second"))
    pattern = r"(?P<group>train|dev|test)\.(?P<part>data|gold)\.txt"
    splits = by_name(files, pattern, "SPLIT.data.txt or SPLIT.gold.txt", ("data",))
    pairs = []
    for split, parts in splits.items():
        rows = columns.read(parts["data"])
        labels = parallel_labels(parts.get("gold"), rows, _TRUE_FALSE)
        for row, label in zip(rows, labels, strict=True):
            first, dash, second = row.values["indices"].partition("-")
            if not dash or "-" in second:
                raise row.error(f"{shown(row.values['indices'])} is not of the form i-j")
            left = _nth_word(row, "first", first)
            right = _nth_word(row, "second", second)
            pairs.append(ContextPair(f"{split}/{row.line}", left, right, label, split))
    return _apply_protocol(pairs, options)


def parse_wic_tsv(files: Mapping[str, Path], options: Mapping[str, Any]) -> list[ContextPair]:
    """Parse WiC-TSV, target sense verification; the option ``subtask`` is 1 (definition), 2 (hypernyms) or 3 (both).

    ``dev_examples.txt`` holds target, word index and context, words separated by single spaces; ``dev_definitions.txt``
    a definition; ``dev_hypernyms.txt`` tab-separated hypernyms with underscores for spaces; ``dev_labels.txt``, if
    public, T or F. The second context is a statement made of definition and hypernyms ("plant is a kind of building
    complex and means ..."), with spaces for underscores, because a tokenizer knows words without underscores. One
    original training item has no hypernyms: in subtask 2 its statement ends before them, in subtask 3 it is that of
    subtask 1. The id is ``dev/<line>``.

    Under the protocol ``released`` hypernyms keep their underscores and are joined by commas without spaces. For an
    encoder of whole texts (option ``of_target`` not set) the second context is then not a statement but the definition,
    the hypernyms separated by spaces, or both with ``||`` between.
    """
    subtask = whole_number(options, "subtask", 0)
    if subtask not in STATEMENTS:
        raise DataFormatError(f"Parser 'wic-tsv': the subtask must be 1, 2 or 3, not {subtask}.")
    columns = Columns(("target", "index", "context"))
    pattern = r"(?P<group>train|dev|test)_(?P<part>examples|definitions|hypernyms|labels)\.txt"
    required = ("examples", "definitions", "hypernyms")
    pairs = []
    for split, parts in by_name(files, pattern, "SPLIT_PART.txt", required).items():
        rows = columns.read(parts["examples"])
        definitions = parallel_lines(parts["definitions"], rows)
        hypernym_lines = parallel_lines(parts["hypernyms"], rows)
        labels = parallel_labels(parts.get("labels"), rows, _TRUE_FALSE)
        for row, definition, hypernyms, label in zip(
            rows, definitions, hypernym_lines, labels, strict=True
        ):
            if not definition.strip():
                raise DataFormatError(f"{parts['definitions']}, line {row.line}: an empty line.")
            left = _nth_word(row, "context", row.values["index"])
            # The statement is about the target in the form that the context has.
            target = left.text[slice(*left.spans[0])]
            right = _second_context(subtask, target, definition, hypernyms, options)
            pairs.append(ContextPair(f"{split}/{row.line}", left, right, label, split))
    return _apply_protocol(pairs, options)


def _second_context(
    subtask: int, target: str, definition: str, hypernyms: str, options: Mapping[str, Any]
) -> TextInput:
    """Return the second context of an item of WiC-TSV, as ``parse_wic_tsv`` describes."""
    is_released = options.get("protocol") == RELEASED
    if is_released and not options.get("of_target"):
        hypernym_list = " ".join(hypernyms.split())
        texts = {1: definition, 2: hypernym_list, 3: f"{definition}||{hypernym_list}"}
        return TextInput(texts[subtask])
    if is_released:
        hypernym_list = ",".join(hypernyms.split())
    else:
        hypernym_list = ", ".join(hypernyms.replace("_", " ").split("\t"))
    # One training item has no hypernyms: its statement has only the definition.
    if subtask == 3 and not hypernym_list:
        subtask = 1
    text = STATEMENTS[subtask].format(target=target, definition=definition, hypernyms=hypernym_list)
    return TextInput(text.rstrip(), ((0, len(target)),))


def parse_xlwic(files: Mapping[str, Path], options: Mapping[str, Any]) -> list[ContextPair]:
    """Parse XL-WiC: words in context in twelve languages, in the files of its two official archives.

    A line holds target, part of speech, start and end of the target in both contexts (in characters), the two contexts,
    and 1 or 0 if labels are public. Files: ``valid.txt`` and ``test.txt``, or ``zh_valid.txt``, ``zh_test_data.txt``
    and ``zh_test_gold.txt`` (labels of the test split, which take precedence). The id is ``dev/<line>``, or ``test/``.
    """
    columns = Columns(
        ("target", "pos", "s1", "e1", "s2", "e2", "first", "second", "label"), widths=(8, 9)
    )
    # Only after ``test`` may a name go on: with ``_data``, the part that a name without one has, too, or ``_gold``.
    pattern = r"(?:[^_]*_)?(?P<group>valid|test)(?:(?<=test)(?:_data|_(?P<part>gold)))?\.\w+"
    shape = "[XX_]valid.txt, [XX_]test[_data].txt, [XX_]test_gold.txt"
    bits = {"1": 1, "0": 0}
    pairs = []
    for group, parts in by_name(files, pattern, shape, ("data",)).items():
        split = "dev" if group == "valid" else "test"
        rows = columns.read(parts["data"])
        labels = parallel_labels(parts.get("gold"), rows, bits)
        for row, label_of_file in zip(rows, labels, strict=True):
            label = label_of_file
            # Without a file of labels they are in the last column, or secret (``None``).
            if "gold" not in parts and "label" in row.values:
                label = row.label("label", bits)
            left = _between(row, "first", "s1", "e1")
            right = _between(row, "second", "s2", "e2")
            pairs.append(ContextPair(f"{split}/{row.line}", left, right, label, split))
    return _apply_protocol(pairs, options)


def parse_am2ico(files: Mapping[str, Path], options: Mapping[str, Any]) -> list[ContextPair]:
    """Parse AM2iCo: a context in another language (option ``language``), one in English, and T or F.

    ``<word>...</word>`` marks the target in both; the marks are removed. A file is named after its split (``dev.tsv``).
    The id is ``dev/<line>``, from 1 after the header.
    """
    language = text_option(options, "language")
    columns = Columns(("context1", "context2", "label"), header="exact")
    pattern = r"(?P<group>train|dev|test)(?P<part>)\..*"
    pairs = []
    for split, parts in by_name(files, pattern, "SPLIT.tsv", ("data",)).items():
        for row in columns.read(parts["data"]):
            left = _only_marked(row, "context1", language)
            right = _only_marked(row, "context2", "en")
            label = row.label("label", _TRUE_FALSE)
            pairs.append(ContextPair(f"{split}/{row.line - 1}", left, right, label, split))
    return _apply_protocol(pairs, options)


def parse_usim(files: Mapping[str, Path], options: Mapping[str, Any]) -> list[RatedContexts]:
    """Parse Usim (how similar are two uses of a word?) in the form used by the authors of MirrorWiC.

    A line holds a context (words separated by single spaces), the target's index from 0, the mean rating (1 to 5), and
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
            lemma, first_number = _lemma_and_number(first)
            second_lemma, second_number = _lemma_and_number(second)
            if first.values["rating"] != second.values["rating"] or lemma != second_lemma:
                raise DataFormatError(
                    f"{path}, lines {first.line} and {second.line}: they are not a pair."
                )
            left = _nth_word(first, "context", first.values["index"])
            right = _nth_word(second, "context", second.values["index"])
            pair_id = first.unique(f"{lemma}/{first_number}-{second_number}")
            rating = first.number("rating", (1, 5))
            pairs.append(RatedContexts(pair_id, left, right, rating))
    return _apply_protocol(pairs, options)


def _lemma_and_number(row: TableRow) -> tuple[str, str]:
    """Return the lemma of a row of Usim, and the number of its sentence."""
    lemma, _, number = row.values["name"].rpartition(" ")
    if not lemma or not number:
        raise row.error("not a lemma, a space and a number in the last column")
    return lemma, number


_COSIMLEX_COLUMNS = (
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

    Under the protocol ``released`` the text is split into words and runs of punctuation, which are joined by spaces; of
    those inside a mark, the target is the first.
    """
    is_released = options.get("protocol") == RELEASED
    changes = []
    for row in Columns(_COSIMLEX_COLUMNS, header="exact").read_all(files):
        pair_id = row.unique(str(row.line - 1))
        first = _cosimlex_context(row, "1", is_released)
        second = _cosimlex_context(row, "2", is_released)
        changes.append(ContextChange(pair_id, first, second))
    return changes


def _cosimlex_context(row: TableRow, number: str, is_released: bool) -> RatedContexts:
    """Return both words of a row of CoSimLex in one of its contexts."""
    text, spans = unmark(row.values[f"context{number}"], "<strong>", "</strong>")
    forms = [row.values[f"word1_context{number}"], row.values[f"word2_context{number}"]]
    marked = [text[start:end] for start, end in spans]
    if marked != forms and marked != forms[::-1]:
        raise row.error(f"context {number} does not mark {' and '.join(map(shown, forms))}")
    if is_released:
        sides = _targets_as_released(text, spans)
    else:
        sides = [TextInput(text, (span,)) for span in spans]
    # The second word is the first in the text.
    if marked != forms:
        sides.reverse()
    left, right = sides
    rating = row.number(f"sim{number}", (0, 10))
    return RatedContexts(f"{row.line - 1}/{number}", left, right, rating)


def _targets_as_released(text: str, spans: Sequence[tuple[int, int]]) -> list[TextInput]:
    """Return the text once for each target, rebuilt of tokens as in the released code (``test_cosimlex``).

    As there, spaces join the tokens, the span of a target of several tokens covers only the first, and a target at the
    start has a space before it.
    """
    # Brackets mark the targets while the text is tokenised, so the text's own brackets are removed first.
    bracketed = ""
    previous_end = 0
    for start, end in spans:
        bracketed += _unbracketed(text[previous_end:start])
        bracketed += f" [ {_unbracketed(text[start:end])} ] "
        previous_end = end
    bracketed += _unbracketed(text[previous_end:])

    tokens = WORDPUNCT.findall(bracketed)
    targets = []
    for index, token in enumerate(tokens):
        if token != "[":
            continue
        # All other brackets are removed.
        before = _unbracketed(" ".join(tokens[:index])).strip()
        target = tokens[index + 1]
        after = _unbracketed(" ".join(tokens[index + 2 :])).strip()
        start = len(before) + 1
        span = (start, start + len(target))
        targets.append(TextInput(f"{before} {target} {after}", (span,)))
    return targets


def _apply_protocol(pairs: list[_Pair], options: Mapping[str, Any]) -> list[_Pair]:
    """Return the pairs; under the protocol ``released`` without the square brackets of their texts."""
    if options.get("protocol") != RELEASED:
        return pairs
    return [
        replace(
            pair,
            left=_without_brackets(pair.left),
            right=_without_brackets(pair.right),
        )
        for pair in pairs
    ]


def _without_brackets(text_input: TextInput) -> TextInput:
    """Return a text without square brackets, which are removed from its target too."""
    # At each position, the number of characters before it that are not removed.
    positions = [0, *accumulate(character not in "[]" for character in text_input.text)]
    spans = tuple((positions[start], positions[end]) for start, end in text_input.spans)
    return replace(text_input, text=_unbracketed(text_input.text), spans=spans)


def _unbracketed(text: str) -> str:
    return text.replace("[", "").replace("]", "")


def _nth_word(row: TableRow, column: str, index: str) -> TextInput:
    """Return the word at an index from 0, in a text whose words are separated by single spaces."""
    text = row.values[column]
    words = text.split(" ")
    number = parse_index(index)
    if not 0 <= number < len(words) or not words[number]:
        quoted_index = index if number >= 0 else shown(index)
        raise row.error(f"there is no word {quoted_index} in {shown(text)} (counted from 0)")
    start = sum(len(word) + 1 for word in words[:number])
    return TextInput(text, ((start, start + len(words[number])),))


def _between(row: TableRow, column: str, start_column: str, end_column: str) -> TextInput:
    """Return the word between two character positions of a text; ``start_column`` and ``end_column`` hold them."""
    text = row.values[column]
    start = parse_index(row.values[start_column])
    end = parse_index(row.values[end_column])
    if not 0 <= start < end <= len(text):
        bounds = f"{row.values[start_column]}-{row.values[end_column]}"
        raise row.error(f"there is no target from {shown(bounds)} in {shown(text)}")
    return TextInput(text, ((start, end),))


def _only_marked(row: TableRow, column: str, language: str) -> TextInput:
    """Return the only word of a text that is marked as ``<word>...</word>``."""
    text, spans = unmark(row.values[column], "<word>", "</word>")
    if len(spans) != 1 or not text[slice(*spans[0])].strip():
        raise row.error(f"{len(spans)} targets instead of one in {shown(row.values[column])}")
    return TextInput(text, spans, language)
