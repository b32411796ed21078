"""From a table of a paper to what must be run to measure it."""

from __future__ import annotations

from mirrorbench.core.specs import EncoderSpec
from mirrorbench.reports.papers.tables import PaperTable
from mirrorbench.runs.plan import Request, papers_row


def requests(
    table: PaperTable,
    seeds: int,
    protocol: str = "paper",
    backbone: EncoderSpec | None = None,
) -> list[Request]:
    """Requests that cover the measurable cells of a table and no others: one for each set of tasks.

    Args:
        table: the table.
        seeds: runs of each tuned encoder.
        protocol: ``paper`` or ``released``.
        backbone: takes the place of the papers'; rows that are encoder systems are then left out.
    """
    tasks: dict[EncoderSpec, dict[str, None]] = {}
    for target in table.targets(backbone).values():
        if backbone is None or target.spec.method:
            tasks.setdefault(papers_row(target.spec, protocol), {}).update(dict.fromkeys(target.tasks))
    by_tasks: dict[tuple[str, ...], list[EncoderSpec]] = {}
    for spec, names in tasks.items():
        by_tasks.setdefault(tuple(names), []).append(spec)
    return [Request(tuple(specs), names, tuple(range(seeds)), "", protocol) for names, specs in by_tasks.items()]
