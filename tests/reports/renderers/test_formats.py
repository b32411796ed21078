from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
import re
import runpy
import shutil
import subprocess
from dataclasses import replace
from html.parser import HTMLParser
from itertools import product
from pathlib import Path

import pytest
from suites import few, slow
from toy_tables import BOARD, EMPTY, HOSTILE, NASTY, NO_ROWS

from mirrorbench.core.errors import DataFormatError, UnknownNameError, UsageError
from mirrorbench.reports.renderers import as_json, comma_separated, escape_latex, html, latex, markdown, number
from mirrorbench.reports.renderers.text import MISSING, escape_markdown, with_deviation, with_legend
from mirrorbench.reports.table import Column, Row, Score, Table, Verdict, read_table

FOLDER = Path(__file__).parents[3] / "leaderboards"
RENDERED = {path: read_table(path) for path in sorted((FOLDER / "rendered").glob("*.json"))}


def test_rendered_leaderboards_are_up_to_date() -> None:
    assert "embedded" in [path.stem for path in RENDERED]
    texts = runpy.run_path(str(FOLDER / "render.py"))["texts"]
    for path, table in RENDERED.items():
        for suffix, text in texts(table).items():
            kept = path.with_suffix(suffix).read_text(encoding="utf-8")
            assert kept == text, f"renew {path.stem}: python leaderboards/render.py --no-run"
        assert any(score for row in table.rows for score in row.scores)


def test_numbers_as_the_papers_print_them() -> None:
    for value, text in {
        0.743: ".743", 0.7435: ".744", -0.012: "-.012", 1.0: "1.000", 0.9996: "1.000", 0.0: ".000", -0.0001: ".000",
        -1.5: "-1.500", 10.05: "10.050",
    }.items():  # fmt: skip
        assert number(value) == text
    assert with_deviation(Score(0.7431, 0.0021, 3)) == ".743 ± .002"
    assert with_deviation(Score(-0.5, None, 1)) == "-.500"
    assert with_deviation(None) == MISSING


def test_the_dagger_is_explained_where_one_stands() -> None:
    assert with_legend(BOARD) == ["Metric: accuracy, spearman.", "† Tied: by some test.", BOARD.notes[2]]
    assert with_legend(replace(BOARD, rows=BOARD.rows[:1])) == [BOARD.notes[0], BOARD.notes[2]]
    assert with_legend(replace(BOARD, notes=())) == ["† Not separable from the best of its column."]
    assert with_legend(EMPTY) == []


def test_rows_are_sorted_by_a_column() -> None:
    """Without a score, and baselines, last; there is no rule between backbones that are mixed."""
    baseline = Row("Majority", "", (Score(0.99, None, 1),) * len(BOARD.columns))
    table = replace(BOARD, rows=(baseline, *BOARD.rows))
    sts = sorted(BOARD.rows, key=lambda row: row.scores[1].mean, reverse=True)  # type: ignore[union-attr]
    assert table.sorted_by("stsb").rows == (*sts, baseline)
    assert [row.label for row in table.sorted_by("wic").rows][-1] == "Majority"
    assert table.sorted_by("wic").rows[0].label == "RoBERTa + Mirror"
    assert BOARD.blocks() == [3]
    assert replace(BOARD, rows=tuple(sts)).blocks() == []
    with pytest.raises(UnknownNameError, match="unknown column 'sts'"):
        BOARD.sorted_by("sts")


def cells(text: str) -> list[list[str]]:
    return [[c.strip() for c in line.strip("|").split(" | ")] for line in text.splitlines() if line.startswith("|")]


def test_a_github_table_with_marks() -> None:
    table = cells(markdown(BOARD))
    # A title that occurs twice is preceded by its suite.
    assert table[0] == ["encoder", "STS12", "STS-b", "sts avg.", "EN", "FR", "simlex avg.", "WiC", "avg."]
    assert table[2] == [
        "BERT-CLS", ".215 [.195, .225]", ".203 [.183, .213]", ".209 [.189, .219]", "-.042 [-.062, -.032]",
        ".562 [.542, .573]", ".260 [.240, .270]", "–", "–",
    ]  # fmt: skip
    assert [text.partition(" [")[0] for text in table[4]] == [
        "BERT + Mirror", "**.670 ± .010**", "<u>.760 ± .010</u>", "**.715 ± .010**", "**.510 ± .010**",
        "<u>.610 ± .010</u>", "<u>.560 ± .009</u>", "<u>.560 ± .010</u>", "<u>.622 ± .003</u>",
    ]  # fmt: skip
    assert table[4][2] == "<u>.760 ± .010</u> [.740, .770]†"
    lines = markdown(BOARD).splitlines()
    assert lines[0] == "**English and French**"
    assert lines[-3:] == ["† Tied: by some test.", "", "missing: roberta+base on wic"]


def test_labels_are_no_markup() -> None:
    for text, escaped in {
        "a | b": r"a \| b",
        "<b> & &lt; R&D": r"\<b> & \&lt; R\&D",
        "*a* `b` $c$": r"\*a\* \`b\` \$c\$",
        "[x](y) toy [paper]": r"[x\](y) toy [paper]",
        "drop_head _x_": r"drop_head \_x\_",
        "~/model ~~x~~": r"~/model \~~x\~~",
        "two\nlines  here": "two lines here",
        "# head": r"\# head",
        "a\\b": r"a\\b",
    }.items():
        assert escape_markdown(text) == escaped


def test_hostile_labels_stay_in_their_cells() -> None:
    text = markdown(HOSTILE)
    assert [len(line) for line in cells(text)] == [3, 1, 3, 3]  # the second is the rule
    assert "\\<img" in text
    assert " <img" not in text


def test_csv_keeps_every_digit() -> None:
    rows = list(csv.DictReader(io.StringIO(comma_separated(BOARD))))
    assert [row["spec"] for row in rows] == [row.spec for row in BOARD.rows]
    assert float(rows[0]["multisimlex-en"]) == -0.0421
    assert (rows[2]["stsb seeds"], float(rows[2]["stsb sd"])) == ("3", BOARD.rows[2].scores[1].sd)  # type: ignore[union-attr]
    assert (float(rows[0]["sts12 low"]), float(rows[0]["sts12 high"])) == BOARD.rows[0].scores[0].interval  # type: ignore[union-attr]
    assert {rows[0][f"wic{part}"] for part in ("", " sd", " seeds", " low", " high")} == {""}

    table = Table("", (Column("a", "A"),), (Row("x", "x", (Score(0.1, None, 1),)),))
    assert comma_separated(table) == "encoder,spec,a,a sd,a seeds\nx,x,0.1,,1\n"  # no interval, no columns for it
    hostile = list(csv.reader(io.StringIO(comma_separated(HOSTILE))))
    assert hostile[1][0] == HOSTILE.rows[0].label
    assert {len(row) for row in hostile} == {12}


def test_json_holds_the_values() -> None:
    data = json.loads(as_json(BOARD))
    assert data["title"] == "English and French"
    assert data["columns"][1] == {
        "name": "stsb", "title": "STS-b", "suite": "sts", "level": "sentence", "languages": ["en"],
        "metric": "spearman", "average_of": [],
    }  # fmt: skip
    mirror = data["rows"][2]
    assert (mirror["encoder"], mirror["backbone"], mirror["method"]) == ("BERT + Mirror", "bert", "mirror")
    assert mirror["scores"]["wic"]["seeds"] == [[0, 0.55], [1, 0.56], [2, 0.57]]
    assert mirror["scores"]["stsb"]["tied"]
    assert data["rows"][0]["scores"]["wic"] is None
    assert data["notes"] == list(BOARD.notes)


def test_any_table_can_be_rendered() -> None:
    for render in (markdown, comma_separated, as_json):
        assert all(map(render, (EMPTY, NO_ROWS, replace(BOARD, notes=()))))


def test_a_table_comes_back_as_it_was_and_what_is_none_is_named(tmp_path: Path) -> None:
    file = tmp_path / "table.json"
    for table in (BOARD, EMPTY, HOSTILE, NO_ROWS):
        file.write_text(as_json(table), encoding="utf-8")
        assert read_table(file) == table
    for content, message in (
        ("", "is no table"),
        ("[]", "is no table"),
        ("{}", "is no table"),
        ('{"cell_id": "a", "schema": 1}', "is a single result"),
        ('{"schema": 9}', "schema 9"),
        (json.dumps({**json.loads(as_json(BOARD)), "rows": [{"encoder": "x"}]}), "is no table"),
        (as_json(BOARD).replace('"mean": 0.215', '"mean": "high"'), "is no table"),
    ):
        file.write_text(content)
        with pytest.raises(DataFormatError, match=message):
            read_table(file)


PLAIN = replace(
    BOARD, rows=tuple(replace(r, scores=tuple(s and replace(s, interval=None) for s in r.scores)) for r in BOARD.rows)
)


def test_marks_groups_and_blocks() -> None:
    lines = latex(PLAIN).splitlines()
    assert lines[:2] == [r"% Needs \usepackage{booktabs}", r"\begin{table}[t]"]
    assert r"\begin{tabular}{lcccccccc}" in lines
    head = lines.index(r"\toprule")
    assert lines[head + 1 : head + 5] == [
        r"& \multicolumn{3}{c}{sts} & \multicolumn{3}{c}{simlex} & \multicolumn{1}{c}{wic} & \multicolumn{1}{c}{} \\",
        r"\cmidrule(lr){2-4} \cmidrule(lr){5-7} \cmidrule(lr){8-8}",
        r"encoder & STS12 & STS-b & avg. & EN & FR & avg. & WiC & avg. \\",
        r"\midrule",
    ]
    assert r"BERT-CLS & .215 & .203 & .209 & $-$.042 & .562 & .260 & -- & -- \\" in lines
    mirror = next(line for line in lines if line.startswith("BERT + Mirror"))
    assert r"\textbf{.670 $\pm$ .010} & \underline{.760 $\pm$ .010}$^\dagger$ &" in mirror
    rows = [line for line in lines[head + 5 :] if line.endswith(r"\\") or line == r"\midrule"]
    assert rows.index(r"\midrule") == 3  # between the rows of BERT and those of RoBERTa
    assert rows.count(r"\midrule") == 1
    end = lines.index(r"\end{tabular}")
    assert lines[end + 3].endswith(
        r"Metric: accuracy, spearman. $^\dagger$ Tied: by some test. missing: roberta+base on wic."
    )
    assert lines[end + 5 :] == [r"\caption{English and French}", r"\label{tab:english-and-french}", r"\end{table}"]


def test_latex_has_intervals_where_the_table_has_them() -> None:
    assert r"BERT-CLS & .215\,{\scriptsize [.195, .225]} & " in latex(BOARD)
    assert r"$-$.042\,{\scriptsize [$-$.062, $-$.032]}" in latex(BOARD)
    assert r"\,$\pm$\,.010$^\dagger$\,{\scriptsize [.740, .770]}" in latex(BOARD, siunitx=True)


def test_percent_one_digit_and_no_deviations() -> None:
    """The ranks stay those of three digits; verdicts and intervals are in percent too."""
    verdict = Verdict(
        "bert+mirror", "bert+base:pooling=mean", "paper", "sts12", 0.356, (0.3, 0.4), "t", 0.01, 0.02, True
    )
    text = latex(replace(PLAIN, verdicts=(verdict,)), percent=True, deviations=False, label="x")
    assert r"BERT-CLS & 21.5 & 20.3 & 20.9 & $-$4.2 & 56.2 & 26.0 & -- & -- \\" in text
    assert r"BERT + Mirror & \textbf{67.0} & \underline{76.0}$^\dagger$ & \textbf{71.5} &" in text
    assert "+35.6 [30.0, 40.0] on STS12 (p = .010, corrected .020)" in text
    assert r"\label{x}" in text
    assert r"\pm" not in text.partition(r"\end{tabular}")[0]
    assert "S[table-format=3.1]" in latex(PLAIN, percent=True, siunitx=True)
    facts = replace(PLAIN, kind="facts")
    with pytest.raises(UsageError, match="as printed"):
        latex(facts, percent=True)


def test_siunitx_gets_a_number_and_its_deviation_in_columns_of_their_own() -> None:
    text = latex(PLAIN, siunitx=True)
    assert r"\begin{tabular}{lS[table-format=0.3]@{}l" in text
    assert r"S[table-format=-0.3]@{}l" in text  # EN has a negative score
    assert r"S[table-format=1.3]@{}l" in text  # FR has 1.000
    assert r"\bfseries .670 & \bfseries \,$\pm$\,.010" in text
    assert r".760 {\llap{\underline{\phantom{.760}}}} & \,$\pm$\,.010$^\dagger$" in text
    assert r"\multicolumn{2}{c}{--}" in text
    assert r"\cmidrule(lr){2-7} \cmidrule(lr){8-13} \cmidrule(lr){14-15}" in text


def test_text_is_escaped() -> None:
    text = escape_latex(NASTY)
    assert r"50\% of\_\{x\} \& \$y\$ \#1 \textasciitilde{}\textasciicircum{}\textbackslash{}" in text
    assert "[U+4E2D]" in text  # no font of pdflatex has it
    assert escape_latex("a\u2028b\x00c\nd") == "a b c d"


def compiled(folder: Path, document: str) -> str:
    """What pdflatex says of a document that it can set."""
    if shutil.which("pdflatex") is None:
        pytest.skip("pdflatex is not installed")
    (folder / "table.tex").write_text(document, encoding="utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "table.tex"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, errors="replace", timeout=300)
    assert done.returncode == 0, done.stdout[-2000:]
    return done.stdout


LONG = replace(
    PLAIN, title="Sixty encoders", rows=tuple(replace(PLAIN.rows[i % 3], label=f"{i} {'all but the top ' * (i % 4)}",
    spec=f"s{i}", backbone=f"b{i // 7}") for i in range(60)),
)  # fmt: skip
TABLES = [BOARD, HOSTILE, LONG, EMPTY, NO_ROWS, replace(BOARD, rows=BOARD.rows[:2]), *RENDERED.values()]
OPTIONS = [{}, {"siunitx": True}, {"resize": True}, {"percent": True, "deviations": False}, {"width": 219}]
KEPT = [1, len(TABLES) + 1, *range(2, len(OPTIONS) * len(TABLES), len(TABLES))]
"""HOSTILE plain and with siunitx; LONG with each option."""


@pytest.mark.parametrize(("options", "place"), few(product(OPTIONS, range(len(TABLES))), *KEPT, suite=slow), ids=str)
def test_nothing_leaves_the_page(tmp_path: Path, options: dict[str, bool], place: int) -> None:
    if "siunitx" in options and shutil.which("kpsewhich") and subprocess.run(["kpsewhich", "siunitx.sty"]).returncode:
        pytest.skip("the LaTeX package siunitx is not installed")
    log = compiled(tmp_path, latex(TABLES[place], standalone=True, **options))  # type: ignore[arg-type]
    assert "Overfull" not in log
    assert "too large" not in log


def test_every_score_stands_in_one_of_the_blocks_of_a_split_table() -> None:
    for table in (BOARD, LONG):
        text = latex(table, split=True)
        assert [line for line in text.splitlines() if line.startswith("% Needs")] == [r"% Needs \usepackage{booktabs}"]
        assert "resizebox" not in text
        assert text.count(r"\label") == 1
        for row in table.rows:
            assert [line for line in text.splitlines() if line.startswith((f"{row.label} &", r"\parbox"))]
        cells = sum(line.count(" & ") for line in text.splitlines() if r"\\" in line and "multicolumn" not in line)
        heads = sum(line.count(" & ") for line in text.splitlines() if line.startswith("encoder &"))
        assert cells - heads >= sum(score is not None for row in table.rows for score in row.scores)
    narrow = latex(LONG, split=True, width=219)
    assert narrow.count(r"\begin{tabular}") > text.count(r"\begin{tabular}")
    assert r"\resizebox{" in latex(LONG, resize=True)


@pytest.mark.slow
def test_a_split_table_fits_into_a_column_of_an_article(tmp_path: Path) -> None:
    reference, text = r"Table~\ref{tab:sixty-encoders}.", latex(LONG, split=True)
    head = r"\documentclass{article}\usepackage{booktabs}\begin{document}"
    log = compiled(tmp_path, f"{head}{reference} {text}" + r"\end{document}")
    assert "Overfull" not in log
    assert "too large" not in log


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


def cells_of(page: Reader) -> list[str]:
    return page.texts.get("td", []) + page.texts.get("b", []) + page.texts.get("u", [])


def test_without_scripts_it_is_a_plain_table() -> None:
    assert Reader(html(EMPTY)).open == Reader(html(NO_ROWS)).open == []
    page = Reader(html(BOARD))
    assert page.open == []
    assert [t for t in page.texts["span"] if t in [row.label for row in BOARD.rows]] == [r.label for r in BOARD.rows]
    assert {".670", "1.000", ".215", "−.042"} <= {text.strip() for text in cells_of(page)}
    assert "missing: roberta+base on wic" in page.texts["li"]
    hidden = {attributes["id"] for _, attributes in page.elements if "hidden" in attributes and attributes.get("id")}
    assert {"controls", "theme"} <= hidden  # nothing that would not work


def test_it_asks_the_network_for_nothing() -> None:
    page = Reader(html(HOSTILE))
    for tag, attributes in page.elements:
        assert tag not in ("img", "iframe", "object", "embed", "audio", "video", "base", "form")
        assert "src" not in attributes
        assert tag == "a" or attributes.get("href", "data:,") == "data:,"  # a link asks when it is clicked
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
