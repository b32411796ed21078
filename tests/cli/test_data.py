from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers.toy_cards import make_card, make_file
from helpers.web_server import server
from typer.testing import CliRunner

from mirrorbench.cli.data import data_app as app
from mirrorbench.core.errors import (
    DataIntegrityError,
    DataUnavailableError,
    UnknownNameError,
    UsageError,
)
from mirrorbench.data.card_files import builtin_cards
from mirrorbench.data.cards import Card, UrlSource

__all__ = ["server"]
CONTENT = b"one\ttwo\n"


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    monkeypatch.setenv("MIRRORBENCH_DATA", str(tmp_path / "store"))

    def run(*arguments: str) -> str:
        result = CliRunner().invoke(app, arguments, catch_exceptions=False)
        assert result.exit_code == 0, result.output
        return result.output

    return run


@pytest.fixture
def toys(server: Any, monkeypatch: pytest.MonkeyPatch) -> dict[str, Card]:
    server.pages["/a.txt"] = CONTENT
    here = make_file(CONTENT, UrlSource(f"{server.url}/a.txt"))
    gone = make_file(b"gone", UrlSource(f"{server.url}/gone.txt"))
    cards = {
        "toy": make_card(here),
        "lost": make_card(gone, name="lost"),
        "lost2": make_card(gone, name="lost2"),
    }
    monkeypatch.setattr("mirrorbench.runs.registry.cards", lambda plugins: cards)
    monkeypatch.setattr(
        "mirrorbench.data.card_files.builtin_suites", lambda: {"two": ("toy", "lost")}
    )
    return cards


def test_data_list_prints_text_or_json(data: Callable[..., str], tmp_path: Path) -> None:
    lines = data("list").splitlines()
    assert lines[0].split("\t") == ["name", "kind", "language", "files", "licence", "title"]
    rows = {line.split("\t")[0]: line.split("\t") for line in lines[1:-1]}
    assert rows.keys() == builtin_cards().keys()
    assert rows["sts12"][3] == "0/10"
    assert rows["sts17-es"][4] == "CC BY-SA 4.0"
    assert lines[-1] == f"Store: {tmp_path / 'store'}"
    cards = {card["name"]: card for card in json.loads(data("list", "--json"))}
    assert cards["stsb"]["licence"] == builtin_cards()["stsb"].licence
    assert cards["stsb"]["files"][0]["state"] == "missing"
    assert cards["sts-ru"]["files"][0]["sha256"] is None


@pytest.mark.usefixtures("toys")
def test_altered_data_are_detected_and_fetched_again(
    data: Callable[..., str], tmp_path: Path
) -> None:
    file = tmp_path / "store" / "toy" / "a.txt"
    assert "toy: complete" in data("fetch", "toy")
    assert data("path", "toy").strip() == str(file)
    assert data("verify").splitlines() == ["file\tstate", "toy/a.txt\tpresent"]
    file.write_bytes(b"altered!")
    with pytest.raises(DataIntegrityError, match="mirrorbench data fetch toy --force"):
        data("verify", "toy")
    data("fetch", "toy", "--force")
    assert file.read_bytes() == CONTENT
    assert file.with_name("a.txt.altered").read_bytes() == b"altered!"


@pytest.mark.usefixtures("toys")
def test_failed_fetch_does_not_stop_other_fetches(data: Callable[..., str], tmp_path: Path) -> None:
    with pytest.raises(DataUnavailableError, match="'lost'"):
        data("fetch", "two")
    assert (tmp_path / "store" / "toy" / "a.txt").is_file()
    with pytest.raises(DataUnavailableError, match="Not everything was fetched") as caught:
        data("fetch", "--all")
    assert "mirrorbench data fetch NAME" in caught.value.hint


@pytest.mark.usefixtures("toys")
def test_offline_option_prevents_downloads(data: Callable[..., str], server: Any) -> None:
    for command in ("fetch", "path"):
        with pytest.raises(DataUnavailableError, match="offline=True"):
            data(command, "toy", "--offline")
    assert server.asked == []


def test_fetch_requires_valid_names_or_all(data: Callable[..., str]) -> None:
    with pytest.raises(UnknownNameError, match="sts12"):
        data("fetch", "sst12")
    for arguments in ([], ["stsb", "--all"]):
        with pytest.raises(UsageError, match="all"):
            data("fetch", *arguments)


@pytest.mark.usefixtures("toys")
def test_import_reports_each_data_set(data: Callable[..., str], tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "x.dat").write_bytes(CONTENT)
    assert data("import", str(tmp_path / "mine")).splitlines()[1:] == [
        "toy\tcomplete\t1\t",
        "Nothing new for 2 data sets (2 absent): mirrorbench data list",
        f"1 files looked at, 1 copied into {tmp_path / 'store'}",
    ]


def test_incomplete_import_reports_missing_and_rejected_files(
    data: Callable[..., str], tmp_path: Path
) -> None:
    folder = tmp_path / "mine" / "am2ico-de"
    folder.mkdir(parents=True)
    row = "die <word>Bank</word>\ta <word>bank</word>\tT\n"
    (folder / "dev.tsv").write_text("context1\tcontext2\tlabel\n" + row * 500, encoding="utf-8")
    (folder / "test.tsv").write_text("id\tsentence\n1\tEin Satz.\n", encoding="utf-8")
    out = data("import", str(folder)).splitlines()
    assert (
        out[1]
        == "am2ico-de\tincomplete\t1\tmissing: de/test.tsv; no published checksum: de/dev.tsv"
    )
    reason = "the header is not context1, context2, label."
    assert (
        out[2] == f"Problem: {folder / 'test.tsv'}: not taken as de/test.tsv of am2ico-de: {reason}"
    )
    assert len(out) == 5
