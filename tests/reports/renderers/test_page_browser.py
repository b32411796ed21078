"""The page in headless Chromium: sorting, filtering, copying, keyboard, themes, hostile labels.

What it copies, and the notes and numbers that it shows, are those of the command, for what is shown.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from harness.browser import EN, FR, HEADS, browser, choose, column, copied, heads, keys, shown, unpadded
from toy_tables import BOARD, EMPTY, HOSTILE, NASTY, NO_ROWS, SIMLEX, STS, score

from mirrorbench.reports.renderers import comma_separated, latex, markdown, number
from mirrorbench.reports.table import Column, Note, Part, Row, Table, Verdict, read_table

__all__ = ["browser", "shown"]
pytestmark = pytest.mark.slow


def test_it_shows_the_table(shown: Callable) -> None:
    page = shown(BOARD)
    assert page.title == BOARD.title
    assert column(page, 0) == [row.label for row in BOARD.rows]
    assert heads(page) == HEADS
    assert column(page, 2) == [".203", ".464", ".760 ± .010†", ".780 ± .010", ".129"]
    bold = page.find_elements("css selector", "#board tbody tr:nth-child(4) b")
    assert [e.text for e in bold] == [".780", ".715", "1.000", ".705", ".710", ".710"]
    assert page.find_element("id", "status").text == "5 encoders, 5 tasks"


def test_the_address_names_the_filters(shown: Callable, tmp_path: Path) -> None:
    page = shown(BOARD)
    choose(page, "suite", "simlex")
    choose(page, "text", "mirror")
    address, before = page.current_url, column(page, 0)
    assert address.endswith("#text=mirror&suite=simlex")
    page.get("about:blank")
    page.get(address)
    assert (column(page, 0), heads(page)) == (before, ["encoder", EN, FR, "avg."])
    page.execute_script("location.hash = 'suite=nowhere'")
    choose(page, "text", "")
    assert heads(page) == HEADS


def test_a_plot_shows_each_column(shown: Callable) -> None:
    page = shown(BOARD)
    figures = page.find_elements("css selector", "#panels figure")
    assert len(figures) == len(BOARD.columns)
    drawn = "return [...document.querySelectorAll('#panels figure:nth-child(2) ' + arguments[0])].map(e => "
    dots = page.execute_script(drawn + "+e.getAttribute('cx'))", "circle")
    bars = page.execute_script(drawn + "[+e.getAttribute('x1'), +e.getAttribute('x2')])", ".interval")
    values = [row.scores[1] for row in BOARD.rows]
    place, slope = dots[0], (dots[2] - dots[0]) / (values[2].mean - values[0].mean)
    for dot, bar, value in zip(dots, bars, values, strict=True):  # to scale, and so are the intervals
        expected = [place + slope * (x - values[0].mean) for x in (value.mean, *value.interval)]
        assert [dot, *bar] == pytest.approx(expected, abs=0.3)
    ladder = figures[1].find_elements("css selector", ".ladder")
    assert len(ladder) == 3  # two steps of BERT, one of RoBERTa
    names = page.execute_script("return ['a', 'MiniLM-L6 + Mirror (corpus=words)'].map(name => cut(name, 20))")
    assert names == ["a", "+ Mirror (corpus=wo…"]
    assert "BERT-mp .464" in figures[1].find_element("css selector", "svg").get_attribute("aria-label")
    choose(page, "suite", "wic")
    assert [e.text for e in page.find_elements("css selector", "figcaption")] == ["WiC accuracy"]
    choose(page, "text", "nobody")
    assert not page.find_element("id", "plot").is_displayed()


def test_all_columns_are_reached_at_1400_pixels_and_in_print(shown: Callable) -> None:
    names = [f"task-{i}" for i in range(12)]
    columns = tuple(
        Column(name, f"Task {i:02}", "s" if i < 6 else "t", "word", ("en",)) for i, name in enumerate(names)
    )
    scores = tuple(score([0.1, 0.2, 0.3], name) for name in names)
    page = shown(Table("wide", columns, (Row("a-backbone + Mirror", "x+mirror", scores, "x", "mirror"),)))
    size = {"width": 1400, "height": 1000, "deviceScaleFactor": 1, "mobile": False}
    page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    right = "return document.querySelector('#board tr:last-child :last-child').getBoundingClientRect().right"
    try:
        choose(page, "text", "")
        assert page.execute_script(right) <= 1400
        scrolled = "const s = document.querySelector('.scroller'); return s.scrollWidth - s.clientWidth"
        assert page.execute_script(scrolled) == 0
        assert page.find_element("id", "spread").is_displayed()  # it says that there is no room for deviations
        page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
        assert page.execute_script("return getComputedStyle(document.querySelector('.scroller')).overflow") == "visible"
        sticky = (
            "return [...document.querySelectorAll('#board *')].filter(e => getComputedStyle(e).position === 'sticky')"
        )
        assert page.execute_script(sticky) == []
    finally:
        page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
        page.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_sources_stand_below_the_table(shown: Callable) -> None:
    rows = (replace(BOARD.rows[2], parameters=22_713_216, dimensions=384), BOARD.rows[0])
    page = shown(replace(BOARD, rows=rows))
    assert "22.7M parameters, 384 dimensions" in page.find_element("css selector", "#board tbody th").text
    assert "384" not in page.find_elements("css selector", "#board tbody th")[1].text
    for summary in page.find_elements("css selector", "summary"):
        summary.click()
    commands = page.find_element("css selector", "#commands pre").text.splitlines()
    assert "mirrorbench run -e bert+mirror -t sts12,stsb,multisimlex-en,multisimlex-fr,wic --seeds 3" in commands
    assert "mirrorbench run -e bert+base:pooling=cls -t sts12,stsb,multisimlex-en,multisimlex-fr" in commands
    links = {e.get_attribute("href") for e in page.find_elements("css selector", "#tasks a")}
    assert {"https://multisimlex.com/", "https://aclanthology.org/S17-2001"} <= links
    entries = copied(page, "bibtex")
    assert entries.count("liu-etal-2021-fast") == entries.count("vulic-etal-2020-multi,") == 1
    assert "cer-etal-2017-semeval" in entries


def test_heads_sort_by_mouse_and_keyboard(shown: Callable) -> None:
    page = shown(BOARD)
    stsb = page.find_elements("css selector", "#board .sort")[2]
    stsb.click()
    order = ["RoBERTa + Mirror", "BERT + Mirror", "BERT-mp", "BERT-CLS", "RoBERTa-mp"]
    assert column(page, 0) == order
    assert page.find_element("css selector", "[aria-sort]").get_attribute("aria-sort") == "descending"
    keys(page, "\ue007")  # Enter: the head still has the focus
    assert column(page, 0) == order[::-1]
    assert page.find_element("css selector", "[aria-sort]").get_attribute("aria-sort") == "ascending"
    keys(page, " ")
    assert column(page, 0) == [row.label for row in BOARD.rows]
    assert page.find_elements("css selector", "[aria-sort]") == []
    page.find_elements("css selector", "#board .sort")[7].click()  # WiC, which three rows lack
    assert column(page, 7)[2:] == ["–", "–", "–"]
    keys(page, "\ue007")
    assert column(page, 7)[2:] == ["–", "–", "–"]


def test_averages_follow_the_columns_that_are_shown(shown: Callable) -> None:
    page = shown(BOARD)
    choose(page, "language", "en")
    assert heads(page) == ["encoder", "STS12", "STS-b", "avg.", EN, "WiC", "avg. of 4"]
    titles = [e.text for e in page.find_elements("css selector", "#panels figcaption")]
    assert "Average of 2 tasks" in titles[2]
    assert "Average of 4 tasks" in titles[5]
    mirror = {c.name: s for c, s in zip(BOARD.columns, BOARD.rows[2].scores, strict=True) if s}
    seeds = [dict(mirror[name].seeds) for name in ("sts12", "stsb", "multisimlex-en", "wic")]
    means = [sum(values[seed] for values in seeds) / 4 for seed in range(3)]
    expected = score(means, "x")
    assert column(page, 6)[2] == f"{number(expected.mean)} ± {number(expected.sd or 0)}"
    assert column(page, 6)[:2] == ["–", "–"]  # they lack WiC
    choose(page, "language", "")
    choose(page, "level", "wic")
    assert heads(page) == ["encoder", "WiC"]
    assert column(page, 0) == ["BERT + Mirror", "RoBERTa + Mirror"]
    choose(page, "text", "nobody")
    assert "No encoder" in column(page, 0)[0]


def test_seeds_are_shown_on_request(shown: Callable) -> None:
    page = shown(BOARD)
    assert page.find_elements("css selector", "#board .seeds") == []
    page.find_element("id", "seeds").click()
    assert page.find_element("css selector", "#board .seeds").text == ".670 .680 .660"


def test_details_come_with_the_focus_and_leave_on_escape(shown: Callable) -> None:
    before, after = "bert+base:pooling=cls", "bert+mirror"
    page = shown(replace(BOARD, verdicts=(Verdict(after, before, "paper", "stsb"),)))
    page.execute_script("document.querySelector('#board tbody [tabindex=\"0\"]').focus()")
    tip = page.find_element("id", "tip")
    assert "bert+base:pooling=cls" in tip.text
    keys(page, "\ue015", "\ue015", "\ue014", "\ue014")  # down, down, right, right
    assert tip.text.splitlines()[0] == "BERT + Mirror, STS-b"
    command = f"mirrorbench analyze errors -e {before} -e {after} -t stsb"
    for part in ("0.7600", "0.0100 over 3 seeds", ".740 to .770", "0: .760, 1: .770", "not separable", after, command):
        assert part in tip.text
    assert page.switch_to.active_element.get_attribute("aria-describedby") == "tip"
    keys(page, "\ue00c")
    assert not tip.is_displayed()
    stops = page.find_elements("css selector", '#board tbody [tabindex="0"]')
    assert len(stops) == 1  # the table's body is a single stop of the Tab key


def test_what_it_has_has_names_and_roles_for_assistive_tools(shown: Callable) -> None:
    """WCAG 2.2, 4.1.2: name, role, value; each link's and control's purpose from its own name."""
    page = shown(BOARD)
    for summary in page.find_elements("css selector", "summary"):
        summary.click()
    tree = page.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
    used = [(n["role"]["value"], n.get("name", {}).get("value", "")) for n in tree if not n["ignored"]]
    kinds = ("button", "link", "image", "combobox", "searchbox", "checkbox", "region", "DisclosureTriangle")
    named = [(role, name) for role, name in used if role in kinds]
    assert {role for role, _ in named} >= {"button", "link", "image", "combobox", "region"}
    assert all(name.strip() for _, name in named)
    where = "return [...document.querySelectorAll('a')].map(a => [a.textContent, a.href])"
    links = {(text, address) for text, address in page.execute_script(where) if "home page" in text or "paper" in text}
    assert len({text for text, _ in links}) == len(links)
    ids = page.execute_script("return [...document.querySelectorAll('[id]')].map(e => e.id)")
    assert len(set(ids)) == len(ids)


def test_light_and_dark(shown: Callable) -> None:
    page = shown(BOARD)

    def ground() -> str:
        return page.execute_script("return getComputedStyle(document.body).backgroundColor")

    def prefer(scheme: str) -> None:
        media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
        page.execute_cdp_cmd("Emulation.setEmulatedMedia", media)

    from selenium.webdriver.support.ui import WebDriverWait

    button = page.find_element("id", "theme")
    prefer("light")
    assert ground() == "rgb(255, 255, 255)"
    prefer("dark")
    assert ground() == "rgb(22, 24, 27)"
    WebDriverWait(page, 20).until(lambda _: button.text == "Light")  # the event of the media query comes when it likes
    button.click()
    assert (ground(), button.text) == ("rgb(255, 255, 255)", "Dark")
    page.execute_script("localStorage.clear()")
    prefer("light")


def test_a_phone_scrolls_the_table_and_not_the_page(shown: Callable) -> None:
    page = shown(BOARD)
    size = {"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": True}
    page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        page.execute_script("document.querySelector('.scroller').scrollLeft = 200")
        width, left, first = page.execute_script(
            "return [document.documentElement.scrollWidth, document.querySelector('.scroller').scrollLeft,"
            "document.querySelector('#board tbody th').getBoundingClientRect().left]"
        )
        assert (width, left) == (390, 200)
        assert 0 <= first < 40  # the encoders stay
    finally:
        page.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_hostile_labels_do_nothing(shown: Callable) -> None:
    page = shown(HOSTILE)
    assert page.find_elements("css selector", "img, #board script") == []
    assert page.find_element("css selector", "#board tbody th").get_attribute("textContent") == NASTY
    choose(page, "suite", NASTY)
    choose(page, "text", "50%")
    assert len(column(page, 0)) == 1
    page.execute_script("document.querySelector('#board tbody td').focus()")
    assert "onerror" in page.find_element("id", "tip").text
    assert page.find_elements("css selector", "img") == []


def test_one_suite_and_one_seed_offer_nothing_to_choose(shown: Callable) -> None:
    columns = (Column("a", "A", "s", "word", ("en",)), Column("b", "B", "s", "word", ("en",)))
    page = shown(Table("t", columns, (Row("x", "x", (score([0.1], "a"), score([0.2], "b"))),)))
    for control in ("suite", "level", "language", "seeds"):
        assert not page.find_element("id", control).is_displayed()
    assert page.find_elements("css selector", "[scope=colgroup]") == []


def test_a_baseline_is_no_encoder(shown: Callable[[Table], Any]) -> None:
    rows = (Row("a", "a", (score([0.1], "x"),)), Row("b", "b", (score([0.2], "y"),)),
            Row("chance", "", (score([0.9], "z"),)))  # fmt: skip
    page = shown(Table("", (Column("t", "T"),), rows))
    assert column(page, 1) == [".100", ".200", ".900"]
    assert page.find_element("id", "status").text == "2 encoders, 1 task"
    bold = page.execute_script("return [...document.querySelectorAll('#board tbody b')].map(e => e.textContent)")
    assert [text.strip() for text in bold] == [".200"]


def test_what_it_copies_is_what_the_command_renders(shown: Callable) -> None:
    for table in (BOARD, HOSTILE, replace(BOARD, title="", notes=())):
        page = shown(table)
        assert copied(page, "latex") == latex(table)
        assert unpadded(copied(page, "markdown")) == unpadded(markdown(table))
        ours = list(csv.reader(io.StringIO(comma_separated(table), newline="")))
        theirs = list(csv.reader(io.StringIO(page.execute_script("return csv()"), newline="")))
        assert theirs[0] == ours[0]
        for line, expected in zip(theirs[1:], ours[1:], strict=True):
            assert line[:2] == expected[:2]
            assert [value and float(value) for value in line[2:]] == [value and float(value) for value in expected[2:]]
    assert copied(shown(NO_ROWS), "latex") == latex(NO_ROWS)


def test_notes_and_copies_are_on_what_is_shown(shown: Callable) -> None:
    rows = {row.label: row for row in BOARD.rows}
    tuned, base = rows["BERT + Mirror"], rows["BERT-mp"]
    gain = (0.1, (0.05, 0.2), "swaps", 0.01, 0.01, True)
    verdict = Verdict(tuned.spec, base.spec, base.protocol, "multisimlex-en", *gain)
    wic = [row.spec for row in BOARD.rows if row.scores[6]]
    overlap = Note("Seen: ", (Part("stsb 16%", ("stsb",), (wic[0],)), Part("wic_dev 2%", ("wic",), tuple(wic))))
    metric = Note("Metric: ", (Part("accuracy", ("wic",)), Part("correlation", (*STS, *SIMLEX))))
    said = (str(metric), str(overlap), "wic: Every pair.", "Tied by a test.")
    page = shown(replace(BOARD, notes=said, parted=(metric, overlap), verdicts=(verdict,)))

    def notes() -> list[str]:
        return [e.text for e in page.find_elements("css selector", "#notes li") if e.is_displayed()]

    def starts() -> list[str]:
        return sorted(text.split(" ")[0] for text in notes())

    whole = notes()
    assert {"Metric: accuracy, correlation.", "Seen: stsb 16%, wic_dev 2%."} <= set(whole)
    assert starts() == ["BERT", "Metric:", "Seen:", "wic:", "†"]
    choose(page, "suite", "wic")
    assert {"Metric: accuracy.", "Seen: wic_dev 2%."} <= set(notes())
    assert r"Metric: accuracy. Seen: wic\_dev 2\%." in copied(page, "latex")
    assert "\n\nSeen: wic_dev 2%.\n" in copied(page, "markdown")
    choose(page, "suite", "simlex")
    assert starts() == ["BERT", "Metric:"]  # no score of these columns is tied
    assert "Metric: correlation." in notes()
    choose(page, "text", "RoBERTa")
    assert starts() == ["Metric:"]
    assert "BERT + Mirror over" not in copied(page, "markdown")
    assert "Every pair" not in copied(page, "latex")
    choose(page, "text", "BERT mirror")
    text = copied(page, "latex")
    assert r"encoder & EN & FR & avg. \\" in text
    assert r"BERT + Mirror & \textbf{.510 $\pm$ .010}\,{\scriptsize [" in text
    assert "BERT-CLS" not in text
    choose(page, "suite", "")
    choose(page, "text", "RoBERTa-mp")
    assert "Metric: accuracy, correlation." in notes()
    assert "Seen:" not in starts()
    choose(page, "text", "")
    assert notes() == whole


def test_the_json_is_a_table_that_the_command_reads(shown: Callable, tmp_path: Path) -> None:
    rows = (replace(BOARD.rows[0], parameters=110_000_000, dimensions=768), *BOARD.rows[1:])
    table = replace(BOARD, rows=rows, notes=("One.",))
    page, path = shown(table), tmp_path / "shown.json"
    path.write_text(page.execute_script("return json()"), encoding="utf-8")
    read = read_table(path)
    assert (read.title, read.columns, read.rows) == (table.title, table.columns, table.rows)
    choose(page, "suite", "simlex")
    choose(page, "text", "mirror")
    path.write_text(page.execute_script("return json()"), encoding="utf-8")
    read = read_table(path)
    assert [c.name for c in read.columns] == [*SIMLEX, "avg. simlex"]
    assert [row.scores for row in read.rows] == [row.scores[3:6] for row in table.rows[2:4]]


def test_numbers_are_those_of_the_command(shown: Callable) -> None:
    values = [i / 16 for i in range(-16, 17)] + [i / 977 - 0.5 for i in range(977)] + [1e-9, -1e-9, 0.9995, 12.3456]
    page = shown(EMPTY)
    assert page.execute_script("return arguments[0].map(number)", values) == [number(v) for v in values]
