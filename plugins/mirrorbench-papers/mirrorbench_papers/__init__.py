"""The papers' tables and figures: published, measured, difference."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from mirrorbench.plugin import DataFormatError, Register, hookimpl

if TYPE_CHECKING:
    from mirrorbench.plugin import Layout, Outcome, Plugins, Workspace
    from mirrorbench_papers.measured import Content

PAPERS = ("mirror-bert", "mirrorwic", "poster")
"""Folders of the built-in papers, in the order of listings."""


def specs_folder() -> Path:
    """Return the folder of the papers' files: ``mirrorbench_papers/specs`` in a wheel, else ``leaderboards``."""
    here = Path(__file__).resolve().parent
    candidates = (here / "specs", here.parents[2] / "leaderboards")
    for folder in candidates:
        if (folder / PAPERS[0]).is_dir():
            return folder
    raise DataFormatError(
        f"The papers' tables are in neither {candidates[0]} nor {candidates[1]}.",
        "Install mirrorbench again.",
    )


class Tables:
    """The tables of all registered papers, with the methods that ``Session`` calls."""

    def __call__(self, plugins: Plugins) -> dict[str, Layout]:
        """Return rows and columns of each table, by name."""
        from mirrorbench_papers.tables import layout_of, paper_tables

        return {name: layout_of(table) for name, table in paper_tables(plugins).items()}

    def paper(self, workspace: Workspace, table: str, encoder: str, protocol: str) -> Content:
        """Return a table with its measured scores; ``UnknownNameError`` for an unknown name."""
        from mirrorbench_papers.tables import find_table

        find_table(table, workspace.plugins)
        return self.papers(workspace, table, encoder, protocol)[table]

    def papers(
        self, workspace: Workspace, paper: str, encoder: str, protocol: str
    ) -> dict[str, Content]:
        """Return all tables, or those of a paper, with their measured scores."""
        from mirrorbench_papers.measuring import measured_tables

        return measured_tables(workspace, paper, encoder, protocol)

    def run_paper(
        self, workspace: Workspace, table: str, encoder: str, seeds: int, protocol: str
    ) -> Outcome:
        """Measure the missing cells of a table."""
        from mirrorbench_papers.measuring import measure_table

        return measure_table(workspace, table, encoder, seeds, protocol)


@hookimpl
def register_papers(register: Register) -> None:
    """Register the papers of the built-in methods."""
    for paper in PAPERS:
        register(paper, specs_folder() / paper)


@hookimpl
def register_tables(register: Register) -> None:
    """Register the papers' tables."""
    register("papers", Tables(), "published tables, and their measured scores")


@hookimpl
def register_augmentations(register: Register) -> None:
    """Register masked tokens and words (Mirror-BERT, footnote 13), and dropped heads (its Table 7)."""
    from mirrorbench_papers.augmentations import Drophead, token_mask, word_mask

    register(
        "token_mask",
        token_mask,
        on="tokens",
        probability=True,
        description="probability that a token is masked",
    )
    register(
        "word_mask",
        word_mask,
        on="text",
        probability=True,
        description="probability that a word is masked",
    )
    description = "probability that an attention head is zeroed"
    register("drophead", Drophead(), on="model", probability=True, description=description)
