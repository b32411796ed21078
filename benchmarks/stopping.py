"""Correlation of measures of held-out strings with the score of a task, and the picks of ``stop=auto`` by them.

    python benchmarks/stopping.py [--encoder tiny|minilm] [--corpus sentences|words]... [--lr X]... [--epochs N]...
                                  [--json FILE]

Mirror tunes the backbone on the embedded sentences and words, one seed, by learning rates from a fifth of the recipe's
to far too high. A longer tuning begins as a shorter one, so one tuning a rate is enough for all lengths: after each
tenth of each length the held-out strings are measured and the task is scored (``quick-sts`` of sentences,
``quick-simlex`` of words). Printed are the rank correlation of each measure with the score over all states, and for
each rate and length the scores before, after, of the best of the tenths, and of the one that each measure picks.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import torch
from tabulate import tabulate

from mirrorbench import Session
from mirrorbench.core.devices import cpu_threads
from mirrorbench.core.specs import EncoderSpec
from mirrorbench.models.pooling import Pooling
from mirrorbench.models.transformer_encoder import TransformerEncoder
from mirrorbench.runs.encoder_loading import open_for_tuning
from mirrorbench.runs.planning import PlanMaker
from mirrorbench.runs.requests import Purpose, Request
from mirrorbench.tasks.base import Vectors, score_task
from mirrorbench.tasks.metrics import spearman
from mirrorbench.training.held_out import hold_out, positive_pairs
from mirrorbench.training.loop import tune_backbone
from mirrorbench.training.trajectory import MEASUREMENTS, Progress, criterion

CORPORA = {
    "sentences": ("sentence", "quick-sentences", "quick-sts"),
    "words": ("word", "quick-words", "quick-simlex"),
}
LENGTHS = (1, 3, 10)
"""Epochs, by default."""
FACTORS = (0.2, 1.0, 5.0, 25.0)
"""Factors of the recipe's learning rate."""
CRITERIA: dict[str, Callable[[dict[str, float]], float]] = {
    "criterion of stop=auto": criterion,
    "alignment, negative": lambda m: -m["alignment"],
    "uniformity, negative": lambda m: -m["uniformity"],
    "alignment and uniformity": lambda m: -m["alignment"] - m["uniformity"],
    "retrieval, accuracy@1": lambda m: m["accuracy@1"],
    "log isotropy": lambda m: m["log_isotropy"],
    "effective rank": lambda m: m["effective_rank"],
}
Point = dict[str, Any]


class Watched(Progress):
    """Measures and scores after given numbers of strings instead of tenths."""

    def __init__(self, *args: Any, marks: list[int], score: Callable[[], float | None]) -> None:
        self.marks, self.score = marks, score
        self.scores: list[float | None] = []
        self.seen: list[int] = []
        super().__init__(*args)

    def advance(self, n: int) -> None:
        """Measure after each mark."""
        self.done += n
        if self.marks and self.done >= self.marks[0]:
            self.marks = [mark for mark in self.marks if mark > self.done]
            self.measure(self.done / self.total)

    def measure(self, share: float) -> None:
        """Measure and score."""
        n = len(self.states)
        super().measure(share)
        if len(self.states) > n:
            self.seen.append(self.done)
            self.scores.append(self.score())


def sweep(
    session: Session, encoder: str, corpus: str, rates: list[float], lengths: list[int]
) -> Iterator[Point]:
    """Yield the states of a tuning by each learning rate; one that diverges ends there."""
    level, name, task_name = CORPORA[corpus]
    task, maker = (
        session.plugins.tasks[task_name],
        PlanMaker(session.plugins, session.folders, session.compute, session.reporter),
    )
    items = task.load(session.folders.data)
    inputs = list(dict.fromkeys(task.inputs(items)))
    spec = EncoderSpec(encoder, method="mirror")
    preset = maker.models(Request((spec,), (), corpus=name), spec, Purpose(level))[0][0].recipe
    assert preset is not None
    for lr in rates or [preset.lr * factor for factor in FACTORS]:
        request = Request((spec.with_params(lr=lr, epochs=max(lengths)),), (), corpus=name)
        model, pooling = maker.models(request, request.encoders[0], Purpose(level))[0]
        assert model.recipe is not None
        assert model.corpus is not None
        assert model.path is not None
        assert pooling is not None
        texts, aside = hold_out(maker.corpora.by_ref[model.corpus].texts, 0)
        registered = session.plugins.augmentations.by_name()
        transformer = open_for_tuning(model.path, model.recipe, registered, session.compute.device)

        def score(read: Pooling = pooling, tuned: Any = transformer) -> float | None:
            training = [module for module in tuned.model.modules() if module.training]
            vectors = TransformerEncoder(tuned, read).encode(inputs)
            for module in training:
                module.training = True
            found = Vectors(dict.fromkeys(inputs), vectors)
            return score_task(task, items, found, "paper", session.plugins.metrics).metrics[
                task.main_metric
            ]

        pairs = positive_pairs(aside, 0, session.plugins.methods["mirror"].pairs)
        marks = sorted(
            {
                len(texts) * length * tenth // MEASUREMENTS
                for length in lengths
                for tenth in range(1, MEASUREMENTS + 1)
            }
        )
        total = len(texts) * model.recipe.epochs
        watched = Watched(transformer, model.recipe, pairs, total, marks=marks, score=score)
        try:
            tune_backbone(
                transformer,
                texts,
                model.recipe,
                0,
                registered,
                advance=watched.advance,
                pairs=session.plugins.methods["mirror"].pairs,
            )
        except Exception as error:  # what is sought is where a tuning breaks
            print(f"{encoder}, {corpus}, lr {lr:g}: {error}", flush=True)
        for state, seen, value in zip(watched.states, watched.seen, watched.scores, strict=True):
            epoch = seen / len(texts)
            yield {
                "encoder": encoder,
                "corpus": corpus,
                "lr": lr,
                "epoch": epoch,
                "score": value,
                **state.measures,
            }


def tenths(points: list[Point], length: int) -> list[Point]:
    """Return the states of one tuning among which ``stop=auto`` would choose, had it that length."""
    steps = [length * tenth / MEASUREMENTS for tenth in range(MEASUREMENTS + 1)]
    found = {
        min(i for i, p in enumerate(points) if p["epoch"] >= s - 1e-9)
        for s in steps
        if s <= points[-1]["epoch"]
    }
    return [points[i] for i in sorted(found)]


def report(points: list[Point], lengths: list[int]) -> None:
    """Print the correlations, and the picks of each criterion."""
    scored = [point for point in points if point["score"] is not None]
    rows, picks = [], []
    for (corpus, lr), own in groupby(points, key=lambda p: (p["corpus"], p["lr"])):
        states = list(own)
        for length in lengths:
            some = tenths(states, length)
            values = [p["score"] if p["score"] is not None else -1.0 for p in some]
            chosen = [max(some, key=choose) for choose in CRITERIA.values()]
            picks.append([v["score"] or 0.0 for v in chosen] + [values[0], values[-1], max(values)])
            broken = "" if states[-1]["epoch"] >= length else " (broke)"
            rows.append(
                [
                    corpus,
                    f"{lr:g}",
                    f"{length}{broken}",
                    *(f"{v:.3f}" for v in (values[0], values[-1], max(values))),
                    f"{chosen[0]['score'] or 0:.3f}",
                    f"{chosen[0]['epoch']:.2g}",
                ]
            )
    heading = ("corpus", "lr", "epochs", "before", "end", "best", "stop=auto", "at epoch")
    print(tabulate(rows, heading, tablefmt="github", disable_numparse=True), "\n")
    means = [sum(column) / len(picks) for column in zip(*picks, strict=True)]
    table = []
    for index, (name, function) in enumerate(CRITERIA.items()):
        by_corpus = []
        for corpus in CORPORA:
            some = [p for p in scored if p["corpus"] == corpus]
            by_corpus.append(
                spearman([function(p) for p in some], [p["score"] for p in some]) if some else None
            )
        shown = ["" if value is None else f"{value:+.2f}" for value in by_corpus]
        table.append([name, *shown, f"{means[index]:.3f}"])
    for index, name in enumerate(
        ("none: before the tuning", "none: the last state", "the task's own score")
    ):
        table.append([name, "", "", f"{means[len(CRITERIA) + index]:.3f}"])
    correlations = [f"rank correlation, {corpus}" for corpus in CORPORA]
    print(
        tabulate(table, ("measure", *correlations, "mean score of its picks"), tablefmt="github"),
        flush=True,
    )


def main() -> None:
    """Sweep and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--encoder", default="tiny", help="tiny or minilm")
    parser.add_argument("--corpus", action="append", choices=list(CORPORA), help="by default both")
    parser.add_argument(
        "--lr", action="append", type=float, help="by default four, from those of the recipe"
    )
    parser.add_argument(
        "--epochs", action="append", type=int, help="lengths of a tuning; by default 1, 3 and 10"
    )
    parser.add_argument(
        "--json",
        type=Path,
        help="write all states here; with a file that exists, report on it alone",
    )
    asked = parser.parse_args()
    started, lengths = time.perf_counter(), asked.epochs or list(LENGTHS)
    if asked.json and asked.json.exists():
        report(json.loads(asked.json.read_text()), lengths)
        return
    session = Session(device="cpu", offline=True)
    with cpu_threads(int(os.environ.get("OMP_NUM_THREADS", torch.get_num_threads()))):
        corpora = asked.corpus or list(CORPORA)
        points = [
            p
            for corpus in corpora
            for p in sweep(session, asked.encoder, corpus, asked.lr or [], lengths)
        ]
    if asked.json:
        asked.json.write_text(json.dumps(points, indent=1) + "\n")
    report(points, lengths)
    print(
        f"\n{asked.encoder}: {time.perf_counter() - started:.0f} s, {torch.get_num_threads()} threads"
    )


if __name__ == "__main__":
    main()
