"""What pdflatex makes of tables."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

HEADS = {
    "article": r"\documentclass{article}",
    "article, 11 pt": r"\documentclass[11pt]{article}",
    "two columns": r"\documentclass[twocolumn]{article}",
    # The measures of acl.sty, whose letters are Times.
    "acl": r"\documentclass[11pt,twocolumn]{article}\usepackage{times}"
    r"\usepackage[a4paper,textwidth=455.24pt,textheight=704pt,columnsep=17pt]{geometry}",
}
"""The beginnings of documents by class."""
PACKAGES = r"\usepackage[T1]{fontenc}\usepackage{booktabs,threeparttable,graphicx}"


def document(head: str, bodies: Sequence[str]) -> str:
    """Return a document of a class with bodies, each on pages of its own."""
    body = "\n\\clearpage\n".join(bodies)
    return f"{head}{PACKAGES}\n\\begin{{document}}\n{body}\n\\end{{document}}\n"


def one_document(documents: Sequence[str]) -> str:
    """Return one document with the bodies of several, below the head of the first."""
    begin, end = r"\begin{document}", r"\end{document}"
    bodies = [text.partition(begin)[2].rpartition(end)[0] for text in documents]
    body = "\n\\clearpage\n".join(bodies)
    return f"{documents[0].partition(begin)[0]}{begin}{body}\n{end}\n"


def typeset(folder: Path, text: str) -> str:
    """Return the log of pdflatex for a document, which must compile."""
    if shutil.which("pdflatex") is None:
        pytest.skip("pdflatex is not installed")
    (folder / "all.tex").write_text(text, encoding="utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "all.tex"]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, errors="replace", timeout=300
    )
    assert done.returncode == 0, done.stdout[-2000:]
    return (folder / "all.log").read_text(errors="replace")


def assert_nothing_leaves_the_page(folder: Path, text: str) -> None:
    """A document has no overfull box, no float that is too large, and no missing character."""
    log = typeset(folder, text)
    for problem in ("Overfull", "too large", "Missing character"):
        assert problem not in log


def natural_widths(folder: Path, tables: Sequence[str]) -> list[float]:
    """Return the points of the ``tabular`` of each table in its size and column gap."""
    boxes = []
    for text in tables:
        above, _, below = text.partition("\n\\toprule")
        types = above.rpartition("\n")[2]
        rows = below.partition("\n\\bottomrule")[0]
        size = "".join(re.findall(r"\\(?:small|footnotesize|scriptsize)\n|\\setlength.*\n", above))
        inner = rf"{types}\toprule{rows}\bottomrule\end{{tabular}}"
        boxes.append(rf"{size}\setbox0\hbox{{{inner}}}\typeout{{WIDTH \the\wd0}}")
    log = typeset(folder, document(HEADS["article"], boxes))
    return [float(points) for points in re.findall(r"WIDTH ([\d.]+)pt", log)]
