"""Share of data sets on which ``mirrorbench evaluate`` calls two equally good encoders different.

    python benchmarks/own_data_alarms.py [DATA] [--sets N] [--only TEXT] [--output DIR] [--json FILE]

DATA (default ``../shared/data``) has ``retrieval/cranfield`` and ``retrieval/dbpedia-50`` in BEIR's layout, QNLI's
``qnli/dev.tsv`` and the STS task of 2014 (``sts/sts14``). Two encoders are evaluated on each once, as the command does
it; the results stay in the output folder. A null set are their outputs for some of the items, exchanged at random for
each item, or for all items together that share a text or are chained by shared texts: as good as one another by what is
drawn. Exchanged by text, those together that have one text in common. Cosines are exchanged as ranks, since two
encoders have cosines of different spread. A cluster depends on all texts: of clustering, an item is a pair of STS 2014
with its part, and of each the two encoders, which are one model, read one sentence each, drawn at random. Printed are
the share of the sets with p below .05, and the standard error of a difference times the root of the number of items.
"""

from __future__ import annotations

import argparse
import csv
import json
import shutil
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest, rankdata

from mirrorbench import Session, load
from mirrorbench.core.plugins import Plugins
from mirrorbench.data.corpora import shared_codes
from mirrorbench.data.store import DataStore
from mirrorbench.own_data.clustering import k_means
from mirrorbench.own_data.measures import resampling_groups, text_groups
from mirrorbench.reports.comparable import read_stored
from mirrorbench.reports.statistics.comparisons import Comparisons
from mirrorbench.reports.statistics.items import MEAN, ItemScores
from mirrorbench.storage.results import read_predictions

ENCODERS = tuple(
    f"minilm+base:max_length=64,normalize=true,pooling={pooling}" for pooling in ("mean", "cls")
)
PARTS = ("deft-forum", "deft-news", "headlines", "images", "OnWN", "tweet-news")
"""Parts of STS 2014."""
SIZES = (25, 40, 100, 200)
CANDIDATES = 50
"""Documents that are ranked for a query of Cranfield."""
PAIRS, TEXTS = 1500, 1500
"""Pairs of QNLI and labelled sentences that are encoded, drawn once."""
Floats = NDArray[np.float64]
Rows = NDArray[np.intp]
Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class Outputs:
    """Values of two encoders for the n items of a data set.

    Attributes:
        kind: of the task.
        measure: its name in results.
        metric: the statistic of its ``ItemScores``.
        data: name of the data set.
        values: shape (2, n).
        gold: shape (n,).
        shared: what each item shares with others.
        groups: a number for each item, the same for those that are drawn together.
        exchanged: a number for each item, the same for those that are exchanged together.
        sizes: numbers of items of a null set.
    """

    kind: str
    measure: str
    metric: str
    data: str
    values: Floats
    gold: Floats
    shared: Sequence[tuple[str, ...]]
    groups: Rows
    exchanged: Rows
    sizes: tuple[int, ...]

    def one_of_each(self) -> Outputs:
        """Return the first item of each group."""
        rows = np.unique(self.groups, return_index=True)[1]
        shared, groups = [self.shared[row] for row in rows], np.arange(len(rows))
        return replace(
            self,
            data=f"{self.data}, no texts shared",
            values=self.values[:, rows],
            gold=self.gold[rows],
            shared=shared,
            groups=groups,
            exchanged=groups,
            sizes=SIZES,
        )

    def variants(self) -> Iterator[Outputs]:
        """Return variants: exchanged by text too where texts chain items without a common one, and without groups."""
        yield self
        counts = Counter(text for own in self.shared for text in set(own))
        of_each = [max(own, key=counts.__getitem__) for own in self.shared]
        by_text: Rows = np.unique(of_each, return_inverse=True)[1]
        if by_text.max() > self.groups.max():
            yield replace(self, data=f"{self.data}, exchanged by text", exchanged=by_text)
        yield self.one_of_each()

    def draw(
        self, rng: np.random.Generator, n: int
    ) -> dict[tuple[str, str], dict[int, ItemScores]]:
        """Draw a null set of n items: groups in random order, the last one cut to fit."""
        order = rng.permutation(self.groups.max() + 1)
        rows = np.argsort(order[self.groups], kind="stable")[:n]
        swap = (rng.random(self.exchanged.max() + 1) < 0.5)[self.exchanged[rows]]
        values, ids = self.values[:, rows], tuple(map(str, rows))
        texts = {name: self.shared[row] for name, row in zip(ids, rows, strict=True)}
        codes = shared_codes(resampling_groups(texts), ids)
        both = zip("AB", np.where(swap, values[::-1], values), strict=True)
        return {
            (e, "t"): {0: ItemScores(self.metric, ids, own, self.gold[rows], shared=codes)}
            for e, own in both
        }


@dataclass(frozen=True)
class Views:
    """Vectors of both sentences of pairs, whose clusters are compared.

    Attributes:
        vectors: shape (2, n, dimensions).
        labels: shape (n,).
        sizes: numbers of items of a null set.
    """

    vectors: NDArray[np.float32]
    labels: Rows
    sizes: tuple[int, ...] = (100, 200, 400)
    kind: str = "clustering"
    measure: str = "v_measure"
    data: str = "parts of STS 2014"

    def draw(
        self, rng: np.random.Generator, n: int
    ) -> dict[tuple[str, str], dict[int, ItemScores]]:
        """Draw a null set of n pairs, and cluster one sentence of each for each encoder."""
        rows = rng.permutation(len(self.labels))[:n]
        labels = self.labels[rows]
        ids = tuple(map(str, rows))
        first = rng.integers(2, size=n)
        drawn = {}
        for encoder, side in (("A", first), ("B", 1 - first)):
            clusters = k_means(self.vectors[side, rows], len(set(labels)))
            items = ItemScores(
                "v_measure", ids, clusters.astype(np.float64), labels.astype(np.float64)
            )
            drawn[encoder, "t"] = {0: items}
        return drawn


@dataclass(frozen=True)
class Found:
    """Results of the null sets of one size."""

    kind: str
    measure: str
    data: str
    n: int
    sets: int
    alarms: int
    undefined: int
    sd_per_item: float
    error_ratio: float
    """Return the standard deviation of the differences over the root mean square of their standard errors."""

    def __str__(self) -> str:
        """A line of the table."""
        low, high = binomtest(self.alarms, self.sets).proportion_ci(method="exact")
        share = f"{self.alarms / self.sets:.1%} [{low:.1%}, {high:.1%}]".replace("%", " %")
        return f"| {self.kind} | {self.measure} | {self.data} | {self.n} | {share} | {self.sd_per_item:.3f} |"


def write_table(path: Path, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Write own data, and return their name as a task."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([columns, *rows])
    return str(path) if path.is_absolute() else f"./{path}"


def tabs(path: Path) -> list[list[str]]:
    """Read the fields of each line; quotes are text."""
    return [line.split("\t") for line in path.read_text(encoding="utf-8").split("\n") if line]


def pairs_of(data: Path, folder: Path) -> str:
    """Read questions of QNLI with a sentence, which answers it (1) or not; several questions have one sentence."""
    rows = [
        (question, sentence, int(label == "entailment"))
        for _, question, sentence, label in tabs(data)[1:]
    ]
    groups = text_groups([row[:2] for row in rows])
    order = np.random.default_rng(0).permutation(groups.max() + 1)
    kept = np.argsort(order[groups], kind="stable")[:PAIRS]
    return write_table(
        folder / "qnli.csv", ["sentence1", "sentence2", "label"], [rows[row] for row in kept]
    )


def sts(folder: Path, part: str) -> list[tuple[str, str, str]]:
    """Read two sentences and their rating."""
    inputs, ratings = (tabs(folder / f"STS.{what}.{part}.txt") for what in ("input", "gs"))
    return [
        (*map(str.strip, texts[:2]), rating)
        for texts, (rating, *_) in zip(inputs, ratings, strict=True)
    ]


def genres_of(folder: Path, to: Path) -> str:
    """Read first sentences of STS 2014 with their part, such as captions of images."""
    rows = [(text, part) for part in PARTS for text, *_ in sts(folder, part)]
    kept = np.random.default_rng(0).permutation(len(rows))[:TEXTS]
    return write_table(to / "genres.csv", ["text", "label"], [rows[row] for row in kept])


def candidates_of(collection: Path, to: Path) -> str:
    """Copy a collection, with the documents that BM25 finds first for each query as candidates."""
    task = Session(offline=True).plugins.tasks[str(collection)]
    items = task.load(DataStore(collection))
    shutil.copytree(collection, to, dirs_exist_ok=True)
    lines = (
        json.dumps({"query-id": query, "corpus-ids": list(ranking)[:CANDIDATES]}) + "\n"
        for query, ranking in zip(items.queries, items.bm25, strict=True)
    )
    (to / "top_ranked.jsonl").write_text("".join(lines))
    return str(to) if to.is_absolute() else f"./{to}"


def evaluated(data: Path, output: Path) -> list[Outputs]:
    """Evaluate both encoders on all data sets; what is stored already is not computed again."""
    made, parts = output / "data", data / "sts/sts14"
    rated = write_table(
        made / "images.csv", ["sentence1", "sentence2", "score"], sts(parts, "images")
    )
    sets = {
        f"{data}/retrieval/cranfield": ("retrieval", "Cranfield"),
        f"{data}/retrieval/dbpedia-50": ("retrieval", "DBpedia"),
        candidates_of(data / "retrieval/cranfield", made / "cranfield"): ("reranking", "Cranfield"),
        f"{pairs_of(data / 'qnli/dev.tsv', made)}:metric=accuracy": ("pairs", "QNLI"),
        f"{genres_of(parts, made)}:metric=macro_f1": ("classification", "parts of STS 2014"),
        rated: ("similarity", "STS 2014, images"),
    }
    session, found = Session(output / "results"), list[Outputs]()
    if failures := session.run(ENCODERS, list(sets)).failures:
        raise SystemExit(str(failures))
    stored = sorted(read_stored([output / "results"]), key=lambda entry: entry.result.spec)
    for path, (kind, name) in sets.items():
        entries = [entry for entry in stored if entry.result.task == path]
        one, other = (read_predictions(entry.path, entry.result) for entry in entries)
        task = session.plugins.tasks[path]
        items = task.load(session.folders.data)
        is_ranked = kind in ("retrieval", "reranking")
        of_items = task.shared(items) if is_ranked else task.texts(items)
        shared = [of_items[item] for item in one["ids"].tolist()]
        scores = ", ".join(
            f"{entry.result.main_metric} {entry.result.main_score:.3f}" for entry in entries
        )
        n, groups = len(shared), text_groups(shared)
        largest = np.bincount(groups).max()
        print(
            f"{name}: {scores}; {n} items, {groups.max() + 1} groups, {largest} items in the largest",
            flush=True,
        )
        if 2 * largest > n:  # such as queries that are chained by their relevant documents
            groups, name = np.arange(n), f"{name}, exchanged by item"
        for measure, (metric, values, gold) in measures(kind, one, other).items():
            every = Outputs(
                kind, measure, metric, name, values, gold, shared, groups, groups, SIZES
            )
            # Leaving out each of hundreds of pairs for a correlation takes seconds.
            every = (
                every
                if kind == "similarity"
                else replace(every, sizes=(*(s for s in SIZES if s < n), n))
            )
            found += [every] if is_ranked else every.variants()
    return found


def measures(kind: str, one: Arrays, other: Arrays) -> dict[str, tuple[str, Floats, Floats]]:
    """Return by measure the statistic of its ``ItemScores``, the values of both encoders, and gold."""

    def both(column: str) -> Floats:
        return np.array([arrays[column] for arrays in (one, other)], dtype=np.float64)

    gold, scores = one["gold"].astype(np.float64), both("scores")
    none = np.zeros(len(gold))
    if kind == "pairs":
        label, cosines = one["label"].astype(np.float64), rankdata(both("cosine"), axis=1)
        of_cosines = {name: (name, cosines, label) for name in ("cosine_ap", "auc")}
        return {**of_cosines, "accuracy": (MEAN, scores, none)}
    if kind == "classification":
        return {
            "accuracy": (MEAN, (scores == gold).astype(np.float64), none),
            "macro_f1": ("macro_f1", scores, gold),
        }
    if kind == "similarity":
        return {"cosine_spearman": ("cosine_spearman", rankdata(scores, axis=1), gold)}
    return {"ndcg_at_10": ("ndcg_at_10", scores, gold)}


def views(data: Path) -> Views:
    """Encode both sentences of the pairs of STS 2014."""
    pairs = [(pair[:2], part) for part in PARTS for pair in sts(data / "sts/sts14", part)]
    encoder = load(ENCODERS[0])
    sides = [encoder.encode([texts[side] for texts, _ in pairs]) for side in range(2)]
    return Views(np.stack(sides), np.array([PARTS.index(part) for _, part in pairs]))


def alarms(of: Outputs | Views, n: int, sets: int, plugins: Plugins) -> Found:
    """Compare the encoders of so many null sets."""
    rng = np.random.default_rng(crc32(f"{of.kind} {of.measure} {of.data} {n}".encode()))
    estimates = [
        Comparisons(of.draw(rng, n), plugins).compare("A", "B", ["t"]).estimate for _ in range(sets)
    ]
    known = [estimate for estimate in estimates if estimate.p is not None]
    errors = np.array([estimate.error for estimate in known])
    spread = np.std([estimate.value for estimate in known])
    return Found(
        of.kind,
        of.measure,
        of.data,
        n,
        sets,
        sum(estimate.p < 0.05 for estimate in known),
        sets - len(known),
        float(np.sqrt(n) * errors.mean()),
        float(spread / np.sqrt(np.mean(errors**2))),
    )


def seconds(n: int, plugins: Plugins) -> float:
    """Measure the seconds of one comparison by average precision on n pairs, with random scores."""
    rng, ids = np.random.default_rng(0), tuple(map(str, range(n)))
    gold = (rng.random(n) < 0.4).astype(np.float64)
    made = {
        (encoder, "t"): {0: ItemScores("cosine_ap", ids, gold + rng.normal(size=n), gold)}
        for encoder in "AB"
    }
    started = time.perf_counter()
    Comparisons(made, plugins).compare("A", "B", ["t"])
    return time.perf_counter() - started


def main() -> None:
    """Print a line for each measure, data set and size."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "data",
        type=Path,
        nargs="?",
        default=Path("../shared/data"),
        help="(default ../shared/data)",
    )
    parser.add_argument(
        "--sets", type=int, default=500, help="null sets of each line (default 500)"
    )
    parser.add_argument(
        "--only", default="", help="lines whose kind, measure or data has this text"
    )
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("results/own_data_alarms"),
        help="what the encoders give",
    )
    parser.add_argument("--json", type=Path, help="write the numbers there too")
    options = parser.parse_args()
    plugins = Session(offline=True).plugins
    outputs: list[Outputs | Views] = [*evaluated(options.data, options.output), views(options.data)]
    found = list[Found]()
    print(
        "\n| kind | measure | data | items | called different | sd per item |\n|---|---|---|---|---|---|",
        flush=True,
    )
    for of in outputs:
        if options.only in f"{of.kind} {of.measure} {of.data}":
            for n in of.sizes:
                found.append(alarms(of, n, options.sets, plugins))
                print(found[-1], flush=True)
    print(
        f"\nOne comparison of 10,000 pairs by average precision: {seconds(10_000, plugins):.1f} seconds"
    )
    if options.json:
        options.json.write_text(json.dumps([asdict(one) for one in found], indent=2) + "\n")


if __name__ == "__main__":
    main()
