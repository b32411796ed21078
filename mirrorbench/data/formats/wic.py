"""Word-in-context data sets whose files say by their names which split they hold: WiC and WiC-TSV."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from mirrorbench.core.errors import DataFormatError
from mirrorbench.core.inputs import TextInput
from mirrorbench.data.cards import whole_number
from mirrorbench.data.items import ContextPair
from mirrorbench.data.textfiles import parse_index, read_lines, shown

SPLITS = ("train", "dev", "test")
LABELS = {"T": 1, "F": 0}
# What is said of the target in each subtask of WiC-TSV, so that it can be read in a context (MirrorWiC, footnote 5).
STATEMENTS = {
    1: "{target} means {definition}",
    2: "{target} is a kind of {hypernyms}",
    3: "{target} is a kind of {hypernyms} and means {definition}",
}


def parse_wic(files: Mapping[str, Path], options: Mapping[str, Any]) -> list[ContextPair]:
    """Parse WiC in its original form, the one that SuperGLUE took over.

    ``dev.data.txt`` holds target, part of speech, ``i-j`` and two sentences, tab-separated; ``i`` and ``j`` count the
    sentences' words, which are set apart by one space each. ``dev.gold.txt`` holds T or F, line by line.

    Args:
        files: a data file for each split, and a gold file where the labels are public.
        options: none are used but those of the task.

    Returns:
        all items; the id is ``dev/<line>`` (from 1).

    Raises:
        DataFormatError: a wrong number of columns, an index beyond the sentence, a label that is none, files of
            different lengths.
    """
    pairs = []
    for split, parts in _splits(files, ".", ("data",), ("gold",)).items():
        rows = _columns(parts["data"], 5)
        for line, (row, label) in enumerate(zip(rows, _labels(parts.get("gold"), len(rows)), strict=True), start=1):
            indices = row[2].split("-")
            if len(indices) != 2:
                raise DataFormatError(f"{parts['data']}, line {line}: {shown(row[2])} is not of the form i-j.")
            left, right = (
                word_of(text, index, parts["data"], line) for text, index in zip(row[3:], indices, strict=True)
            )
            pairs.append(ContextPair(f"{split}/{line}", left, right, label, split))
    return pairs


def parse_tsv(files: Mapping[str, Path], options: Mapping[str, Any]) -> list[ContextPair]:
    """Parse WiC-TSV, target sense verification.

    ``dev_examples.txt`` holds target, index of its word and context, tab-separated, the words set apart by one space
    each; ``dev_definitions.txt`` a definition, ``dev_hypernyms.txt`` one or more hypernyms, tab-separated, with
    underscores for spaces; ``dev_labels.txt`` T or F. Definition and hypernyms are turned into a statement about the
    target, which is the second context ("plant is a kind of building complex and means ..."); several hypernyms are
    set apart by commas. (The released code leaves the underscores in.) One training item of the original has no
    hypernyms: its statement ends before them in subtask 2, and is that of subtask 1 in subtask 3.

    Args:
        files: examples, definitions and hypernyms for each split, and labels where they are public.
        options: ``subtask``: 1 (definition), 2 (hypernyms) or 3 (both).

    Returns:
        all items; the id is ``dev/<line>`` (from 1).

    Raises:
        DataFormatError: an unknown subtask, a wrong number of columns, an index beyond the context, a label that is
            none, files of different lengths.
    """
    subtask = whole_number(options, "subtask", 0)
    if subtask not in STATEMENTS:
        raise DataFormatError(f"Parser 'wic-tsv': subtask {subtask} is none of 1, 2 and 3.")
    pairs = []
    for split, parts in _splits(files, "_", ("examples", "definitions", "hypernyms"), ("labels",)).items():
        path = parts["examples"]
        rows = _columns(path, 3)
        definitions = _parallel(parts["definitions"], len(rows))
        hypernyms = _parallel(parts["hypernyms"], len(rows), empty=True)
        labels = _labels(parts.get("labels"), len(rows))
        for line, (row, definition, kinds, label) in enumerate(
            zip(rows, definitions, hypernyms, labels, strict=True), start=1
        ):
            left = word_of(row[2], row[1], path, line)
            target = left.text[slice(*left.spans[0])]
            listed = ", ".join(kinds.replace("_", " ").split("\t"))
            statement = STATEMENTS[1 if subtask == 3 and not listed else subtask]
            text = statement.format(target=target, definition=definition, hypernyms=listed)
            right = TextInput(text.rstrip(), ((0, len(target)),))
            pairs.append(ContextPair(f"{split}/{line}", left, right, label, split))
    return pairs


def word_of(text: str, index: str, path: Path, line: int) -> TextInput:
    """A word in a text whose words are set apart by one space each, by its number from 0.

    Raises:
        DataFormatError: no number, or no such word; the message names the file and the line.
    """
    words = text.split(" ")
    number = parse_index(index)
    if not 0 <= number < len(words) or not words[number]:
        asked = index if number >= 0 else shown(index)
        raise DataFormatError(f"{path}, line {line}: there is no word {asked} in {shown(text)} (counted from 0).")
    start = sum(len(word) + 1 for word in words[:number])
    return TextInput(text, ((start, start + len(words[number])),))


def _splits(
    files: Mapping[str, Path], separator: str, needed: Sequence[str], optional: Sequence[str]
) -> dict[str, dict[str, Path]]:
    """The files ``<split><separator><part>.txt`` by split and part."""
    found: dict[str, dict[str, Path]] = {}
    for name, path in files.items():
        split, _, part = PurePosixPath(name).name.removesuffix(".txt").partition(separator)
        if split not in SPLITS or part not in (*needed, *optional):
            raise DataFormatError(f"{path}: the name does not follow SPLIT{separator}PART.txt.")
        if part in found.setdefault(split, {}):
            raise DataFormatError(f"{path}: a second file {split}{separator}{part}.txt.")
        found[split][part] = path
    for split, parts in found.items():
        if absent := [part for part in needed if part not in parts]:
            raise DataFormatError(f"The split {split} lacks {', '.join(absent)}.")
    return found


def _columns(path: Path, n: int) -> list[list[str]]:
    rows = [line.split("\t") for line in read_lines(path)]
    for line, row in enumerate(rows, start=1):
        if len(row) != n:
            raise DataFormatError(f"{path}, line {line}: {len(row)} columns instead of {n}.")
    return rows


def _parallel(path: Path, n: int, empty: bool = False) -> list[str]:
    lines = read_lines(path)
    if len(lines) != n:
        raise DataFormatError(f"{path}: {len(lines)} lines instead of {n}.")
    for line, text in enumerate(lines, start=1):
        if not empty and not text.strip():
            raise DataFormatError(f"{path}, line {line}: an empty line.")
    return lines


def _labels(path: Path | None, n: int) -> list[int] | list[None]:
    if path is None:
        return [None] * n
    lines = _parallel(path, n)
    for line, label in enumerate(lines, start=1):
        if label.strip() not in LABELS:
            raise DataFormatError(f"{path}, line {line}: {shown(label)} is neither T nor F.")
    return [LABELS[label.strip()] for label in lines]
