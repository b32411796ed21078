"""The page in headless Chromium: sorting, filtering, copying as the command does, keyboard, themes, hostile labels."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.page_browser import (
    BOARD,
    EN,
    FR,
    HEADS,
    browser,
    choose,
    column,
    copied,
    heads,
    keys,
    shown,
    unpadded,
)
from helpers.toy_tables import HOSTILE, NASTY, NO_ROWS, SIMLEX, score

from mirrorbench.reports.renderers import comma_separated, latex, markdown, number
from mirrorbench.reports.renderers.notes import summary_lines
from mirrorbench.reports.table import Column, Row, Table, Verdict, read_table

__all__ = ["browser", "shown"]
pytestmark = pytest.mark.slow


@pytest.fixture
def emulate(browser: Any) -> Iterator[Callable[..., None]]:
    """Sets the emulated screen, medium or preferences of the reader."""

    def changed(command: str, **values: Any) -> None:
        browser.execute_cdp_cmd(f"Emulation.{command}", values)

    yield changed
    changed("clearDeviceMetricsOverride")
    changed("setEmulatedMedia", media="", features=[])


def test_page_shows_table_and_seeds_on_request(shown: Callable) -> None:
    page = shown(BOARD)
    assert page.title == BOARD.title
    assert column(page, 0) == [row.label for row in BOARD.rows]
    assert heads(page) == HEADS
    assert column(page, 2) == [".203", ".464", ".760 ± .010†", ".780 ± .010", ".129"]
    bold = page.find_elements("css selector", "#board tbody tr:nth-child(4) b")
    assert [e.text for e in bold] == [".780", ".715", "1.000", ".705", ".710", ".710"]
    assert page.find_element("id", "status").text == "5 encoders, 5 tasks"
    assert page.find_elements("css selector", "#board .seeds") == []
    page.find_element("id", "seeds").click()
    assert page.find_element("css selector", "#board .seeds").text == ".670 .680 .660"


def test_url_and_json_export_keep_filters(shown: Callable, tmp_path: Path) -> None:
    rows = (replace(BOARD.rows[0], parameters=110_000_000, dimensions=768), *BOARD.rows[1:])
    page, path = shown(replace(BOARD, rows=rows)), tmp_path / "shown.json"

    def read() -> Table:
        path.write_text(page.execute_script("return json()"), encoding="utf-8")
        return read_table(path)

    assert (read().title, read().columns, read().rows) == (BOARD.title, BOARD.columns, rows)
    choose(page, "suite", "simlex")
    choose(page, "text", "mirror")
    assert [column.name for column in read().columns] == [*SIMLEX, "avg. simlex"]
    assert [row.scores for row in read().rows] == [row.scores[3:6] for row in rows[2:4]]
    address, before = page.current_url, column(page, 0)
    assert address.endswith("#text=mirror&suite=simlex")
    page.get("about:blank")
    page.get(address)
    assert (column(page, 0), heads(page)) == (before, ["encoder", EN, FR, "avg."])
    page.execute_script("location.hash = 'suite=nowhere'")
    choose(page, "text", "")
    assert heads(page) == HEADS


def test_plots_draw_scores_and_intervals_to_scale(shown: Callable) -> None:
    page = shown(BOARD)
    figures = page.find_elements("css selector", "#panels figure")
    assert len(figures) == len(BOARD.columns)
    drawn = "return [...document.querySelectorAll('#panels figure:nth-child(2) ' + arguments[0])].map(e => "
    dots = page.execute_script(drawn + "+e.getAttribute('cx'))", "circle")
    bars = page.execute_script(
        drawn + "[+e.getAttribute('x1'), +e.getAttribute('x2')])", ".interval"
    )
    values = [row.scores[1] for row in BOARD.rows]
    origin, slope = dots[0], (dots[2] - dots[0]) / (values[2].mean - values[0].mean)
    for dot, bar, value in zip(
        dots, bars, values, strict=True
    ):  # to scale, and so are the intervals
        expected = [origin + slope * (x - values[0].mean) for x in (value.mean, *value.interval)]
        assert [dot, *bar] == pytest.approx(expected, abs=0.3)
    ladder = figures[1].find_elements("css selector", ".ladder")
    assert len(ladder) == 3  # two steps of BERT, one of RoBERTa
    assert "BERT-mp .464" in figures[1].find_element("css selector", "svg").get_attribute(
        "aria-label"
    )
    choose(page, "suite", "wic")
    assert [e.text for e in page.find_elements("css selector", "figcaption")] == ["WiC accuracy"]
    choose(page, "text", "nobody")
    assert not page.find_element("id", "plot").is_displayed()


def open_all(page: Any) -> None:
    for summary in page.find_elements("css selector", "details:not([hidden]) summary"):
        if summary.is_displayed():
            summary.click()


VERDICTS = (
    Verdict(
        "bert+mirror",
        "bert+base:pooling=mean",
        "paper",
        "stsb",
        0.296,
        (0.25, 0.34),
        0.001,
        0.002,
        True,
    ),
    Verdict(
        "roberta+mirror",
        "roberta+base",
        "paper",
        "stsb",
        -0.1,
        (-0.3, 0.1),
        0.2,
        0.2,
        False,
    ),
    Verdict(
        "bert+mirror",
        "bert+base:pooling=cls",
        "paper",
        "sts12",
        0.455,
        (0.4, 0.5),
        0.001,
        0.002,
        True,
    ),
)


def test_tested_differences_are_drawn_around_zero(shown: Callable) -> None:
    page = shown(replace(BOARD, verdicts=VERDICTS))
    figures = "[...document.querySelectorAll('#differences figure')]"
    drawn = page.execute_script(
        f"return {figures}.map(f => [f.querySelector('figcaption').textContent,"
        "+f.querySelector('.zero').getAttribute('x1'),"
        "[...f.querySelectorAll('circle')].map(e => [+e.getAttribute('cx'), e.getAttribute('class')]),"
        "[...f.querySelectorAll('.interval')].map(e => [+e.getAttribute('x1'), +e.getAttribute('x2')])])"
    )
    by_title = {title: rest for title, *rest in drawn}
    assert set(by_title) == {"STS-b", "STS12"}
    zero, dots, bars = by_title["STS-b"]
    assert [kind for _, kind in dots] == ["tuned", "untuned"]  # filled: significant
    slope = (dots[0][0] - zero) / 0.296
    for verdict, (at, _), bar in zip(VERDICTS[:2], dots, bars, strict=True):
        values = [verdict.difference, *verdict.interval]
        assert [at, *bar] == pytest.approx([zero + slope * value for value in values], abs=0.3)
    choose(page, "text", "roberta")
    titles = page.execute_script(f"return {figures}.map(f => f.textContent)")
    assert len(titles) == 1
    assert "over RoBERTa-mp" in titles[0]


def test_first_screen_answers_with_terminal_sentences(shown: Callable, emulate: Callable) -> None:
    table = replace(BOARD, title="", banner="Smoke run: 10 items a task", verdicts=VERDICTS)
    page = shown(table)
    emulate("setDeviceMetricsOverride", width=1280, height=800, deviceScaleFactor=1, mobile=False)
    assert page.title == "Smoke run: 10 items a task. 5 encoders on 5 tasks"
    assert page.find_element("css selector", "h1").text == "5 encoders on 5 tasks"
    assert page.find_element("id", "banner").text == table.banner
    lines = page.find_elements("css selector", "#answers li")
    stated = [text for _, text in summary_lines(table)]
    assert [line.text.splitlines()[-1] for line in lines] == stated[: len(lines)]
    assert "beats" in lines[0].text
    assert "gain" in (lines[0].get_attribute("class") or "")
    board = page.find_element("id", "board").rect["y"]
    assert all(line.rect["y"] < board for line in lines)
    assert board < 800
    notes = [e.text for e in page.find_elements("css selector", "#notes li")]
    assert not set(notes) & set(stated)


def test_lines_join_only_neighbours_of_the_table(shown: Callable) -> None:
    """Sorted by STS-b, the rows of a backbone meet in another order."""
    rows = [replace(BOARD.rows[i], backbone="bert") for i in (2, 0, 1, 3)]
    page = shown(replace(BOARD, rows=tuple(rows)))
    ladders = "return document.querySelectorAll('#panels figure:nth-child(2) .ladder').length"
    assert page.execute_script(ladders) == 3
    page.find_elements("css selector", "#board .sort")[2].click()
    assert column(page, 0) == [rows[i].label for i in (3, 0, 2, 1)]
    assert page.execute_script(ladders) == 0


@pytest.mark.parametrize("width", [390, 1280])
def test_details_do_not_cover_the_sorted_column(
    shown: Callable, emulate: Callable, width: int
) -> None:
    page = shown(BOARD)
    emulate(
        "setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 500
    )
    page.find_elements("css selector", "#board .sort")[2].click()
    for row in range(5):
        for cell in (1, 2, 3):
            page.execute_script(
                "document.querySelectorAll('#board tbody tr')[arguments[0]].cells[arguments[1]].focus()",
                row,
                cell,
            )
            covered = page.execute_script(
                "const tip = document.getElementById('tip').getBoundingClientRect();"
                "const cells = [...document.querySelectorAll('#board tbody tr')].map(row => row.cells[2]);"
                "const hits = (r) => Math.min(r.right, tip.right) > Math.max(r.left, tip.left)"
                "  && Math.min(r.bottom, tip.bottom) > Math.max(r.top, tip.top);"
                "return cells.filter(cell => hits(cell.getBoundingClientRect())).length"
            )
            assert covered == 0


def test_wide_table_fits_screen_and_print(shown: Callable, emulate: Callable) -> None:
    columns = tuple(
        Column(f"task-{i}", f"Task {i:02}", "st"[i // 6], "word", ("en",)) for i in range(12)
    )
    scores = tuple(score([0.1, 0.2, 0.3], column.name) for column in columns)
    page = shown(
        Table("wide", columns, (Row("a-backbone + Mirror", "x+mirror", scores, "x", "mirror"),))
    )
    emulate("setDeviceMetricsOverride", width=1400, height=1000, deviceScaleFactor=1, mobile=False)
    choose(page, "text", "")
    right = "return document.querySelector('#board tr:last-child :last-child').getBoundingClientRect().right"
    assert page.execute_script(right) <= 1400
    scrolled = "const s = document.querySelector('.scroller'); return s.scrollWidth - s.clientWidth"
    assert page.execute_script(scrolled) == 0
    assert page.find_element(
        "id", "spread"
    ).is_displayed()  # the remark that there is no room for deviations
    emulate("setEmulatedMedia", media="print")
    assert (
        page.execute_script("return getComputedStyle(document.querySelector('.scroller')).overflow")
        == "visible"
    )
    positions = (
        "return [...document.querySelectorAll('#board *')].map(e => getComputedStyle(e).position)"
    )
    assert "sticky" not in page.execute_script(positions)


def test_phone_scrolls_table_instead_of_page(shown: Callable, emulate: Callable) -> None:
    from selenium.webdriver.support.expected_conditions import (
        invisibility_of_element_located,
        visibility_of_element_located,
    )
    from selenium.webdriver.support.ui import WebDriverWait

    page = shown(BOARD)
    # The page learns a new size with the browser's next frame, so its hint may come late.
    wait = WebDriverWait(page, timeout=10)
    hint = ("id", "more")
    emulate("setDeviceMetricsOverride", width=390, height=844, deviceScaleFactor=2, mobile=True)
    wait.until(visibility_of_element_located(hint))
    width, left, first = page.execute_script(
        "const scroller = document.querySelector('.scroller'); scroller.scrollLeft = 200;"
        "return [document.documentElement.scrollWidth, scroller.scrollLeft,"
        "document.querySelector('#board tbody th').getBoundingClientRect().left]"
    )
    assert (width, left) == (390, 200)
    assert 0 <= first < 40  # the encoders stay
    emulate("setDeviceMetricsOverride", width=2400, height=900, deviceScaleFactor=1, mobile=False)
    choose(page, "suite", "wic")
    wait.until(invisibility_of_element_located(hint))


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_axe_finds_no_violation(
    shown: Callable, emulate: Callable, scheme: str, width: int
) -> None:
    axe = pytest.importorskip("axe_core_python", reason="axe-core-python is not installed")
    emulate("setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
    emulate(
        "setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 500
    )
    page = shown(replace(BOARD, banner="Smoke run", verdicts=VERDICTS, warnings=("Mixed: a",)))
    open_all(page)
    page.execute_script((Path(axe.__file__).parent / "axe.min.js").read_text(encoding="utf-8"))
    violations = page.execute_async_script(
        "const done = arguments[0];"
        "axe.run().then(found => done(found.violations.map(v => [v.id, v.nodes[0].html])))"
    )
    assert violations == []


def test_page_lists_sources_with_accessible_names(
    shown: Callable,
) -> None:
    """WCAG 2.2, 4.1.2: name, role, value; each link's and control's purpose from its own name."""
    rows = (replace(BOARD.rows[2], parameters=22_713_216, dimensions=384), BOARD.rows[0])
    page = shown(replace(BOARD, rows=rows))
    assert (
        "22.7M parameters, 384 dimensions"
        in page.find_element("css selector", "#board tbody th").text
    )
    assert "384" not in page.find_elements("css selector", "#board tbody th")[1].text
    open_all(page)
    commands = page.find_element("css selector", "#commands pre").text.splitlines()
    assert (
        "mirrorbench run -e bert+mirror -t sts12,stsb,multisimlex-en,multisimlex-fr,wic --seeds 3"
        in commands
    )
    assert (
        "mirrorbench run -e bert+base:pooling=cls -t sts12,stsb,multisimlex-en,multisimlex-fr"
        in commands
    )
    where = "return [...document.querySelectorAll('a')].map(a => [a.textContent, a.href])"
    links = set(map(tuple, page.execute_script(where)))
    assert {"https://multisimlex.com/", "https://aclanthology.org/S17-2001"} <= {
        address for _, address in links
    }
    named = [text for text, _ in links if "home page" in text or "paper" in text]
    assert len(set(named)) == len(named)
    tree = page.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
    used = [
        (n["role"]["value"], n.get("name", {}).get("value", "")) for n in tree if not n["ignored"]
    ]
    roles = (
        "button",
        "link",
        "image",
        "combobox",
        "searchbox",
        "checkbox",
        "region",
        "DisclosureTriangle",
    )
    assert {role for role, _ in used} >= {"button", "link", "image", "combobox", "region"}
    assert all(name.strip() for role, name in used if role in roles)
    ids = page.execute_script("return [...document.querySelectorAll('[id]')].map(e => e.id)")
    assert len(set(ids)) == len(ids)
    entries = copied(page, "bibtex")
    assert entries.count("liu-etal-2021-fast") == entries.count("vulic-etal-2020-multi,") == 1
    assert "cer-etal-2017-semeval" in entries


def test_column_heads_sort_by_mouse_and_keyboard(shown: Callable) -> None:
    page = shown(BOARD)
    page.find_elements("css selector", "#board .sort")[2].click()
    order = ["RoBERTa + Mirror", "BERT + Mirror", "BERT-mp", "BERT-CLS", "RoBERTa-mp"]
    assert column(page, 0) == order
    assert (
        page.find_element("css selector", "[aria-sort]").get_attribute("aria-sort") == "descending"
    )
    keys(page, "\ue007")  # Enter: the head still has the focus
    assert column(page, 0) == order[::-1]
    assert (
        page.find_element("css selector", "[aria-sort]").get_attribute("aria-sort") == "ascending"
    )
    keys(page, " ")
    assert column(page, 0) == [row.label for row in BOARD.rows]
    assert page.find_elements("css selector", "[aria-sort]") == []
    page.find_elements("css selector", "#board .sort")[7].click()  # WiC, which three rows lack
    assert column(page, 7)[2:] == ["–", "–", "–"]
    keys(page, "\ue007")
    assert column(page, 7)[2:] == ["–", "–", "–"]


def test_averages_cover_only_shown_columns(shown: Callable) -> None:
    page = shown(BOARD)
    choose(page, "language", "en")
    assert heads(page) == ["encoder", "STS12", "STS-b", "avg.", EN, "WiC", "avg. of 4"]
    titles = [e.text for e in page.find_elements("css selector", "#panels figcaption")]
    assert "Average of 2 tasks" in titles[2]
    assert "Average of 4 tasks" in titles[5]
    mirror = dict(zip([column.name for column in BOARD.columns], BOARD.rows[2].scores, strict=True))
    by_task = [
        dict(mirror[name].seeds).values() for name in ("sts12", "stsb", "multisimlex-en", "wic")
    ]
    expected = score(np.mean([list(values) for values in by_task], axis=0), "x")
    assert column(page, 6)[:3] == [
        "–",
        "–",
        f"{number(expected.mean)} ± {number(expected.sd or 0)}",
    ]  # two lack WiC
    choose(page, "language", "")
    choose(page, "level", "wic")
    assert heads(page) == ["encoder", "WiC"]
    assert column(page, 0) == ["BERT + Mirror", "RoBERTa + Mirror"]
    choose(page, "text", "nobody")
    assert "No encoder" in column(page, 0)[0]


def test_score_details_follow_focus_and_close_on_escape(shown: Callable) -> None:
    before, after = "bert+base:pooling=cls", "bert+mirror"
    page = shown(replace(BOARD, verdicts=(Verdict(after, before, "paper", "stsb"),)))
    page.execute_script("document.querySelector('#board tbody [tabindex=\"0\"]').focus()")
    tip = page.find_element("id", "tip")
    assert "bert+base:pooling=cls" in tip.text
    keys(page, "\ue015", "\ue015", "\ue014", "\ue014")  # down, down, right, right
    assert tip.text.splitlines()[0] == "BERT + Mirror, STS-b"
    command = f"mirrorbench analyze errors -e {before} -e {after} -t stsb"
    for part in (
        "0.7600",
        "0.0100 over 3 seeds",
        ".740 to .770",
        "0: .760, 1: .770",
        "not separable",
        after,
        command,
    ):
        assert part in tip.text
    assert page.switch_to.active_element.get_attribute("aria-describedby") == "tip"
    keys(page, "\ue00c")
    assert not tip.is_displayed()
    stops = page.find_elements("css selector", '#board tbody [tabindex="0"]')
    assert len(stops) == 1  # the table's body is a single stop of the Tab key


def test_theme_follows_system_and_button(shown: Callable, emulate: Callable) -> None:
    page = shown(BOARD)
    ground = "return getComputedStyle(document.body).backgroundColor"
    light, dark = "rgb(255, 255, 255)", "rgb(22, 24, 27)"
    for scheme, colour in (("light", light), ("dark", dark)):
        emulate("setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        assert page.execute_script(ground) == colour
    from selenium.webdriver.support.ui import WebDriverWait

    button = page.find_element("id", "theme")
    WebDriverWait(page, 20).until(
        lambda _: button.text == "Light"
    )  # the event of the media query comes when it likes
    button.click()
    assert (page.execute_script(ground), button.text) == (light, "Dark")
    page.execute_script("localStorage.clear()")


def test_hostile_labels_do_not_inject_markup(shown: Callable) -> None:
    page = shown(HOSTILE)
    assert page.find_elements("css selector", "img, #board script") == []
    assert (
        page.find_element("css selector", "#board tbody th").get_attribute("textContent") == NASTY
    )
    choose(page, "suite", NASTY)
    choose(page, "text", "50%")
    assert len(column(page, 0)) == 1
    page.execute_script("document.querySelector('#board tbody td').focus()")
    assert "onerror" in page.find_element("id", "tip").text
    assert page.find_elements("css selector", "img") == []


def test_baselines_are_not_counted_as_encoders(
    shown: Callable,
) -> None:
    scored = [
        (label, spec, score([value], label))
        for label, spec, value in (("a", "a", 0.1), ("b", "b", 0.2), ("chance", "", 0.9))
    ]
    columns = tuple(Column(name, name, "s", "word", ("en",)) for name in ("t", "u"))
    page = shown(
        Table("", columns, tuple(Row(label, spec, (value, value)) for label, spec, value in scored))
    )
    assert column(page, 1) == [".100", ".200", ".900"]
    assert page.find_element("id", "status").text == "2 encoders, 2 tasks"
    bold = page.execute_script(
        "return [...document.querySelectorAll('#board tbody b')].map(e => e.textContent)"
    )
    assert [text.strip() for text in bold] == [".200", ".200"]
    for control in ("suite", "level", "language", "seeds"):
        assert not page.find_element("id", control).is_displayed()
    assert page.find_elements("css selector", "[scope=colgroup]") == []


def test_copied_tables_equal_command_output(shown: Callable) -> None:
    for table in (BOARD, HOSTILE, replace(BOARD, title="", notes=())):
        page = shown(table)
        assert copied(page, "latex") == latex(table)
        assert unpadded(copied(page, "markdown")) == unpadded(markdown(table))
        texts = (comma_separated(table), page.execute_script("return csv()"))
        (head, *ours), (shown_head, *theirs) = (
            list(csv.reader(io.StringIO(text, newline=""))) for text in texts
        )
        assert shown_head == head
        for line, expected in zip(theirs, ours, strict=True):
            assert line[:2] == expected[:2]
            assert [value and float(value) for value in line[2:]] == [
                value and float(value) for value in expected[2:]
            ]
    page = shown(NO_ROWS)
    assert copied(page, "latex") == latex(NO_ROWS)
    values = (
        [i / 16 for i in range(-16, 17)]
        + [i / 977 - 0.5 for i in range(977)]
        + [1e-9, -1e-9, 0.9995, 12.3456]
    )
    assert page.execute_script("return arguments[0].map(number)", values) == [
        number(value) for value in values
    ]


def test_copies_contain_only_shown_rows_and_columns(shown: Callable) -> None:
    page = shown(replace(BOARD, notes=("Seen: wic_dev 2%.", "Tied by a test.")))
    assert [e.text for e in page.find_elements("css selector", "#notes li")] == [
        "Seen: wic_dev 2%.",
        "† Tied by a test.",
    ]
    choose(page, "suite", "simlex")
    choose(page, "text", "BERT mirror")
    text = copied(page, "latex")
    assert r"encoder & EN & FR & avg. \\" in text
    assert r"BERT + Mirror & \textbf{.510 $\pm$ .010}\,{\scriptsize [" in text
    assert r"Seen: wic\_dev 2\%." in text
    assert "BERT-CLS" not in text
    assert "\n\nSeen: wic_dev 2%.\n" in copied(page, "markdown")
