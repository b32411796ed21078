"""Small files in the formats of the original data sets, in a data folder, for commands that need such data.

A card knows the checksums of the originals; ``as_here`` puts those of the small files in their place. Everything else
of the cards, and whatever reads them, is what ships.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path, PurePosixPath

from msgspec.structs import replace

from helpers.format_samples import CONCEPTS, archive
from mirrorbench.data.card_files import builtin_cards
from mirrorbench.data.cards import Card, DataFile

_WHO = ("cat", "dog", "child", "singer", "teacher", "train", "bank", "spring")
_DOES = (
    "runs home",
    "sleeps all day",
    "is seen by the river",
    "plays a song",
    "stops in the rain",
    "waits outside",
)
SENTENCES = [f"The {who} {does}." for who in _WHO for does in _DOES]
OTHERS = [f"A {who} {does}." for who in ("man", "girl") for does in _DOES]
"""Sentences that are in no corpus."""
PAIRS = [
    (texts[n], texts[(7 * n + n % 3) % len(texts)], (n + k) % 6)
    for k, texts in enumerate((SENTENCES, OTHERS))
    for n in range(8)
]
"""Two sentences and a score from 0 to 5."""
WORDS = [f"{first}{last}" for first in "bcdfghlmnprst" for last in ("at", "ill", "ore", "ane")]
_TERMS = [("1", "Pain", "ache"), ("2", "Ataxia", "ataxic gait"), ("1", "Pain", "it hurts")]

Made = dict[tuple[str, str], bytes]
"""Contents by the folder and the path of a card's file."""


def make(names: Iterable[str]) -> Made:
    """The files of the cards of some names."""
    made: Made = {}
    for name in names:
        card = builtin_cards()[name]
        for file in card.files:
            made[card.folder, file.path] = _FORMATS[card.parser](card, file.path)
    return made


def write(made: Made, root: Path) -> None:
    """Put files where a store looks for them."""
    for (folder, path), content in made.items():
        target = root / folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)


def as_here(card: Card, made: Made) -> Card:
    """A card that describes the small files; one that has none is left as it is."""
    if not any(folder == card.folder for folder, _ in made):
        return card
    options = {
        key: value for key, value in card.options.items() if key != "rows"
    }  # how many the original has
    return replace(
        card, files=tuple(_as_here(card, file, made) for file in card.files), options=options
    )


def _as_here(card: Card, file: DataFile, made: Made) -> DataFile:
    content = made.get((card.folder, file.path))
    if content is None or file.unverified:
        return file
    return replace(file, sha256=hashlib.sha256(content).hexdigest(), size=len(content))


def _text(rows: Iterable[str]) -> bytes:
    return "".join(f"{row}\n" for row in rows).encode()


def _table(*rows: Sequence[object]) -> bytes:
    return _text("\t".join(map(str, row)) for row in rows)


def _sts(card: Card, path: str) -> bytes:
    if ".gs." in path:
        return _table(*([score] for *_, score in PAIRS))
    notes = ["from", "here"] if card.options.get("columns") == 4 else []
    return _table(*([left, right, *notes] for left, right, _ in PAIRS))


def _stsb(card: Card, path: str) -> bytes:
    return _table(
        *(
            ["news", "x", "2015", n, score, left, right]
            for n, (left, right, score) in enumerate(PAIRS)
        )
    )


def _sick(card: Card, path: str) -> bytes:
    head = ["pair_ID", "sentence_A", "sentence_B", "relatedness_score", "entailment_judgment"]
    rows = (
        [n, left, right, max(score, 1), "NEUTRAL"] for n, (left, right, score) in enumerate(PAIRS)
    )
    return _table(head, *rows)


def _simlex(card: Card, path: str) -> bytes:
    columns = card.options["columns"]
    pairs = zip(WORDS[::2], WORDS[1::2], strict=True)
    return _table(columns.values(), *([one, other, n % 10] for n, (one, other) in enumerate(pairs)))


def _multisimlex(card: Card, path: str) -> bytes:
    cards = [other for other in builtin_cards().values() if other.folder == card.folder]
    names = sorted({name for other in cards for name in other.options["languages"]})
    head = [
        "ID",
        "SIMLEX_IDS",
        *(column for name in names for column in (name, f"{name}_IN_SOURCE", f"{name}_SCORE")),
    ]
    rows = []
    for place, word in enumerate(WORDS):
        pair, side = place // 2 + 1, place % 2 + 1
        rows.append(
            [place, f"{pair}:{side}", *(text for _ in names for text in (word, word, pair % 6))]
        )
    return _table(head, *rows)


def _lines(card: Card, path: str) -> bytes:
    texts = WORDS if card.level == "word" else SENTENCES
    if card.name == "words-en":  # as many as a page asks for
        texts = [f"{word}{n or ''}" for n in range(10) for word in WORDS]
    if "column" in card.options:  # of a table that has a header line
        return _table(
            ["index", "question", "sentence", "label"],
            *([n, "Who?", s, "x"] for n, s in enumerate(texts)),
        )
    return _text(texts)


def _qnli(card: Card, path: str) -> bytes:
    labels = ("entailment", "not_entailment")
    rows = ([n, left, right, labels[n % 2]] for n, (left, right, _) in enumerate(PAIRS))
    return _table(["index", "question", "sentence", "label"], *rows)


def _biosyn(card: Card, path: str) -> bytes:
    return archive(CONCEPTS)


def _askapatient(card: Card, path: str) -> bytes:
    return _table(*_TERMS)


def _cometa(card: Card, path: str) -> bytes:
    if path.endswith(".txt"):
        return _text(f"{number}||{name}" for number, name, _ in _TERMS)
    return _table(
        ["ID", "Term", "General SNOMED ID"],
        *([n, term, i] for n, (i, _, term) in enumerate(_TERMS)),
    )


def _wic(card: Card, path: str) -> bytes:
    if ".gold." in path:
        return _text("TF"[n % 2] for n in range(len(PAIRS)))
    return _table(*([one.split()[1], "N", "1-1", one, other] for one, other, _ in PAIRS))


def _wic_tsv(card: Card, path: str) -> bytes:
    part = PurePosixPath(path).stem.partition("_")[2]
    column = {
        "examples": [f"{one.split()[1]}\t1\t{one}" for one, *_ in PAIRS],
        "definitions": ["something that is there"] * len(PAIRS),
        "hypernyms": ["living_thing\tthing"] * len(PAIRS),
        "labels": ["TF"[n % 2] for n in range(len(PAIRS))],
    }
    return _text(column[part])


def _usim(card: Card, path: str) -> bytes:
    rows = []
    for n, (one, other, score) in enumerate(PAIRS):
        rows += [
            [text, 1, max(score, 1), f"word.n {2 * n + side}"]
            for side, text in enumerate((one, other))
        ]
    return _table(*rows)


def _wsd(card: Card, path: str) -> bytes:
    """Two senses of the noun *spring*, with an example each, and two occurrences."""
    glosses = (
        'season; "the spring was wet"; "spring came late"',
        'a coil; "a spring of steel"; "the spring broke"',
    )
    data, offsets = "", []
    for number, gloss in enumerate(glosses):
        offsets.append(f"{len(data):08d}")
        data += f"{offsets[-1]} 03 n 01 spring {number} 000 | {gloss}\n"
    instance = '<sentence id="d.s{n}"><wf lemma="the" pos="DET">The</wf><instance id="d.s{n}.t0" lemma="spring" pos="NOUN">'
    inside = "".join(f"{instance.format(n=n)}spring</instance></sentence>" for n in range(2))
    name = PurePosixPath(path).name
    contents = {
        "ALL.data.xml": f'<corpus><text id="d">{inside}</text></corpus>\n',
        "ALL.gold.key.txt": "d.s0.t0 spring%1:03:00::\nd.s1.t0 spring%1:03:01::\n",
        "index.noun": f"spring n 2 0 2 0 {' '.join(offsets)}\n",
        "data.noun": data,
    }
    return contents.get(
        name, "went go\n" if name.endswith(".exc") else "  1 This is a licence.\n"
    ).encode()


_FORMATS: dict[str, Callable[[Card, str], bytes]] = {
    "sts": _sts,
    "stsb": _stsb,
    "sick": _sick,
    "table": _simlex,
    "multisimlex-concepticon": _multisimlex,
    "lines": _lines,
    "qnli": _qnli,
    "biosyn": _biosyn,
    "askapatient": _askapatient,
    "cometa": _cometa,
    "wic": _wic,
    "wic-tsv": _wic_tsv,
    "usim": _usim,
    "wsd": _wsd,
}
