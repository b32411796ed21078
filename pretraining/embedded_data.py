"""Write the data that ships inside the package, `mirrorbench/embedded/data`.

    python -m pretraining.embedded_data --data FOLDER --output mirrorbench/embedded/data

FOLDER holds the original files where `INPUTS` says; each is checked against its SHA-256 before use, so
the output is the same to the byte. Everything random is a sample without replacement, seeded with `SEED`; every
sample keeps the order of its source. `wordfreq` must be installed, in the version of `WORDFREQ`.

What comes out, and under which licence, stands in `mirrorbench/embedded/data/LICENCES.md`.
"""

from __future__ import annotations

import csv
import hashlib
import random
import shutil
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path

from pretraining.check_leakage import evaluation_keys, normalise, text_files

SEED = 0
WORDFREQ = "3.1.1"

WIC_TSV_PARTS = ("examples", "definitions", "hypernyms", "labels")
INPUTS = {  # folders below --data: their files and SHA-256
    "sts/sts17": {
        "STS.input.track5.en-en.txt": "8d493844c1010eb6b5d373e289b8d6ddc003e626bf8495976cc40c0a5f47414c",
        "STS.gs.track5.en-en.txt": "a767d322cc3e78ff43f3c541a4fc0b9e0e5681f27c20de7eb9095fbb9072cf04",
    },
    "wordsim/multisimlex/concepticon": {
        "Vulic-2020-2244.tsv": "7242422d7dae0dfe49e1079a7ecc0c907ede635c8b2d815feac2a5730556bafd",
    },
    "wic/WiC-TSV/en/Development": {
        "dev_examples.txt": "b8798c78eb2f76ee04cb5d7ac8b96c63dcfdfbb251b1c70372ce90f021245453",
        "dev_definitions.txt": "04f104b3e6de6fa1348d6024983f91e34c75ccf38a84457b2a3e98245824a10e",
        "dev_hypernyms.txt": "7f9ae6b8c722dbc34cd858972f1b83d10c923faa163178c37c337d4a665109bb",
        "dev_labels.txt": "3531353642e78a960e0f00ef8eca7f7503a02d1e7008ab22520687f7349bbb80",
    },
    "wic/WiC-TSV/en/Training": {
        "train_examples.txt": "d6d5aa00493d87430aa54d0de6153c853496e38ff06a151e1ccbb6601cf9db4d",
        "train_definitions.txt": "8ee934dd6c88c87e9172cb9cfdec3a4da7e10597b950e0cfd9ff1f7ecee8db5d",
        "train_hypernyms.txt": "4b55990f5c9b38b0343025372beb9981553770d03eee4c6e30d7a8025c3d4669",
        "train_labels.txt": "fa13e01d2e156a8880069c3f4933d65cbffa562bf3898c26d7bdbce016089a76",
    },
    "train/mirrorwic": {
        "en_wiki.txt": "8427685b67dd7ee668816eba246311ef3e26e10a9c1e5bef8976dffc58f522e0",
    },
}
EVALUATION_TEXTS = (
    "sts",
    "wic",
    "wsd",
    "qnli",
)  # folders below --data; no tuning sentence may occur in them

WIC_TSV_TRAIN_ROWS = 600
SENTENCES, SHORTEST, LONGEST = 800, 30, 70  # how many, and their lengths in characters
WORDS = 1_000


def check_inputs(folder: Path) -> None:
    """Make sure that the inputs are the files that this script was written for.

    Raises:
        ValueError: a file is missing or another one.
    """
    for subfolder, files in INPUTS.items():
        for name, expected in files.items():
            path = folder / subfolder / name
            found = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "missing"
            if found != expected:
                raise ValueError(f"{path}: {found}, expected {expected}")


def read_lines(path: Path) -> list[str]:
    """The lines of a UTF-8 file, cut at line feeds only."""
    return path.read_text(encoding="utf-8").removesuffix("\n").split("\n")


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Write a UTF-8 file with Unix line ends."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="\n")


def write_sts17(folder: Path, output: Path) -> None:
    """STS 2017, track 5: both files as they are."""
    output.mkdir(parents=True, exist_ok=True)
    for name in ("STS.input.track5.en-en.txt", "STS.gs.track5.en-en.txt"):
        shutil.copyfile(folder / "sts" / "sts17" / name, output / name)


def write_multisimlex(folder: Path, output: Path) -> None:
    """Multi-SimLex, English: the word pairs put together again from Concepticon's list of concepts.

    A row of the list is a concept: the pairs that it stands in (`SIMLEX_IDS`, as `pair:side`) and, parallel to
    them, its word and the pair's mean score. Each pair occurs in two rows, once for each side.
    """
    source = folder / "wordsim" / "multisimlex" / "concepticon" / "Vulic-2020-2244.tsv"
    words: dict[int, dict[str, str]] = {}
    scores: dict[int, set[str]] = {}
    classes: dict[int, str] = {}
    with source.open(encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE):
            columns = [
                row[name].split(" ")
                for name in ("SIMLEX_IDS", "ENGLISH_IN_SOURCE", "ENGLISH_SCORE")
            ]
            for place, word, score in zip(*columns, strict=True):
                pair, _, side = place.partition(":")
                words.setdefault(int(pair), {})[side] = word
                scores.setdefault(int(pair), set()).add(score)
                classes[int(pair)] = row["POS"]
    table = []
    for pair, sides in sorted(words.items()):
        (score,) = scores[pair]  # both rows must agree
        table.append("\t".join((str(pair), sides["1"], sides["2"], classes[pair], score)))
    write_lines(output, ["id\tword1\tword2\tpos\tscore", *table])


def write_wic_tsv(folder: Path, output: Path) -> None:
    """WiC-TSV: the development files as they are, and the same sample of lines from each training file."""
    source = folder / "wic" / "WiC-TSV" / "en"
    total = len(read_lines(source / "Training" / "train_labels.txt"))
    sample = sorted(random.Random(SEED).sample(range(total), WIC_TSV_TRAIN_ROWS))
    output.mkdir(parents=True, exist_ok=True)
    for part in WIC_TSV_PARTS:
        shutil.copyfile(source / "Development" / f"dev_{part}.txt", output / f"dev_{part}.txt")
        lines = read_lines(source / "Training" / f"train_{part}.txt")
        if len(lines) != total:
            raise ValueError(f"train_{part}.txt has {len(lines)} lines, the labels {total}")
        write_lines(output / f"train_{part}.txt", (lines[row] for row in sample))


def write_sentences(folder: Path, output: Path) -> None:
    """Wikipedia sentences of moderate length that occur, letters and digits compared, in no evaluation text."""
    files = [file for name in EVALUATION_TEXTS for file in text_files(str(folder / name))]
    forbidden = evaluation_keys(files)
    candidates: dict[str, str] = {}
    for line in read_lines(folder / "train" / "mirrorwic" / "en_wiki.txt"):
        sentence = line.strip()
        key = normalise(sentence)
        # A sentence starts with a capital and ends with a stop; the rest are headings, captions and mark-up.
        whole = (
            sentence[:1].isupper()
            and sentence.endswith((".", "?", "!"))
            and not set(sentence) & set("[]{}\\|=")
        )
        if whole and SHORTEST <= len(sentence) <= LONGEST and key not in forbidden:
            candidates.setdefault(key, sentence)
    chosen = sorted(random.Random(SEED).sample(range(len(candidates)), SENTENCES))
    sentences = list(candidates.values())
    write_lines(output, (sentences[index] for index in chosen))
    print(f"{len(candidates):,d} candidate sentences, {SENTENCES:,d} taken")


def write_words(output: Path) -> None:
    """The most frequent English words of `wordfreq`: two or more letters from a to z and nothing else.

    Raises:
        ValueError: another version of `wordfreq` is installed.
    """
    import wordfreq

    if version("wordfreq") != WORDFREQ:
        raise ValueError(f"wordfreq {version('wordfreq')} is installed, expected {WORDFREQ}")
    words = wordfreq.top_n_list("en", 2 * WORDS)
    write_lines(
        output,
        [word for word in words if len(word) > 1 and word.isascii() and word.isalpha()][:WORDS],
    )


def main() -> None:
    """Write every file of the embedded data."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of the original files")
    parser.add_argument("--output", type=Path, required=True, help="where the embedded data goes")
    args = parser.parse_args()

    check_inputs(args.data)
    write_sts17(args.data, args.output / "sts17")
    write_multisimlex(args.data, args.output / "multisimlex" / "english.tsv")
    write_wic_tsv(args.data, args.output / "wic-tsv")
    write_sentences(args.data, args.output / "corpora" / "sentences.txt")
    write_words(args.output / "corpora" / "words.txt")
    for path in sorted(args.output.rglob("*")):
        if path.is_file():
            print(
                f"{path.stat().st_size:8,d}  {hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}"
            )


if __name__ == "__main__":
    main()
