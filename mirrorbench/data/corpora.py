"""Corpora: the raw strings that an encoder is tuned on."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mirrorbench.core.errors import DataFormatError, UsageError
from mirrorbench.core.registry import unknown_name
from mirrorbench.data.cards import CORPUS_KIND, Card, text_option, whole_number
from mirrorbench.data.hub import hub_card, is_hub_id
from mirrorbench.data.store import DataStore
from mirrorbench.data.textfiles import is_text, parse_json, read_lines, shown


@dataclass(frozen=True, slots=True)
class GeneratedCorpus:
    """A corpus that a function makes, for strings that need no file.

    Attributes:
        name: as asked for in a spec.
        title: one line for listings.
        generate: makes the strings, the same at every call; their hash is the corpus's identity all the same.
    """

    name: str
    title: str
    generate: Callable[[], Sequence[str]]


@dataclass(frozen=True, slots=True)
class Corpus:
    r"""Raw strings to tune on.

    Attributes:
        name: the name or path under which it was asked for.
        texts: the strings, in file order.
        sha256: the hash of the texts joined by ``\n``: the same strings in the same order are the same
            corpus, wherever they came from.
        source: where they came from: a file's path, or the place that a card names.
        n_lines: how many lines of the source are not blank.
        n_duplicates: how many of those repeat an earlier one; left out of ``texts`` unless duplicates were
            kept.
    """

    name: str
    texts: tuple[str, ...]
    sha256: str
    source: str
    n_lines: int
    n_duplicates: int


def read_corpus(
    name_or_path: str | Path,
    store: DataStore,
    cards: Mapping[str, Card | GeneratedCorpus],
    *,
    deduplicate: bool = True,
    strip: bool = True,
    size: int = 0,
) -> Corpus:
    """Read a corpus: a built-in one by its name, or any UTF-8 text file by its path, one string a line.

    A column of a data set of the Hugging Face hub is ``hf:OWNER/NAME@COMMIT/SPLIT#COLUMN``, see ``hub``.

    Several are joined by ``+``, in equal shares where a size is asked for: ``words-en+words-fr`` (MirrorWiC, section 4,
    tunes on 5k sentences of either language of a pair).

    Blank lines are skipped, spaces at both ends of a line are stripped. Repeated strings would become false
    negatives in a contrastive loss, and Mirror-BERT (section 2) tunes on non-duplicated strings, so they are
    dropped by default, the first of each kept; the file released with the paper has duplicates, so keep them
    to tune as released.

    Args:
        name_or_path: the name of a corpus card, or a path (``./words.txt``; a ``.gz`` file is decompressed).
            A name wins over a file of the same name; write ``./name`` for the file. Or an id of the hub.
        store: where the files of built-in corpora are.
        cards: the known corpora, as cards or generated; cards of other kinds are passed over.
        deduplicate: drop repeated strings.
        strip: strip spaces at both ends; the released code of Mirror-BERT takes off the line end alone.
        size: take only the first ``size`` strings (counted after dropping repeated ones); 0 for all.

    Returns:
        the corpus, with at least one string.

    Raises:
        UnknownNameError: neither a corpus nor a file.
        UsageError: a folder, a malformed id of the hub, or fewer than ``size`` strings (of joined corpora: than its
            share in one of them).
        DataUnavailableError: the files of a built-in corpus are not here and cannot be had.
        DataIntegrityError: a file of a built-in corpus is not what its card describes.
        DataFormatError: no string in it, not UTF-8, or not a text file.
    """
    name = str(name_or_path)
    if isinstance(name_or_path, Path) or len(parts := _parts(name, cards)) == 1:
        source, lines = _source_and_lines(name_or_path, store, cards, strip)
        if not lines:
            raise DataFormatError(f"The corpus {name} ({source}) holds no text.", hint="It needs one string a line.")
        return _corpus(name, source, lines, len(lines), 0, deduplicate, size)
    if 0 < size < len(parts):
        raise UsageError(f"The corpus {name} joins {len(parts)} corpora; {size} strings cannot be shared among them.")
    shares = [size * (i + 1) // len(parts) - size * i // len(parts) for i in range(len(parts))]
    read = [
        read_corpus(part, store, cards, deduplicate=deduplicate, strip=strip, size=share)
        for part, share in zip(parts, shares, strict=True)
    ]
    texts = [text for corpus in read for text in corpus.texts]
    n_lines, n_duplicates = sum(corpus.n_lines for corpus in read), sum(corpus.n_duplicates for corpus in read)
    return _corpus(name, ", ".join(corpus.source for corpus in read), texts, n_lines, n_duplicates, deduplicate, 0)


def _corpus(
    name: str, source: str, lines: list[str], n_lines: int, n_duplicates: int, deduplicate: bool, size: int
) -> Corpus:
    """Strings as a corpus, the first ``size`` of them; those that repeat an earlier one add to ``n_duplicates``."""
    distinct = dict.fromkeys(lines)
    texts = tuple(distinct) if deduplicate else tuple(lines)
    if size > len(texts):
        kind = "distinct strings" if deduplicate else "strings"
        raise UsageError(f"The corpus {name} has {len(texts)} {kind}, fewer than the {size} that were asked for.")
    texts = texts[: size or None]
    return Corpus(name, texts, corpus_checksum(texts), source, n_lines, n_duplicates + len(lines) - len(distinct))


def check_corpus(name: str, cards: Mapping[str, Card | GeneratedCorpus]) -> None:
    """Check that a name means a corpus, or several, as for ``read_corpus``; nothing is read or fetched."""
    for part in _parts(name, cards):
        _find(part, cards)


def _parts(name: str, cards: Mapping[str, Card | GeneratedCorpus]) -> list[str]:
    """The corpora that a name joins by ``+``; itself where it names one, or a file."""
    parts = name.split("+")
    return [name] if name in cards or not all(parts) or os.path.exists(Path(name).expanduser()) else parts


def _find(name_or_path: str | Path, cards: Mapping[str, Card | GeneratedCorpus]) -> Card | GeneratedCorpus | Path:
    """What one name stands for: a corpus, one of the hub, or a file."""
    name = str(name_or_path)
    if not isinstance(name_or_path, Path):
        card = cards.get(name)
        if isinstance(card, GeneratedCorpus) or (card is not None and card.kind == CORPUS_KIND):
            return card
        if card is None and is_hub_id(name):
            card = hub_card(name)
            if "column" not in card.options:
                raise UsageError(f"The corpus {name!r} names no column.", f"Write {name}#COLUMN, e.g. {name}#text")
            return card
    path = Path(name_or_path).expanduser()
    if os.path.isdir(path):  # unlike Path.is_dir, it takes a name that is too long for the file system
        raise UsageError(f"The corpus {name!r} is a folder.", "Name one text file, one string a line.")
    if not os.path.isfile(path):
        corpora = [c.name for c in cards.values() if isinstance(c, GeneratedCorpus) or c.kind == CORPUS_KIND]
        raise unknown_name("corpus, and no file,", name, corpora, "mirrorbench list corpora")
    return path


def _source_and_lines(
    name_or_path: str | Path, store: DataStore, cards: Mapping[str, Card | GeneratedCorpus], strip: bool
) -> tuple[str, list[str]]:
    """Where one corpus is, and its strings that are not blank."""
    found = _find(name_or_path, cards)
    if isinstance(found, GeneratedCorpus):
        return "generated", [text.strip() if strip else text for text in found.generate() if text.strip()]
    if isinstance(found, Path):
        return str(found), _lines(found, {}, strip)
    files = store.resolve(found).files
    source = ", ".join(f"{found.name}/{path}" for path in files)
    return source, [text for path in files.values() for text in _lines(path, found.options, strip)]


def _lines(path: Path, options: Mapping[str, Any], strip: bool) -> list[str]:
    """The strings of a file; a card's options: ``separator``, ``column``, ``skip`` and ``take`` (lines).

    ``column`` is a number from 0, of a line cut at the separator, or a name, of JSON lines.
    """
    if unknown := set(options) - {"separator", "column", "skip", "take"}:
        raise DataFormatError(f"Parser 'lines': unknown options {', '.join(sorted(unknown))}.")
    skip = whole_number(options, "skip", 0)
    texts = read_lines(path)[skip:]
    if "column" in options:
        cut = _json_value if isinstance(options["column"], str) else _field
        texts = [cut(text, options, f"{path}, line {line}") for line, text in enumerate(texts, start=skip + 1)]
    kept = [text.strip() if strip else text for text in texts if text.strip()]
    return kept[: whole_number(options, "take", len(kept))]


def _field(text: str, options: Mapping[str, Any], where: str) -> str:
    column = whole_number(options, "column", 0)
    fields = text.split(text_option(options, "separator") if "separator" in options else "\t")
    if len(fields) <= column:
        raise DataFormatError(f"{where}: there is no column {column} (counted from 0) in {shown(text)}.")
    return fields[column]


def _json_value(text: str, options: Mapping[str, Any], where: str) -> str:
    """The text in a column of JSON lines, with the line ends in it as spaces; a null counts as blank."""
    row, column = parse_json(text, where), options["column"]
    if not isinstance(row, dict) or column not in row:
        had = f"It has: {', '.join(row)}" if isinstance(row, dict) else ""
        raise DataFormatError(f"{where}: there is no column {column!r}.", hint=had)
    value = "" if row[column] is None else row[column]
    if not isinstance(value, str) or not is_text(value):
        raise DataFormatError(f"{where}: column {column!r} holds {shown(repr(value))}, which is no text.")
    return " ".join(value.splitlines())


def corpus_checksum(texts: Sequence[str]) -> str:
    r"""The identity of a corpus: SHA-256 of its strings joined by ``\n``."""
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()


# What is tuned on where neither the user nor the task says: paper 1, section 3, "Training Resources"; paper 2, section
# 4: 10k sentences of each language's Wikipedia, for those of XL-WiC.
_WORD_LANGUAGES = ("ar", "de", "en", "es", "et", "fi", "fr", "he", "hr", "it", "pl", "ru", "tr", "zh")
_WIC_LANGUAGES = ("bg", "da", "de", "et", "fa", "fr", "hr", "it", "ja", "ko", "nl", "zh")
DEFAULT_CORPORA = {
    ("sentence", "en"): "sts-sentences",
    **{("sentence", language): f"wikimatrix-{language}" for language in ("es", "ar", "ru")},
    **{("word", language): f"words-{language}" for language in _WORD_LANGUAGES},
    ("wic", "en"): "wic-sentences",
    **{("wic", language): f"wiki-sentences-{language}" for language in _WIC_LANGUAGES},
}
"""By level and language (ISO code)."""


def default_corpus(level: str, language: str, protocol: str) -> str:
    """The corpus of a level and a language (ISO code) under a protocol; empty where there is none."""
    if (level, language, protocol) == ("wic", "en", "released"):
        return "wic-sentences-20k"  # MirrorWiC's code tunes on the whole of the file that came with it
    return DEFAULT_CORPORA.get((level, language), "")
