"""``docs/measured.md``: from stored results; the cheap ones are measured again."""

from __future__ import annotations

import json
import re
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
from helpers.documentation_pages import ROOT, parsed
from helpers.suite_marks import few, slow

from mirrorbench.core.identity import COMPUTATION

DOCS = ROOT / "docs"
COMMANDS = (DOCS / "measurements" / "commands.txt").read_text(encoding="utf-8").splitlines()
TINY, MINILM = "tiny+base:pooling=mean", "minilm+base:pooling=mean"
RANDOM = "tiny+mirror:corpus=random-strings,corpus_size=1000"


@pytest.fixture
def measure(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(DOCS / "_build_scripts"))
    import measure

    return measure


@pytest.fixture
def write(measure: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The command with a folder of its own, and a template and commands that a test writes."""
    folder = tmp_path / "docs" / "measurements"
    folder.mkdir(parents=True)
    for module, name, value in [
        (measure, "DOCS", folder.parent),
        (measure, "WORK", tmp_path / "work"),
        (measure, "write_names", lambda: None),
        (measure.measured_page, "FOLDER", folder),
        (measure.measured_page, "KEPT", folder / "values.json"),
        (sys, "argv", ["measure.py"]),
    ]:
        monkeypatch.setattr(module, name, value)

    def written(template: str, *commands: str) -> str:
        (folder / "measured.md.jinja").write_text(template, encoding="utf-8")
        (folder / "commands.txt").write_text("\n".join(commands) + "\n", encoding="utf-8")
        measure.main()
        return (folder.parent / "measured.md").read_text(encoding="utf-8")

    return written


def test_measurement_commands_are_valid() -> None:
    commands = [shlex.split(line, comments=True) for line in COMMANDS]
    for command in filter(None, commands):
        parsed(shlex.join(["mirrorbench", *command]))
        assert command[0] in ("run", "paper") or command[-2] == "-o", (
            "an analysis names its folder last"
        )


def test_page_template_contains_no_measured_numbers() -> None:
    """But what the papers published, and the sections that name the commit of their numbers."""
    text = (DOCS / "measurements" / "measured.md.jinja").read_text(encoding="utf-8")
    text = re.sub(
        r"## What (held-out texts say|can be left out).*?(?=^## )", "", text, flags=re.S | re.M
    )
    text = re.sub(r"\{%.*?%\}|\{\{.*?\}\}", "", text, flags=re.S)
    text = re.sub(r'"[^"]*"|`[^`]*`|[.\d]+ in the paper|deviations below [^)]*', "", text)
    assert not re.findall(r"(?<!\w)\.\d{3}", text)


@pytest.mark.slow
def test_page_shows_scores_and_rerenders_without_results(write: Any, measure: Any) -> None:
    other = "tiny+base:pooling=cls"
    template = f"{{{{ score('{TINY}', 'quick-simlex') }}}}, {{{{ change('{TINY}', '{other}', 'quick-simlex') }}}}\n"
    page = write(template, f"run -e {TINY} -e {other} -t quick-simlex")
    from mirrorbench import Session

    board = Session().leaderboard(measure.WORK / "results")
    after, before = (
        f"{row.scores[0].mean:.3f}".lstrip("0") for row in board.table.rows
    )  # CLS comes first
    assert page == f"{before}, {before} → {after}\n"
    assert measure.measured_page.page() == page


def test_page_marks_old_and_rejects_missing_scores(write: Any, measure: Any) -> None:
    template = "{{ score('tiny+mirror:lr=1e-3', 'quick-sts') }}"
    with pytest.raises(SystemExit, match="nothing is stored for 'score tiny"):
        write(template)
    values = {"score tiny+mirror:lr=1e-3 quick-sts": {"value": 0.5, "from": ["abc"]}}
    measure.measured_page.keep_values(values)
    assert write(template) == ".500"
    measure.measured_page.KEPT.write_text(
        json.dumps({"computation": COMPUTATION - 1, "values": values})
    )
    assert write(template) == ".500†"
    assert write(template) == ".500†", "the mark outlives the page's next writing"


def test_old_scores_mark_table_row_or_header(measure: Any) -> None:
    head = "| | a |\n|---|---|\n"
    marked = measure.measured_page.marked_once
    assert (
        marked(f"{head}| x | .1† → .2† |\n| y | .3 |\n") == f"{head}| x † | .1 → .2 |\n| y | .3 |\n"
    )
    assert (
        marked(f"{head}| x | .1† |\n| y | .3† |\n")
        == "| † | a |\n|---|---|\n| x | .1 |\n| y | .3 |\n"
    )
    assert marked(f"{head}| x | .1 |\n") == f"{head}| x | .1 |\n"


def test_kept_score_precedes_older_leaderboard_score(write: Any, measure: Any) -> None:
    kept = {"value": 0.25, "from": ["abc"]}
    measure.measured_page.keep_values({"mean tiny+mirror quick-sts": kept})
    rendered = measure.DOCS.parent / "leaderboards" / "rendered"
    rendered.mkdir(parents=True)
    board = json.loads(
        (ROOT / "leaderboards" / "rendered" / "embedded.json").read_text(encoding="utf-8")
    )
    board["warnings"] = ["Of computation 1: older"]
    (rendered / "embedded.json").write_text(json.dumps(board), encoding="utf-8")
    assert write("{{ mean('tiny+mirror', 'quick-sts') }}") == ".250"
    assert re.fullmatch(r"\.\d{3}†", write("{{ mean('tiny+mirror', 'quick-simlex') }}"))


@pytest.mark.parametrize(("gain", "verdict"), [(0.006, "yes"), (0.004, "no"), (-0.2, "no")])
def test_claimed_gain_holds_only_above_threshold(measure: Any, gain: float, verdict: str) -> None:
    scores = {"before": 0.5, "after": 0.5 + gain}
    said = measure.measured_page.writer(
        lambda kind, spec, task: {"value": scores[spec], "from": ["x"]}
    )
    assert said.from_string("{{ holds(gain('before', 'after', 'task')) }}").render() == verdict


CHEAP = [
    (f"run -e {TINY} -t quick-simlex", ("mean", TINY, "quick-simlex")),
    ("run -e tiny+mirror -t quick-simlex --seeds 3", ("mean", "tiny+mirror", "quick-simlex")),
    (f"run -e {RANDOM} -t quick-simlex", ("score", RANDOM, "quick-simlex")),
    (f"run -e {MINILM} -t quick-simlex", ("mean", MINILM, "quick-simlex")),
    (
        f"analyze isotropy -e {MINILM} -t quick-simlex --texts quick-words -f none -o analyses/isotropy-quick-minilm",
        ("analysis", "isotropy-quick-minilm", MINILM, "row_isotropy"),
    ),
]
"""A command of a few seconds, and the value that the pages have from it."""


@pytest.mark.real
@pytest.mark.parametrize(("command", "asked"), few(CHEAP, suite=slow))
def test_published_values_are_reproduced_by_their_commands(
    command: str,
    asked: tuple[str, ...],
    measure: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(measure, "WORK", tmp_path)
    assert measure.mirrorbench(*shlex.split(command)) == 0
    again = measure.Stored()(*asked)
    assert not any("rendered" in source for source in again["from"])
    kept = measure.kept_values()[" ".join(asked)]
    assert kept["from"]
    assert again["value"] == pytest.approx(kept["value"], abs=0.002)
