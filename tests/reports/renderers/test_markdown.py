from __future__ import annotations

import pytest
from toy_tables import BOARD, EMPTY, HOSTILE, NO_ROWS

from mirrorbench.reports.renderers import markdown
from mirrorbench.reports.renderers.markdown import escape_markdown


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


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("a | b", r"a \| b"),
        ("<b> & &lt; R&D", r"\<b> & \&lt; R\&D"),
        ("*a* `b` $c$", r"\*a\* \`b\` \$c\$"),
        ("[x](y) toy [paper]", r"[x\](y) toy [paper]"),
        ("drop_head _x_", r"drop_head \_x\_"),
        ("~/model ~~x~~", r"~/model \~~x\~~"),
        ("two\nlines  here", "two lines here"),
        ("# head", r"\# head"),
        ("a\\b", r"a\\b"),
    ],
)
def test_labels_are_no_markup(text: str, escaped: str) -> None:
    assert escape_markdown(text) == escaped


def test_hostile_labels_stay_in_their_cells() -> None:
    text = markdown(HOSTILE)
    assert [len(line) for line in cells(text)] == [3, 1, 3, 3]  # the second is the rule
    assert "\\<img" in text
    assert " <img" not in text


@pytest.mark.parametrize("table", [EMPTY, NO_ROWS])
def test_an_empty_table_can_be_rendered(table) -> None:
    assert markdown(table)
