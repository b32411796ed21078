"""Settings of a run."""

from __future__ import annotations

from dataclasses import fields

from mirrorbench.runs.settings import Settings, SettingsFields


def test_every_setting_is_a_keyword_argument() -> None:
    assert SettingsFields.__annotations__.keys() == {field.name for field in fields(Settings)} - {
        "results"
    }
