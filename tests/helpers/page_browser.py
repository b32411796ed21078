"""A browser that shows the page of a table, and functions that read and operate the page."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from helpers.toy_tables import BOARD as PLAIN
from mirrorbench.data.card_files import builtin_cards
from mirrorbench.reports.html import html
from mirrorbench.reports.table import Column, Table, TaskSource


def _sourced(column: Column) -> Column:
    card = builtin_cards().get(column.name)
    return replace(
        column, source=card and TaskSource(card.title, card.citation, card.homepage, card.licence)
    )


BOARD = replace(PLAIN, columns=tuple(map(_sourced, PLAIN.columns)))
"""The toy table, with the sources of its tasks from their cards."""
EN, FR = "Multi-SimLex (English)", "Multi-SimLex (French)"
HEADS = ["encoder", *({"EN": EN, "FR": FR}.get(c.title, c.title) for c in BOARD.columns)]
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
SWITCHES = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--window-size=1280,800",
)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    binary = next(filter(None, map(shutil.which, BROWSERS)), None)
    driver_path = shutil.which("chromedriver")
    if binary is None or driver_path is None:
        pytest.skip("Chromium and its chromedriver are not installed")
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for switch in (*SWITCHES, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(switch)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    environment = {**os.environ, "no_proxy": "localhost,127.0.0.1"}
    service = webdriver.ChromeService(driver_path, env=environment)
    driver = webdriver.Chrome(options=options, service=service)
    yield driver
    driver.quit()


@pytest.fixture
def shown(browser: Any, tmp_path: Path) -> Iterator[Callable[[Table], Any]]:
    """Opens the page of a table; at the end the browser's log must be empty."""

    def show(table: Table) -> Any:
        page = tmp_path / "page.html"
        page.write_text(html(table), encoding="utf-8")
        browser.get(page.as_uri())
        # Copies are kept in the page for the tests; a clipboard is shared with the whole machine.
        browser.execute_script(
            "window.copied = []; Object.defineProperty(navigator, 'clipboard',"
            "{value: {writeText: async (text) => { window.copied.push(text); }}});"
        )
        return browser

    yield show
    assert browser.get_log("browser") == []


def column(browser: Any, position: int) -> list[str]:
    """Visible texts in a column of the table's body, 0 for the encoders."""
    return browser.execute_script(
        "return [...document.querySelectorAll('#board tbody tr')].map(row => {"
        "  const cell = row.cells[arguments[0]].cloneNode(true);"
        "  cell.querySelectorAll('.unseen').forEach(e => e.remove()); return cell.textContent.trim(); })",
        position,
    )


def heads(browser: Any) -> list[str]:
    return [e.text for e in browser.find_elements("css selector", "#board .sort")]


def choose(browser: Any, control: str, value: str) -> None:
    browser.execute_script(
        "const e = document.getElementById(arguments[0]); e.value = arguments[1];"
        "e.dispatchEvent(new Event(e.tagName === 'SELECT' ? 'change' : 'input'))",
        control,
        value,
    )


def copied(browser: Any, name: str) -> str:
    browser.find_element("id", f"copy-{name}").click()
    return browser.execute_async_script(
        "const done = arguments[0]; setTimeout(() => done(window.copied.at(-1)), 0)"
    )


def unpadded(text: str) -> str:
    """Markdown without the blanks and dashes that align the columns."""
    return re.sub(r"([ -])\1+", r"\1", text)


def keys(browser: Any, *pressed: str) -> None:
    for key in pressed:
        browser.switch_to.active_element.send_keys(key)
