"""``mirrorbench data``: list, fetch, import and verify data sets and corpora."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mirrorbench.cli.completion import complete
from mirrorbench.cli.display import DataDir, Json, Offline, PluginFiles, print_json, print_rows, say
from mirrorbench.core.errors import (
    DataIntegrityError,
    DataUnavailableError,
    MirrorbenchError,
    UsageError,
    unknown_name,
)

if TYPE_CHECKING:
    from mirrorbench.data.cards import Card
    from mirrorbench.data.importing import CardImport
    from mirrorbench.data.store import DataStore

data_app = typer.Typer(
    name="data",
    no_args_is_help=True,
    help="List, fetch, import and verify data sets and corpora.",
)

_WIDE = 120
"""Width in characters of a terminal below which ``data list`` shows only names, files and titles."""
_Names = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="NAME...",
        help="Data sets, suites, or hf:OWNER/NAME@COMMIT/SPLIT.",
        autocompletion=complete("data"),
    ),
]
_Everything = Annotated[bool, typer.Option("--all", help="Fetch every data set and corpus.")]
_Force = Annotated[
    bool,
    typer.Option("--force", help="Replace altered files; the old ones are kept as NAME.altered."),
]
_Folder = Annotated[
    Path, typer.Argument(metavar="DIR", help="A folder that holds original files or archives.")
]
_Name = Annotated[
    str,
    typer.Argument(metavar="NAME", help="A data set or corpus.", autocompletion=complete("data")),
]
_Corpus = Annotated[
    str,
    typer.Argument(
        metavar="CORPUS",
        help="A corpus, or a file of one text a line.",
        autocompletion=complete("corpora"),
    ),
]
_Tasks = Annotated[
    list[str],
    typer.Argument(metavar="TASK...", help="Tasks or suites.", autocompletion=complete("tasks")),
]


@data_app.command("list")
def list_data(
    data_dir: DataDir = None,
    offline: Offline = False,
    as_json: Json = False,
    plugin: PluginFiles = None,
) -> None:
    """List all data sets and corpora: kind, licence, and how many of their files are present."""
    from mirrorbench.data.cards import CORPUS_KIND

    store = _store(data_dir, offline)
    cards = sorted(_cards(()), key=lambda card: (card.kind == CORPUS_KIND, card.name))
    if as_json:
        print_json([_card_json(card, store.status(card)) for card in cards])
        return
    rows = []
    for card in cards:
        states = list(store.status(card).values())
        files = f"{states.count('present')}/{len(states)}"
        if "altered" in states:
            files += " altered"
        rows.append(
            {
                "name": card.name,
                "kind": card.kind,
                "language": ",".join(card.languages),
                "files": files,
                "licence": _short_licence(card.licence),
                "title": card.title,
            }
        )
    columns = ["name", "kind", "language", "files", "licence", "title"]
    if sys.stdout.isatty() and shutil.get_terminal_size().columns < _WIDE:
        columns = ["name", "files", "title"]
    cells = [[row[column] for column in columns] for row in rows]
    print_rows(columns, cells)
    say(f"Store: {store.root}")


def _short_licence(licence: str) -> str:
    """Return the name of a licence, without the remarks in its card after a colon, a bracket or a full stop."""
    return re.split(r"[:;(]|\.\s|\.$", licence, maxsplit=1)[0].strip()


@data_app.command()
def fetch(
    names: _Names = None,
    everything: _Everything = False,
    force: _Force = False,
    data_dir: DataDir = None,
    offline: Offline = False,
    plugin: PluginFiles = None,
) -> None:
    """Fetch data sets, corpora or suites from the sources that their cards name."""
    from mirrorbench.cli.display import lines_on_lacks

    if bool(names) == everything:
        raise UsageError(
            "Give either names or --all.", hint="mirrorbench data list shows the names."
        )
    store = _store(data_dir, offline)

    cards = _cards(names or ())  # without names: all of them
    failures: list[MirrorbenchError] = []
    for card in cards:
        try:
            files = store.fetch(card, force=force)
            folder = os.path.commonpath([path.parent for path in files.values()])
            say(f"{card.name}: complete, {len(files)} files in {folder}")
        except MirrorbenchError as error:
            failures.append(error)
    if len(failures) == 1:
        raise failures[0]
    # Of several errors, print each that lacks nothing; data that others lack are listed once, for all of them.
    if failures:
        for failure in failures:
            if not failure.lacks:
                say(f"{failure}\n", err=True)
        say(f"{len(failures)} of {len(cards)} could not be fetched:", err=True)
        for line in lines_on_lacks(lack for failure in failures for lack in failure.lacks):
            say(line, err=True)
        raise DataUnavailableError(
            "Not everything was fetched.",
            "Each source and why it failed: mirrorbench data fetch NAME",
        )


@data_app.command("import")
def import_data(
    folder: _Folder, data_dir: DataDir = None, offline: Offline = False, plugin: PluginFiles = None
) -> None:
    """Import original files from a folder and its subfolders.

    Files are recognised by their checksum, also inside archives (zip, tar, Debian packages). A file without a published
    checksum must have the path that its card gives, or lie in a folder named after the card (`am2ico-de/dev.tsv`). The
    first such file with the right format and the published number of items is taken.
    """
    from mirrorbench.data.importing import import_folder
    from mirrorbench.runs.registry import cards, plugins

    store = _store(data_dir, offline)
    report = import_folder(folder, store, cards(plugins()))
    # A card without changes is only counted, in the line before the last.
    affected = [card for card in report.cards.values() if card.imported or card.altered]
    unchanged = [card for card in report.cards.values() if card not in affected]

    # Cards of the same files with the same state and remarks share a row.
    names_by_outcome: dict[tuple[tuple[str, ...], str, str], list[str]] = {}
    for card in affected:
        outcome = (card.imported, card.state, _import_remarks(card))
        names_by_outcome.setdefault(outcome, []).append(card.name)
    if names_by_outcome:
        cells = [
            (", ".join(names), state, str(len(files)), remarks)
            for (files, state, remarks), names in names_by_outcome.items()
        ]
        print_rows(("name", "state", "imported", "remarks"), cells)
    for problem in report.problems:
        say(f"Problem: {problem}")
    if unchanged:
        counts = Counter(card.state for card in unchanged)
        states = ", ".join(f"{count} {state}" for state, count in sorted(counts.items()))
        say(f"Nothing new for {len(unchanged)} data sets ({states}): mirrorbench data list")
    say(f"{report.n_files} files looked at, {report.n_imported} copied into {store.root}")


def _import_remarks(card: CardImport) -> str:
    """Return what is not in order with the files of a data set after an import; empty if all is well."""
    remarks = []
    if card.missing:
        remarks.append(f"missing: {', '.join(card.missing)}")
    if card.altered:
        remarks.append(f"altered {', '.join(card.altered)}")
    if card.unverified:
        remarks.append(f"no published checksum: {', '.join(card.unverified)}")
    return "; ".join(remarks)


@data_app.command("verify")
def verify_data(
    names: _Names = None,
    data_dir: DataDir = None,
    offline: Offline = False,
    plugin: PluginFiles = None,
) -> None:
    """Compare the checksums of local files with those of their cards."""
    store = _store(data_dir, offline)
    rows = []
    altered = []
    for card in _cards(names or ()):
        states = store.verify(card)
        # Of all data sets, list only those with a file on this machine.
        if not names and set(states.values()) == {"missing"}:
            continue
        rows += [(f"{card.name}/{path}", state) for path, state in states.items()]
        if "altered" in states.values():
            altered.append(card.name)
    print_rows(("file", "state"), rows)
    # Missing files are only listed; altered ones are an error.
    if altered:
        command = f"mirrorbench data fetch {' '.join(altered)} --force"
        hint = f"Fetch them again (the altered files are kept as NAME.altered):  {command}"
        raise DataIntegrityError(f"Altered files in {', '.join(altered)}.", hint)


@data_app.command()
def path(
    name: _Name, data_dir: DataDir = None, offline: Offline = False, plugin: PluginFiles = None
) -> None:
    """Print the paths of a data set's files, after fetching those that are missing."""
    (card,) = _cards([name], allow_suites=False)
    for file in _store(data_dir, offline).fetch(card).values():
        say(str(file))


@data_app.command("overlap")
def show_overlap(
    corpus: _Corpus,
    tasks: _Tasks,
    data_dir: DataDir = None,
    offline: Offline = False,
    as_json: Json = False,
    plugin: PluginFiles = None,
) -> None:
    """Count test items whose texts occur in a tuning corpus.

    Texts are compared after Unicode normalisation (NFKC), case folding and collapsing white space. "any text": at least
    one text of the item is in the corpus; "all texts": every text of the item is, such as both texts of a pair.

    `mirrorbench data overlap sts-sentences sts`
    """
    from mirrorbench.session import Session

    rows: list[dict[str, Any]] = []
    failures: dict[str, MirrorbenchError] = {}
    overlaps = Session(data_dir=data_dir, offline=offline).overlap(corpus, tasks)
    for name, overlap in overlaps.items():
        if isinstance(overlap, MirrorbenchError):
            failures[name] = overlap
            continue
        row: dict[str, Any] = {"task": name, "corpus": corpus}
        # Without an overlap, the task does not say which texts its items have: its cells are "unknown".
        if overlap:
            row |= overlap.to_json()
        rows.append(row)
    if as_json:
        print_json(rows)
    elif rows:
        cells = [[row["task"], *_overlap_cells(row)] for row in rows]
        print_rows(("task", "items", "any text", "all texts"), cells)
    if failures:
        raise DataUnavailableError(
            f"Not compared: {', '.join(failures)}", "\n".join(map(str, failures.values()))
        )


def _overlap_cells(row: dict[str, Any]) -> list[str]:
    """Return the number of items of a task and the shares whose texts are in the corpus, or ``unknown`` for each."""
    formats = {"n_items": "{:,}", "any_text": "{:.1%}", "all_texts": "{:.1%}"}
    cells = []
    for key, format_ in formats.items():
        cells.append(format_.format(row[key]) if key in row else "unknown")
    return cells


def _store(data_dir: Path | None, offline: bool) -> DataStore:
    from mirrorbench.data.store import DataStore
    from mirrorbench.runs.registry import plugins

    return DataStore(data_dir, offline, plugins().parsers)


def _cards(names: Iterable[str], allow_suites: bool = True) -> Sequence[Card]:
    """Return the cards that names select, once each, in the order of the names; without names, all cards.

    A name is that of a data set, of a suite (for all its members) or of a data set of the hub.

    Raises:
        UnknownNameError: a name is none of these, or it is that of a suite without ``allow_suites``.
    """
    from mirrorbench.data.card_files import builtin_suites
    from mirrorbench.data.cards import hub_card, is_hub_id
    from mirrorbench.runs.registry import cards, plugins

    available = cards(plugins())
    members_of_suites = builtin_suites() if allow_suites else {}
    chosen: dict[str, Card] = {}
    for name in names:
        # A name that is not that of a suite stands for itself.
        for member in members_of_suites.get(name, (name,)):
            if member in available:
                chosen[member] = available[member]
            elif is_hub_id(member):
                chosen[member] = hub_card(member)
            else:
                candidates = [*available, *members_of_suites]
                raise unknown_name("data set", member, candidates, "mirrorbench data list")
    return list((chosen or available).values())


def _card_json(card: Card, states: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON object of a card and its files; ``states`` has the state of each file by its path."""
    fields = (
        "name",
        "kind",
        "title",
        "level",
        "metric",
        "version",
        "licence",
        "licence_url",
        "redistributable",
        "languages",
        "homepage",
        "notes",
        "citation",
    )
    files = []
    for file in card.files:
        files.append(
            {
                "path": file.path,
                "size": file.size,
                "sha256": file.sha256 or None,
                "split": file.split,
                "state": states[file.path],
                "sources": [source.describe() for source in file.sources],
            }
        )
    card_object = {field: getattr(card, field) for field in fields}
    card_object["files"] = files
    return card_object
