"""What the README and the reference pages promise."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_ci_runs_the_test_command_of_the_readme() -> None:
    commands = [
        line.removeprefix("$ ")
        for line in README.splitlines()
        if line.startswith("$ ") and "pytest" in line
    ]
    assert len(commands) == 1
    assert commands[0] in (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()


def test_relative_links_in_documentation_resolve() -> None:
    pages = [
        *ROOT.glob("*.md"),
        *(ROOT / "docs").rglob("*.md"),
        *ROOT.glob("*/README.md"),
        *ROOT.glob("*/*/README.md"),
    ]
    links = [
        (page, link)
        for page in pages
        for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text("utf-8"))
    ]
    broken = []
    for page, link in links:
        target, _, anchor = link.partition("#")
        if "://" in link or (target and Path(target).is_absolute()):
            continue
        file = page.parent / target if target else page
        if not file.exists() or (anchor and anchor not in _anchors(file)):
            broken.append(f"{page.relative_to(ROOT)}: {link}")
    assert links
    assert broken == []


def _anchors(page: Path) -> list[str]:
    """What GitHub makes of the headings of a page."""
    heads = re.findall(r"^#+ (.*)$", page.read_text("utf-8"), re.M)
    return [re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads]


@pytest.mark.parametrize("page", ["README.md", "docs/measured.md"])
def test_first_table_agrees_with_rendered_leaderboard(page: str) -> None:
    """But for a last digit: tuned rows of the README are of one seed, those of the leaderboard of three."""
    rendered = json.loads((ROOT / "leaderboards" / "rendered" / "embedded.json").read_text("utf-8"))
    names = {column["title"]: column["name"] for column in rendered["columns"]}
    scores = {row["encoder"]: row["scores"] for row in rendered["rows"]}
    text = (ROOT / page).read_text("utf-8")
    table = re.search(r"^(\| encoder .*\n)\|[-:|]+\n((?:\|.*\n)+)", text, re.M)
    drawn = re.search(r"^(encoder .*\n)─+\n((?:.+\n)+)", text, re.M)
    if drawn:
        titles, *rows = (re.split(r" {2,}", row) for row in (drawn[1] + drawn[2]).splitlines())
    else:
        assert table
        titles, *rows = (
            [cell.strip() for cell in row.split("|")[1:-1]]
            for row in (table[1] + table[2]).splitlines()
        )
    for label, *cells in rows:
        for title, cell in zip(titles[1:], cells, strict=True):
            shown = re.search(r"\.\d{3}", cell)
            if title in names and shown:
                expected = scores[label][names[title]]["mean"]
                assert float(shown[0]) == pytest.approx(expected, abs=0.0011), (label, title)
