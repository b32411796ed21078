"""Keep evaluation and tuning sentences out of the pretraining text, and count what was found there.

    python -m pretraining.check_leakage --corpus CORPUS --texts PATTERN ... [--clean CLEAN_TEXT]

A pattern names files or folders, like `data/sts` or `'data/am2ico/*/dev.tsv'`; each is counted on its own.
Two sentences are "the same" when their letters and digits are, so that tokenised, cased and re-punctuated
copies are found too. Near-duplicates (a word changed, a clause dropped) are not.
"""

from __future__ import annotations

import gzip
import re
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections import Counter
from collections.abc import Iterable, Iterator
from glob import glob
from pathlib import Path

TEXT_SUFFIXES = {".txt", ".tsv", ".csv", ".xml"}
SHORTEST_KEY = (
    10  # shorter keys ("yes", a label, a score) say nothing about where a sentence comes from
)
_MARKUP = re.compile(r"<[^<>]*>")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")


def normalise(text: str) -> str:
    """Lower-case `text` and keep its letters and digits only."""
    return "".join(character for character in text.lower() if character.isalnum())


def read_sentences(path: Path) -> Iterator[str]:
    """Yield the lines of a text file, gzipped or not."""
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            if line := line.strip():
                yield line


def _cells(path: Path) -> Iterator[str]:
    """Yield every piece of an evaluation file that may be a sentence: lines and cells, whatever they mean."""
    text = path.read_text(encoding="utf-8", errors="replace")
    if path.suffix == ".xml":  # one word an element: the sentence is what its element holds
        yield from (_MARKUP.sub(" ", part) for part in text.split("</sentence>"))
        return
    for line in text.splitlines():
        yield _MARKUP.sub("", line)
        yield from _MARKUP.sub("", line).split("\t")


def text_files(pattern: str) -> list[Path]:
    """The text files that a pattern names, those in the folders it names included."""
    named = [Path(name) for name in glob(pattern)]
    files = [file for path in named for file in (path.rglob("*") if path.is_dir() else [path])]
    if not files:
        raise FileNotFoundError(f"no file matches {pattern}")
    return sorted(file for file in files if file.suffix in TEXT_SUFFIXES)


def evaluation_keys(files: Iterable[Path]) -> set[str]:
    """The normalised cells of text files, whole and cut into sentences."""
    keys: set[str] = set()
    for file in files:
        for cell in _cells(file):
            keys.update(normalise(part) for part in (cell, *_SENTENCE_END.split(cell)))
    return {key for key in keys if len(key) >= SHORTEST_KEY}


def main() -> None:
    """Count the sentences in common per pattern; write the corpus without them where asked to."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument(
        "--corpus", type=Path, required=True, help="one sentence a line, .txt or .txt.gz"
    )
    parser.add_argument("--texts", nargs="+", required=True, help="evaluation and tuning texts")
    parser.add_argument(
        "--clean", type=Path, help="write the sentences that are in none of the texts here"
    )
    args = parser.parse_args()

    keys_of = {pattern: evaluation_keys(text_files(pattern)) for pattern in args.texts}
    found: Counter[str] = Counter()
    leaked = 0
    kept: list[str] = []
    for sentence in read_sentences(args.corpus):
        key = normalise(sentence)
        patterns = [pattern for pattern, keys in keys_of.items() if key in keys]
        found.update(patterns)
        if patterns:
            leaked += 1
        else:
            kept.append(sentence)
    for pattern, keys in keys_of.items():
        print(f"{found[pattern]:8,d} sentences of the corpus among the {len(keys):,d} of {pattern}")
    print(f"{leaked:8,d} in any of them; {len(kept):,d} are in none")
    if args.clean:
        args.clean.write_text("\n".join(kept) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
