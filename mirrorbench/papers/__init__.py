"""The papers' tables and figures: published, measured, difference."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from mirrorbench.core.errors import DataFormatError
from mirrorbench.core.hooks import Register, hookimpl

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mirrorbench.core.plugins import Plugins
    from mirrorbench.core.specs import EncoderSpec
    from mirrorbench.papers.measured_tables import Content
    from mirrorbench.papers.targets import AskedAnalysis
    from mirrorbench.reports.selection import Layout
    from mirrorbench.runs.outcomes import Outcome
    from mirrorbench.runs.workspace import Workspace

PAPERS = ("mirror-bert", "mirrorwic", "poster")
"""Folders of the built-in papers, in the order of listings."""


def specs_folder() -> Path:
    """Return the folder of the papers' files: inside the package in a wheel, ``leaderboards`` in a checkout."""
    package = Path(__file__).resolve().parent
    candidates = (package / "specs", package.parents[1] / "leaderboards")
    for folder in candidates:
        if (folder / PAPERS[0]).is_dir():
            return folder
    raise DataFormatError(
        f"The papers' tables are in neither {candidates[0]} nor {candidates[1]}.",
        "Install mirrorbench again.",
    )


class Tables:
    """The tables of all registered papers; ``Session`` calls the methods."""

    def __call__(self, plugins: Plugins) -> dict[str, Layout]:
        """Return the rows and columns of each table, by its name."""
        from mirrorbench.papers.table_files import layout_of, paper_tables

        return {name: layout_of(table) for name, table in paper_tables(plugins).items()}

    def paper(self, workspace: Workspace, table: str, encoder: str, protocol: str) -> Content:
        """Return a table with its measured scores; ``UnknownNameError`` for an unknown name."""
        from mirrorbench.papers.table_files import find_table

        find_table(table, workspace.plugins)
        return self.papers(workspace, table, encoder, protocol)[table]

    def papers(
        self, workspace: Workspace, paper: str, encoder: str, protocol: str
    ) -> dict[str, Content]:
        """Return all tables, or those of a paper, with their measured scores, by name."""
        from mirrorbench.papers.measurement_runs import measured_tables

        return measured_tables(paper, encoder, protocol, workspace.plugins, workspace.results)

    def run_paper(
        self, workspace: Workspace, table: str, encoder: str, seeds: int, protocol: str
    ) -> Outcome:
        """Measure the cells of a table that are not stored yet; return all results and failures of the table."""
        from mirrorbench.papers.measurement_runs import measure_table

        # Papers know analyses only as plugins, by their names.
        def analyse(asked: AskedAnalysis, specs: Sequence[EncoderSpec]) -> Outcome:
            analysis = workspace.plugins.analyses[asked.name]
            outcome: Outcome = analysis.measure(workspace, asked, specs, seeds, protocol)
            return outcome

        return measure_table(
            table,
            encoder,
            seeds,
            protocol,
            analyse,
            workspace.plugins,
            workspace.folders,
            workspace.compute,
            workspace.reporter,
        )


@hookimpl
def register_papers(register: Register) -> None:
    """Register the papers of the built-in methods."""
    for paper in PAPERS:
        register(paper, specs_folder() / paper)


@hookimpl
def register_tables(register: Register) -> None:
    """Register the papers' tables."""
    register("papers", Tables(), "published tables, and their measured scores")
