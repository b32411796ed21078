from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from toys import CATS, ToyEncoder, ToyPlugin

from mirrorbench.core.errors import PluginError, UnknownNameError, unknown_name
from mirrorbench.core.hooks import hookimpl
from mirrorbench.core.plugins import Plugins, PluginWarning, Registry
from mirrorbench.runs.builtin import BUILTIN_PLUGINS, load_plugins
from mirrorbench.tasks import PairSimilarity

GOOD = """
import mirrorbench

@mirrorbench.hookimpl
def register_metrics(register):
    register("good-metric", lambda scores, gold: 1.0, "always 1")
"""
MISTYPED = """
import mirrorbench

@mirrorbench.hookimpl
def register_metric(register):
    register("never", None)
"""
HALF = """
import mirrorbench

@mirrorbench.hookimpl
def register_metrics(register):
    raise RuntimeError("half way")
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Makes an installed distribution ``<name>-dist 1.2`` with the entry point ``<name>``, as a wheel would."""
    monkeypatch.syspath_prepend(tmp_path)

    def make(name: str, source: str) -> None:
        module = f"toyplugin_{name.replace('-', '_')}"
        monkeypatch.delitem(sys.modules, module, raising=False)
        (tmp_path / f"{module}.py").write_text(source)
        info = tmp_path / f"{module}_dist-1.2.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}-dist\nVersion: 1.2\n")
        (info / "entry_points.txt").write_text(f"[mirrorbench]\n{name} = {module}\n")

    return make


def named(plugins: Plugins, name: str) -> dict[str, object]:
    return next(row for row in plugins.listing() if row["name"] == name)


def test_a_good_entry_point_is_loaded(install: Callable[[str, str], None]) -> None:
    install("good", GOOD)
    plugins = load_plugins()
    assert plugins.metrics.entry("good-metric").origin == "good"
    assert named(plugins, "good") == {
        "name": "good",
        "distribution": "good-dist 1.2",
        "hooks": ["register_metrics"],
    }


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("raise RuntimeError('boom')", "RuntimeError: boom"),
        ("syntax error", "SyntaxError"),
        (MISTYPED, "register_metric"),
    ],
)
def test_a_broken_entry_point_stops_no_other(
    install: Callable[[str, str], None], source: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    install("bad", source)
    install("good", GOOD)
    with pytest.warns(PluginWarning, match=f"plugin bad .bad-dist 1.2. skipped: .*{message}"):
        plugins = load_plugins()
    assert "good-metric" in plugins.metrics
    assert "bad" not in [row["name"] for row in plugins.listing()]
    monkeypatch.delitem(sys.modules, "toyplugin_bad", raising=False)
    with monkeypatch.context() as set_:
        set_.setenv("MIRRORBENCH_STRICT_PLUGINS", "1")
        with pytest.raises(PluginError, match=r"bad \(bad-dist 1.2\) failed"):
            load_plugins()
    monkeypatch.delitem(sys.modules, "toyplugin_bad", raising=False)
    monkeypatch.setenv("MIRRORBENCH_DISABLE_PLUGINS", "other, bad")  # it is not even imported
    assert "good-metric" in load_plugins().metrics
    assert "toyplugin_bad" not in sys.modules


def test_a_plugin_that_fails_as_it_registers_is_a_warning_too(
    install: Callable[[str, str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    install("half", HALF)
    plugins = load_plugins()
    with pytest.warns(PluginWarning, match=r"half \(half-dist 1.2\) skipped: RuntimeError: half way"):
        assert "spearman" in plugins.metrics
    monkeypatch.setenv("MIRRORBENCH_STRICT_PLUGINS", "1")
    with pytest.raises(PluginError, match=r"half \(half-dist 1.2\) failed"):
        load_plugins().metrics  # noqa: B018


def test_a_mistyped_hook_is_an_error(plugins: Plugins) -> None:
    class Mistyped:
        @hookimpl
        def register_task(self, register: object) -> None: ...

    with pytest.raises(PluginError, match="register_task") as caught:
        plugins.add(Mistyped(), "mistyped")
    assert "register_tasks" in caught.value.hint
    plugins.add(ToyPlugin(), "fine")  # the refused plugin left nothing behind
    with pytest.raises(PluginError, match="'fine' cannot be registered"):
        plugins.add(ToyPlugin(), "fine")


def test_a_duplicate_name_is_an_error_naming_both_origins(plugins: Plugins) -> None:
    plugins.add(ToyPlugin(tasks=[PairSimilarity("stsb", CATS)]), "intruder")
    with pytest.raises(PluginError, match=r"'stsb'.*mirrorbench\.tasks\.kinds.*intruder") as caught:
        plugins.tasks  # noqa: B018
    assert "MIRRORBENCH_DISABLE_PLUGINS" in caught.value.hint


def test_what_is_added_later_is_seen(plugins: Plugins, tmp_path: Path) -> None:
    assert "toy" not in plugins.encoders
    plugins.add(ToyPlugin({"toy": ToyEncoder()}), "toys")
    assert plugins.encoders.entry("toy").origin == "toys"
    file = tmp_path / "mine.py"
    file.write_text(GOOD)
    plugins.add_file(file)
    assert plugins.metrics.entry("good-metric").origin == str(file)
    assert named(plugins, str(file))["distribution"] == "file"
    for name, message in (("none.py", "no plugin file"), ("text.txt", "not a Python file")):
        (tmp_path / "text.txt").write_text(GOOD)
        with pytest.raises(PluginError, match=message):
            plugins.add_file(tmp_path / name)


def test_the_built_in_plugins_come_through_the_same_door(plugins: Plugins) -> None:
    listed = {row["name"]: row for row in plugins.listing()}
    assert set(BUILTIN_PLUGINS) == set(listed)
    assert all(row["distribution"] == "built in" and row["hooks"] for row in listed.values())
    assert plugins.methods.entry("mirror").origin == "mirrorbench.training.methods"


def test_entries_keep_their_order_and_origin() -> None:
    registry: Registry[int] = Registry("task")
    registry.add("b", 1, "one", "first")
    registry.add("a", 2, "two")
    assert registry.names() == ["b", "a"]
    assert [entry.origin for entry in registry] == ["one", "two"]
    assert registry["a"] == len(registry) == 2
    assert registry.entry("b").description == "first"
    assert "a" in registry
    assert "c" not in registry


def test_an_unknown_name_suggests_the_nearest_or_what_lists_all(plugins: Plugins) -> None:
    with pytest.raises(UnknownNameError, match="unknown method 'miror'") as caught:
        plugins.methods["miror"]
    assert "mirror" in caught.value.hint
    assert "base" not in caught.value.hint
    assert unknown_name("task", "zzz", ["stsb", "wic"]).hint == "Known: stsb, wic"
    assert unknown_name("task", "zzz", []).hint == "Known: none"
    registry: Registry[int] = Registry("task")
    for number in range(250):
        registry.add(f"task-{number}", 0, "x")
    with pytest.raises(UnknownNameError) as caught:
        registry["qqq"]
    assert caught.value.hint == "The 250 known names are listed by: mirrorbench list tasks"
    with pytest.raises(UnknownNameError, match="Did you mean task-24"):
        registry["tsk-24"]
