"""The leaderboard as a Python object, for scripts and notebooks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mirrorbench.core.errors import UsageError
from mirrorbench.core.registry import unknown_name
from mirrorbench.reports.renderers import notebook
from mirrorbench.reports.table import Table
from mirrorbench.runs.cells import Failure
from mirrorbench.runs.results import Result

if TYPE_CHECKING:
    import pandas as pd

    from mirrorbench.core.plugins import Plugins


@dataclass(frozen=True, repr=False)
class Leaderboard:
    """The result of ``run``, ``evaluate`` and ``leaderboard``.

    Attributes:
        table: the scores by encoder and task.
        results: one for each encoder, task and seed.
        failures: cells that could not be computed, and why.
        plugins: the registered renderers.
    """

    table: Table
    results: tuple[Result, ...]
    failures: tuple[Failure, ...]
    plugins: Plugins

    def __getitem__(self, task: str) -> float:
        """The main score of the only encoder on a task, mean over seeds.

        Raises:
            UnknownNameError: no such task among the results.
            UsageError: there are several encoders, or the score is missing.
        """
        names = [column.name for column in self.table.columns]
        if task not in names:
            raise unknown_name("task of these results", task, names)
        if len(self.table.rows) != 1:
            labels = ", ".join(row.label for row in self.table.rows)
            raise UsageError(
                f"there are {len(self.table.rows)} encoders, so {task!r} is no single score", f"Rows: {labels}"
            )
        score = self.table.rows[0].scores[names.index(task)]
        if score is None:
            reasons = [f.reason for f in self.failures if f.task == task] or ["it is missing or undefined"]
            raise UsageError(f"there is no score on {task}: {reasons[0]}")
        return score.mean

    def render(self, format: str = "markdown") -> str:
        """The table as text in ``markdown``, ``latex``, ``html``, ``csv``, ``json`` or a plugin's format.

        Raises:
            UnknownNameError: no such format.
        """
        text: str = self.plugins.renderers[format](self.table)
        return text

    def to_frame(self) -> pd.DataFrame:
        """A row for each result: encoder, task, seed, protocol, main metric and score, then every metric by name.

        Raises:
            UsageError: pandas is not installed.
        """
        try:
            import pandas as pd
        except ImportError as error:
            raise UsageError(
                "a DataFrame needs the package pandas, which is not installed",
                "Install it: pip install 'mirrorbench[frames]'",
            ) from error
        rows: list[dict[str, Any]] = [
            {
                "encoder": r.spec, "task": r.task, "seed": r.seed, "protocol": r.protocol, "metric": r.main_metric,
                "score": r.main_score, "n_items": r.n_items, "coverage": r.coverage, **r.metrics,
            }
            for r in self.results
        ]  # fmt: skip
        return pd.DataFrame(rows)

    def __repr__(self) -> str:
        return self.render("markdown")

    def _repr_html_(self) -> str:
        return notebook(self.table)
