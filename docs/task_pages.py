"""Reference pages of tasks and corpora, made from their cards: data, licence, metric, protocol, citation."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from mirrorbench.data.card_files import load_cards
from mirrorbench.data.cards import Card
from mirrorbench.runs.registry import plugins

CARDS = Path(__file__).resolve().parents[1] / "tasks"
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
"""Folders of cards, each a page, with its heading."""
VARIANTS = (
    "`--tasks bli-en-fr:train=1k` runs a task of that name, with a column and results of its own beside `bli-en-fr`; "
    "several options are separated by commas: "
    "`bli-en-fr:vocabulary=frequent-words-{lang},vocabulary_size=50000`."
)


def pages() -> dict[str, str]:
    """The text of every page by its path below ``docs/``."""
    return {f"tasks/{folder}.md": page(folder) for folder in HEADS} | {"tasks/README.md": index()}


def index() -> str:
    """The list of pages."""
    lines = [
        "# Tasks and corpora",
        "",
        "Made from the cards in `tasks/`. A suite is a list of tasks: `tasks/suites.yaml`. Your own: "
        "[a card is seven lines](../plugins.md#a-task-from-a-card).",
        "",
        f"Some tasks have options, which their pages name. {VARIANTS}",
        "",
    ]
    for folder, head in HEADS.items():
        names = [card.name for cards in _files(folder) for card in cards]
        shown = ", ".join(f"`{name}`" for name in names[:6]) + (" ..." if len(names) > 6 else "")
        lines.append(f"- [{head}]({folder}.md): {shown}")
    return "\n".join(lines) + "\n"


def page(folder: str) -> str:
    """All cards of one folder; a family of cards shares a section."""
    lines = [f"# {HEADS[folder]}", "", "Made from the cards; edit those, not this page."]
    kinds = dict.fromkeys(
        card.kind for cards in _files(folder) for card in cards if card.kind in plugins().task_kinds
    )
    for kind in kinds:
        lines += [
            "",
            f"## What a task of the kind `{kind}` does",
            "",
            _explanation(kind),
            *_settable(kind),
        ]
    for cards in _files(folder):
        lines += ["", *_section(cards)]
    return "\n".join(lines) + "\n"


def _settable(kind: str) -> Iterator[str]:
    """What a user may set after a task's name."""
    options = plugins().task_kinds[kind].settable
    if options:
        named = ", ".join(
            f"`{name}` (default `{json.dumps(value)}`)" for name, value in options.items()
        )
        yield ""
        yield f"May be set after a task's name: {named}. The defaults hold where a card says nothing. {VARIANTS}"


def _files(folder: str) -> Iterator[tuple[Card, ...]]:
    for path in sorted((CARDS / folder).glob("*.yaml")):
        yield load_cards(path)


def _explanation(kind: str) -> str:
    """The class's own words, without the arguments of its constructor."""
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
    yield f"- Licence: {licence}{link}. May{'' if card.redistributable else ' not'} be passed on."
    sizes = [file.size for file in card.files]
    known = f", {sum(size for size in sizes if size):,} bytes" if all(sizes) else ""
    yield f"- Files: {len(sizes)}{known}; parser `{card.parser}`; card version {card.version}"
    if length := card.options.get("max_length"):
        yield f"- Tokens kept of each text: {length}, as in the released code, where a model has as many positions"
    if card.homepage:
        yield f"- Home: <{card.homepage}>"
