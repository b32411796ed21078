"""Parsers of biomedical entity linking: the formats of BioSyn, AskAPatient, COMETA and ResCNN.

Names are lower-cased as in the released evaluation (SapBERT's data loader): all dictionaries, and the mentions of all
sets but COMETA. ``|`` and ``+`` separate the parts of composite mentions and ids.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec

from mirrorbench.core.errors import DataFormatError
from mirrorbench.core.quoting import shown
from mirrorbench.data.archives import MEMBER_LIMIT, open_archive
from mirrorbench.data.cards import only_file, text_option
from mirrorbench.data.items import Linking, Mention
from mirrorbench.data.readers.dataset_tables import Columns, by_name
from mirrorbench.data.readers.text import decoded, read_lines

_NO_ID = "cui-less"
"""In BioSyn's files, the id of a mention or name without a concept."""
_NameWithIds = tuple[str, frozenset[str]]


def parse_biosyn(files: Mapping[str, Path], options: Mapping[str, Any]) -> list[Linking]:
    """Read BioSyn's archive of a data set in place: a folder of ``.concept`` files, one per document, and a dictionary.

    A line of a ``.concept`` file is ``document||start|end||type||mention||ids``, a line of a dictionary ``ids||name``.
    The option ``mentions`` names the folder (``processed_test``), ``dictionary`` the file. A mention's id is
    ``<document>/<line>``.
    """
    path = only_file(files, "biosyn")
    folder = text_option(options, "mentions")
    dictionary_name = text_option(options, "dictionary")
    lines_of_files: dict[str, list[str]] = {}
    with open_archive(path) as archive:
        for member in archive.sizes:  # in archive order: a gzipped tar is read sequentially
            inner_path = PurePosixPath(member)
            name = inner_path.name
            is_document = inner_path.suffix == ".concept" and inner_path.parent.name == folder
            if not is_document and name != dictionary_name:
                continue
            content = b"".join(archive.read(member, MEMBER_LIMIT))
            if name in lines_of_files:
                raise DataFormatError(f"{path}: a second file {name}, {member}.")
            lines_of_files[name] = list(decoded(io.BytesIO(content), f"{path}, {member}"))
    dictionary_lines = lines_of_files.pop(dictionary_name, [])
    dictionary = _parse_dictionary(dictionary_lines, f"{path}, {dictionary_name}")
    # The other files are the documents.
    if not lines_of_files or not dictionary:
        raise DataFormatError(f"{path} holds no {folder}/*.concept, or no {dictionary_name}.")

    columns = Columns(("document", "place", "type", "mention", "ids"), separator="||")
    mentions = []
    for name in sorted(lines_of_files, key=lambda name: PurePosixPath(name).stem):
        document = PurePosixPath(name).stem
        for row in columns.split(lines_of_files[name], f"{path}, {name}"):
            parts = _parts(row.text("mention").strip().lower())
            ids = _ids(row.text("ids"))
            if not all(parts) or not ids:
                raise row.error("an empty mention, or no id")
            # A mention without a concept is not an item.
            if row.values["ids"].strip().lower() != _NO_ID:
                mentions.append(Mention(f"{document}/{row.line}", parts, ids, document))
    return [_linking(mentions, dictionary, path)]


def parse_askapatient(files: Mapping[str, Path], options: Mapping[str, Any]) -> list[Linking]:
    """Read AskAPatient, in Windows-1252: id, medical term, and the patient's words; each fold is a ``Linking``.

    The dictionary of a fold consists of the labels (id and term) of its own three files,
    ``AskAPatient.fold-<n>.<train|validation|test>.txt``. A mention's id is ``<fold>/<line>``.
    """
    columns = Columns(("id", "term", "phrase"), encoding="cp1252")
    pattern = r"AskAPatient\.fold-(?P<group>[0-9]{1,4})\.(?P<part>train|validation|test)\.txt"
    required = ("train", "validation", "test")
    folds = by_name(files, pattern, "AskAPatient.fold-<n>.<part>.txt", required)
    linkings = []
    for fold in sorted(folds, key=int):
        rows = {part: columns.read(folds[fold][part]) for part in required}
        dictionary: dict[_NameWithIds, None] = {}  # an ordered set
        for part in required:
            for row in rows[part]:
                name = row.text("term").lower()
                dictionary[name, frozenset({row.text("id")})] = None
        mentions = []
        for row in rows["test"]:
            name = row.text("phrase").lower()
            mentions.append(Mention(f"{fold}/{row.line}", (name,), frozenset({row.text("id")})))
        linkings.append(_linking(mentions, dictionary, f"AskAPatient, fold {fold}", f"fold-{fold}"))
    return linkings


def parse_cometa(files: Mapping[str, Path], options: Mapping[str, Any]) -> list[Linking]:
    """Read a split of COMETA, tab-separated despite ``.csv``, and SapBERT's dictionary of SNOMED names, a ``.txt``.

    Gold is the general SNOMED id (the paper's "general" splits). Mentions are not lower-cased. A mention's id is its
    line.
    """
    table_path, names_path = _two_files(
        files, ".csv", "COMETA: one .csv of mentions and one .txt of names are needed."
    )
    columns = Columns(("Term", "General SNOMED ID"), header="order")
    mentions = []
    for row in columns.read(table_path):
        name = row.text("Term").strip()
        concept = row.text("General SNOMED ID").strip()
        mentions.append(Mention(str(row.line), (name,), frozenset({concept})))
    dictionary = _parse_dictionary(read_lines(names_path), names_path)
    return [_linking(mentions, dictionary, table_path)]


def parse_rescnn(files: Mapping[str, Path], options: Mapping[str, Any]) -> list[Linking]:
    """Read ResCNN's ``data.json`` (lists of mention and ids by split) and a list of MeSH names (id, tab, name).

    MeSH names are normalised to look like mentions (lower case, words only). As in BioSyn's dictionaries, the mentions
    of train and dev are names too, except composite ones. Items are the test mentions; their id is their number in the
    list.
    """
    mentions_path, names_path = _two_files(
        files, ".json", "ResCNN: data.json and a list of names are needed."
    )
    dictionary: dict[_NameWithIds, None] = {}
    for row in Columns(("id", "name")).read(names_path):
        name = _words(row.text("name"))
        if not name:
            raise row.error("a name without a letter or digit")
        dictionary[name, frozenset({row.values["id"]})] = None
    text = "\n".join(read_lines(mentions_path))
    try:
        parts = msgspec.json.decode(text, type=_ResCnn)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise DataFormatError(
            f"{mentions_path}: no lists train, dev and test of mentions and ids ({error})."
        ) from None
    mentions = []
    for part in ("train", "dev", "test"):
        for number, (name, ids) in enumerate(getattr(parts, part), start=1):
            mention = Mention(str(number), _parts(name), _ids(ids))
            if not all(mention.parts) or not mention.gold:
                raise DataFormatError(
                    f"{mentions_path}, {part}, item {number}: an empty mention, or no id."
                )
            if part == "test":
                mentions.append(mention)
            # Mentions of train and dev are names, except composite ones, of several parts or ids.
            elif len(mention.gold) == len(mention.parts) == 1:
                dictionary[name, mention.gold] = None
    return [_linking(mentions, dictionary, mentions_path)]


class _ResCnn(msgspec.Struct):
    """The format of ``data.json``: mentions, each with its ids, by split."""

    train: list[tuple[str, str]]
    dev: list[tuple[str, str]]
    test: list[tuple[str, str]]


def _two_files(files: Mapping[str, Path], suffix: str, problem: str) -> tuple[Path, Path]:
    """Return the only file with a suffix, and the only other file; raise ``problem`` if there are more or fewer."""
    first = [path for name, path in files.items() if name.endswith(suffix)]
    second = [path for name, path in files.items() if not name.endswith(suffix)]
    if len(first) != 1 or len(second) != 1:
        raise DataFormatError(problem)
    return first[0], second[0]


def _parse_dictionary(lines: list[str], where: Path | str) -> list[_NameWithIds]:
    """Return the names of a dictionary that have a concept, with their ids; ``where`` is its file, for messages."""
    entries = []
    for number, line in enumerate(lines, start=1):
        ids, separator, name = line.strip().rpartition("||")  # ids may hold "||" themselves
        if not separator or not _ids(ids) or not name.strip():
            raise DataFormatError(f"{where}, line {number}: not ids||name.")
        if ids.lower() != _NO_ID:
            entries.append((name.lower(), _ids(ids)))
    return entries


def _linking(
    mentions: list[Mention], dictionary: Iterable[_NameWithIds], where: Path | str, fold: str = ""
) -> Linking:
    """Return mentions with their dictionary, after checking that the dictionary has an id of any mention."""
    entries = list(dictionary)
    if not mentions:
        raise DataFormatError(f"{where}: no mention to link.")
    if not entries:
        raise DataFormatError(f"{where}: no name in the dictionary.")
    names = tuple(name for name, _ in entries)
    ids_of_names = tuple(ids for _, ids in entries)
    dictionary_ids = frozenset[str]().union(*ids_of_names)
    if not any(mention.gold & dictionary_ids for mention in mentions):
        raise DataFormatError(
            f"{where}: no id of a mention occurs in the dictionary, e.g. {shown(min(mentions[0].gold))}.",
            "Mentions and dictionary must use the ids of one terminology.",
        )
    return Linking(tuple(mentions), names, ids_of_names, fold)


def _parts(text: str) -> tuple[str, ...]:
    """Return the parts of a composite mention, or of several ids."""
    return tuple(part.strip() for part in text.replace("+", "|").split("|"))


def _ids(text: str) -> frozenset[str]:
    return frozenset(part for part in _parts(text) if part)


def _words(name: str) -> str:
    """Return the words of a name in lower case, without punctuation."""
    characters = [character if character.isalnum() else " " for character in name.lower()]
    return " ".join("".join(characters).split())
