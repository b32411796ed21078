"""Biomedical entity linking: mentions and dictionaries in the formats of BioSyn, AskAPatient, COMETA and ResCNN.

Names are lower-cased where the released evaluators do it (SapBERT's data loader): those of every dictionary, and the
mentions of all sets but COMETA. A mention or an id may be composite: ``|`` and ``+`` separate its parts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from mirrorbench.core.errors import DataFormatError
from mirrorbench.data.archives import MEMBER_LIMIT, open_archive, read_member
from mirrorbench.data.cards import only_file, text_option
from mirrorbench.data.items import Linking, Mention
from mirrorbench.data.textfiles import decode_lines, is_text, parse_json, read_lines, shown

_NO_ID = "cui-less"
_FOLD = re.compile(r"AskAPatient\.fold-(?P<fold>[0-9]{1,4})\.(?P<part>train|validation|test)\.txt\Z")
_COMETA_COLUMNS = ("Term", "General SNOMED ID")

Entry = tuple[str, frozenset[str]]


def parse_biosyn(files: Mapping[str, Path], options: Mapping[str, Any]) -> list[Linking]:
    """Parse BioSyn's archive of a data set: a folder of ``.concept`` files, one a document, and a dictionary.

    A line of a ``.concept`` file is ``document||start|end||type||mention||ids``, a line of a dictionary ``ids||name``.

    Args:
        files: the archive, read in place.
        options: ``mentions``: the folder in it (``processed_test``); ``dictionary``: the file in it.

    Returns:
        one ``Linking``; a mention's id is ``<document>/<line>``.

    Raises:
        DataFormatError: folder or dictionary is not there or stands there twice, a line does not have these parts, an
            empty name, a mention or a name without an id, nothing to look up.
    """
    path = only_file(files, "biosyn")
    folder, dictionary = text_option(options, "mentions"), text_option(options, "dictionary")
    documents: dict[str, list[str]] = {}
    names: list[str] = []
    with open_archive(path) as archive:
        for member in archive.members:  # in the archive's order: a gzipped tar can only be read forwards
            place = PurePosixPath(member.name)
            if (place.suffix == ".concept" and place.parent.name == folder) or place.name == dictionary:
                content = b"".join(read_member(archive, member, MEMBER_LIMIT, path))
                lines = decode_lines(content, f"{path}, {member.name}")
                if names if place.name == dictionary else place.stem in documents:
                    raise DataFormatError(f"{path}: a second file {place.name}, {member.name}.")
                if place.name == dictionary:
                    names = lines
                else:
                    documents[place.stem] = lines
    if not documents or not names:
        raise DataFormatError(f"{path} holds no {folder}/*.concept, or no {dictionary}.")
    mentions = [m for name in sorted(documents) for m in _concepts(documents[name], name, f"{path}, {name}.concept")]
    return [_linking(mentions, _dictionary(names, f"{path}, {dictionary}"), path)]


def parse_askapatient(files: Mapping[str, Path], options: Mapping[str, Any]) -> list[Linking]:
    """Parse the folds of AskAPatient: tab-separated id, medical term and what the patient wrote; no header.

    The dictionary of a fold is made of the labels (id and term) of its own three files. The encoding is Windows-1252.

    Args:
        files: ``AskAPatient.fold-<n>.<train|validation|test>.txt`` for each fold.
        options: none are used.

    Returns:
        a ``Linking`` a fold, in the order of their numbers; a mention's id is ``<fold>/<line>``.

    Raises:
        DataFormatError: another file name, a fold that lacks a part, a wrong number of columns, an empty column.
    """
    folds: dict[int, dict[str, list[tuple[str, str, str]]]] = {}
    for name, path in files.items():
        match = _FOLD.match(PurePosixPath(name).name)
        if match is None:
            raise DataFormatError(f"{path}: the name is not AskAPatient.fold-<n>.<part>.txt.")
        parts = folds.setdefault(int(match["fold"]), {})
        if match["part"] in parts:
            raise DataFormatError(f"{path}: a second {match['part']} file of fold {match['fold']}.")
        parts[match["part"]] = _labelled(path)
    linkings = []
    for fold, parts in sorted(folds.items()):
        if len(parts) != 3:
            raise DataFormatError(f"AskAPatient: fold {fold} has only {', '.join(sorted(parts))}.")
        rows = [row for part in ("train", "validation", "test") for row in parts[part]]
        dictionary = dict.fromkeys((term.lower(), frozenset({identity})) for identity, term, _ in rows)
        mentions = [
            Mention(f"{fold}/{line}", (phrase.lower(),), frozenset({identity}))
            for line, (identity, _, phrase) in enumerate(parts["test"], start=1)
        ]
        linkings.append(_linking(mentions, dictionary, f"AskAPatient, fold {fold}", f"fold-{fold}"))
    return linkings


def parse_cometa(files: Mapping[str, Path], options: Mapping[str, Any]) -> list[Linking]:
    """Parse a split of COMETA: tab-separated despite ``.csv``, with a header; and SapBERT's dictionary of SNOMED names.

    The general SNOMED id is the gold (the paper's "general" splits). Terms are taken as they stand.

    Args:
        files: ``test.csv`` of the split, and the dictionary, whose name ends in ``.txt``.
        options: none are used.

    Returns:
        one ``Linking``; a mention's id is the line number.

    Raises:
        DataFormatError: a file or column is missing, an empty term or id.
    """
    tables = [path for name, path in files.items() if name.endswith(".csv")]
    names = [path for name, path in files.items() if name.endswith(".txt")]
    if len(tables) != 1 or len(names) != 1:
        raise DataFormatError("COMETA: one .csv of mentions and one .txt of names are needed.")
    rows = [line.split("\t") for line in read_lines(tables[0])]
    if not rows or (lacking := [column for column in _COMETA_COLUMNS if rows[0].count(column) != 1]):
        raise DataFormatError(f"{tables[0]}: the header lacks {', '.join(lacking if rows else _COMETA_COLUMNS)}.")
    where = [rows[0].index(column) for column in _COMETA_COLUMNS]
    mentions = []
    for line, row in enumerate(rows[1:], start=2):
        if len(row) != len(rows[0]) or not all(row[column].strip() for column in where):
            raise DataFormatError(f"{tables[0]}, line {line}: not the header's columns, or an empty term or id.")
        term, identity = (row[column].strip() for column in where)
        mentions.append(Mention(str(line), (term,), frozenset({identity})))
    return [_linking(mentions, _dictionary(read_lines(names[0]), str(names[0])), tables[0])]


def parse_rescnn(files: Mapping[str, Path], options: Mapping[str, Any]) -> list[Linking]:
    """Parse ResCNN's ``data.json`` (lists of mention and ids by part) with a list of MeSH names for a dictionary.

    The list has an id and a name a line, separated by a tab; names are brought to the form of the mentions (lower case,
    words only). As in the dictionaries of BioSyn, the mentions of train and dev are names, too (composite ones left
    out: what they stand for is not one concept).

    Args:
        files: ``data.json`` and one more file, the list.
        options: none are used.

    Returns:
        one ``Linking`` of the test mentions; a mention's id is its place in the list, from 1.

    Raises:
        DataFormatError: a file is missing, not JSON of that form, or has an empty name.
    """
    mentions_path = next((path for name, path in files.items() if name.endswith(".json")), None)
    names_path = next((path for name, path in files.items() if not name.endswith(".json")), None)
    if mentions_path is None or names_path is None or len(files) != 2:
        raise DataFormatError("ResCNN: data.json and a list of names are needed.")
    dictionary: dict[Entry, None] = {}
    for line, text in enumerate(read_lines(names_path), start=1):
        identity, tab, name = text.partition("\t")
        if not tab or not _words(name):
            raise DataFormatError(f"{names_path}, line {line}: not an id, a tab and a name.")
        dictionary[_words(name), frozenset({identity})] = None
    rows = _parts(mentions_path)
    for name, ids in rows["train"] + rows["dev"]:
        if len(_ids(ids)) == 1 and len(_split(name)) == 1:
            dictionary[name, _ids(ids)] = None
    mentions = [Mention(str(n), _split(name), _ids(ids)) for n, (name, ids) in enumerate(rows["test"], start=1)]
    return [_linking(mentions, dictionary, mentions_path)]


def _parts(path: Path) -> dict[str, list[tuple[str, str]]]:
    """The mentions of ResCNN's three parts, each with its ids."""
    parts = parse_json("\n".join(read_lines(path)), str(path))
    rows: dict[str, list[tuple[str, str]]] = {}
    for part in ("train", "dev", "test"):
        found = parts.get(part) if isinstance(parts, dict) else None
        if not isinstance(found, list):
            raise DataFormatError(f"{path}: no list {part!r} of mentions and ids.")
        for number, row in enumerate(found, start=1):
            if not isinstance(row, list) or len(row) != 2 or not all(isinstance(text, str) for text in row):
                raise DataFormatError(f"{path}, {part}, item {number}: not a mention and its ids.")
            if not all(is_text(text) for text in row) or not all(_split(row[0])) or not _ids(row[1]):
                raise DataFormatError(f"{path}, {part}, item {number}: an empty mention, no id, or half a character.")
        rows[part] = [(name, ids) for name, ids in found]
    return rows


def _concepts(lines: list[str], document: str, where: str) -> Iterable[Mention]:
    for number, line in enumerate(lines, start=1):
        fields = line.split("||")
        parts = _split(fields[3].strip().lower()) if len(fields) == 5 else ()
        if not parts or not all(parts) or not _ids(fields[4]):
            raise DataFormatError(f"{where}, line {number}: not document||start|end||type||mention||ids.")
        if fields[4].strip().lower() != _NO_ID:  # such a mention has nothing to be linked to: no item
            yield Mention(f"{document}/{number}", parts, _ids(fields[4].strip()))


def _dictionary(lines: list[str], where: str) -> list[Entry]:
    entries = []
    for number, line in enumerate(lines, start=1):
        ids, separator, name = line.strip().rpartition("||")  # ids may hold "||" themselves
        if not separator or not _ids(ids) or not name.strip():
            raise DataFormatError(f"{where}, line {number}: not ids||name.")
        if ids.lower() != _NO_ID:
            entries.append((name.lower(), _ids(ids)))
    return entries


def _labelled(path: Path) -> list[tuple[str, str, str]]:
    rows = []
    for number, line in enumerate(read_lines(path, encoding="cp1252"), start=1):
        fields = line.split("\t")
        if len(fields) != 3 or not all(field.strip() for field in fields):
            raise DataFormatError(f"{path}, line {number}: not three columns (id, term, phrase).")
        rows.append((fields[0], fields[1], fields[2]))
    return rows


def _linking(mentions: list[Mention], dictionary: Iterable[Entry], where: Path | str, fold: str = "") -> Linking:
    entries = list(dictionary)
    if not mentions or not entries:
        raise DataFormatError(f"{where}: no {'name in the dictionary' if mentions else 'mention to look up'}.")
    known = frozenset[str]().union(*(ids for _, ids in entries))
    if not any(mention.gold & known for mention in mentions):
        raise DataFormatError(
            f"{where}: no id of a mention occurs in the dictionary, as {shown(min(mentions[0].gold))}.",
            "Mentions and dictionary must use the ids of one terminology.",
        )
    return Linking(tuple(mentions), tuple(name for name, _ in entries), tuple(ids for _, ids in entries), fold)


def _split(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.replace("+", "|").split("|"))


def _ids(text: str) -> frozenset[str]:
    return frozenset(part for part in _split(text) if part)


def _words(name: str) -> str:
    return " ".join("".join(c if c.isalnum() else " " for c in name.lower()).split())
