"""Plugins that the user disabled."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

from mirrorbench.core.plugins import PluginWarning
from mirrorbench.runs.registry import load_plugins

HOOK = "import mirrorbench\n@mirrorbench.hookimpl\ndef "


GOOD = (
    HOOK
    + "register_metrics(register): register('good-metric', lambda scores, gold: 1.0, 'always 1')"
)


Install = Callable[[str, str], None]


@pytest.mark.parametrize("name", ["bad", "bad-dist", "Bad_Dist"])
def test_a_disabled_plugin_is_not_imported(
    install: Install, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    install("bad", "raise RuntimeError")
    install("good", GOOD)
    monkeypatch.setenv("MIRRORBENCH_DISABLE_PLUGINS", f" {name},")
    assert "good-metric" in load_plugins().metrics
    assert "toyplugin_bad" not in sys.modules


@pytest.mark.parametrize("name", ["absent", "sbert", "mirrorbench.models.sbert"])
def test_an_unknown_disabled_name_is_a_warning(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MIRRORBENCH_DISABLE_PLUGINS", name)
    monkeypatch.setenv("MIRRORBENCH_STRICT_PLUGINS", "1")
    with pytest.warns(PluginWarning, match=f"'{name}', which is not the name of an installed"):
        assert "sbert" in load_plugins().encoders
