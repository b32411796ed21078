"""Build the files of a package index, for mirrorbench and its plugins, and check them; nothing is uploaded.

python publish.py dist                             # `nox -s publish` also installs some of the files and runs them
python publish.py dist --release-notes notes.md    # as the workflow `release` does: refuses what is not ready

The addresses in the metadata, and the links of the pages that an index shows, are made from ``repository`` in
``pyproject.toml``: the files are built from a copy of the checkout in which they stand.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from datetime import date
from pathlib import Path

ROOT = Path(__file__).resolve().parent
UNSET = "https://example.org/mirrorbench"
"""The address while none is filled in: good enough for a dry publication."""
ADDRESSES = {
    "Source": "",
    "Documentation": "/tree/{tag}/docs",
    "Issues": "/issues",
    "Changelog": "/blob/{tag}/CHANGELOG.md",
}
BUILD = (sys.executable, "-m", "build", "--no-isolation", "--outdir")


def repository_address() -> str:
    """Return the address of the repository that ``pyproject.toml`` names, or an example."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    return settings["tool"]["publish"]["repository"].rstrip("/") or UNSET


def address(target: Path, repository: str, tag: str) -> str:
    """Return the address at which the repository shows a file or folder of the checkout.

    Args:
        target: the file or folder.
        repository: the address of the repository.
        tag: the tag of the release.
    """
    view = "tree" if target.is_dir() else "blob"
    return f"{repository}/{view}/{tag}/{target.relative_to(ROOT).as_posix()}"


def release_version() -> str:
    """Return the version of mirrorbench and its plugins, which stands in ``mirrorbench/core/identity.py`` alone."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    source = (ROOT / settings["tool"]["hatch"]["version"]["path"]).read_text("utf-8")
    match = re.search(r'^__version__ = "(.+)"$', source, re.M)
    assert match, "hatchling reads the version from the same line"
    return match[1]


def release_notes(version: str) -> str:
    """Return what the changelog says about a version.

    Raises:
        SystemExit: the version has no section, or the section has no date or no text.
    """
    changelog = (ROOT / "CHANGELOG.md").read_text("utf-8")
    heading = re.compile(rf"^## {re.escape(version)} \((\d{{4}}-\d\d-\d\d)\)\n", re.M)
    match = heading.search(changelog)
    if match is None:
        raise SystemExit(f"CHANGELOG.md has no heading '## {version} (YYYY-MM-DD)'.")
    try:
        date.fromisoformat(match[1])
    except ValueError:
        raise SystemExit(f"CHANGELOG.md: {match[1]}, the date of {version}, is no day.") from None
    section = re.split(r"^## ", changelog[match.end() :], maxsplit=1, flags=re.M)[0].strip()
    if not section:
        raise SystemExit(f"CHANGELOG.md says nothing about {version}.")
    return section + "\n"


def absolute_links(text: str, folder: Path, repository: str, tag: str) -> str:
    """Make links lead to the repository: ``[a](docs/b.md#c)`` to ``[a](REPOSITORY/blob/TAG/docs/b.md#c)``.

    Args:
        text: the page, in Markdown.
        folder: where it lies; relative links start here.
        repository: the address of the repository.
        tag: the tag of the release.
    """

    def absolute(match: re.Match[str]) -> str:
        path, _, anchor = match[1].partition("#")
        if "://" in match[1] or not (path or anchor):
            return match[0]
        target = (folder / (path or "README.md")).resolve()
        link = address(target, repository, tag)
        if anchor:
            link += f"#{anchor}"
        return f"]({link})"

    return re.sub(r"\]\(([^)\s]+)\)", absolute, text)


def prepare(project: Path, folder: Path, repository: str, tag: str) -> None:
    """Write addresses, absolute links, the licence and the needed version of mirrorbench into the copy of a project.

    Args:
        project: the copy.
        folder: the same project in the checkout.
        repository: the address of the repository.
        tag: the tag of the release.
    """
    shutil.copy(ROOT / "LICENSE", project / "LICENSE")
    page, settings = project / "README.md", project / "pyproject.toml"
    page.write_text(
        absolute_links(page.read_text("utf-8"), folder, repository, tag), encoding="utf-8"
    )
    text, heading = settings.read_text("utf-8"), "[project.urls]\n"
    urls = "".join(
        f'{name} = "{repository}{path.format(tag=tag)}"\n' for name, path in ADDRESSES.items()
    )
    # A plugin needs the public names of the mirrorbench that it is released with.
    needed = f"mirrorbench>={tag.removeprefix('v')}"
    text = text.replace('dependencies = ["mirrorbench"', f'dependencies = ["{needed}"')
    text = text.replace(heading, heading + urls) if heading in text else f"{text}\n{heading}{urls}"
    settings.write_text(text, encoding="utf-8")


def build(output: Path) -> None:
    """Build source archive and wheel of each project.

    Args:
        output: where the files go.
    """
    repository = repository_address()
    tag = f"v{release_version()}"
    with tempfile.TemporaryDirectory() as scratch:
        subprocess.run([*BUILD, scratch, "--sdist", ROOT], check=True, stdout=subprocess.DEVNULL)
        (archive,) = Path(scratch).glob("*.tar.gz")
        with tarfile.open(archive) as files:
            files.extractall(scratch, filter="data")
        copy = archive.with_name(archive.name.removesuffix(".tar.gz"))
        (copy / "PKG-INFO").unlink()  # the metadata of the first build
        for settings_file in (
            copy / "pyproject.toml",
            *sorted(copy.glob("plugins/*/pyproject.toml")),
        ):
            project = settings_file.parent
            prepare(project, ROOT / project.relative_to(copy), repository, tag)
            subprocess.run([*BUILD, output, project], check=True, stdout=subprocess.DEVNULL)
    if repository == UNSET:
        print(
            f"Not for upload: repository in pyproject.toml is empty, and the addresses lead to {UNSET}."
        )


def check(output: Path) -> None:
    """Check the files with twine: metadata, and whether an index can show the pages."""
    subprocess.run(
        [sys.executable, "-m", "twine", "check", "--strict", *sorted(output.iterdir())], check=True
    )


def main() -> None:
    """Build and check the files of the command line's folder.

    Raises:
        SystemExit: the folder is not empty, or ``--release-notes`` is given and the release is not ready.
    """
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", nargs="?", type=Path, default=Path("dist"))
    parser.add_argument(
        "--release-notes",
        type=Path,
        metavar="FILE",
        help="write the changelog of this version; refuse a version without date, or an empty repository",
    )
    arguments = parser.parse_args()
    folder = arguments.folder
    if folder.is_dir() and any(folder.iterdir()):
        raise SystemExit(f"{folder} is not empty: remove it, or name another folder.")
    notes = ""
    if arguments.release_notes:
        repository = repository_address()
        if repository == UNSET:
            raise SystemExit("repository in pyproject.toml is empty: fill in its address.")
        if not repository.startswith("https://"):
            raise SystemExit(f"repository in pyproject.toml is no https address: {repository}")
        version = release_version()
        notes = absolute_links(release_notes(version), ROOT, repository, f"v{version}")
    build(folder)
    check(folder)
    # Written after the build: a file in the checkout would become part of the source archive.
    if notes:
        arguments.release_notes.write_text(notes, encoding="utf-8")


if __name__ == "__main__":
    main()
