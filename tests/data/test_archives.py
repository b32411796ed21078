from __future__ import annotations

import tarfile
import zipfile
from pathlib import Path

import pytest
from helpers import format_samples
from helpers.damaged_files import flip

from mirrorbench.core.errors import DataFormatError, DataIntegrityError, DataUnavailableError
from mirrorbench.data.archives import extract_member, open_archive


def make_tar(path: Path, members: dict[str, bytes], mode: str = "w:gz") -> Path:
    path.write_bytes(format_samples.archive(members, mode))
    return path


def make_zip(path: Path, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


@pytest.fixture(params=["a.tgz", "a.tar", "a.zip"])
def archive(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    members = {"folder/a.txt": b"content", "folder/b.txt": b"x" * 1000, "other/b.txt": b"y"}
    path = tmp_path / request.param
    if path.suffix == ".zip":
        return make_zip(path, members)
    return make_tar(path, members, "w:gz" if path.suffix == ".tgz" else "w")


def test_archive_member_is_found_by_path_suffix(archive: Path, tmp_path: Path) -> None:
    for name in ("folder/a.txt", "a.txt"):
        extract_member(archive, name, tmp_path / name, limit=7)
        assert (tmp_path / name).read_bytes() == b"content"
    for name, error, problem in (
        ("c.txt", DataFormatError, "no regular file"),
        ("b.txt", DataFormatError, "2 files"),
        ("folder/b.txt", DataIntegrityError, "at most 999"),
    ):
        with pytest.raises(error, match=problem):
            extract_member(archive, name, tmp_path / "out", limit=999)
        assert not (tmp_path / "out").exists()
    with pytest.raises(DataUnavailableError):
        extract_member(tmp_path / "none.zip", "a.txt", tmp_path / "out")


def test_member_path_outside_the_archive_is_refused(tmp_path: Path) -> None:
    path = make_tar(tmp_path / "a.tgz", {"../evil.txt": b"evil"})
    with pytest.raises(DataFormatError, match="points outside"):
        extract_member(path, "evil.txt", tmp_path / "out" / "evil.txt")
    assert not (tmp_path / "out").exists()


def test_link_in_an_archive_is_refused(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        info = tarfile.TarInfo("a.txt")
        info.type = tarfile.SYMTYPE
        info.linkname = "/etc/passwd"
        archive.addfile(info)
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as packed:
        link = zipfile.ZipInfo("a.txt")
        link.external_attr = 0o120777 << 16
        packed.writestr(link, "/etc/passwd")
    for name in ("a.tar", "a.zip"):
        with pytest.raises(DataFormatError, match="no regular file"):
            extract_member(tmp_path / name, "a.txt", tmp_path / "out")


def package(*members: tuple[str, bytes], size: str = "") -> bytes:
    """A Debian package, whose members may claim a wrong size."""
    parts = [b"!<arch>\n"]
    for name, content in members:
        claimed = size or str(len(content))
        parts += [
            f"{name:<16}{0:<12}{0:<6}{0:<6}{'100644':<8}{claimed:<10}".encode(),
            b"`\n",
            content,
        ]
        parts.append(b"\n" * (len(content) % 2))
    return b"".join(parts)


def test_debian_package_members_are_extracted(tmp_path: Path) -> None:
    path = tmp_path / "a.deb"
    control = format_samples.archive({"./control": b"c"}, "w:xz") + b"x"  # of odd length
    data = format_samples.archive({"./usr/share/words/a.txt": b"content"}, "w:xz")
    path.write_bytes(
        package(("debian-binary", b"2.0\n"), ("control.tar.xz", control), ("data.tar.xz", data))
    )
    with open_archive(path) as opened:
        assert opened.sizes == {"./usr/share/words/a.txt": 7}
    extract_member(path, "usr/share/words/a.txt", tmp_path / "a.txt")
    assert (tmp_path / "a.txt").read_bytes() == b"content"


def test_damaged_debian_package_is_refused(tmp_path: Path) -> None:
    for content, message in (
        (package(("debian-binary", b"2.0\n")), "damaged"),
        (package(("control", b""), size="-60"), "damaged"),
        (package(("debian-binary", b"2.0\n"), ("data.tar.zst", b"x")), r"zstd.*dpkg-deb -x"),
    ):
        (tmp_path / "a.deb").write_bytes(content)
        with pytest.raises(DataFormatError, match=message), open_archive(tmp_path / "a.deb"):
            pass


@pytest.mark.parametrize("kind", ["zip", "w", "w:gz", "w:xz"])
def test_truncated_archive_is_refused(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "a"
    members = {f"{number}.bin": bytes([number]) * 5000 for number in range(4)}
    if kind == "zip":
        make_zip(path, members)
    else:
        make_tar(path, members, kind)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) * 2 // 3])
    with pytest.raises(DataFormatError, match="is damaged"), open_archive(path):
        pass


def test_damaged_member_leaves_no_partial_file(tmp_path: Path) -> None:
    path = make_zip(tmp_path / "a.zip", {"a.txt": b"content" * 100})
    flip(path, 40)
    with pytest.raises(DataFormatError, match=r"a\.txt is damaged"):
        extract_member(path, "a.txt", tmp_path / "out" / "a.txt")
    assert list((tmp_path / "out").iterdir()) == []
