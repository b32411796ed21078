"""Corpora to tune an encoder on, and their contamination: the test items whose texts they contain.

Texts are compared after Unicode normalisation (NFKC), case folding and collapsing of white space; punctuation counts. A
corpus holds texts only: tuning on a contaminated item's texts does not show its label.
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
from itertools import chain, pairwise
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
    """A corpus that a function generates, for tuning encoders.

    A plugin makes it and registers it with ``register_corpora``. Then ``--corpus NAME``, the key ``corpus`` of an
    encoder spec and the attribute ``corpus`` of a task may name it. mirrorbench calls ``generate`` whenever it reads
    the corpus; blank strings are skipped, and by default equal ones are used once. A checksum of the strings identifies
    the corpus. Corpora in files need a card instead.

    Attributes:
        name: name in specs and on the command line, without spaces and commas.
        title: one line for listings.
        generate: called without arguments, returns a list or tuple of the strings, the same at every call.

    Raises:
        PluginError: when the corpus is read, if ``generate`` returns anything but a list or tuple of texts.

    Example:
        >>> from mirrorbench.plugin import GeneratedCorpus, load_plugins
        >>> corpus = GeneratedCorpus("numbers", "a hundred numbers", lambda: [f"number {n}" for n in range(100)])

        In a plugin, ``register_corpora`` calls ``register(corpus)``. To see it without one:

        >>> plugins = load_plugins(discover=False).extended("register_corpora", corpus)
        >>> plugins.corpora["numbers"].generate()[:2]
        ['number 0', 'number 1']
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
        """Return the corpus of the distinct parts of the lines (``data.readers.line_parts``).

        Unless all lines have parts, the texts stay as they are.
        """
        # The first of a line's texts is the line itself; its parts follow.
        parts = [texts[1:] for texts in texts_of(self.texts)]
        texts = self.texts
        if all(parts):
            texts = tuple(dict.fromkeys(chain.from_iterable(parts)))
        return replace(self, texts=texts, sha256=corpus_checksum(texts))


def corpus_name(corpus: str | Path | GeneratedCorpus) -> str:
    """Return the name of a corpus, or the path of a file."""
    if isinstance(corpus, GeneratedCorpus):
        return corpus.name
    return str(corpus)


def read_corpus(
    corpus: str | Path | GeneratedCorpus,
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

    ``FILE#COLUMN`` names the column of the strings, ``FILE#LEFT,RIGHT`` those of pairs; plain text has no columns. A
    name takes precedence over a file of the same name; write ``./name`` for the file. Corpora joined by ``+`` contribute
    equal shares of ``size``: ``words-en+words-fr`` (MirrorWiC, section 4, tunes on 5k sentences of each of two
    languages); with ``deduplicate`` a string that several of them have is kept once. Blank lines are skipped.

    Args:
        corpus: a corpus name, a hub id, a path (``.gz`` is decompressed), or a ``GeneratedCorpus``, which need not be
            in ``cards``.
        store: holds the files of built-in corpora.
        cards: known corpora; cards of tasks are ignored.
        deduplicate: keep only the first of equal strings: repeated ones are false negatives in a contrastive loss, and
            Mirror-BERT (section 2) tunes on non-duplicated strings (its released file has duplicates).
        strip: strip white space at both ends; Mirror-BERT's released code removes only the line end.
        size: take only the first ``size`` strings, counted after deduplication; 0 for all.
        sample: number of a random draw: 1, 2, 3 ... draw different strings, ``size`` of them, or 10,000 without a size
            (MirrorWiC, appendix A.4, has five sets of 10k sentences). Joined corpora are drawn from one by one. 0 takes
            the first strings.
        note: called with remarks on how a file is read.

    Raises:
        UsageError: a single corpus has fewer than ``size`` strings.
        DataFormatError: the corpus holds no text.
    """
    name = corpus_name(corpus)
    # Only names can be joined.
    names = _joined_names(name, cards) if isinstance(corpus, str) else [name]
    # A single corpus.
    if len(names) == 1:
        source, lines = _source_and_lines(corpus, store, cards, strip, note)
        if not lines:
            raise DataFormatError(
                f"The corpus {name} ({source}) holds no text.", hint="It needs one string per line."
            )
        return _make_corpus(name, source, lines, deduplicate, size, sample)
    # Joined corpora: each contributes its share of ``size``.
    if 0 < size < len(names):
        raise UsageError(
            f"The corpus {name} joins {len(names)} corpora; {size} strings cannot be shared among them."
        )
    # Part i gets the share bounds[i + 1] - bounds[i]. Shares differ by at most one string, and their sum is ``size``.
    # If ``size`` is 0, so is each share: all strings.
    bounds = [size * index // len(names) for index in range(len(names) + 1)]
    parts = []
    for part_name, (start, end) in zip(names, pairwise(bounds), strict=True):
        part = read_corpus(
            part_name,
            store,
            cards,
            deduplicate=deduplicate,
            strip=strip,
            size=end - start,
            sample=sample,
            note=note,
        )
        parts.append(part)
    return _joined_corpus(name, parts, deduplicate)


def _joined_corpus(name: str, parts: Sequence[Corpus], deduplicate: bool) -> Corpus:
    """Return the texts of several corpora as one corpus; its counts of lines and duplicates include theirs."""
    joined = _make_corpus(
        name,
        source=", ".join(part.source for part in parts),
        lines=[text for part in parts for text in part.texts],
        deduplicate=deduplicate,
    )
    n_duplicates = joined.n_duplicates
    if deduplicate:
        # ``joined`` counts no repetitions within a part, because the parts' texts have none.
        n_duplicates += sum(part.n_duplicates for part in parts)
    n_lines = sum(part.n_lines for part in parts)
    return replace(joined, n_lines=n_lines, n_duplicates=n_duplicates)


def _make_corpus(
    name: str,
    source: str,
    lines: list[str],
    deduplicate: bool,
    size: int = 0,
    sample: int = 0,
) -> Corpus:
    """Return the first ``size`` strings (0: all) as a corpus, or a random draw if ``sample`` is not 0.

    Lines and duplicates are counted in all ``lines``, and duplicates also if they are kept.
    """
    distinct = dict.fromkeys(lines)
    texts = tuple(distinct) if deduplicate else tuple(lines)
    if size > len(texts):
        counted = "distinct strings" if deduplicate else "strings"
        raise UsageError(
            f"The corpus {name} has {len(texts)} {counted}, fewer than the {size} requested."
        )
    if sample:
        # Without a size, a draw has as many strings as the papers' corpora.
        texts = _draw(name, texts, size or SIZE, sample)
    elif size:
        texts = texts[:size]
    return Corpus(
        name=printable(name),
        texts=texts,
        sha256=corpus_checksum(texts),
        source=source,
        n_lines=len(lines),
        n_duplicates=len(lines) - len(distinct),
    )


def _draw(name: str, texts: tuple[str, ...], size: int, sample: int) -> tuple[str, ...]:
    """Return a random draw in the order of the corpus; each number ``sample`` gives the same draw on every machine."""
    if size >= len(texts):
        problem = f"a random sample of {size} strings cannot be drawn from the {len(texts)} of the corpus {name}"
        raise UsageError(
            problem, "Name a larger corpus, or a smaller corpus_size beside corpus_sample."
        )
    draw = random.Random(sample).random  # Python guarantees the sequence of this method only
    shuffled = sorted((draw(), index) for index in range(len(texts)))
    drawn = sorted(index for _, index in shuffled[:size])
    return tuple(texts[index] for index in drawn)


def check_corpus(name: str | GeneratedCorpus, corpora: Registry[Any]) -> None:
    """Check that ``read_corpus`` would find a corpus of this name; nothing is read or fetched."""
    if isinstance(name, GeneratedCorpus):
        return
    registered_corpora = corpora.by_name()
    for part in _joined_names(name, registered_corpora):
        _corpus_or_file(part, registered_corpora)


def _joined_names(name: str, cards: Mapping[str, Card | GeneratedCorpus]) -> list[str]:
    """Return the names that are joined by ``+``, or the name itself if it is that of a corpus or a file."""
    parts = name.split("+")
    if name in cards or not all(parts):
        return [name]
    paths = [name]
    file, _, column = name.rpartition("#")
    # A plus sign after ``#`` joins names: ``a.tsv#text+words-fr`` is a column of ``a.tsv``, and ``words-fr``.
    if file and "+" not in column:
        paths.append(file)
    if any(os.path.exists(Path(path).expanduser()) for path in paths):
        return [name]
    return parts


class _File(NamedTuple):
    """A user's file, and the columns of its strings."""

    path: Path
    columns: tuple[str, ...] = ()


def _corpus_or_file(
    corpus: str | Path | GeneratedCorpus, cards: Mapping[str, Card | GeneratedCorpus]
) -> Card | GeneratedCorpus | _File:
    """Return the corpus or file that a single name refers to, i.e. one that is not joined by ``+``.

    A known corpus comes first, then a hub id, then a file. A name that refers to none of them, to a folder, or to a hub
    data set without a column is a ``UsageError``.
    """
    if isinstance(corpus, GeneratedCorpus):
        return corpus
    name = str(corpus)
    # Only a string can be a name or a hub id. If it is the name of a task, it can still be that of a file.
    if isinstance(corpus, str):
        card = cards.get(name)
        if card is not None and _is_corpus(card):
            return card
        if card is None and is_hub_id(name):
            hub_corpus = hub_card(name)
            if "column" not in hub_corpus.options:
                raise UsageError(
                    f"The corpus {name!r} needs a column.",
                    f"Write {name}#COLUMN, e.g. {name}#text",
                )
            return hub_corpus
    # Last, a file.
    path, _ = _path_and_columns(name)
    if os.path.isdir(path):
        raise UsageError(
            f"The corpus {name!r} is a folder.", "Name a text file with one string per line."
        )
    file = _existing_file(name)
    if file is None:
        names = [card.name for card in cards.values() if _is_corpus(card)]
        raise unknown_name("corpus or file", name, names, "mirrorbench list corpora")
    return file


def _is_corpus(card: Card | GeneratedCorpus) -> bool:
    return isinstance(card, GeneratedCorpus) or card.kind == CORPUS_KIND


def _path_and_columns(name: str) -> tuple[Path, str]:
    """Return the path that ``FILE`` or ``FILE#COLUMNS`` names, and the columns."""
    path = Path(name).expanduser()
    if os.path.exists(path) or "#" not in name:
        return path, ""
    file, _, columns = name.rpartition("#")
    return Path(file).expanduser(), columns


def _existing_file(name: str) -> _File | None:
    """Return the user's file that a name refers to; ``None`` if there is none."""
    path, columns = _path_and_columns(name)
    # Unlike Path.is_file, this does not raise for a name that is too long for the file system.
    if not os.path.isfile(path):
        return None
    return _File(path, tuple(split_names([columns])))


def _source_and_lines(
    corpus: str | Path | GeneratedCorpus,
    store: DataStore,
    cards: Mapping[str, Card | GeneratedCorpus],
    strip: bool,
    note: Callable[[str], None],
) -> tuple[str, list[str]]:
    """Return the source of a single corpus, and its non-blank strings."""
    origin = _corpus_or_file(corpus, cards)
    if isinstance(origin, _File):
        # ``read_strings`` numbers the lines, leaves out blank ones, and strips them if ``strip``.
        lines = read_strings(str(origin.path), origin.columns, strip, note)
        return str(origin.path), [text for _, text in lines]
    if isinstance(origin, GeneratedCorpus):
        source = GENERATED
        texts = origin.generate()
        if not isinstance(texts, list | tuple) or not all(isinstance(text, str) for text in texts):
            subject = f"the corpus {origin.name!r}{defined_at(origin.generate)}"
            problem = f"{subject} generated a {type(texts).__name__}"
            raise PluginError(problem, "Its function must return a list of texts.")
    else:
        source = ", ".join(f"{origin.name}/{path}" for path in store.resolve(origin).files)
        texts = store.items(origin)
    texts = [text for text in texts if text.strip()]
    if strip:
        texts = [text.strip() for text in texts]
    return source, texts


@contextmanager
def naming_lines(corpus: Corpus, cards: Mapping[str, Card | GeneratedCorpus]) -> Iterator[None]:
    """Add file and line to an ``UnreadableTextError`` raised inside, about a text of a corpus that is a user's file."""
    try:
        yield
    except UnreadableTextError as error:
        # Not a file; the caller that read a user's own texts knows their lines.
        if corpus.source == GENERATED:
            raise
        for part in _joined_names(corpus.name, cards):
            if part in cards:
                continue
            file = _existing_file(part)
            line = _line_of(error.text, file) if file else 0
            if line:
                raise error.at(f"{printable(part)}, line {line}") from error
        raise


def _line_of(text: str, file: _File) -> int:
    """Return the number of the first line that equals a text or has it as a part; 0 if there is none."""
    for number, line in read_strings(str(file.path), file.columns):
        line_and_parts = next(texts_of([line]))
        if text.strip() in line_and_parts:
            return number
    return 0


def corpus_checksum(texts: Sequence[str]) -> str:
    r"""Return the identity of a corpus: SHA-256 of its strings joined by ``\n``."""
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()


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
# Defaults if neither the user nor the task names a corpus. Words and sentences: paper 1, section 3, "Training
# Resources". Words in context: paper 2, section 4, 10k sentences of Wikipedia in each language of XL-WiC.
DEFAULT_CORPORA = {
    ("sentence", "en"): "sts-sentences",
    **{("sentence", language): f"wikimatrix-{language}" for language in ("es", "ar", "ru")},
    **{("word", language): f"words-{language}" for language in _WORD_LANGUAGES},
    ("wic", "en"): "wic-sentences",
    **{("wic", language): f"wiki-sentences-{language}" for language in _WIC_LANGUAGES},
}
"""Names by level and language (ISO 639-1)."""


def default_corpus(level: str, languages: Sequence[str], protocol: str) -> str:
    """Return the default corpus for a level, the languages (ISO 639-1) that one model reads, and a protocol.

    For several languages their corpora are joined: "the top 10k most frequent words in each language" (paper 1, section
    3). English comes first, so that both directions of a pair of languages have the same corpus. A language without a
    default corpus is a ``TuningError``.
    """
    if level == "wic" and [*languages] == ["en"] and protocol == "released":
        # MirrorWiC's released code tunes on all of its file.
        return "wic-sentences-20k"
    missing = [language for language in languages if (level, language) not in DEFAULT_CORPORA]
    if missing:
        quoted = ", ".join(map(repr, missing))
        problem = f"there is no default corpus of {level}s in {quoted} to tune on"
        raise TuningError(
            problem, "Name one: --corpus NAME or --corpus FILE (mirrorbench list corpora)"
        )
    ordered = sorted(set(languages), key=lambda language: (language != "en", language))
    return "+".join(DEFAULT_CORPORA[level, language] for language in ordered)


NONE = 0
"""None of an item's texts is in the corpus."""
SOME = 1
"""Some of an item's texts are in the corpus, but not all."""
ALL = 2
"""All of an item's texts are in the corpus."""


@dataclass(frozen=True)
class Contamination:
    """The overlap of each item with a corpus, by id: ``NONE``, ``SOME`` or ``ALL`` of its texts are in the corpus."""

    overlaps: Mapping[str, int]

    def share(self, least: int) -> float:
        """Return the share of items whose overlap is at least ``least`` (``SOME`` or ``ALL``)."""
        n_contaminated = sum(overlap >= least for overlap in self.overlaps.values())
        return n_contaminated / len(self.overlaps)

    def flags(self, ids: Sequence[str]) -> NDArray[np.int8]:
        """Return the overlaps of the items ``ids``, in their order."""
        import numpy as np

        return np.array([self.overlaps[item_id] for item_id in ids], dtype=np.int8)

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
    """Compare the texts of items (by id) with the lines of a corpus and their parts; ``None`` if there are no items."""
    if not texts:
        return None
    corpus_texts = _normalised_texts(tuple(corpus))
    overlaps = {}
    for item_id, item_texts in texts.items():
        hits = [normalised(text) in corpus_texts for text in item_texts]
        if not any(hits):
            overlaps[item_id] = NONE
        elif all(hits):
            overlaps[item_id] = ALL
        else:
            overlaps[item_id] = SOME
    return Contamination(overlaps)


def shared_codes(shared: Mapping[str, Sequence[str]], ids: Sequence[str]) -> NDArray[np.int32]:
    """Number the texts that several items share; return each item's numbers, sorted: a row per item, padded with -1.

    A text of one item gets no number, and neither does a text of all items: every score is conditional on it.

    Args:
        shared: by id the texts of an item, and anything else that other items may share with it.
        ids: the n items.
    """
    import numpy as np

    texts_of_items = [dict.fromkeys(map(normalised, shared.get(item_id, ()))) for item_id in ids]
    n_items_of_texts = Counter(chain.from_iterable(texts_of_items))
    codes: dict[str, int] = {}
    for text, n_items in n_items_of_texts.items():
        if 1 < n_items < len(ids):
            codes[text] = len(codes)

    codes_of_items = []
    for texts in texts_of_items:
        codes_of_items.append(sorted(codes[text] for text in texts if text in codes))
    width = max(map(len, codes_of_items), default=0)
    matrix = np.full((len(ids), width), -1, dtype=np.int32)
    for row, item_codes in zip(matrix, codes_of_items, strict=True):
        row[: len(item_codes)] = item_codes
    return matrix


def content_digests(
    contents: Mapping[str, Sequence[str]], ids: Sequence[str], salt: str = ""
) -> NDArray[np.uint64]:
    """Return a number for the content of each item, shape (n,): equal for the same texts in any order.

    Args:
        contents: by id the texts of an item, and anything else that belongs to it, such as a target word.
        ids: the n items.
        salt: a secret key, without which contents could be guessed from their numbers.
    """
    import numpy as np

    numbers = []
    for item_id in ids:
        texts = sorted(map(normalised, contents[item_id]))
        message = "\0".join([str(len(texts)), *texts]).encode(errors="surrogatepass")
        digest = hashlib.blake2b(message, digest_size=8, key=salt.encode()).digest()
        numbers.append(int.from_bytes(digest, "big"))
    return np.array(numbers, dtype=np.uint64)


@lru_cache(maxsize=8192)  # a text may be in thousands of items
def normalised(text: str) -> str:
    """Return a text in the form in which texts are compared."""
    # NFKC twice: case folding may undo the normal form, and NFKC may produce capitals (Unicode, definition D146).
    folded = unicodedata.normalize("NFKC", text).casefold()
    return " ".join(unicodedata.normalize("NFKC", folded).split())


@lru_cache(maxsize=4)
def _normalised_texts(corpus: tuple[str, ...]) -> frozenset[str]:
    return frozenset(map(normalised, chain.from_iterable(texts_of(corpus))))
