"""The format ``html``: a page of its own to sort, filter and copy from; and ``notebook``, the table alone."""

from __future__ import annotations

from mirrorbench.plugin import Register, hookimpl
from mirrorbench_page.page import html, notebook

__all__ = ["html", "notebook"]


@hookimpl
def register_renderers(register: Register) -> None:
    """The two formats."""
    register("html", html, "a page of its own: sort, filter, copy", endings=(".html", ".htm"))
    register("notebook", notebook, "the table as HTML, for notebooks")
