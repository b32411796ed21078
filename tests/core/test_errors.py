"""Messages of errors."""

from __future__ import annotations

import pytest

from mirrorbench.core.errors import (
    UnknownNameError,
    UsageError,
    as_arguments,
    naming_options,
    unknown_name,
)
from mirrorbench.core.plugins import Plugins, Registry


def test_unknown_names_suggest_the_nearest_match(
    monkeypatch: pytest.MonkeyPatch, plugins: Plugins
) -> None:
    monkeypatch.delenv("MIRRORBENCH_DISABLE_PLUGINS", raising=False)
    with pytest.raises(UnknownNameError, match="unknown method 'miror'") as caught:
        plugins.methods["miror"]
    assert "mirror" in caught.value.hint
    assert "base" not in caught.value.hint
    assert unknown_name("task", "zzz", ["stsb", "wic"]).hint == "Known: stsb, wic"
    assert unknown_name("task", "zzz", []).hint == "Known: none"
    registry: Registry[int] = Registry("task")
    for number in range(250):
        registry.add(f"task-{number}", number, "x")
    assert registry.names() == [f"task-{number}" for number in range(250)]
    assert (registry["task-3"], len(registry)) == (3, 250)
    with pytest.raises(UnknownNameError) as caught:
        registry["qqq"]
    assert caught.value.hint == "The 250 known names are listed by: mirrorbench list tasks"
    with pytest.raises(UnknownNameError, match="Did you mean task-24"):
        registry["tsk-24"]


def test_passwords_are_removed_from_error_addresses() -> None:
    for text, shown in (
        ("https://me:pass@host.org/a", "https://host.org/a"),
        ("https://me:p@ss@host.org", "https://host.org"),
        ("https://host.org/a@revision and b@c", "https://host.org/a@revision and b@c"),
        ("mail me@host.org", "mail me@host.org"),
    ):
        assert str(UsageError(text, text)) == f"{shown}\n{shown}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Use --device cpu.", "Use device='cpu'."),
        ("--device cuda:1: no", "device='cuda:1': no"),
        ("choose with --protocol or --tasks", "choose with protocol or tasks"),
        ("downloads are off (--offline)", "downloads are off (offline=True)"),
        ("hold out more (--held-out N)", "hold out more (held_out=N)"),
        ("one seed (--seeds 3 for more)", "one seed (seeds=3 for more)"),
        ("All: --notes all", "All: notes='all'"),
        ("by: mirrorbench paper T --run", "by: mirrorbench paper T --run"),
        ("a -- b --- c", "a -- b --- c"),
    ],
)
def test_options_become_arguments_in_python(text: str, expected: str) -> None:
    assert as_arguments(text) == expected
    error = UsageError(text)
    assert str(error) == expected
    with naming_options():
        assert str(error) == text
