"""Tokenise the clean text once and pack it into rows of word-piece ids.

    python -m pretraining.corpus --text CLEAN_TEXT --tokenizer FOLDER --output FOLDER [--blocks]

A row is `[CLS] s1 [SEP] [CLS] s2 [SEP] ... [PAD]`. Training lets a token attend to its own sentence only
and counts positions from its own [CLS] (see `layout`). So each sentence is seen alone, as it will be at
inference, while batches stay rectangular and almost free of padding. With `--blocks` a row is what BERT and RoBERTa
were trained on: `[CLS] s1 [SEP] s2 [SEP] ...` cut wherever the row is full, one [CLS] and one count of positions for
all of it. Two files are written: `train.npy` and `valid.npy` (uint16).
"""

from __future__ import annotations

import random
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from transformers import AutoTokenizer

from pretraining.check_leakage import read_sentences
from pretraining.tokenizer import CLS, MAX_LENGTH, PAD, SEP

VALIDATION_SENTENCES = 2_000
SEED = 0

Rows = NDArray[np.uint16]


def tokenise(text: Path, tokenizer_folder: Path) -> list[list[int]]:
    """Ids of every sentence with its [CLS] and [SEP], cut at the model's length."""
    tokenizer = AutoTokenizer.from_pretrained(tokenizer_folder).backend_tokenizer
    tokenizer.enable_truncation(MAX_LENGTH)
    sentences = list(read_sentences(text))
    return [
        encoding.ids
        for start in range(0, len(sentences), 20_000)
        for encoding in tokenizer.encode_batch_fast(sentences[start : start + 20_000])
    ]


def pack(sentences: list[list[int]], row_length: int = MAX_LENGTH) -> Rows:
    """Put whole sentences into rows by best fit: each goes to the fullest row that still has room for it."""
    rows: list[list[int]] = []
    with_room: defaultdict[int, list[int]] = defaultdict(list)  # free places -> rows that have so many
    for sentence in sentences:
        need = len(sentence)
        room = next((free for free in range(need, row_length) if with_room[free]), None)
        if room is None:
            rows.append([])
            index, room = len(rows) - 1, row_length
        else:
            index = with_room[room].pop()
        rows[index] += sentence
        with_room[room - need].append(index)
    packed = np.full((len(rows), row_length), PAD, dtype=np.uint16)
    for row, ids in zip(packed, rows, strict=True):
        row[: len(ids)] = ids
    return packed


def pack_blocks(sentences: list[list[int]], row_length: int = MAX_LENGTH) -> Rows:
    """Put sentences one after the other behind a single [CLS] a row; what fills no row is left out."""
    stream = np.concatenate([np.array(sentence[1:], dtype=np.uint16) for sentence in sentences])
    rows = len(stream) // (row_length - 1)
    body = stream[: rows * (row_length - 1)].reshape(rows, row_length - 1)
    return np.concatenate([np.full((rows, 1), CLS, dtype=np.uint16), body], axis=1)


def layout(rows: Rows) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Which sentence of its row each token belongs to, and the token's position in that sentence."""
    starts = rows == CLS
    sentence = np.cumsum(starts, axis=1)
    sentence[rows == PAD] = 0  # the padding of a row is a "sentence" of its own, that nothing else sees
    index = np.arange(rows.shape[1])
    position = index - np.maximum.accumulate(np.where(starts, index, 0), axis=1)
    return sentence, position


def split(rows: Rows) -> Iterator[NDArray[np.uint16]]:
    """Yield the sentences of packed rows, without [CLS], [SEP] and padding; those that a row cuts in their parts."""
    for row in rows:
        filled = row[(row != PAD) & (row != CLS)]
        for sentence in np.split(filled, np.flatnonzero(filled == SEP) + 1):
            if len(words := sentence[sentence != SEP]):
                yield words


def main() -> None:
    """Tokenise, hold out the validation sentences, pack both parts."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("--text", type=Path, required=True, help="one sentence a line")
    parser.add_argument("--tokenizer", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--blocks", action="store_true", help="running text behind one [CLS] a row")
    parser.add_argument("--length", type=int, default=MAX_LENGTH, help="of a row, in tokens")
    args = parser.parse_args()

    sentences = tokenise(args.text, args.tokenizer)
    random.Random(SEED).shuffle(sentences)
    args.output.mkdir(parents=True, exist_ok=True)
    parts = {"valid": sentences[:VALIDATION_SENTENCES], "train": sentences[VALIDATION_SENTENCES:]}
    for name, part in parts.items():
        rows = pack_blocks(part, args.length) if args.blocks else pack(part, args.length)
        np.save(args.output / f"{name}.npy", rows)
        tokens = sum(map(len, part))
        cut = sum(len(sentence) == MAX_LENGTH for sentence in part)
        print(
            f"{name}: {len(part):,d} sentences, {tokens:,d} tokens in {len(rows):,d} rows "
            f"({tokens / rows.size:.1%} full), {cut:,d} sentences of {MAX_LENGTH} tokens or cut there"
        )


if __name__ == "__main__":
    main()
