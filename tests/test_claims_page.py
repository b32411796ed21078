"""``docs/claims.md``: its quotations stand in the papers, and its commands are commands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pages import ROOT, parsed, sections

CLAIMS = {name: text for name, text in sections(ROOT / "docs" / "claims.md").items() if name.startswith("Mirror")}
TEXTS = {"Mirror-BERT": "mirror-bert", "MirrorWiC": "mirrorwic"}


def rows(text: str) -> list[list[str]]:
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line[1:-1].split("|")] for line in lines[1:]]


def plain(text: str) -> str:
    """Without emphasis, line breaks and the copies' broken words."""
    return re.sub(r"-?\s+", " ", re.sub(r"[*_$]|\\[a-z]+", "", text)).lower()


@pytest.mark.parametrize("paper", TEXTS)
def test_what_is_quoted_stands_in_the_paper(paper: str, shared_data: Path) -> None:
    folder = shared_data.parent / "papers"
    if not folder.is_dir():
        pytest.skip(f"no papers at {folder}")
    text = plain((folder / f"{TEXTS[paper]}.txt").read_text(encoding="utf-8"))
    quoted = [part for row in rows(CLAIMS[paper]) for quote in re.findall(r'"([^"]+)"', row[0])
              for part in quote.split(" [...] ")]  # fmt: skip
    assert len(quoted) > 10
    assert [part for part in quoted if plain(part) not in text] == []


@pytest.mark.parametrize("paper", TEXTS)
def test_every_claim_has_a_command_and_a_verdict(paper: str) -> None:
    for claim, command, tiny, minilm, verdict in rows(CLAIMS[paper]):
        for one in re.findall(r"`([^`]+)`", command):
            parsed("mirrorbench " + one.replace("$P", ":pooling=target,layers=-4:").replace("FILE", "names.txt"))
        assert "`" in command, claim
        assert verdict, claim
        assert tiny or minilm or verdict.startswith("not tested"), claim


def test_every_paper_has_its_claims() -> None:
    assert set(CLAIMS) == set(TEXTS)
