"""What the README and the reference pages promise."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from reader import Shell

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_ci_runs_the_test_command_of_the_readme() -> None:
    commands = [line.removeprefix("$ ") for line in README.splitlines() if line.startswith("$ ") and "pytest" in line]
    assert len(commands) == 1
    assert commands[0] in (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()


def test_every_relative_link_leads_somewhere() -> None:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *ROOT.glob("*/README.md"), *ROOT.glob("*/*/README.md")]
    links = [(page, link) for page in pages for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text("utf-8"))]
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


def test_the_plugin_example_of_the_readme_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (code,) = [block for block in re.findall(r"```python\n(.*?)```", README, re.S) if "hookimpl" in block]
    (tmp_path / "pets.py").write_text(code, encoding="utf-8")
    said = Shell(tmp_path, monkeypatch, capsys.readouterr)(
        "mirrorbench run --plugin pets.py --encoder tiny+base --tasks pets --offline"
    )
    assert said.code == 0, said.err
    assert "pets" in said.out


def test_reference_pages_are_what_the_code_says() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "docs" / "generate.py")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
