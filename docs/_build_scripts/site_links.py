"""Check the links between pages of the built site, without a network: each leads to a file, and to a place in it.

python docs/_build_scripts/site_links.py build/site
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


@dataclass
class Page:
    """The addresses on a page, and the places that an address may name."""

    links: list[str] = field(default_factory=list)
    anchors: set[str] = field(default_factory=set)


class _Reader(HTMLParser):
    """Collects links and anchors of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.page = Page()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if value is None:
                continue
            if name in ("href", "src"):
                self.page.links.append(value)
            elif name == "id" or (tag == "a" and name == "name"):
                self.page.anchors.add(value)


def read(path: Path) -> Page:
    """Return the links and anchors of a page."""
    reader = _Reader()
    reader.feed(path.read_text(encoding="utf-8"))
    return reader.page


def broken_links(site: Path) -> list[str]:
    """Return the links of the site's pages that lead nowhere, each with its page."""
    pages = {path: read(path) for path in sorted(site.rglob("*.html"))}
    return [
        f"{path.relative_to(site)}: {link}"
        for path, page in pages.items()
        for link in dict.fromkeys(page.links)
        if not _leads_somewhere(link, path, pages)
    ]


def _leads_somewhere(link: str, path: Path, pages: dict[Path, Page]) -> bool:
    """Return whether a link on the page ``path`` has a target; addresses of other sites are not opened."""
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return True
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    if not target.is_file():
        return False
    anchor = unquote(parts.fragment)
    return not anchor or target not in pages or anchor in pages[target].anchors


def main() -> int:
    """Print the links that lead nowhere."""
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    site = Path(sys.argv[1]).resolve()
    broken = broken_links(site)
    for link in broken:
        sys.stderr.write(f"leads nowhere: {link}\n")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
