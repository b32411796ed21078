"""The page as text: a plain table without scripts, labels that stay text, and the data of the script."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import runpy
from html import unescape
from pathlib import Path

from helpers.stored_results import stored, write
from helpers.toy_tables import BOARD, EMPTY, HOSTILE, NASTY, NO_ROWS

from mirrorbench.papers.rendering import render_paper
from mirrorbench.reports.html import html
from mirrorbench.reports.html.page import page_data
from mirrorbench.reports.renderers import latex
from mirrorbench.reports.table import read_table
from mirrorbench.session import Session


def elements(page: str) -> list[tuple[str, str]]:
    """Tags and attributes outside of scripts and style, after a check that each open tag is closed."""
    body = re.sub(r"(<(script|style)\b[^>]*>).*?(?=</\2>)", r"\1", page, flags=re.DOTALL)
    tags = re.findall(r"<(\w+)([^>]*)>", body)
    opened = [tag for tag, _ in tags if tag not in ("meta", "link", "input", "br")]
    assert sorted(opened) == sorted(re.findall(r"</(\w+)>", body))
    return tags


def test_page_without_scripts_shows_plain_table() -> None:
    assert all(elements(html(table)) for table in (EMPTY, NO_ROWS))
    page = html(BOARD)
    texts = [text.strip() for text in re.findall(r">([^<>]+)<", page)]
    labels = [row.label for row in BOARD.rows]
    assert [text for text in texts if text in labels] == labels
    assert {".670", "1.000", ".215", "−.042", "missing: roberta+base on wic"} <= set(texts)
    hidden = " ".join(
        attributes for _, attributes in elements(page) if attributes.endswith("hidden")
    )
    assert 'id="controls"' in hidden  # nothing that would not work
    assert 'id="theme"' in hidden


def test_hostile_labels_are_escaped_and_scripts_restricted() -> None:
    """The browser refuses everything else; tests with a browser read its log."""
    text = html(HOSTILE)
    assert text.count("<script") == text.count("</script>") == 2
    for tag, attributes in elements(text):
        assert tag not in ("img", "iframe", "object", "embed", "base", "form")
        assert not re.search(r"\s(on\w+|src|style)=", attributes)
    assert " ".join(NASTY.split()) == unescape(text.partition("<h1>")[2].partition("</h1>")[0])
    embedded = text.split('id="data">')[1].split("</script>")[0]
    assert embedded.isascii()
    assert not set("<>&") & set(embedded)
    data = json.loads(embedded)
    assert data["rows"][0]["encoder"] == NASTY
    assert data["notes"] == list(HOSTILE.notes)
    policy = text.partition('Content-Security-Policy" content="')[2].partition('"')[0]
    assert policy.startswith("default-src 'none'; img-src data:; ")
    for name in ("style", "script"):
        content = text.split(f"<{name}>")[1].split(f"</{name}>")[0]
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{name}-src 'sha256-{digest}'" in policy
        assert not re.search(
            r"url\(|@import|https?:|fetch\(|XMLHttpRequest|innerHTML|eval\(", content
        )


def test_page_headings_equal_latex_headings() -> None:
    for table in (BOARD, HOSTILE):
        headings = [column["display"]["latex"] for column in page_data(table)["columns"]]
        assert " & ".join(["encoder", *headings]) + r" \\" in latex(table)


def test_leaderboards_and_paper_tables_render_as_html(tmp_path: Path) -> None:
    for seed, score in enumerate((0.700, 0.710, 0.720)):
        write(tmp_path, stored("roberta+mirror", "sts12", score, seed))
    session = Session(tmp_path)
    board = session.leaderboard()
    assert ".710" in board.render("html")
    assert ".710" in (board._repr_html_() or "")
    page = render_paper(session.paper("mirror-bert/table3"), "html")
    assert ".710" in page  # measured, below the published .646
    assert "<script></script>" in page  # numbers printed as texts are not sorted


def test_rendered_leaderboards_are_up_to_date() -> None:
    folder = Path(__file__).parents[3] / "leaderboards"
    texts = runpy.run_path(str(folder / "render.py"))["texts"]
    paths = sorted((folder / "rendered").glob("*.json"))
    assert "embedded" in [path.stem for path in paths]
    for path in paths:
        table = read_table(path)
        for suffix, text in texts(table).items():
            kept = path.with_suffix(suffix).read_text(encoding="utf-8")
            assert kept == text, f"renew {path.stem}: python leaderboards/render.py --no-run"
        assert any(score for row in table.rows for score in row.scores)
