"""The list of the papers' tables and figures in ``papers.md``, made from their specs."""

from __future__ import annotations

from pathlib import Path

from mirrorbench_papers.tables import FactTable, PaperTable, paper_tables

from mirrorbench.core.specs import EncoderSpec

PAGE = Path(__file__).resolve().parent / "papers.md"
START, END = "<!-- made from the specs by docs/generate.py -->", "<!-- end of what is made -->"
DOCUMENTS = {
    "mirror-bert": ("Mirror-BERT (EMNLP 2021)", 22, 8),
    "mirrorwic": ("MirrorWiC (CoNLL 2021)", 14, 4),
    "poster": ("Mirror-BERT's poster", 3, 3),
}
"""Title, last table and last figure of each document."""
WITHOUT_NUMBERS = {
    "mirror-bert/figure1": "the method, drawn",
    "mirror-bert/figure2": "an example of the span mask",
    "mirror-bert/figure3": "dropout, drawn",
    "mirror-bert/figure6": "controlled dropout, drawn",
    "mirrorwic/figure1": "the method, drawn",
    "mirrorwic/table2": "examples of tuning pairs; our copy has lost them",
    "poster/figure2": "the method, drawn",
}
"""Tables and figures that have no spec, and what they show."""
REMARKS = {
    "mirrorwic/table6": "`analyze errors -t wic`",
    "mirrorwic/table4": "the test labels of TSV are secret: a run writes the answers to hand in",
    "mirrorwic/table5": "the test labels of XL-WiC are in its later archive",
    "mirrorwic/table11": "the test labels of XL-WiC are in its later archive",
}
"""What no spec says of how a table is measured."""
READOUTS = {
    "cls": "[CLS]",
    "mean": "mean without padding",
    "mean-padded": "mean over padding (released code)",
    "target": "target word, top four layers",
}


def page() -> str:
    """``papers.md`` with its list renewed."""
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(START)
    _, _, after = rest.partition(END)
    return f"{before}{START}\n\n{listing()}\n{END}{after}"


def listing() -> str:
    """A table for each document."""
    lines: list[str] = []
    for paper, (title, tables, figures) in DOCUMENTS.items():
        names = [f"table{n}" for n in range(1, tables + 1)] + [f"figure{n}" for n in range(1, figures + 1)]
        names += ["text"] * (f"{paper}/text" in paper_tables())
        lines += [f"### {title}", "", "| | shows | measured here | read by |", "|---|---|---|---|"]
        lines += [_line(f"{paper}/{name}") for name in names]
        lines.append("")
    return "\n".join(lines)


def _line(name: str) -> str:
    paper, _, short = name.partition("/")
    printed = short.replace("table", "Table ").replace("figure", "Figure ").replace("text", "Text")
    if name in WITHOUT_NUMBERS:
        return f"| {printed} | {WITHOUT_NUMBERS[name]} | no numbers | |"
    table = paper_tables()[name]
    link = f"[{printed}](../leaderboards/{paper}/{short}.yaml)"
    if isinstance(table, FactTable):
        return f"| {link} | {table.title} | {REMARKS.get(name, 'facts, nothing to measure')} | |"
    return f"| {link} | {table.title} | {_measurable(table)} | {_readouts(table)} |"


def _measurable(table: PaperTable) -> str:
    """How many cells a run can measure, and why not the others."""
    cells = sum(not printed.absent for row in table.printed for printed in row)
    differences = sum(
        not row[i].absent for row in table.printed for i, column in enumerate(table.columns) if column.difference
    )
    targets = len(table.targets())
    reasons = [column.unavailable for column in table.columns if column.unavailable]
    reasons += [f"`analyze {column.analysis.kind}`" for column in table.columns if column.analysis]
    reasons += [f"{row.label}: {row.note or 'no spec names it'}" for row in table.rows if row.spec is None]
    shown = "all cells" if targets + differences == cells else f"{targets} of {cells} cells" if targets else "no cell"
    remarks = [REMARKS[table.name]] if table.name in REMARKS else []
    return "; ".join(dict.fromkeys([shown, *remarks, *reasons]))


def _readouts(table: PaperTable) -> str:
    """The rows by what they are read by."""
    found: dict[str, dict[str, None]] = {}
    for row in table.rows:
        if row.spec is not None:
            found.setdefault(_readout(row.spec), {})[row.label] = None
    return "; ".join(f"{', '.join(labels)}: {how}" for how, labels in found.items())


def _readout(spec: EncoderSpec) -> str:
    """What a row's vectors are: named in its spec, or left to the recipe of the protocol, or to the other system."""
    pooling = str(spec.get("pooling", ""))
    if pooling in READOUTS:
        return READOUTS[pooling]
    return "the recipe of the protocol" if spec.method else f"{spec.backbone}'s own"
