"""The formats ``html``, a page to sort, filter and copy from, and ``notebook``, the table alone."""

from __future__ import annotations

from mirrorbench.core.hooks import Register, hookimpl
from mirrorbench.reports.html.page import html, notebook

__all__ = ["html", "notebook"]


@hookimpl
def register_renderers(register: Register) -> None:
    """Register both formats."""
    register("html", html, "a page of its own: sort, filter, copy", endings=(".html", ".htm"))
    register("notebook", notebook, "the table as HTML, for notebooks")
