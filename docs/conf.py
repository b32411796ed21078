"""Settings of the documentation site: ``sphinx-build -c docs . build/site``, or ``nox -s docs`` with all checks.

The source folder is the checkout, so that a link from page to page is the same on GitHub and on the site.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Any

from docutils import nodes
from pygments.lexers.special import TextLexer
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.pycode import ModuleAnalyzer
from sphinx.util import logging

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from publish import UNSET, address, release_version, repository_address  # noqa: E402

BOARDS = ROOT / "leaderboards" / "rendered"
"""The rendered leaderboards: complete HTML pages, which the site copies."""

project = "mirrorbench"
release = version = release_version()
author = "the mirrorbench authors"
project_copyright = f"{author}, Apache 2.0"

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
root_doc = "docs/index"
include_patterns = [
    "docs/**.md",
    "docs/notebooks/*.ipynb",
    "*.md",
    "plugins/*/README.md",
    "leaderboards/README.md",
    "pretraining/README.md",
    "benchmarks/RESULTS.md",
]
exclude_patterns = [".*", "build", "dist", "results", "tests"]
source_suffix = {".md": "myst-nb", ".ipynb": "myst-nb"}

myst_heading_anchors = 6
smartquotes = False  # two hyphens begin an option
nitpicky = True

# The notebooks have no outputs in the repository; those on the site are of this build.
nb_execution_mode = "force"
nb_execution_in_temp = True
nb_execution_raise_on_error = True
nb_execution_timeout = 600  # seconds for a cell
nb_merge_streams = True
nb_output_stderr = "remove"  # tqdm warns that its bars for notebooks are not installed

autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented_params"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
napoleon_use_ivar = True
napoleon_use_rtype = False
napoleon_custom_sections = [("Required", "params_style"), ("Optional", "params_style")]
nitpick_ignore_regex = [
    # Other projects' names: no list of theirs is read, because the site is built without a network.
    ("py:.*", r"(collections\.abc|pathlib|numpy|np|pd|torch|nn|msgspec|pluggy)\..*"),
    # Names in annotations that are not public, and errors that are raised as one of the public ones.
    ("py:.*", r"mirrorbench\.(?!plugin\.)[\w.]+"),
    ("py:.*", r"_?[A-Z]\w*"),
]
python_maximum_signature_line_length = 80

html_theme = "furo"
html_title = f"mirrorbench {version}"
html_additional_pages = {"index": "to_first_page.html"}
templates_path = ["_templates"]
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_search_scorer = str(ROOT / "docs" / "_static" / "scorer.js")
html_copy_source = False
html_show_sphinx = False


def link_to_files(app: Sphinx, doctree: nodes.document) -> None:
    """Make links to files that are no pages of the site lead to the repository.

    Links to a rendered leaderboard, in Markdown or HTML, lead to its HTML page on the site.
    """
    folder = Path(app.env.doc2path(app.env.docname)).parent
    links = [
        node
        for node in doctree.findall(addnodes.download_reference)
        if node.get("reftype") == "myst"
    ]
    links += [
        node
        for node in doctree.findall(addnodes.pending_xref)
        if node.get("reftype") == "myst" and node["reftarget"] not in app.env.found_docs
    ]
    for link in links:
        target = _file(link, folder)
        if not target.exists():
            continue  # MyST warns of it
        if target.parent == BOARDS and target.suffix in (".md", ".html"):
            uri = Path(os.path.relpath(target.with_suffix(".html"), folder)).as_posix()
        else:
            # The site shows the state of main, of which a tag may not exist yet.
            uri = address(target, repository_address(), "main")
        link.replace_self(nodes.reference("", "", *link.children, refuri=uri))


def set_dashes(app: Sphinx, doctree: nodes.document) -> None:
    """Write the dash after an argument's name as a dash; smartquotes would, but not leave options alone."""
    for text in list(doctree.findall(nodes.Text)):
        if text == " -- ":
            text.parent.replace(text, nodes.Text(" – "))


def _file(link: nodes.Element, folder: Path) -> Path:
    """Return the file or folder that a link in a page of ``folder`` names."""
    if link.get("refdomain") == "doc":  # the name of a page, from the source folder on
        return ROOT / f"{link['reftarget']}.md"
    return (folder / link["reftarget"].partition("#")[0]).resolve()


def copy_boards(app: Sphinx, error: Exception | None) -> None:
    """Copy the rendered leaderboards beside the pages, with a link to the page that lists them."""
    if error is not None or app.builder.format != "html":
        return
    copies = Path(app.outdir) / BOARDS.relative_to(ROOT)
    shutil.copytree(BOARDS, copies, dirs_exist_ok=True)
    link = '<p><a href="../README.html">All leaderboards</a></p>'
    for board in copies.glob("*.html"):
        page = board.read_text(encoding="utf-8")
        board.write_text(page.replace("<body>", f"<body>{link}", 1), encoding="utf-8")


def describe_values(
    app: Sphinx, what: str, name: str, value: Any, options: object, lines: list[str]
) -> None:
    """Fill in the docstring of a value of ``mirrorbench.plugin`` from the module that defines it."""
    public, _, attribute = name.rpartition(".")
    if what != "data" or public != "mirrorbench.plugin":
        return
    for home, module in sorted(sys.modules.items()):
        if home.startswith("mirrorbench.") and vars(module).get(attribute) is value:
            docstrings = ModuleAnalyzer.for_module(home).find_attr_docs()
            if ("", attribute) in docstrings:
                lines[:] = docstrings["", attribute]


def setup(app: Sphinx) -> dict[str, Any]:
    """Register what is this project's own."""
    # before Sphinx collects the files that pages offer for download
    app.connect("doctree-read", link_to_files, priority=400)
    app.connect("doctree-read", set_dashes)
    app.connect("build-finished", copy_boards)
    # before napoleon reads the docstring
    app.connect("autodoc-process-docstring", describe_values, priority=400)
    for name in ("csv", "tsv"):
        app.add_lexer(name, TextLexer)
    if repository_address() == UNSET:
        logging.getLogger(__name__).info(
            "repository in pyproject.toml is empty: links to files of the repository lead to an example"
        )
    return {"parallel_read_safe": True}
