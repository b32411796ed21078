"""Corpora to tune an encoder on, and their contamination: the test items that they contain.

Texts are compared after Unicode normalisation (NFKC), case folding and collapsing of white space; punctuation counts. A
corpus holds texts only: the labels of contaminated items were not seen.
"""

from __future__ import annotations

import hashlib
import os
import random
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from mirrorbench.core.errors import (
    DataFormatError,
    PluginError,
    TuningError,
    UnreadableTextError,
    UsageError,
    unknown_name,
)
from mirrorbench.core.foreign_errors import defined_at
from mirrorbench.core.quoting import printable
from mirrorbench.core.specs import split_names
from mirrorbench.data.cards import CORPUS_KIND, Card, hub_card, is_hub_id
from mirrorbench.data.readers.line_parts import texts_of
from mirrorbench.data.readers.rows import read_strings, silent

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from mirrorbench.core.plugins import Registry
    from mirrorbench.data.store import DataStore


SIZE = 10_000
"""Number of strings in each corpus of the papers."""
GENERATED = "generated"
"""The source of corpora that a function generates."""


@dataclass(frozen=True, slots=True)
class GeneratedCorpus:
    """A corpus that a function generates.

    Attributes:
        name: name in specs and on the command line.
        title: one line for listings.
        generate: returns the strings, the same at every call.
    """

    name: str
    title: str
    generate: Callable[[], Sequence[str]]


@dataclass(frozen=True, slots=True)
class Corpus:
    r"""Raw strings to tune on, in file order.

    Attributes:
        sha256: checksum of the texts joined by ``\n``, the identity of the corpus.
        source: path of the file, or the card's name and paths.
        n_lines: number of non-blank lines of the source.
        n_duplicates: number of lines that repeat an earlier one (not in ``texts`` unless duplicates were kept).
        held_out: strings, not in ``texts``, that are measured along the tuning instead of tuned on.
    """

    name: str
    texts: tuple[str, ...]
    sha256: str
    source: str
    n_lines: int
    n_duplicates: int
    held_out: tuple[str, ...] = ()

    def alone(self) -> Corpus:
        """Return the corpus of the distinct parts of its lines (``data.readers.line_parts``), if all lines have parts."""
        parts = [texts[1:] for texts in texts_of(self.texts)]
        texts = tuple(dict.fromkeys(chain(*parts))) if all(parts) else self.texts
        return replace(self, texts=texts, sha256=corpus_checksum(texts))


def corpus_name(corpus: str | Path | GeneratedCorpus) -> str:
    """Return the name of a corpus, or its path."""
    return corpus.name if isinstance(corpus, GeneratedCorpus) else str(corpus)


def read_corpus(
    name_or_path: str | Path | GeneratedCorpus,
    store: DataStore,
    cards: Mapping[str, Card | GeneratedCorpus],
    *,
    deduplicate: bool = True,
    strip: bool = True,
    size: int = 0,
    sample: int = 0,
    note: Callable[[str], None] = silent,
) -> Corpus:
    """Read a corpus: a built-in one by name, a file by path, or a column of a hub data set.

    ``FILE#COLUMN`` names the column of the strings, ``FILE#LEFT,RIGHT`` those of pairs (see ``rows``); plain text has
    none. A name takes precedence over a file of the same name; write ``./name`` for the file. Names joined by ``+``
    have equal shares of ``size``: ``words-en+words-fr`` (MirrorWiC, section 4, tunes on 5k sentences of each of two
    languages). Blank lines are skipped.

    Args:
        name_or_path: a corpus name, a hub id, a path (``.gz`` is decompressed), or own texts that have no name here.
        store: holds the files of built-in corpora.
        cards: known corpora; cards of tasks are ignored.
        deduplicate: keep only the first of equal strings: repeated ones are false negatives in a contrastive loss, and
            Mirror-BERT (section 2) tunes on non-duplicated strings (its released file has duplicates).
        strip: strip white space at both ends; Mirror-BERT's released code removes only the line end.
        size: take only the first ``size`` strings, counted after deduplication; 0 for all. Fewer are a ``UsageError``.
        sample: draw the strings at random instead, 10,000 where no size is given; 1, 2, 3 ... are different draws
            (MirrorWiC, appendix A.4, has five sets of 10k sentences). Each of joined corpora is drawn from.
        note: called with remarks on how a file is read.
    """
    name = corpus_name(name_or_path)
    # Only names can be joined.
    parts = _parts(name, cards) if isinstance(name_or_path, str) else [name]
    if len(parts) == 1:
        source, lines = _source_and_lines(name_or_path, store, cards, strip, note)
        if not lines:
            raise DataFormatError(
                f"The corpus {name} ({source}) holds no text.", hint="It needs one string a line."
            )
        return _corpus(name, source, lines, len(lines), 0, deduplicate, size, sample)
    if 0 < size < len(parts):
        raise UsageError(
            f"The corpus {name} joins {len(parts)} corpora; {size} strings cannot be shared among them."
        )
    shares = [size * (i + 1) // len(parts) - size * i // len(parts) for i in range(len(parts))]
    read = [
        read_corpus(
            part,
            store,
            cards,
            deduplicate=deduplicate,
            strip=strip,
            size=share,
            sample=sample,
            note=note,
        )
        for part, share in zip(parts, shares, strict=True)
    ]
    texts = [text for corpus in read for text in corpus.texts]
    n_lines, n_duplicates = (
        sum(corpus.n_lines for corpus in read),
        sum(corpus.n_duplicates for corpus in read),
    )
    return _corpus(
        name,
        ", ".join(corpus.source for corpus in read),
        texts,
        n_lines,
        n_duplicates,
        deduplicate,
        0,
    )


def _corpus(
    name: str,
    source: str,
    lines: list[str],
    n_lines: int,
    n_duplicates: int,
    deduplicate: bool,
    size: int,
    sample: int = 0,
) -> Corpus:
    """The first ``size`` strings as a corpus, or a sample; repeated strings are added to ``n_duplicates``."""
    distinct = dict.fromkeys(lines)
    texts = tuple(distinct) if deduplicate else tuple(lines)
    if size > len(texts):
        counted = "distinct strings" if deduplicate else "strings"
        raise UsageError(
            f"The corpus {name} has {len(texts)} {counted}, fewer than the {size} that were asked for."
        )
    texts = _draw(name, texts, size or SIZE, sample) if sample else texts[: size or None]
    n_duplicates += len(lines) - len(distinct)
    return Corpus(printable(name), texts, corpus_checksum(texts), source, n_lines, n_duplicates)


def _draw(name: str, texts: tuple[str, ...], size: int, sample: int) -> tuple[str, ...]:
    """A random sample in the order of the corpus, the same on every machine for each number."""
    if size >= len(texts):
        problem = f"a random sample of {size} strings cannot be drawn from the {len(texts)} of the corpus {name}"
        raise UsageError(
            problem, "Name a larger corpus, or a smaller corpus_size beside corpus_sample."
        )
    draw = random.Random(sample).random  # Python guarantees the sequence of this method only
    order = sorted((draw(), index) for index in range(len(texts)))
    return tuple(texts[index] for index in sorted(index for _, index in order[:size]))


def check_corpus(name: str | GeneratedCorpus, corpora: Registry[Any]) -> None:
    """Check that a name means a corpus, as for ``read_corpus``; nothing is read or fetched."""
    if isinstance(name, GeneratedCorpus):
        return
    known = corpora.by_name()
    for part in _parts(name, known):
        _find(part, known)


def _parts(name: str, cards: Mapping[str, Card | GeneratedCorpus]) -> list[str]:
    """The names joined by ``+``; only the name itself if it is that of a corpus or a file."""
    parts = name.split("+")
    file, _, column = name.rpartition("#")
    whole = any(
        os.path.exists(Path(path).expanduser())
        for path in (name, "" if "+" in column else file)
        if path
    )
    return [name] if name in cards or not all(parts) or whole else parts


class _File(NamedTuple):
    """A user's file, and the columns of its strings."""

    path: Path
    columns: tuple[str, ...] = ()


def _find(
    name_or_path: str | Path | GeneratedCorpus, cards: Mapping[str, Card | GeneratedCorpus]
) -> Card | GeneratedCorpus | _File:
    """The corpus or file that a single name means."""
    if isinstance(name_or_path, GeneratedCorpus):
        return name_or_path
    name = str(name_or_path)
    if not isinstance(name_or_path, Path):
        card = cards.get(name)
        if isinstance(card, GeneratedCorpus) or (card is not None and card.kind == CORPUS_KIND):
            return card
        if card is None and is_hub_id(name):
            card = hub_card(name)
            if "column" not in card.options:
                raise UsageError(
                    f"The corpus {name!r} names no column.",
                    f"Write {name}#COLUMN, e.g. {name}#text",
                )
            return card
    path, _ = _path_and_columns(name)
    if os.path.isdir(path):
        raise UsageError(
            f"The corpus {name!r} is a folder.", "Name one text file, one string a line."
        )
    file = _file(name)
    if file is None:
        corpora = [
            c.name
            for c in cards.values()
            if isinstance(c, GeneratedCorpus) or c.kind == CORPUS_KIND
        ]
        raise unknown_name("corpus or file", name, corpora, "mirrorbench list corpora")
    return file


def _path_and_columns(name: str) -> tuple[Path, str]:
    """The path that ``FILE`` or ``FILE#COLUMNS`` names, and the columns."""
    path = Path(name).expanduser()
    if os.path.exists(path) or "#" not in name:
        return path, ""
    file, _, columns = name.rpartition("#")
    return Path(file).expanduser(), columns


def _file(name: str) -> _File | None:
    """The user's file of a name; ``None`` if there is none."""
    path, columns = _path_and_columns(name)
    # Unlike Path.is_file, this accepts a name that is too long for the file system.
    return _File(path, tuple(split_names([columns]))) if os.path.isfile(path) else None


def _source_and_lines(
    name_or_path: str | Path | GeneratedCorpus,
    store: DataStore,
    cards: Mapping[str, Card | GeneratedCorpus],
    strip: bool,
    note: Callable[[str], None],
) -> tuple[str, list[str]]:
    """The source of a single corpus, and its non-blank strings."""
    corpus = _find(name_or_path, cards)
    if isinstance(corpus, _File):
        lines = read_strings(str(corpus.path), corpus.columns, strip, note)
        return str(corpus.path), [text for _, text in lines]
    if isinstance(corpus, GeneratedCorpus):
        source, texts = GENERATED, corpus.generate()
        if not isinstance(texts, list | tuple) or not all(isinstance(t, str) for t in texts):
            named = f"the corpus {corpus.name!r}{defined_at(corpus.generate)}"
            problem = f"{named} generated a {type(texts).__name__}"
            raise PluginError(problem, "Its function returns a list of texts.")
    else:
        source, texts = (
            ", ".join(f"{corpus.name}/{path}" for path in store.resolve(corpus).files),
            store.items(corpus),
        )
    return source, [text.strip() if strip else text for text in texts if text.strip()]


@contextmanager
def naming_lines(corpus: Corpus, cards: Mapping[str, Card | GeneratedCorpus]) -> Iterator[None]:
    """Name file and line in an ``UnreadableTextError`` about a text of a corpus that is a user's file."""
    try:
        yield
    except UnreadableTextError as error:
        if corpus.source == GENERATED:  # the places of own texts are known where they were read
            raise
        for part in _parts(corpus.name, cards):
            file = None if part in cards else _file(part)
            number = _line_of(error.text, file) if file else 0
            if number:
                raise error.at(f"{printable(part)}, line {number}") from error
        raise


def _line_of(text: str, corpus: _File) -> int:
    """The number of the first line that is a text, or has it as a part; 0 for none."""
    for number, line in read_strings(str(corpus.path), corpus.columns):
        if text.strip() in next(texts_of([line])):
            return number
    return 0


def corpus_checksum(texts: Sequence[str]) -> str:
    r"""Return the identity of a corpus: SHA-256 of its strings joined by ``\n``."""
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()


# Defaults if neither the user nor the task names a corpus: paper 1, section 3, "Training Resources"; paper 2, section
# 4: 10k sentences of each language's Wikipedia, for those of XL-WiC.
_WORD_LANGUAGES = (
    "ar",
    "de",
    "en",
    "es",
    "et",
    "fi",
    "fr",
    "he",
    "hr",
    "it",
    "pl",
    "ru",
    "tr",
    "zh",
)
_WIC_LANGUAGES = ("bg", "da", "de", "et", "fa", "fr", "hr", "it", "ja", "ko", "nl", "zh")
DEFAULT_CORPORA = {
    ("sentence", "en"): "sts-sentences",
    **{("sentence", language): f"wikimatrix-{language}" for language in ("es", "ar", "ru")},
    **{("word", language): f"words-{language}" for language in _WORD_LANGUAGES},
    ("wic", "en"): "wic-sentences",
    **{("wic", language): f"wiki-sentences-{language}" for language in _WIC_LANGUAGES},
}
"""Names by level and language (ISO 639-1)."""


def default_corpus(level: str, languages: Sequence[str], protocol: str) -> str:
    """Return the default corpus of a level, the languages (ISO 639-1) that one model reads, and a protocol.

    Several languages have the joint corpus, "the top 10k most frequent words in each language" (paper 1, section 3);
    English comes first, so both directions of a pair have the same. A language without one is a ``TuningError``.
    """
    if (level, *languages, protocol) == ("wic", "en", "released"):
        return "wic-sentences-20k"  # MirrorWiC's released code tunes on all of its file
    if lacking := [language for language in languages if (level, language) not in DEFAULT_CORPORA]:
        problem = (
            f"there is no default corpus of {level}s in {', '.join(map(repr, lacking))} to tune on"
        )
        raise TuningError(
            problem, "Name one: --corpus NAME or --corpus FILE (mirrorbench list corpora)"
        )
    ordered = sorted(set(languages), key=lambda language: (language != "en", language))
    return "+".join(DEFAULT_CORPORA[level, language] for language in ordered)


NONE, SOME, ALL = 0, 1, 2
"""Share of an item that is in the corpus: none, some or all of its texts."""


@dataclass(frozen=True)
class Contamination:
    """The overlap of a corpus with each item, by id: ``NONE``, ``SOME`` or ``ALL`` of its texts are in the corpus."""

    overlaps: Mapping[str, int]

    def share(self, least: int) -> float:
        """Return the share of items with at least ``SOME`` text in the corpus, or with ``ALL``."""
        return sum(value >= least for value in self.overlaps.values()) / len(self.overlaps)

    def flags(self, ids: Sequence[str]) -> NDArray[np.int8]:
        """Return the values of items, in the order of ``ids``."""
        import numpy as np

        return np.array([self.overlaps[item] for item in ids], dtype=np.int8)

    def to_json(self) -> dict[str, Any]:
        """Return the object ``overlap`` of a result file."""
        return {
            "n_items": len(self.overlaps),
            "any_text": self.share(SOME),
            "all_texts": self.share(ALL),
            "normalisation": "NFKC, case folded, white space collapsed",
        }


def find_contamination(
    texts: Mapping[str, Sequence[str]], corpus: Iterable[str]
) -> Contamination | None:
    """Compare texts of items (by id) with the lines of a corpus and the parts of its lines; ``None`` without texts."""
    if not texts:
        return None
    known = _normalised_texts(tuple(corpus))
    overlaps = {}
    for item, own in texts.items():
        hits = [normalised(text) in known for text in own]
        overlaps[item] = ALL if hits and all(hits) else SOME if any(hits) else NONE
    return Contamination(overlaps)


def shared_codes(shared: Mapping[str, Sequence[str]], ids: Sequence[str]) -> NDArray[np.int32]:
    """Number the things that items share with others; returns shape (n, most of an item), -1 for none.

    Args:
        shared: by id the texts of an item, and what else it may share. What all items have is left out: a score holds
            given that.
        ids: the n items.
    """
    import numpy as np

    own = [dict.fromkeys(map(normalised, shared.get(item, ()))) for item in ids]
    count = Counter(text for texts in own for text in texts)
    codes = {
        text: code
        for code, text in enumerate(text for text, n in count.items() if 1 < n < len(ids))
    }
    rows = [sorted(codes[text] for text in texts if text in codes) for texts in own]
    matrix = np.full((len(ids), max(map(len, rows), default=0)), -1, dtype=np.int32)
    for row, texts in zip(matrix, rows, strict=True):
        row[: len(texts)] = texts
    return matrix


def content_digests(
    contents: Mapping[str, Sequence[str]], ids: Sequence[str], salt: str = ""
) -> NDArray[np.uint64]:
    """Return a number for the content of each item, shape (n,): equal for equal contents, in any order.

    Args:
        contents: the texts of each item by id, and what else belongs to it, such as a target word.
        ids: the n items.
        salt: a secret, without which contents could be guessed from their numbers.
    """
    import numpy as np

    numbers = []
    for item in ids:
        parts = sorted(map(normalised, contents[item]))
        text = "\0".join([str(len(parts)), *parts])
        hashed = hashlib.blake2b(
            text.encode(errors="surrogatepass"), digest_size=8, key=salt.encode()
        )
        numbers.append(int.from_bytes(hashed.digest(), "big"))
    return np.array(numbers, dtype=np.uint64)


@lru_cache(maxsize=8192)  # a text may be in thousands of items
def normalised(text: str) -> str:
    """Return a text in the form in which texts are compared."""
    # NFKC twice: case folding may undo the normal form, and NFKC may produce capitals (Unicode, definition D146).
    return " ".join(
        unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold()).split()
    )


@lru_cache(maxsize=4)
def _normalised_texts(corpus: tuple[str, ...]) -> frozenset[str]:
    return frozenset(map(normalised, chain(*texts_of(corpus))))
