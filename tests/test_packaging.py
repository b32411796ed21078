"""What goes to the index: its metadata and links, what is in the wheel, how large it is, and the licences in it."""

from __future__ import annotations

import re
import runpy
import zipfile
from email import message_from_bytes
from email.message import Message
from pathlib import Path

import pytest

from mirrorbench import __version__

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[1]
MODEL = "mirrorbench/embedded/tiny/"
DATA = "mirrorbench/embedded/data/"
PUBLISH = runpy.run_path(str(ROOT / "publish.py"))


@pytest.fixture(scope="module")
def wheel(published: Path) -> zipfile.ZipFile:
    return zipfile.ZipFile(next(published.glob("mirrorbench-*.whl")))


def metadata(wheel: zipfile.ZipFile) -> Message:
    (name,) = [name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
    return message_from_bytes(wheel.read(name))


def test_distributions_pass_package_index_checks(published: Path) -> None:
    assert len(list(published.iterdir())) == 2 * (
        1 + len(list((ROOT / "plugins").glob("*/pyproject.toml")))
    )
    pytest.importorskip("twine")
    PUBLISH["check"](published)


def test_package_description_links_to_existing_files(published: Path) -> None:
    for path in published.glob("*.whl"):
        told = metadata(zipfile.ZipFile(path))
        urls = dict(line.split(", ") for line in told.get_all("Project-URL", []))
        address = urls["Source"]
        assert urls["Changelog"] == f"{address}/blob/v{told['Version']}/CHANGELOG.md"
        page = str(told.get_payload())
        links = re.findall(r"\]\(([^)\s]+)\)", page)
        assert links
        for link in links:
            assert "://" in link, f"{path.name}: {link}"
            if link.startswith(address):
                where = re.fullmatch(
                    rf"{re.escape(address)}/(blob|tree)/v{told['Version']}/([^#]*)(#.*)?", link
                )
                assert where, link
                assert (ROOT / where[2]).is_dir() == (where[1] == "tree"), link
                assert (ROOT / where[2]).exists(), link


def test_bundled_model_fits_8_megabytes_without_pickle(wheel: zipfile.ZipFile) -> None:
    files = {
        info.filename: info.file_size
        for info in wheel.infolist()
        if info.filename.startswith(MODEL)
    }
    assert {
        MODEL + n for n in ("model.safetensors", "config.json", "tokenizer.json", "README.md")
    } <= set(files)
    assert sum(files.values()) <= 8_000_000
    assert not [name for name in wheel.namelist() if name.endswith((".bin", ".pt", ".pkl", ".npz"))]


def test_wheel_and_bundled_data_stay_small(wheel: zipfile.ZipFile) -> None:
    assert (
        sum(info.file_size for info in wheel.infolist() if info.filename.startswith(DATA))
        <= 1_000_000
    )
    assert sum(info.compress_size for info in wheel.infolist()) <= 9_000_000


def test_wheel_contains_licences_of_model_and_data(wheel: zipfile.ZipFile) -> None:
    names = wheel.namelist()
    told = metadata(wheel)
    assert (
        told["License-Expression"] == "Apache-2.0 AND CC-BY-4.0 AND CC-BY-SA-3.0 AND CC-BY-SA-4.0"
    )
    assert told.get_all("License-File") == [
        "LICENSE",
        DATA + "LICENCES.md",
        MODEL + "ATTRIBUTION.md",
    ]
    for file in told.get_all("License-File"):
        assert any(name.endswith(f"licenses/{file}") for name in names)
    for licence in re.findall(
        r"\| (CC [A-Z-]+ [\d.]+) \|", wheel.read(DATA + "LICENCES.md").decode()
    ):
        assert licence.replace(" ", "-") in told["License-Expression"]
    notices = wheel.read(DATA + "LICENCES.md").decode()
    for name in names:
        if name.startswith(DATA) and not name.endswith("LICENCES.md"):
            assert name.removeprefix(DATA) in notices, f"{name} has no licence notice"
    card = wheel.read(MODEL + "README.md").decode()
    assert "icen" in card
    assert "CC BY-SA" in wheel.read(MODEL + "ATTRIBUTION.md").decode()


def test_wheel_contains_task_cards_and_type_marker(wheel: zipfile.ZipFile) -> None:
    names = wheel.namelist()
    assert "mirrorbench/py.typed" in names
    cards = {
        Path(name).relative_to("mirrorbench/cards").as_posix()
        for name in names
        if name.startswith("mirrorbench/cards/")
    }
    assert cards == {
        path.relative_to(ROOT / "tasks").as_posix() for path in (ROOT / "tasks").rglob("*.yaml")
    }
    assert {name.split("/")[0] for name in names} == {
        "mirrorbench",
        f"mirrorbench-{__version__}.dist-info",
    }


def test_wheel_contains_paper_tables_and_templates(wheel: zipfile.ZipFile) -> None:
    folder = "mirrorbench/papers/specs/"
    tables = {name.removeprefix(folder) for name in wheel.namelist() if name.startswith(folder)}
    papers = ("mirror-bert", "mirrorwic", "poster")
    assert tables == {
        f"{p}/{path.name}" for p in papers for path in (ROOT / "leaderboards" / p).iterdir()
    }
    for folder in (
        "mirrorbench/reports/renderers/template",
        "mirrorbench/reports/html/template",
        "mirrorbench/cli/templates",
    ):
        templates = [path for path in (ROOT / folder).iterdir() if path.is_file()]
        assert {f"{folder}/{path.name}" for path in templates} <= set(wheel.namelist())
