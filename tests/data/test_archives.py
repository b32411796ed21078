from __future__ import annotations

import tarfile
import zipfile
from pathlib import Path

import pytest
import samples
from hypothesis import given, settings
from hypothesis import strategies as st

from mirrorbench.core.errors import DataFormatError, DataIntegrityError, DataUnavailableError, MirrorbenchError
from mirrorbench.data.archives import extract_member, open_archive


def make_tar(path: Path, members: dict[str, bytes], mode: str = "w:gz") -> Path:
    path.write_bytes(samples.archive(members, mode))
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


def test_a_member_is_found_by_its_name_or_the_end_of_it(archive: Path, tmp_path: Path) -> None:
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


def test_a_member_larger_than_it_claims_is_stopped(tmp_path: Path) -> None:
    path = make_zip(tmp_path / "bomb.zip", {"a.txt": b"0" * 5_000_000})
    raw = path.read_bytes()
    for field in (b"PK\x03\x04", b"PK\x01\x02"):  # understate the size in both headers
        at = raw.index(field) + (22 if field == b"PK\x03\x04" else 24)
        raw = raw[:at] + (100).to_bytes(4, "little") + raw[at + 4 :]
    path.write_bytes(raw)
    with pytest.raises(MirrorbenchError):
        extract_member(path, "a.txt", tmp_path / "out" / "a.txt", limit=100)
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize("name", ["../evil.txt", "/etc/evil.txt", "a/../../evil.txt"])
@pytest.mark.parametrize("kind", ["zip", "tgz"])
def test_a_path_that_leads_out_of_the_archive_is_refused(tmp_path: Path, name: str, kind: str) -> None:
    members = {name: b"evil"}
    path = make_zip(tmp_path / "a.zip", members) if kind == "zip" else make_tar(tmp_path / "a.tgz", members)
    for asked in (name, "evil.txt"):
        with pytest.raises(DataFormatError, match=r"points outside|no regular file"):
            extract_member(path, asked, tmp_path / "out" / "evil.txt")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE])
def test_links_devices_and_folders_cannot_be_asked_for(tmp_path: Path, kind: bytes) -> None:
    path = tmp_path / "a.tar"
    with tarfile.open(path, "w") as archive:
        info = tarfile.TarInfo("a.txt")
        info.type, info.linkname = kind, "/etc/passwd"
        archive.addfile(info)
    with pytest.raises(DataFormatError, match="no regular file"):
        extract_member(path, "a.txt", tmp_path / "out")
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as packed:
        link = zipfile.ZipInfo("a.txt")
        link.external_attr = 0o120777 << 16
        packed.writestr(link, "/etc/passwd")
    with pytest.raises(DataFormatError, match="no regular file"):
        extract_member(tmp_path / "a.zip", "a.txt", tmp_path / "out")


def test_an_archive_that_declares_absurd_content_is_refused(tmp_path: Path) -> None:
    info = tarfile.TarInfo("a.txt")
    info.size = 1 << 40
    (tmp_path / "a.tar").write_bytes(info.tobuf() + b"\0" * 10240)
    with pytest.raises((DataIntegrityError, DataFormatError)), open_archive(tmp_path / "a.tar"):
        pass


def package(*members: tuple[str, bytes], size: str = "") -> bytes:
    """A Debian package, whose members may claim a wrong size."""
    parts = [b"!<arch>\n"]
    for name, content in members:
        claimed = size or str(len(content))
        parts += [f"{name:<16}{0:<12}{0:<6}{0:<6}{'100644':<8}{claimed:<10}".encode(), b"`\n", content]
        parts.append(b"\n" * (len(content) % 2))
    return b"".join(parts)


def test_the_files_of_a_package(tmp_path: Path) -> None:
    path = tmp_path / "a.deb"
    control = samples.archive({"./control": b"c"}, "w:xz") + b"x"  # of odd length
    data = samples.archive({"./usr/share/words/a.txt": b"content"}, "w:xz")
    path.write_bytes(package(("debian-binary", b"2.0\n"), ("control.tar.xz", control), ("data.tar.xz", data)))
    with open_archive(path) as opened:
        assert opened.sizes == {"./usr/share/words/a.txt": 7}
    extract_member(path, "usr/share/words/a.txt", tmp_path / "a.txt")
    assert (tmp_path / "a.txt").read_bytes() == b"content"


def test_a_damaged_package_is_an_error(tmp_path: Path) -> None:
    for content, message in (
        (package(("debian-binary", b"2.0\n")), "damaged"),
        (package(("data.tar.xz", b"no tar")), "damaged"),
        (b"!<arch>\n" + b"x" * 60, "damaged"),
        (b"!<arch>\n", "damaged"),
        (package(("control", b""), size="-60"), "damaged"),
        (package(("debian-binary", b"2.0\n"), ("data.tar.zst", b"x")), r"zstd.*dpkg-deb -x"),
    ):
        (tmp_path / "a.deb").write_bytes(content)
        with pytest.raises(DataFormatError, match=message), open_archive(tmp_path / "a.deb"):
            pass


@settings(max_examples=settings().max_examples // 2)
@given(
    at=st.integers(0, 10_000),
    piece=st.binary(max_size=8),
    cut=st.integers(0, 199),
    kind=st.sampled_from(["zip", "w", "w:gz", "w:xz"]),
)
def test_a_damaged_archive_gives_all_its_members_or_an_error(
    tmp_path_factory: pytest.TempPathFactory, at: int, piece: bytes, cut: int, kind: str
) -> None:
    folder = tmp_path_factory.mktemp("damaged")
    members = {f"{n}.bin": bytes([n]) * 500 for n in range(4)}
    path = make_zip(folder / "a", members) if kind == "zip" else make_tar(folder / "a", members, kind)
    data = path.read_bytes()
    at %= len(data)
    path.write_bytes((data[:at] + piece + data[at + len(piece) :])[: len(data) - cut])
    try:
        with open_archive(path) as archive:
            found = {name: b"".join(archive.read(name, 1000)) for name in archive.sizes}
    except MirrorbenchError:
        return
    if kind != "zip":  # whose directory may itself be shortened; the checksum of a file's content tells then
        assert len(found) == len(members)
    if not piece:  # cut off at most
        assert found == members
