"""Formats of tables; numbers are rounded and marked only here.

The best score of a column is bold, the second italic (in LaTeX underlined); ties with the best carry a dagger.
"""

from __future__ import annotations

from mirrorbench.core.hooks import Register, hookimpl
from mirrorbench.reports.renderers.numbers import number
from mirrorbench.reports.renderers.terminal import draw
from mirrorbench.reports.renderers.tex import escape_latex, latex
from mirrorbench.reports.renderers.text import as_json, comma_separated, markdown

__all__ = ["as_json", "comma_separated", "draw", "escape_latex", "latex", "markdown", "number"]


@hookimpl
def register_renderers(register: Register) -> None:
    """Register the built-in formats."""
    register("markdown", markdown, "a GitHub table", endings=(".md",))
    options = "columns, split, resize, percent, deviations, standalone, label"
    register("latex", latex, f"a booktabs table ({options})", endings=(".tex",))
    values = "comma-separated values, full precision (long, verdicts)"
    register("csv", comma_separated, values, endings=(".csv",))
    values = "values with standard deviations, seeds and cell ids"
    register("json", as_json, values, endings=(".json",))
