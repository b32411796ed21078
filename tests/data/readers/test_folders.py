"""Files of folders and of zip archives."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from mirrorbench.core.errors import DataFormatError, DataUnavailableError
from mirrorbench.data.readers import files
from mirrorbench.data.readers.folders import exists, files_in, is_member, is_rereadable, root_of
from mirrorbench.data.readers.text import read_lines


def zipped(path: Path, **members: str) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in members.items():
            archive.writestr(name.replace("__", "/"), text)
    return path


def test_archive_is_read_as_its_folder(tmp_path: Path) -> None:
    path = zipped(tmp_path / "a.ZIP", beir__b="x\ny\n", beir__a="", beir__qrels__test="")
    root = root_of(path)
    assert root == path / "beir"
    assert files_in(root) == [root / "a", root / "b"]
    assert files_in(root / "qrels") == [root / "qrels" / "test"]
    assert files_in(path) == files_in(root / "none") == []
    assert read_lines(root / "b") == ["x", "y"]
    assert [exists(root / name) for name in ("a", "c")] == [True, False]
    assert [is_member(path), is_member(root / "a")] == [False, True]
    assert is_rereadable(root / "a")
    deep = zipped(tmp_path / "deep.zip", a__b__c="", a__b__d__e="", README="", a__LICENSE="")
    assert root_of(deep) == deep / "a" / "b"
    flat = zipped(tmp_path / "flat.zip", a="", b__c="")
    assert root_of(flat) == flat
    assert root_of(tmp_path) == tmp_path


def test_folder_outside_archives_is_listed_too(tmp_path: Path) -> None:
    (tmp_path / "b").write_text("")
    (tmp_path / "a").mkdir()
    assert files_in(tmp_path) == [tmp_path / "b"]
    assert files_in(tmp_path / "none") == []


def test_outside_and_macos_members_are_not_listed(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name in ("../up", "/etc/hosts", "__MACOSX/._a", "b\\c", "a"):
            archive.writestr(name, "x")
    assert files_in(root_of(path)) == [path / "a"]
    with pytest.raises(DataUnavailableError, match="There is no file"):
        read_lines(path / "b")


def test_encrypted_member_is_an_error(tmp_path: Path) -> None:
    path = zipped(tmp_path / "a.zip", a="x", b="y")
    content = bytearray(path.read_bytes())
    content[content.rindex(b"PK\x01\x02") + 8] |= 1  # the flag of the last member
    path.write_bytes(content)
    with pytest.raises(DataFormatError, match=r"a\.zip: b is encrypted"):
        root_of(path)


def test_what_unpacks_to_too_much_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "MAX_UNPACKED", 1000)
    path = zipped(tmp_path / "a.zip", small="x\n" * 500, large="x\n" * 501)
    assert len(read_lines(path / "small")) == 500
    with pytest.raises(DataFormatError, match="large holds more than"):
        read_lines(path / "large")


def test_damaged_archive_is_an_error_of_the_file(tmp_path: Path) -> None:
    path = zipped(tmp_path / "a.zip", a="x\n" * 100)
    whole = path.read_bytes()
    path.write_bytes(whole[:35] + b"\xff\xff" + whole[37:])
    with pytest.raises(DataFormatError, match=r"a\.zip/a"):
        read_lines(path / "a")
    path.write_bytes(whole[:40])
    with pytest.raises(DataFormatError, match="damaged, or is neither a tar or zip archive"):
        root_of(path)
