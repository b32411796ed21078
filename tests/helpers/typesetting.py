"""What pdflatex makes of tables."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest


def assert_nothing_leaves_the_page(folder: Path, documents: Sequence[str]) -> None:
    """The bodies of documents one after another, below the head of the first, and no character is missing."""
    if shutil.which("pdflatex") is None:
        pytest.skip("pdflatex is not installed")
    begin, end = r"\begin{document}", r"\end{document}"
    body = "\n\\clearpage\n".join(text.partition(begin)[2].rpartition(end)[0] for text in documents)
    (folder / "all.tex").write_text(
        f"{documents[0].partition(begin)[0]}{begin}{body}\n{end}\n", encoding="utf-8"
    )
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "all.tex"]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, errors="replace", timeout=300
    )
    assert done.returncode == 0, done.stdout[-2000:]
    log = (folder / "all.log").read_text(errors="replace")
    for problem in ("Overfull", "too large", "Missing character"):
        assert problem not in log
