"""Checksums that hold until files change, and what else the package remembers for a process."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest

import mirrorbench
from mirrorbench.core.errors import ModelUnavailableError
from mirrorbench.storage import checksums
from mirrorbench.storage.checksums import content, kept_folder, unchanged

PACKAGE = Path(mirrorbench.__file__).parent
REMEMBERED = {
    "data.card_files.builtin_cards": "files of this package",
    "data.card_files.builtin_suites": "files of this package",
    "data.parsers.__init__.builtin_parsers": "code of this package",
    "data.corpora._normalised_texts": "by the texts themselves",
    "data.corpora.normalised": "by the text itself",
    "models.backbones._from_hub": "where a download is; what is in there is hashed when it is opened",
    "models.families._measured_positions": "by the content of the file",
    "reports.html.page._templates": "files of this package",
    "papers.table_files._tables_of": "files of a package",
    "reports.renderers.tex._template": "files of this package",
    "cli.__init__.commands_of_plugins": "what is installed",
    "runs.registry.plugins": "modules that were imported",
    "runs.environment.commit": "what code this process runs",
    "runs.executors._worker": "folders; what is read from them is checked each time",
    "training.microbatch._pool": "threads",
}
"""Functions whose results a process keeps, and why none of the results can come from a file that was replaced."""


def test_only_listed_functions_cache_their_results() -> None:
    cached_function = re.compile(r"@(?:\w+\.)?(?:lru_)?cache\b.*\n(?:@.*\n)*def (\w+)")
    found = set()
    for path in PACKAGE.rglob("*.py"):
        module = path.relative_to(PACKAGE).with_suffix("").as_posix().replace("/", ".")
        for name in cached_function.findall(path.read_text(encoding="utf-8")):
            found.add(f"{module}.{name}")
    assert found == REMEMBERED.keys()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "model.bin"
    path.write_bytes(b"first")
    return path


def overwritten(path: Path) -> None:
    """Overwrite a file with content of the same size, and keep its time."""
    times = path.stat()
    path.write_bytes(b"other")
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def replaced(path: Path) -> None:
    """Replace a file by another of the same size and time."""
    other = Path(shutil.copy2(path, path.with_name("other")))
    overwritten(other)
    other.replace(path)


@pytest.mark.parametrize("change", [replaced, overwritten])
@pytest.mark.parametrize("settled", [0, checksums.SETTLED])
def test_checksums_are_cached_until_files_change(
    file: Path, change: Callable[[Path], None], settled: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checksums, "SETTLED", settled)
    before, after = (
        sha256(b"a" + sha256(data).digest()).hexdigest() for data in (b"first", b"other")
    )
    assert content([("a", file)]) == content([("a", file)]) == before
    if settled == 0:
        with monkeypatch.context() as unread:
            unread.setattr(checksums, "open_regular", None)
            assert content([("a", file)]) == before
    change(file)
    assert content([("a", file)]) == after


@pytest.mark.parametrize("change", [replaced, overwritten, Path.unlink])
def test_files_changed_while_opened_are_rejected(
    file: Path, change: Callable[[Path], None]
) -> None:
    expected = content([("a", file)])
    with unchanged(lambda: [("a", file)], expected, "it"):
        pass
    with (
        pytest.raises(
            ModelUnavailableError, match=r"changed after they were checksummed|cannot be read"
        ),
        unchanged(lambda: [("a", file)], expected, "it"),
    ):
        change(file)
    with pytest.raises(ModelUnavailableError), unchanged(lambda: [("a", file)], expected, "it"):
        pass


def test_cache_folder_is_rebuilt_when_damaged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    made = []

    def make(folder: Path) -> None:
        (folder / "a").write_text("content")
        made.append(folder)

    for _ in range(2):
        folder = kept_folder(tmp_path / "kept", make, "a thing")
        assert (folder / "a").read_text() == "content"
    assert len(made) == 1
    (folder / "SHA256SUMS").unlink()
    assert kept_folder(folder, make, "a thing") == folder
    shutil.rmtree(folder)
    kept_folder(folder, make, "a thing")
    assert len(made) == 3
    assert caplog.messages == [
        f"In the cache, a thing is damaged ({folder}: no SHA256SUMS); it is made again."
    ]
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


def test_folder_in_place_of_file_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(
        ModelUnavailableError, match=rf"{tmp_path.name} cannot be read: it is not a regular file"
    ):
        content([("a", tmp_path)])
