"""Build the reference pages of tasks and corpora from their cards: data, licence, metric, protocol, citation."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from mirrorbench.data.card_files import load_cards
from mirrorbench.data.cards import Card
from mirrorbench.runs.registry import plugins

CARDS = Path(__file__).resolve().parents[2] / "tasks"
HEADS = {
    "bel": "Biomedical entity linking",
    "bli": "Bilingual lexicon induction",
    "clws": "Cross-lingual word similarity",
    "corpora": "Tuning corpora",
    "qnli": "Question-answer entailment (QNLI)",
    "qqp": "Duplicate questions (QQP)",
    "quick": "The data inside the package",
    "sts": "Semantic textual similarity",
    "wic": "Words in context",
    "wordsim": "Word similarity",
    "wsd": "Word sense disambiguation",
}
"""Folders of cards and the headings of their pages."""
VARIANTS = (
    "`--tasks bli-en-fr:train=1k` runs a task of this name, with its own column and results beside `bli-en-fr`; "
    "several options are separated by commas: "
    "`bli-en-fr:vocabulary=frequent-words-{lang},vocabulary_size=50000`."
)


def pages() -> dict[str, str]:
    """Return the text of every page by its path below ``docs/``."""
    return {f"tasks/{folder}.md": page(folder) for folder in HEADS} | {"tasks/README.md": index()}


def index() -> str:
    """Return the page that lists the others."""
    lines = [
        "# Tasks and corpora",
        "",
        "These pages are generated from the cards in `tasks/`. Suites are lists of tasks, defined in `tasks/suites.yaml`. To add "
        "your own task, write [a card of seven lines](../plugins.md#a-task-from-a-card).",
        "",
        f"Some tasks have options, which their pages list. {VARIANTS}",
        "",
    ]
    for folder, head in HEADS.items():
        names = [card.name for cards in _files(folder) for card in cards]
        shown = ", ".join(f"`{name}`" for name in names[:6]) + (" ..." if len(names) > 6 else "")
        lines.append(f"- [{head}]({folder}.md): {shown}")
    return "\n".join(lines) + "\n"


def page(folder: str) -> str:
    """Return the page of a folder of cards; a family of cards shares a section."""
    lines = [f"# {HEADS[folder]}", "", "This page is generated from the cards; edit those instead."]
    kinds = dict.fromkeys(
        card.kind for cards in _files(folder) for card in cards if card.kind in plugins().task_kinds
    )
    for kind in kinds:
        lines += [
            "",
            f"## Tasks of the kind `{kind}`",
            "",
            _explanation(kind),
            *_settable(kind),
        ]
    for cards in _files(folder):
        lines += ["", *_section(cards)]
    return "\n".join(lines) + "\n"


def _settable(kind: str) -> Iterator[str]:
    """Yield the options that a user may set after a task's name."""
    options = plugins().task_kinds[kind].settable
    if options:
        named = ", ".join(
            f"`{name}` (default `{json.dumps(value)}`)" for name, value in options.items()
        )
        yield ""
        yield f"Options after a task's name: {named}. The defaults apply unless a card sets a value. {VARIANTS}"


def _files(folder: str) -> Iterator[tuple[Card, ...]]:
    for path in sorted((CARDS / folder).glob("*.yaml")):
        yield load_cards(path)


def _explanation(kind: str) -> str:
    """Return the docstring of the class, without the arguments of its constructor."""
    text = plugins().task_kinds[kind].__doc__ or ""
    return _dedent(text.split("Args:")[0]).replace("``", "`")


def _dedent(text: str) -> str:
    return "\n".join(line.strip() for line in text.strip().splitlines())


def _section(cards: tuple[Card, ...]) -> list[str]:
    first = cards[0]
    if len(cards) == 1:
        lines = [f"## `{first.name}`", "", first.title + ".", ""]
    else:
        lines = [
            f"## `{first.name}` and {len(cards) - 1} more",
            "",
            "| name | title | languages |",
            "|---|---|---|",
        ]
        lines += [
            f"| `{card.name}` | {card.title} | {', '.join(card.languages)} |" for card in cards
        ]
        lines.append("")
    lines += _facts(first)
    if first.notes:
        lines += ["", " ".join(first.notes.split())]
    if first.citation:
        lines += ["", "```bibtex", first.citation.rstrip(), "```"]
    return lines


def _facts(card: Card) -> Iterator[str]:
    yield f"- Level: {card.level}" + (f"; main metric: `{card.metric}`" if card.metric else "")
    licence = " ".join(card.licence.split()).rstrip(".")
    link = f" ([terms]({card.licence_url}))" if card.licence_url else ""
    yield f"- Licence: {licence}{link}. Redistribution is {'' if card.redistributable else 'not '}allowed."
    sizes = [file.size for file in card.files]
    known = f", {sum(size for size in sizes if size):,} bytes" if all(sizes) else ""
    yield f"- Files: {len(sizes)}{known}; parser `{card.parser}`; card version {card.version}"
    if length := card.options.get("max_length"):
        yield f"- Tokens read of each text: {length}, as in the released code, if the model has that many positions"
    if card.homepage:
        yield f"- Home page: <{card.homepage}>"
