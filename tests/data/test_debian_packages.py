"""Debian packages as archives."""

from __future__ import annotations

from pathlib import Path

import pytest
from samples import archive

from mirrorbench.core.errors import DataFormatError
from mirrorbench.data.archives import extract_member, open_archive


def member(name: str, content: bytes) -> bytes:
    header = f"{name:<16}{0:<12}{0:<6}{0:<6}{'100644':<8}{len(content):<10}".encode() + b"`\n"
    return header + content + b"\n" * (len(content) % 2)


def package(*members: tuple[str, bytes]) -> bytes:
    return b"!<arch>\n" + b"".join(member(name, content) for name, content in members)


def test_the_files_of_a_package(tmp_path: Path) -> None:
    path = tmp_path / "a.deb"
    control, data = archive({"./control": b"c"}, "w:xz"), archive({"./usr/share/words/a.txt": b"content"}, "w:xz")
    path.write_bytes(package(("debian-binary", b"2.0\n"), ("control.tar.xz", control + b"x"), ("data.tar.xz", data)))
    with open_archive(path) as opened:
        assert opened.sizes == {"./usr/share/words/a.txt": 7}
    extract_member(path, "usr/share/words/a.txt", tmp_path / "a.txt")
    assert (tmp_path / "a.txt").read_bytes() == b"content"


@pytest.mark.parametrize(
    "content",
    [package(("debian-binary", b"2.0\n")), package(("data.tar.xz", b"no tar")), b"!<arch>\n" + b"x" * 60, b"!<arch>\n"],
)
def test_a_damaged_package_is_an_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.deb"
    path.write_bytes(content)
    with pytest.raises(DataFormatError, match="damaged"), open_archive(path):
        pass
