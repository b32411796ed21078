"""Fixtures for all tests."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("files", deadline=None)  # properties write files, and a busy disk is no failure
settings.load_profile("files")


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of original data sets beside the repository; tests that need it are skipped without it."""
    folder = Path(__file__).resolve().parents[2] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"no original data at {folder}")
    return folder
