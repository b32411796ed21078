"""The page as text; what it does in a browser is in ``test_page_browser``."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser

import pytest
from toy_tables import BOARD, EMPTY, HOSTILE, NASTY, NO_ROWS

from mirrorbench.reports.renderers import html


class Reader(HTMLParser):
    """Elements with their attributes, and the text of each kind of element, as a browser's parser sees them."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.texts: dict[str, list[str]] = {}
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in ("meta", "link", "input", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open:
            self.texts.setdefault(self.open[-1], []).append(data)


def cells(page: Reader) -> list[str]:
    return page.texts.get("td", []) + page.texts.get("b", []) + page.texts.get("u", [])


def test_without_scripts_it_is_a_plain_table() -> None:
    page = Reader(html(BOARD))
    assert page.open == []
    assert [t for t in page.texts["span"] if t in [row.label for row in BOARD.rows]] == [r.label for r in BOARD.rows]
    assert {".670", "1.000", ".215", "−.042"} <= {text.strip() for text in cells(page)}
    assert "missing: roberta+base on wic" in page.texts["li"]
    hidden = {attributes["id"] for _, attributes in page.elements if "hidden" in attributes and attributes.get("id")}
    assert {"controls", "theme"} <= hidden  # nothing that would not work


@pytest.mark.parametrize("table", [BOARD, HOSTILE])
def test_it_asks_the_network_for_nothing(table) -> None:
    page = Reader(html(table))
    for tag, attributes in page.elements:
        assert tag not in ("img", "iframe", "object", "embed", "audio", "video", "base", "form")
        assert "src" not in attributes
        assert attributes.get("href", "data:,") == "data:,"
        assert not any(name.startswith("on") or name == "style" for name in attributes)
    style = "".join(page.texts["style"])
    assert "url(" not in style
    assert "@import" not in style
    assert not re.search(r"https?:|fetch\(|XMLHttpRequest|innerHTML|eval\(", "".join(page.texts["script"][1:]))


def test_its_policy_lets_only_its_own_script_and_style_run() -> None:
    text = html(HOSTILE)
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', text)
    assert policy
    assert "default-src 'none'" in policy[1]
    for tag, name in (("<style>", "style-src"), ("<script>", "script-src")):
        content = text.split(tag)[1].split(f"</{tag[1:]}")[0]
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{name} 'sha256-{digest}'" in policy[1]


def test_hostile_labels_stay_text() -> None:
    text = html(HOSTILE)
    page = Reader(text)
    assert [tag for tag, _ in page.elements].count("script") == 2
    assert text.count("</script>") == 2
    assert " ".join(NASTY.split()) in page.texts["h1"][0]
    data = json.loads("".join(page.texts["script"][:1]))
    assert data["rows"][0]["encoder"] == NASTY
    assert data["notes"] == list(HOSTILE.notes)
    embedded = text.split('id="data">')[1].split("</script>")[0]
    assert embedded.isascii()
    assert not set("<>&") & set(embedded)


@pytest.mark.parametrize("table", [EMPTY, NO_ROWS])
def test_an_empty_table_is_a_page_too(table) -> None:
    assert Reader(html(table)).open == []
