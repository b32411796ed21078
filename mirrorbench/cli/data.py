"""``mirrorbench data``: what data there is, whence, under what licence, and whether it is intact."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mirrorbench.cli.options import DataDir, Json, Offline, PluginFiles, split_names
from mirrorbench.cli.output import print_rows

if TYPE_CHECKING:
    from mirrorbench.core.errors import MirrorbenchError
    from mirrorbench.data.cards import Card
    from mirrorbench.data.importing import ImportReport

app = typer.Typer(
    name="data",
    help="What data there is, where it comes from, under what licence, and whether it is intact.",
    no_args_is_help=True,
)

_WIDE = 120  # a terminal of fewer columns gets no titles: they would be broken into shreds

Names = Annotated[
    list[str] | None, typer.Argument(metavar="NAME...", help="Data sets, suites, or hf:OWNER/NAME@COMMIT/SPLIT.")
]


@app.command("list")
def list_data(data_dir: DataDir = None, offline: Offline = False, as_json: Json = False) -> None:
    """List all data sets and corpora: kind, licence, and how many of their files are here."""
    from mirrorbench.data.cards import CORPUS_KIND
    from mirrorbench.data.catalogue import builtin_cards
    from mirrorbench.data.store import DataStore

    store = DataStore(data_dir, offline)
    cards = sorted(builtin_cards().values(), key=lambda card: (card.kind == CORPUS_KIND, card.name))
    if as_json:
        _print(json.dumps([_as_json(card, store.status(card)) for card in cards], indent=1, ensure_ascii=False))
        return
    rows: list[tuple[str, ...]] = []
    head: tuple[str, ...]
    for card in cards:
        states = list(store.status(card).values())
        present = states.count("present")
        files = f"{present}/{len(states)}" + (" altered" if "altered" in states else "")
        rows.append((card.name, card.kind, ",".join(card.languages), files, _short_licence(card), card.title))
    head = ("name", "kind", "language", "files", "licence", "title")
    if sys.stdout.isatty() and shutil.get_terminal_size().columns < _WIDE:
        head, rows = head[:-1], [row[:-1] for row in rows]
    print_rows(head, rows)
    _print(f"Store: {store.root}")


@app.command()
def fetch(
    names: Names = None,
    everything: Annotated[bool, typer.Option("--all", help="Fetch every data set and corpus.")] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Replace altered files; they are kept as NAME.altered.")
    ] = False,
    data_dir: DataDir = None,
    offline: Offline = False,
) -> None:
    """Fetch data sets, corpora or suites from the sources that their cards name."""
    from mirrorbench.core.errors import MirrorbenchError, UsageError
    from mirrorbench.data.store import DataStore

    if bool(names) == everything:
        raise UsageError("Name what to fetch, or give --all.", hint="mirrorbench data list shows the names.")
    store = DataStore(data_dir, offline)
    failures: list[tuple[str, MirrorbenchError]] = []
    for card in _select(names or ()):
        try:
            files = store.fetch(card, force=force)
        except MirrorbenchError as error:
            failures.append((card.name, error))
            _print(f"{card.name}: failed")
        else:
            _print(f"{card.name}: complete, {len(files)} of its files in {store.root / card.folder}")
    _raise_all(failures, "Not fetched")


@app.command("import")
def import_data(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder that holds original files or archives.")],
    data_dir: DataDir = None,
    offline: Offline = False,
) -> None:
    """Take original files over from a folder, wherever they lie under it, recognised by checksum."""
    from mirrorbench.data.catalogue import builtin_cards
    from mirrorbench.data.importing import import_folder
    from mirrorbench.data.store import DataStore

    store = DataStore(data_dir, offline)
    _print_report(import_folder(folder, store, builtin_cards()), store.root)


@app.command()
def verify(names: Names = None, data_dir: DataDir = None, offline: Offline = False) -> None:
    """Hash the files that are here again and compare them with their cards."""
    from mirrorbench.core.errors import DataIntegrityError
    from mirrorbench.data.store import DataStore

    store = DataStore(data_dir, offline)
    rows: list[tuple[str, str]] = []
    altered: list[str] = []
    for card in _select(names or ()):
        states = store.verify(card)
        if not names and set(states.values()) == {"missing"}:
            continue  # without names: only what is here at all
        rows += [(f"{card.name}/{path}", state) for path, state in states.items()]
        if "altered" in states.values():
            altered.append(card.name)
    print_rows(("file", "state"), rows)
    if altered:
        raise DataIntegrityError(
            f"Altered files in {', '.join(altered)}.",
            hint=f"Mend them (the present files are kept as NAME.altered):  "
            f"mirrorbench data fetch {' '.join(altered)} --force",
        )


@app.command()
def path(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A data set or corpus.")],
    data_dir: DataDir = None,
    offline: Offline = False,
) -> None:
    """Print the paths of the files of a data set, fetching them if need be."""
    from mirrorbench.data.catalogue import builtin_cards
    from mirrorbench.data.store import DataStore

    (card,) = _cards([name], builtin_cards())
    for file in DataStore(data_dir, offline).fetch(card).values():
        _print(str(file))


@app.command("overlap")
def show_overlap(
    corpus: Annotated[str, typer.Argument(metavar="CORPUS", help="A corpus, or a text file of one string a line.")],
    tasks: Annotated[list[str], typer.Argument(metavar="TASK...", help="Tasks or suites.")],
    data_dir: DataDir = None,
    offline: Offline = False,
    as_json: Json = False,
    plugin: PluginFiles = None,
) -> None:
    """How many test items hold texts that occur in a corpus to tune on.

    Texts are compared after Unicode normalisation (NFKC) and case folding, white space collapsed. "any text": at least
    one text of the item is in the corpus; "all texts": every one, of a pair both.

    `mirrorbench data overlap sts-sentences sts`
    """
    from mirrorbench.core.errors import MirrorbenchError
    from mirrorbench.data.contamination import find_contamination
    from mirrorbench.data.corpora import read_corpus
    from mirrorbench.data.store import DataStore
    from mirrorbench.runs.builtin import plugins
    from mirrorbench.runs.plan import expand_tasks

    registered, store = plugins(), DataStore(data_dir, offline)
    names = expand_tasks(split_names(tasks), registered)
    strings = read_corpus(corpus, store, {entry.name: entry.value for entry in registered.corpora}).texts
    found: list[dict[str, Any]] = []
    failures: list[tuple[str, MirrorbenchError]] = []
    for name in names:
        try:
            task = registered.tasks[name]
            task.fetch(store)
            shares = find_contamination(task.texts(task.load(store)), strings)
        except MirrorbenchError as error:
            failures.append((name, error))
        else:
            found.append({"task": name, "corpus": corpus, **(shares.to_json() if shares else {})})
    if as_json:
        _print(json.dumps(found, indent=1, ensure_ascii=False))
    elif found:
        shown = [("n_items", "{:,}"), ("any_text", "{:.1%}"), ("all_texts", "{:.1%}")]
        rows = [[row["task"], *(text.format(row[k]) if k in row else "unknown" for k, text in shown)] for row in found]
        print_rows(("task", "items", "any text", "all texts"), rows)
    _raise_all(failures, "Not compared")


def _raise_all(failures: Sequence[tuple[str, MirrorbenchError]], what: str) -> None:
    """One failure as it is; of several, the reasons first, then the names."""
    from mirrorbench.core.errors import DataUnavailableError

    if len(failures) == 1:
        raise failures[0][1]
    if failures:
        _print_error("\n\n".join(str(error) for _, error in failures))
        raise DataUnavailableError(f"{what}: {', '.join(name for name, _ in failures)}; the reasons are above.")


def _select(names: Sequence[str]) -> list[Card]:
    from mirrorbench.data.catalogue import builtin_cards, builtin_suites

    cards, suites = builtin_cards(), builtin_suites()
    if not names:
        return list(cards.values())
    flat = [task for name in names for task in suites.get(name, (name,))]
    return _cards(dict.fromkeys(flat), cards, suites)


def _cards(names: Iterable[str], cards: Mapping[str, Card], suites: Iterable[str] = ()) -> list[Card]:
    from mirrorbench.core.registry import unknown_name
    from mirrorbench.data.hub import hub_card, is_hub_id

    known = {**cards, **{name: hub_card(name) for name in names if is_hub_id(name)}}
    for name in names:
        if name not in known:
            raise unknown_name("data set", name, [*cards, *suites], "mirrorbench data list")
    return [known[name] for name in names]


def _as_json(card: Card, states: Mapping[str, str]) -> dict[str, Any]:
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
    )
    return {
        **{key: getattr(card, key) for key in keys},
        "languages": list(card.languages),
        "homepage": card.homepage,
        "notes": card.notes,
        "citation": card.citation,
        "files": [
            {
                "path": file.path,
                "size": file.size,
                "sha256": file.sha256 or None,
                "split": file.split,
                "state": states[file.path],
                "sources": [source.describe() for source in file.sources],
            }
            for file in card.files
        ],
    }


def _short_licence(card: Card) -> str:
    """The licence up to its first full stop, colon or bracket: enough for a table."""
    import re

    return re.split(r"[:;(]|\.\s|\.$", card.licence, maxsplit=1)[0].strip()


def _print_report(report: ImportReport, root: Path) -> None:
    known = [card for card in report.cards.values() if card.state != "absent" or card.imported]
    rows = []
    for card in known:
        lacks = [f"lacks {', '.join(card.missing)}"] if card.missing else []
        lacks += [f"altered {', '.join(card.altered)}"] if card.altered else []
        rows.append((card.name, card.state, str(len(card.imported)), "; ".join(lacks)))
    print_rows(("name", "state", "imported", "remarks"), rows)
    absent = [card.name for card in report.cards.values() if card not in known]
    if absent:
        _print(f"Nothing found of: {', '.join(absent)}")
    for problem in report.problems:
        _print(f"Problem: {problem}")
    _print(
        f"{report.n_files} files looked at, {report.n_recognised} recognised, {report.n_imported} copied into {root}"
    )


def _print(text: str) -> None:
    typer.echo(text)


def _print_error(text: str) -> None:
    typer.echo(text, err=True)
