"""Share of null sets that are called different where chains of shared texts hold about half of the items.

    python benchmarks/chained_items.py [--sets 1000]

Own data form groups by shared texts, also through chains, unless one chain holds more than half of the items: then only
direct sharing counts (``mirrorbench.own_data.measures.resampling_groups``). Items are pairs of texts drawn at random;
around half as many items as texts, one chain grows from few to most of them. Differences of two equally good encoders
are noise, or noise and an effect of each text, as large. Printed is the share with p below .05 by the rule, by direct
sharing alone, and by chains alone.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping

import numpy as np

from mirrorbench import Session
from mirrorbench.core.plugins import Plugins
from mirrorbench.data.corpora import shared_codes
from mirrorbench.own_data.measures import resampling_groups, text_groups
from mirrorbench.reports.statistics.comparisons import Comparisons
from mirrorbench.reports.statistics.items import MEAN, ItemScores

ITEMS = (40, 100, 400)
TEXTS_PER_ITEM = (1.4, 1.7, 2.0, 2.4)
EFFECTS = (0.0, 1.0)
Shared = Mapping[str, tuple[str, ...]]


def null_set(
    rng: np.random.Generator, n: int, n_texts: int, effect: float, plugins: Plugins
) -> tuple[float, list[bool]]:
    """Draw a null set; return the share of the items in its longest chain, and whether each rule calls it different."""
    left = rng.integers(0, n_texts, n)
    right = (left + rng.integers(1, n_texts, n)) % n_texts
    of_texts = rng.normal(size=n_texts) * effect
    differences = of_texts[left] + of_texts[right] + rng.normal(size=n)
    ids = tuple(map(str, range(n)))
    texts = {item: (f"t{a}", f"t{b}") for item, a, b in zip(ids, left, right, strict=True)}
    groups = text_groups(list(texts.values()))
    chains = {item: (f"group {group}",) for item, group in zip(ids, groups, strict=True)}
    alarms = []
    for shared in (resampling_groups(texts), texts, chains):
        codes = shared_codes(shared, ids)
        rows = {
            (encoder, "t"): {0: ItemScores(MEAN, ids, values, np.zeros(n), shared=codes)}
            for encoder, values in (("A", differences), ("B", np.zeros(n)))
        }
        p = Comparisons(rows, plugins).compare("A", "B", ["t"]).p
        alarms.append(p is not None and p < 0.05)
    return float(np.bincount(groups).max() / n), alarms


def main() -> None:
    """Print a row for each number of items, density and effect."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sets", type=int, default=1000)
    sets = parser.parse_args().sets
    plugins = Session(offline=True).plugins
    print(
        "| items | texts per item | effect of texts | sets with a chain of most items | rule | direct | chains |"
    )
    print("|---|---|---|---|---|---|---|")
    for n in ITEMS:
        for ratio in TEXTS_PER_ITEM:
            for effect in EFFECTS:
                rng = np.random.default_rng(n)
                drawn = [null_set(rng, n, round(n * ratio), effect, plugins) for _ in range(sets)]
                above = np.mean([share > 0.5 for share, _ in drawn])
                alarms = np.mean([alarms for _, alarms in drawn], axis=0)
                rates = " | ".join(f"{rate:.1%}" for rate in alarms)
                print(f"| {n} | {ratio} | {effect:g} | {above:.0%} | {rates} |", flush=True)


if __name__ == "__main__":
    main()
