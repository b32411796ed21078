"""Tables as text. Numbers are rounded and marked only here.

The best score of a column is bold, the second italic (in LaTeX underlined); ties with the best carry a dagger.
"""

from __future__ import annotations

from mirrorbench.core.hooks import Register, hookimpl
from mirrorbench.reports.renderers.notes import number
from mirrorbench.reports.renderers.page import html, notebook
from mirrorbench.reports.renderers.terminal import draw
from mirrorbench.reports.renderers.tex import escape_latex, latex
from mirrorbench.reports.renderers.text import as_json, comma_separated, markdown

__all__ = ["as_json", "comma_separated", "draw", "escape_latex", "html", "latex", "markdown", "notebook", "number"]


@hookimpl
def register_renderers(register: Register) -> None:
    """The built-in formats."""
    register("markdown", markdown, "a GitHub table")
    register("latex", latex, "a booktabs table (split, resize, percent, deviations, standalone, label)")
    register("html", html, "a page of its own: sort, filter, copy")
    register("csv", comma_separated, "comma-separated values, full precision")
    register("json", as_json, "values with standard deviations, seeds and cell ids")
