"""Tokenise the clean text once and pack it into rows of word-piece ids.

    python -m pretraining.corpus --text CLEAN_TEXT --tokenizer FOLDER --output FOLDER

A row is what BERT and RoBERTa are trained on, running text behind one [CLS]: `[CLS] s1 [SEP] s2 [SEP] s3 ...`, cut
wherever the row is full. There is no padding, and every token sees its whole row. Two files are written: `train.npy`
and `valid.npy` (uint16).
"""

from __future__ import annotations

import random
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from transformers import AutoTokenizer

from pretraining.check_leakage import read_sentences
from pretraining.tokenizer import CLS, MAX_LENGTH, SEP

LONGEST_SENTENCE = 128
"""Tokens kept of a sentence; longer ones are most often lists."""
VALIDATION_SENTENCES = 2_000
SEED = 0

Rows = NDArray[np.uint16]


def tokenise(text: Path, tokenizer_folder: Path) -> list[list[int]]:
    """Ids of every sentence with its [CLS] and [SEP]."""
    tokenizer = AutoTokenizer.from_pretrained(tokenizer_folder).backend_tokenizer
    tokenizer.enable_truncation(LONGEST_SENTENCE)
    sentences = list(read_sentences(text))
    return [
        encoding.ids
        for start in range(0, len(sentences), 20_000)
        for encoding in tokenizer.encode_batch_fast(sentences[start : start + 20_000])
    ]


def pack(sentences: list[list[int]], row_length: int = MAX_LENGTH) -> Rows:
    """Put sentences one after the other, behind one [CLS] a row; what fills no row at the end is left out."""
    stream = np.concatenate([np.array(sentence[1:], dtype=np.uint16) for sentence in sentences])
    rows = len(stream) // (row_length - 1)
    body = stream[: rows * (row_length - 1)].reshape(rows, row_length - 1)
    return np.concatenate([np.full((rows, 1), CLS, dtype=np.uint16), body], axis=1)


def split(rows: Rows) -> Iterator[NDArray[np.uint16]]:
    """Yield the sentences of packed rows, without [CLS] and [SEP]; those that a row cuts in their parts."""
    for row in rows:
        words = row[row != CLS]
        for sentence in np.split(words, np.flatnonzero(words == SEP) + 1):
            if len(pieces := sentence[sentence != SEP]):
                yield pieces


def main() -> None:
    """Tokenise, hold out the validation sentences, pack both parts."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("--text", type=Path, required=True, help="one sentence a line")
    parser.add_argument("--tokenizer", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    args = parser.parse_args()

    sentences = tokenise(args.text, args.tokenizer)
    random.Random(SEED).shuffle(sentences)
    args.output.mkdir(parents=True, exist_ok=True)
    parts = {"valid": sentences[:VALIDATION_SENTENCES], "train": sentences[VALIDATION_SENTENCES:]}
    for name, part in parts.items():
        rows = pack(part)
        np.save(args.output / f"{name}.npy", rows)
        print(
            f"{name}: {len(part):,d} sentences, {sum(map(len, part)):,d} tokens in {len(rows):,d} rows"
        )


if __name__ == "__main__":
    main()
