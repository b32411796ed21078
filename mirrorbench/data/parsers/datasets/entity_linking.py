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
_NameWithIds = tuple[str, frozenset[str]]


def parse_biosyn(files: Mapping[str, Path], options: Mapping[str, Any]) -> list[Linking]:
    """Read BioSyn's archive of a data set in place: a folder of ``.concept`` files, one per document; a dictionary.

    A line of a ``.concept`` file is ``document||start|end||type||mention||ids``, a line of a dictionary ``ids||name``.
    The option ``mentions`` names the folder (``processed_test``), ``dictionary`` the file. A mention's id is
    ``<document>/<line>``.
    """
    path = only_file(files, "biosyn")
    folder, dictionary = text_option(options, "mentions"), text_option(options, "dictionary")
    documents: dict[str, list[str]] = {}
    with open_archive(path) as archive:
        for member in archive.sizes:  # in archive order: a gzipped tar is read sequentially
            inner_path = PurePosixPath(member)
            if (
                inner_path.suffix == ".concept" and inner_path.parent.name == folder
            ) or inner_path.name == dictionary:
                content = b"".join(archive.read(member, MEMBER_LIMIT))
                if inner_path.name in documents:
                    raise DataFormatError(f"{path}: a second file {inner_path.name}, {member}.")
                documents[inner_path.name] = list(decoded(io.BytesIO(content), f"{path}, {member}"))
    names = _dictionary(documents.pop(dictionary, []), f"{path}, {dictionary}")
    if not documents or not names:
        raise DataFormatError(f"{path} holds no {folder}/*.concept, or no {dictionary}.")
    columns = Columns(("document", "place", "type", "mention", "ids"), separator="||")
    mentions = []
    for name in sorted(documents, key=lambda name: PurePosixPath(name).stem):
        for row in columns.split(documents[name], f"{path}, {name}"):
            parts, ids = _split(row.text("mention").strip().lower()), _ids(row.text("ids"))
            if not all(parts) or not ids:
                raise row.error("an empty mention, or no id")
            if (
                row.values["ids"].strip().lower() != _NO_ID
            ):  # a mention without a concept is no item
                document = PurePosixPath(name).stem
                mentions.append(Mention(f"{document}/{row.line}", parts, ids, document))
    return [_linking(mentions, names, path)]


def parse_askapatient(files: Mapping[str, Path], options: Mapping[str, Any]) -> list[Linking]:
    """Read the folds of AskAPatient, in Windows-1252: id, medical term, and the patient's words.

    The dictionary of a fold consists of the labels (id and term) of its own three files,
    ``AskAPatient.fold-<n>.<train|validation|test>.txt``. A mention's id is ``<fold>/<line>``.
    """
    columns = Columns(("id", "term", "phrase"), encoding="cp1252")
    names = r"AskAPatient\.fold-(?P<group>[0-9]{1,4})\.(?P<part>train|validation|test)\.txt"
    needed = ("train", "validation", "test")
    folds = by_name(files, names, "AskAPatient.fold-<n>.<part>.txt", needed)
    linkings = []
    for fold in sorted(folds, key=int):
        rows = {part: columns.read(folds[fold][part]) for part in needed}
        labels = dict.fromkeys(
            (row.text("term"), row.text("id")) for part in needed for row in rows[part]
        )
        dictionary = dict.fromkeys(
            (term.lower(), frozenset({identity})) for term, identity in labels
        )
        mentions = [
            Mention(
                f"{fold}/{row.line}", (row.text("phrase").lower(),), frozenset({row.text("id")})
            )
            for row in rows["test"]
        ]
        linkings.append(_linking(mentions, dictionary, f"AskAPatient, fold {fold}", f"fold-{fold}"))
    return linkings


def parse_cometa(files: Mapping[str, Path], options: Mapping[str, Any]) -> list[Linking]:
    """Read a split of COMETA, tab-separated despite ``.csv``, and SapBERT's dictionary of SNOMED names, a ``.txt``.

    Gold is the general SNOMED id (the paper's "general" splits). Mentions are not lower-cased. A mention's id is its
    line.
    """
    table, names = _two_files(
        files, ".csv", "COMETA: one .csv of mentions and one .txt of names are needed."
    )
    mentions = [
        Mention(
            str(row.line),
            (row.text("Term").strip(),),
            frozenset({row.text("General SNOMED ID").strip()}),
        )
        for row in Columns(("Term", "General SNOMED ID"), header="order").read(table)
    ]
    return [_linking(mentions, _dictionary(read_lines(names), names), table)]


def parse_rescnn(files: Mapping[str, Path], options: Mapping[str, Any]) -> list[Linking]:
    """Read ResCNN's ``data.json`` (lists of mention and ids by split) and a list of MeSH names (id, tab, name).

    MeSH names are normalised to look like mentions (lower case, words only). As in BioSyn's dictionaries, the mentions
    of train and dev are names too, except composite ones. The test mentions are linked; their id is their number in
    the list.
    """
    mentions_path, names_path = _two_files(
        files, ".json", "ResCNN: data.json and a list of names are needed."
    )
    dictionary: dict[_NameWithIds, None] = {}
    for row in Columns(("id", "name")).read(names_path):
        if not (name := _words(row.text("name"))):
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
            mention = Mention(str(number), _split(name), _ids(ids))
            if not all(mention.parts) or not mention.gold:
                raise DataFormatError(
                    f"{mentions_path}, {part}, item {number}: an empty mention, or no id."
                )
            if part == "test":
                mentions.append(mention)
            elif len(mention.gold) == len(mention.parts) == 1:
                dictionary[name, mention.gold] = None
    return [_linking(mentions, dictionary, mentions_path)]


class _ResCnn(msgspec.Struct):
    """The format of ``data.json``: mentions, each with its ids, by split."""

    train: list[tuple[str, str]]
    dev: list[tuple[str, str]]
    test: list[tuple[str, str]]


def _two_files(files: Mapping[str, Path], suffix: str, problem: str) -> tuple[Path, Path]:
    """The only file with a suffix, and the only other file."""
    first = [path for name, path in files.items() if name.endswith(suffix)]
    second = [path for name, path in files.items() if not name.endswith(suffix)]
    if len(first) != 1 or len(second) != 1:
        raise DataFormatError(problem)
    return first[0], second[0]


def _dictionary(lines: list[str], where: Path | str) -> list[_NameWithIds]:
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
    entries = list(dictionary)
    if not mentions or not entries:
        raise DataFormatError(
            f"{where}: no {'name in the dictionary' if mentions else 'mention to link'}."
        )
    known = frozenset[str]().union(*(ids for _, ids in entries))
    if not any(mention.gold & known for mention in mentions):
        raise DataFormatError(
            f"{where}: no id of a mention occurs in the dictionary, as {shown(min(mentions[0].gold))}.",
            "Mentions and dictionary must use the ids of one terminology.",
        )
    return Linking(
        tuple(mentions), tuple(name for name, _ in entries), tuple(ids for _, ids in entries), fold
    )


def _split(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.replace("+", "|").split("|"))


def _ids(text: str) -> frozenset[str]:
    return frozenset(part for part in _split(text) if part)


def _words(name: str) -> str:
    return " ".join("".join(c if c.isalnum() else " " for c in name.lower()).split())
