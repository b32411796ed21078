from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers.toy_plugin import CATS, ToyEncoder, ToyPlugin

from mirrorbench.core.errors import PluginError, UnknownNameError, unknown_name
from mirrorbench.core.plugins import Plugins, PluginWarning, Registry
from mirrorbench.runs.registry import BUILTIN_PLUGINS, load_plugins
from mirrorbench.tasks import PairSimilarity

HOOK = "import mirrorbench\n@mirrorbench.hookimpl\ndef "


GOOD = (
    HOOK
    + "register_metrics(register): register('good-metric', lambda scores, gold: 1.0, 'always 1')"
)


Install = Callable[[str, str], None]


def named(plugins: Plugins, name: str) -> dict[str, object]:
    return next(row for row in plugins.listing() if row["name"] == name)


@pytest.mark.parametrize(
    ("source", "message"),
    [("syntax error", "SyntaxError"), (HOOK + "register_metric(register): ...", "register_metric")],
)
def test_broken_entry_point_does_not_stop_others(
    install: Install, source: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    install("bad", source)
    install("good", GOOD)
    with pytest.warns(PluginWarning, match=f"plugin bad .bad-dist 1.2. skipped: .*{message}"):
        plugins = load_plugins()
    assert plugins.metrics.entry("good-metric").origin == "good"
    row = {
        "name": "good",
        "distribution": "good-dist 1.2",
        "hooks": ["register_metrics"],
        "commands": [],
    }
    assert named(plugins, "good") == row
    assert "bad" not in [row["name"] for row in plugins.listing()]
    monkeypatch.delitem(sys.modules, "toyplugin_bad", raising=False)
    with monkeypatch.context() as set_:
        set_.setenv("MIRRORBENCH_STRICT_PLUGINS", "1")
        with pytest.raises(PluginError, match=r"bad \(bad-dist 1.2\) failed"):
            load_plugins()


def test_failed_registration_is_a_warning(
    install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(
        "half",
        HOOK + "register_metrics(register): register('half', max); raise RuntimeError('half way')",
    )
    plugins = load_plugins()
    with pytest.warns(
        PluginWarning, match=r"half \(half-dist 1.2\) skipped: RuntimeError: half way"
    ):
        assert {"spearman", "half"} & set(plugins.metrics.names()) == {"spearman"}
    monkeypatch.setenv("MIRRORBENCH_STRICT_PLUGINS", "1")
    with pytest.raises(PluginError, match=r"half \(half-dist 1.2\) failed"):
        load_plugins().metrics  # noqa: B018


def test_duplicate_names_are_errors_with_both_origins(plugins: Plugins) -> None:
    plugins.add(ToyPlugin(tasks=[PairSimilarity("stsb", CATS)]), "intruder")
    with pytest.raises(PluginError, match=r"'stsb'.*mirrorbench\.tasks\.kinds.*intruder") as caught:
        plugins.tasks  # noqa: B018
    assert "MIRRORBENCH_DISABLE_PLUGINS" in caught.value.hint
    with pytest.raises(PluginError, match="'intruder' is loaded already"):
        plugins.add(ToyPlugin(), "intruder")


def test_plugins_added_later_are_registered(plugins: Plugins, tmp_path: Path) -> None:
    assert "toy" not in plugins.encoders
    plugins.add(ToyPlugin({"toy": ToyEncoder()}), "toys")
    assert plugins.encoders.entry("toy").origin == "toys"
    file = tmp_path / "mine.py"
    file.write_text(GOOD)
    plugins.add_file(file)
    entry = plugins.metrics.entry("good-metric")
    assert (entry.origin, entry.description) == (str(file), "always 1")
    assert named(plugins, str(file))["distribution"] == "file"
    (tmp_path / "text.txt").write_text(GOOD)
    for name, message in (("none.py", "no plugin file"), ("text.txt", "not a Python file")):
        with pytest.raises(PluginError, match=message):
            plugins.add_file(tmp_path / name)


def test_builtin_plugins_are_listed_with_hooks(plugins: Plugins) -> None:
    listed = {row["name"]: row for row in plugins.listing()}
    assert set(BUILTIN_PLUGINS) == {
        name for name, row in listed.items() if row["distribution"] == "built in"
    }
    assert all(row["hooks"] for row in listed.values())
    assert plugins.methods.entry("mirror").origin == "mirrorbench.training.methods"


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
