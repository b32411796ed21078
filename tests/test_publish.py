"""What ``publish.py`` reads for a release: the version, its section of the changelog."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from helpers.documentation_pages import ROOT

import mirrorbench


@pytest.fixture
def publish(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT))
    import publish

    return publish


def test_release_has_the_version_of_the_package(publish: Any) -> None:
    assert publish.release_version() == mirrorbench.__version__


def test_release_notes_are_the_dated_section_of_the_changelog(
    publish: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publish, "ROOT", tmp_path)
    (tmp_path / "CHANGELOG.md").write_text(
        "# Changelog\n\n## 1.1.0 (unreleased)\n\nsoon\n\n## 1.0.0 (2027-01-31)\n\n### Added\n\n- a\n\n## 0.9.0 (2026-01-01)\n\nold\n\n"
        "## 0.8.0 (2026-99-99)\n\nodd\n\n## 0.7.0 (2025-01-01)\n\n"
    )
    assert publish.release_notes("1.0.0") == "### Added\n\n- a\n"
    assert publish.release_notes("0.9.0") == "old\n"
    for version in ("1.1.0", "1.0", "2.0.0"):
        with pytest.raises(SystemExit, match="has no heading"):
            publish.release_notes(version)
    with pytest.raises(SystemExit, match="is no day"):
        publish.release_notes("0.8.0")
    with pytest.raises(SystemExit, match="says nothing about"):
        publish.release_notes("0.7.0")
