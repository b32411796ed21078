"""Scores without the test items whose texts were tuned on.

All encoders of a task are scored on the same items: those of which no text is in any tuning corpus of these results.
An encoder that was not tuned loses the same items as the others, or the scores could not be compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from mirrorbench.reports.statistics.items import ItemScores, statistic
from mirrorbench.reports.statistics.resampling import estimate
from mirrorbench.runs.results import Result

if TYPE_CHECKING:
    from mirrorbench.core.plugins import Plugins


def without_overlap(
    results: Sequence[Result], items: Mapping[str, ItemScores], plugins: Plugins
) -> tuple[list[Result], dict[str, ItemScores], list[str]]:
    """Results scored anew on the items that no encoder was tuned on.

    Args:
        results: any number.
        items: what is behind each, by ``cell_id``.
        plugins: whose metrics may be the scores.

    Returns:
        The results with their new main scores; what is behind them; and a line for each task that says which items
        count. A result that cannot be scored anew is left out, and the lines say so: its score is not stored item by
        item, or it was tuned and its overlap is unknown.
    """
    seen: dict[str, set[str]] = {}
    for result in results:
        if found := items.get(result.cell_id):
            seen.setdefault(result.task, set()).update(found.seen)
    kept: list[Result] = []
    behind: dict[str, ItemScores] = {}
    lines: dict[str, None] = {}
    for result in results:
        found = items.get(result.cell_id)
        if found is None or (result.cell.get("corpus") and found.overlap is None):
            reason = "its items are not stored" if found is None else "its overlap is unknown (run it again)"
            lines[f"missing: {result.spec} on {result.task}: {reason}."] = None
            continue
        left = found.without(frozenset(seen.get(result.task, ())))
        value = float(estimate(statistic(left.kind, left.values, left.gold, plugins))[0]) if left.ids else None
        value = None if value is None or value != value else value
        metrics = {result.main_metric: value}
        kept.append(replace(result, main_score=value, metrics=metrics, n_items=len(left.ids), overlap=None))
        behind[result.cell_id] = left
        lines[f"{result.task}: {len(left.ids):,} of {len(found.ids):,} items, of which no text was tuned on."] = None
    return kept, behind, list(lines)
