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
    from mirrorbench.data.store import DataStore

data_app = typer.Typer(
    name="data",
    no_args_is_help=True,
    help="List, fetch, import and verify data sets and corpora.",
)

_WIDE = 120  # a terminal of fewer columns gets names, files and titles alone
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
    bool, typer.Option("--force", help="Replace altered files; they are kept as NAME.altered.")
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
        help="A corpus, or a text file of one string a line.",
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
    """List all data sets and corpora: kind, licence, and how many of their files are here."""
    from mirrorbench.data.cards import CORPUS_KIND

    store = _store(data_dir, offline)
    cards = sorted(_cards(()), key=lambda card: (card.kind == CORPUS_KIND, card.name))
    if as_json:
        print_json([_as_json(card, store.status(card)) for card in cards])
        return
    head = ["name", "kind", "language", "files", "licence", "title"]
    rows = []
    for card in cards:
        states = list(store.status(card).values())
        files = f"{states.count('present')}/{len(states)}" + (
            " altered" if "altered" in states else ""
        )
        short = re.split(r"[:;(]|\.\s|\.$", card.licence, maxsplit=1)[0].strip()
        rows.append([card.name, card.kind, ",".join(card.languages), files, short, card.title])
    if sys.stdout.isatty() and shutil.get_terminal_size().columns < _WIDE:
        head, rows = [head[i] for i in (0, 3, 5)], [[row[i] for i in (0, 3, 5)] for row in rows]
    print_rows(head, rows)
    say(f"Store: {store.root}")


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
    from mirrorbench.cli.display import summary

    if bool(names) == everything:
        raise UsageError(
            "Name what to fetch, or give --all.", hint="mirrorbench data list shows the names."
        )
    store = _store(data_dir, offline)

    failures, done = {}, 0
    for card in _cards(names or ()):
        try:
            files = store.fetch(card, force=force)
            done += 1
            folder = os.path.commonpath([path.parent for path in files.values()])
            say(f"{card.name}: complete, {len(files)} of its files in {folder}")
        except MirrorbenchError as error:
            failures[card.name] = error
    if len(failures) == 1:
        raise failures.popitem()[1]
    if failures:
        for failure in failures.values():
            if not failure.lacks:
                say(f"{failure}\n", err=True)
        say(f"{len(failures)} of {len(failures) + done} data sets could not be fetched:", err=True)
        for line in summary(lack for failure in failures.values() for lack in failure.lacks):
            say(line, err=True)
        raise DataUnavailableError(
            "Not everything was fetched.",
            "Each source and why it failed: mirrorbench data fetch NAME",
        )


@data_app.command("import")
def import_data(
    folder: _Folder, data_dir: DataDir = None, offline: Offline = False, plugin: PluginFiles = None
) -> None:
    """Take original files over from a folder, wherever they lie under it.

    Files are recognised by checksum, in archives (zip, tar, Debian packages) too. One whose checksum is not published
    must have the path that its card gives, or lie in a folder named after the card (`am2ico-de/dev.tsv`). The first
    that has the format and the published number of items is taken.
    """
    from mirrorbench.data.importing import import_folder
    from mirrorbench.runs.registry import cards, plugins

    store = _store(data_dir, offline)
    report = import_folder(folder, store, cards(plugins()))
    new = [card for card in report.cards.values() if card.imported or card.altered]
    rows: dict[
        tuple[tuple[str, ...], str, str], list[str]
    ] = {}  # cards of the same files share a row
    for card in new:
        remarks = {
            "missing:": card.missing,
            "altered": card.altered,
            "no published checksum:": card.unverified,
        }
        remark = "; ".join(f"{word} {', '.join(names)}" for word, names in remarks.items() if names)
        rows.setdefault((card.imported, card.state, remark), []).append(card.name)
    if rows:
        cells = [
            (", ".join(names), state, str(len(files)), remark)
            for (files, state, remark), names in rows.items()
        ]
        print_rows(("name", "state", "imported", "remarks"), cells)
    for problem in report.problems:
        say(f"Problem: {problem}")
    if rest := [card.state for card in report.cards.values() if card not in new]:
        states = ", ".join(f"{count} {state}" for state, count in sorted(Counter(rest).items()))
        say(f"Nothing new for {len(rest)} data sets ({states}): mirrorbench data list")
    say(f"{report.n_files} files looked at, {report.n_imported} copied into {store.root}")


@data_app.command("verify")
def verify_data(
    names: _Names = None,
    data_dir: DataDir = None,
    offline: Offline = False,
    plugin: PluginFiles = None,
) -> None:
    """Hash the files that are here again and compare them with their cards."""
    store = _store(data_dir, offline)
    states = {card.name: store.verify(card) for card in _cards(names or ())}
    # Without names only what is here at all.
    shown = {name: of for name, of in states.items() if names or set(of.values()) != {"missing"}}
    print_rows(
        ("file", "state"),
        [(f"{name}/{path}", state) for name, of in shown.items() for path, state in of.items()],
    )
    if altered := [name for name, of in shown.items() if "altered" in of.values()]:
        command = f"mirrorbench data fetch {' '.join(altered)} --force"
        hint = f"Fetch them again (the altered files are kept as NAME.altered):  {command}"
        raise DataIntegrityError(f"Altered files in {', '.join(altered)}.", hint)


@data_app.command()
def path(
    name: _Name, data_dir: DataDir = None, offline: Offline = False, plugin: PluginFiles = None
) -> None:
    """Print the paths of the files of a data set, fetching them if need be."""
    (card,) = _cards([name], suites=False)
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
    """Count test items with texts that occur in a corpus to tune on.

    Texts are compared after Unicode normalisation (NFKC) and case folding, white space collapsed. "any text": at least
    one text of the item is in the corpus; "all texts": every one, of a pair both.

    `mirrorbench data overlap sts-sentences sts`
    """
    from mirrorbench.session import Session

    overlaps = Session(data_dir=data_dir, offline=offline).overlap(corpus, tasks)
    failures = {
        name: shares for name, shares in overlaps.items() if isinstance(shares, MirrorbenchError)
    }
    rows = [
        {"task": name, "corpus": corpus, **(shares.to_json() if shares else {})}
        for name, shares in overlaps.items()
        if not isinstance(shares, MirrorbenchError)
    ]
    if as_json:
        print_json(rows)
    elif rows:
        shown = {"n_items": "{:,}", "any_text": "{:.1%}", "all_texts": "{:.1%}"}
        cells = [
            [r["task"], *(t.format(r[k]) if k in r else "unknown" for k, t in shown.items())]
            for r in rows
        ]
        print_rows(("task", "items", "any text", "all texts"), cells)
    if failures:
        raise DataUnavailableError(
            f"Not compared: {', '.join(failures)}", "\n".join(map(str, failures.values()))
        )


def _store(data_dir: Path | None, offline: bool) -> DataStore:
    from mirrorbench.data.store import DataStore
    from mirrorbench.runs.registry import plugins

    return DataStore(data_dir, offline, plugins().parsers)


def _cards(names: Iterable[str], suites: bool = True) -> Sequence[Card]:
    """Return the cards of data sets, of the members of suites, and of data sets of the hub; without names all."""
    from mirrorbench.data.card_files import builtin_suites
    from mirrorbench.data.cards import hub_card, is_hub_id
    from mirrorbench.runs.registry import cards, plugins

    known, members = cards(plugins()), builtin_suites() if suites else {}
    flat = dict.fromkeys(task for name in names for task in members.get(name, (name,)))
    for name in flat:
        if name not in known:
            if not is_hub_id(name):
                raise unknown_name("data set", name, [*known, *members], "mirrorbench data list")
            known[name] = hub_card(name)
    return [known[name] for name in flat or known]


def _as_json(card: Card, states: dict[str, Any]) -> dict[str, Any]:
    keys = (
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
    files = [
        {
            "path": file.path,
            "size": file.size,
            "sha256": file.sha256 or None,
            "split": file.split,
            "state": states[file.path],
            "sources": [source.describe() for source in file.sources],
        }
        for file in card.files
    ]
    return {**{key: getattr(card, key) for key in keys}, "files": files}
