"""The documentation site: its menu, its links, and that it is built without a warning."""

from __future__ import annotations

import re
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest
from helpers.documentation_pages import ROOT

DOCS = ROOT / "docs"
MENU = re.compile(r"^```\{toctree\}\n(.*?)^```$", re.M | re.S)


@pytest.fixture
def site_links(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(DOCS / "_build_scripts"))
    import site_links

    return site_links


def menu() -> list[str]:
    """The entries of the menu: pages by their path below ``docs/`` without ending, or patterns of such paths."""
    lines = "".join(MENU.findall((DOCS / "index.md").read_text(encoding="utf-8"))).splitlines()
    entries = [line for line in lines if line and not line.startswith(":")]
    return [re.sub(r"^.* <(.*)>$", r"\1", entry) for entry in entries]


def test_menu_contains_every_page() -> None:
    pages = [
        *(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")),
        *(path.relative_to(DOCS).with_suffix("").as_posix() for path in DOCS.rglob("*.ipynb")),
        *(f"../{path.relative_to(ROOT).as_posix()}" for path in ROOT.glob("*.md")),
        *(f"../{path.relative_to(ROOT).as_posix()}" for path in ROOT.glob("plugins/*/README.md")),
    ]
    names = {page.removesuffix(".md") for page in pages} - {"index"}
    entries = menu()
    assert not [name for name in names if not any(fnmatch(name, entry) for entry in entries)]
    for entry in entries:
        files = (DOCS / f"{entry}{suffix}" for suffix in (".md", ".ipynb"))
        assert "*" in entry or any(file.is_file() for file in files), entry


def test_links_that_lead_nowhere_are_found(site_links: Any, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "other.html").write_text('<h1 id="head"><a href="../page.html#top">a</a>')
    (tmp_path / "page.html").write_text(
        '<a id="top" href="sub/other.html#head">a</a> <a href="https://example.org/x">b</a>'
        '<a href="sub/other.html#foot">c</a> <img src="missing.png"> <a href="#bottom">d</a>'
    )
    assert site_links.broken_links(tmp_path) == [
        "page.html: sub/other.html#foot",
        "page.html: missing.png",
        "page.html: #bottom",
    ]


@pytest.mark.full
def test_site_is_built_without_warnings(site_links: Any, tmp_path: Path) -> None:
    for package in ("sphinx", "myst_nb", "furo", "ipykernel"):
        pytest.importorskip(package, reason="the site needs mirrorbench[site]")
    site = tmp_path / "site"
    strict = ("--fail-on-warning", "--keep-going")
    folders = ("--conf-dir", DOCS, "--doctree-dir", tmp_path / "doctrees", ROOT, site)
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", "--quiet", *strict, *folders],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert site_links.broken_links(site) == []
    first = (site / "docs" / "index.html").read_text(encoding="utf-8")
    for page in ("tutorial.html", "../plugins/mirrorbench-mteb/README.html"):
        assert f'href="{page}"' in first
    for board in ("embedded", "english", "label-free"):
        page = (site / "leaderboards" / "rendered" / f"{board}.html").read_text(encoding="utf-8")
        assert 'href="../README.html"' in page
    api = (site / "docs" / "api.html").read_text(encoding="utf-8")
    assert 'id="mirrorbench.tune"' in api
