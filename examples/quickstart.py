"""The whole of mirrorbench in Python, on the model and the data inside the package: no network, a minute or two.

python examples/quickstart.py [FOLDER]
"""

from __future__ import annotations

import sys
from pathlib import Path

import mirrorbench

folder = Path(sys.argv[1] if len(sys.argv) > 1 else "quickstart")

# 1. An encoder from its spec: here a pretrained model as it comes, read out by mean pooling.
encoder = mirrorbench.load("tiny+base:pooling=mean")
vectors = encoder.encode(["A man is playing a guitar.", "Someone plays music.", "A dog runs."])
print("vectors:", vectors.shape, vectors.dtype)

# 2. Tune it on texts of your own: a file, a list, or pairs. The directory opens in sentence-transformers, too.
subjects = ("cat", "dog", "child", "woman", "singer", "teacher", "player", "train")
actions = (
    "sleeps",
    "runs",
    "eats an apple",
    "plays the guitar",
    "reads a book",
    "waits",
    "sings",
    "stops",
)
texts = [f"A {who} {does}." for who in subjects for does in actions]
tuned = mirrorbench.tune(texts, "tiny:epochs=2", folder / "my-encoder", held_out=8, force=True)
print(
    "uniformity:",
    f"{tuned.held_out.before['uniformity']:.2f} -> {tuned.held_out.after['uniformity']:.2f}",
)

# 3. Measure it: a spec, a directory, an object of sentence-transformers, or anything with encode(texts).
scores = mirrorbench.evaluate(folder / "my-encoder", "quick-sts")
print("STS17:", f"{scores['quick-sts']:.3f}")

# 4. Several encoders on several tasks make a table; what is stored is never computed again.
mirrorbench.run(
    ["tiny+base:pooling=cls", "tiny+base:pooling=mean"], "quick-sts", output=folder / "results"
)
print(mirrorbench.leaderboard(folder / "results"))
