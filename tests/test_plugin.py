"""The names of ``mirrorbench.plugin``."""

from __future__ import annotations

import pytest

import mirrorbench.plugin


def test_every_public_plugin_name_is_importable() -> None:
    for name in dir(mirrorbench.plugin):
        assert getattr(mirrorbench.plugin, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        mirrorbench.plugin.nothing  # type: ignore[attr-defined]  # noqa: B018
