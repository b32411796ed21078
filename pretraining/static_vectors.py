"""Skip-gram vectors of the word pieces: the start of the token embeddings, and the static baseline.

    python -m pretraining.static_vectors --packed FOLDER --tokenizer FOLDER --output FOLDER

Writes `vectors.npy` (vocabulary x dimensions, float32; a zero row for a piece that never occurs), `counts.npy`
(occurrences in the training text, for SIF weights) and `vocab.txt` (one piece a line). With more than
one worker gensim's updates race, so a rerun gives equally good, not identical, vectors.
"""

from __future__ import annotations

from argparse import ArgumentParser, RawDescriptionHelpFormatter
from pathlib import Path

import numpy as np
from gensim.models import Word2Vec
from numpy.typing import NDArray
from transformers import AutoTokenizer

from pretraining.corpus import split
from pretraining.tokenizer import FIRST_ORDINARY_ID

EPOCHS = 2
SEED = 0


def train_vectors(
    sentences: list[list[str]], vocabulary_size: int, dimensions: int, workers: int
) -> NDArray[np.float32]:
    """Skip-gram with gensim's defaults (window 5, 5 negatives, subsampling 1e-3) on the ids as words."""
    model = Word2Vec(
        sentences,
        vector_size=dimensions,
        sg=1,
        epochs=EPOCHS,
        min_count=1,
        workers=workers,
        seed=SEED,
    )
    vectors = np.zeros((vocabulary_size, dimensions), dtype=np.float32)
    for word, row in model.wv.key_to_index.items():
        vectors[int(word)] = model.wv.vectors[row]
    vectors[:FIRST_ORDINARY_ID] = 0  # a vector for [UNK] would be noise
    return vectors


def main() -> None:
    """Train on the packed training rows and save vectors, counts and vocabulary."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("--packed", type=Path, required=True)
    parser.add_argument("--tokenizer", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--dimensions", type=int, default=256, help="the model's width too (256)")
    parser.add_argument("--workers", type=int, default=2)
    args = parser.parse_args()

    tokenizer = AutoTokenizer.from_pretrained(args.tokenizer)
    words = [
        str(i) for i in range(len(tokenizer))
    ]  # shared strings: the corpus as lists fits in memory
    rows = np.load(args.packed / "train.npy")
    sentences = [[words[i] for i in sentence] for sentence in split(rows)]
    counts = np.bincount(rows.ravel(), minlength=len(tokenizer))
    counts[:FIRST_ORDINARY_ID] = 0

    args.output.mkdir(parents=True, exist_ok=True)
    np.save(
        args.output / "vectors.npy",
        train_vectors(sentences, len(tokenizer), args.dimensions, args.workers),
    )
    np.save(args.output / "counts.npy", counts)
    pieces = tokenizer.convert_ids_to_tokens(range(len(tokenizer)))
    (args.output / "vocab.txt").write_text("\n".join(pieces) + "\n", encoding="utf-8")
    print(f"{(counts > 0).sum():,d} of {len(tokenizer):,d} pieces occur, {counts.sum():,d} tokens")


if __name__ == "__main__":
    main()
