"""Tables with everything that a renderer can meet, made without the code that builds tables from results."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from mirrorbench.reports.table import Column, Row, Score, Table

NASTY = r"""50% of_{x} & $y$ #1 ~^\ <b> ± – ρ "q" `c` *e* [l](h) </script><img src=x onerror=boom()> 中"""
STS, SIMLEX, WIC = ("sts12", "stsb"), ("multisimlex-en", "multisimlex-fr"), ("wic",)
COLUMNS = (
    Column("sts12", "STS12", "sts", "sentence", ("en",), "spearman"),
    Column("stsb", "STS-b", "sts", "sentence", ("en",), "spearman"),
    Column("avg. sts", "avg.", "sts", average_of=STS),
    Column("multisimlex-en", "EN", "simlex", "word", ("en",), "spearman"),
    Column("multisimlex-fr", "FR", "simlex", "word", ("fr",), "spearman"),
    Column("avg. simlex", "avg.", "simlex", average_of=SIMLEX),
    Column("wic", "WiC", "wic", "wic", ("en",), "accuracy"),
    Column("avg.", "avg.", average_of=STS + SIMLEX + WIC),
)


def score(values: Sequence[float], name: str, tied: bool = False) -> Score:
    """Of seeds 0, 1, 2 ..., with an interval around the mean."""
    mean = sum(values) / len(values)
    sd = statistics.stdev(values) if len(values) > 1 else None
    ids = tuple(f"{name}-{seed}" for seed in range(len(values)))
    return Score(
        mean, sd, len(values), ids, tuple(enumerate(values)), (mean - 0.02, mean + 0.01), tied
    )


def row(
    label: str,
    spec: str,
    backbone: str,
    method: str,
    values: Mapping[str, Sequence[float]],
    tied: str = "",
) -> Row:
    """A row with its averages; a column without values is missing."""
    scores: list[Score | None] = []
    for column in COLUMNS:
        members = column.average_of or (column.name,)
        if any(name not in values for name in members):
            scores.append(None)
            continue
        by_seed = [
            statistics.fmean(seed) for seed in zip(*(values[name] for name in members), strict=True)
        ]
        scores.append(score(by_seed, f"{spec}/{column.name}", tied=column.name == tied))
    return Row(label, spec, tuple(scores), backbone, method, "paper")


BOARD = Table(
    "English and French",
    COLUMNS,
    (
        row(
            "BERT-CLS",
            "bert+base:pooling=cls",
            "bert",
            "base",
            {
                "sts12": [0.215],
                "stsb": [0.203],
                "multisimlex-en": [-0.0421],
                "multisimlex-fr": [0.5625],
            },
        ),
        row(
            "BERT-mp",
            "bert+base:pooling=mean",
            "bert",
            "base",
            {
                "sts12": [0.314],
                "stsb": [0.4639],
                "multisimlex-en": [0.31],
                "multisimlex-fr": [0.1875],
            },
            tied="sts12",
        ),
        row(
            "BERT + Mirror",
            "bert+mirror",
            "bert",
            "mirror",
            {
                "sts12": [0.67, 0.68, 0.66],
                "stsb": [0.76, 0.77, 0.75],
                "multisimlex-en": [0.5, 0.51, 0.52],
                "multisimlex-fr": [0.61, 0.6, 0.62],
                "wic": [0.55, 0.56, 0.57],
            },
            tied="stsb",
        ),
        row(
            "RoBERTa + Mirror",
            "roberta+mirror",
            "roberta",
            "mirror",
            {
                "sts12": [0.64, 0.65, 0.66],
                "stsb": [0.78, 0.79, 0.77],
                "multisimlex-en": [0.4, 0.42, 0.41],
                "multisimlex-fr": [1.0, 1.0, 1.0],
                "wic": [0.7, 0.71, 0.72],
            },
        ),
        row("RoBERTa-mp", "roberta+base", "roberta", "base", {"sts12": [0.134], "stsb": [0.129]}),
    ),
    ("Metric: accuracy, spearman.", "Tied: by some test.", "missing: roberta+base on wic"),
)
HOSTILE = Table(
    NASTY,
    (Column("a", NASTY, NASTY, NASTY, (NASTY,), NASTY), Column("b", "B", "other", "word", ("en",))),
    (
        Row(NASTY, NASTY, (score([0.1, 0.2], NASTY), score([0.3], "x")), NASTY, "base", "paper"),
        Row("plain", "plain", (score([0.3], "y"), None), "plain", "", "paper"),
    ),
    (NASTY, "\u2028\u2029\x00 end"),
)
EMPTY = Table("", (), ())
NO_ROWS = Table("nothing yet", COLUMNS, ())
