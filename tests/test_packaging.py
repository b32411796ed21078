"""The wheel: what is in it, how large it is, and whether every licence travels with what it covers."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
MODEL = "mirrorbench/embedded/tiny/"
DATA = "mirrorbench/embedded/data/"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True, text=True)
    (path,) = folder.glob("*.whl")
    return zipfile.ZipFile(path)


def test_the_model_is_at_most_8_megabytes_and_holds_no_pickle(wheel: zipfile.ZipFile) -> None:
    files = {info.filename: info.file_size for info in wheel.infolist() if info.filename.startswith(MODEL)}
    assert {MODEL + n for n in ("model.safetensors", "config.json", "tokenizer.json", "README.md")} <= set(files)
    assert sum(files.values()) <= 8_000_000
    assert not [name for name in wheel.namelist() if name.endswith((".bin", ".pt", ".pkl", ".npz"))]


def test_the_data_is_small_and_the_wheel_as_a_whole_too(wheel: zipfile.ZipFile) -> None:
    assert sum(info.file_size for info in wheel.infolist() if info.filename.startswith(DATA)) <= 1_000_000
    assert sum(info.compress_size for info in wheel.infolist()) <= 9_000_000


def test_licences_travel_along(wheel: zipfile.ZipFile) -> None:
    names = wheel.namelist()
    assert any(name.endswith("licenses/LICENSE") for name in names)
    notices = wheel.read(DATA + "LICENCES.md").decode()
    for name in names:
        if name.startswith(DATA) and not name.endswith("LICENCES.md"):
            assert name.removeprefix(DATA) in notices, f"{name} has no licence notice"
    card = wheel.read(MODEL + "README.md").decode()
    assert "icen" in card
    assert "CC BY-SA" in wheel.read(MODEL + "ATTRIBUTION.md").decode()


def test_cards_types_and_nothing_else_are_in_it(wheel: zipfile.ZipFile) -> None:
    names = wheel.namelist()
    assert "mirrorbench/py.typed" in names
    cards = {
        Path(name).relative_to("mirrorbench/cards").as_posix()
        for name in names
        if name.startswith("mirrorbench/cards/")
    }
    assert cards == {path.relative_to(ROOT / "tasks").as_posix() for path in (ROOT / "tasks").rglob("*.yaml")}
    assert {name.split("/")[0] for name in names} == {"mirrorbench", "mirrorbench-0.1.0.dist-info"}


def test_the_papers_tables_are_in_it(wheel: zipfile.ZipFile) -> None:
    folder = "mirrorbench/reports/papers/specs/"
    tables = {name.removeprefix(folder) for name in wheel.namelist() if name.startswith(folder)}
    papers = ("mirror-bert", "mirrorwic", "poster")
    assert tables == {f"{p}/{path.name}" for p in papers for path in (ROOT / "leaderboards" / p).iterdir()}


@pytest.mark.parametrize("folder", ["cli/templates", "reports/renderers/template"])
def test_templates_are_in_it(wheel: zipfile.ZipFile, folder: str) -> None:
    templates = [path for path in (ROOT / "mirrorbench" / folder).iterdir() if path.is_file()]
    assert {f"mirrorbench/{folder}/{path.name}" for path in templates} <= set(wheel.namelist())
