from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers.toy_plugin import CATS, ToyEncoder, ToyPlugin

from mirrorbench.core.errors import PluginError
from mirrorbench.core.plugins import Plugins, PluginWarning
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
    assert caught.value.hint == "Take another name for that of intruder."
    with pytest.raises(PluginError, match="'intruder' is loaded already"):
        plugins.add(ToyPlugin(), "intruder")


@pytest.mark.parametrize(
    ("body", "owner"),
    [
        ("register_encoders(register): register('sbert', max)", "mirrorbench.models.sbert"),
        ("register_encoders(register): register('tiny', max)", "the backbones of mirrorbench"),
        (
            "register_augmentations(register): register('drophead', max)",
            "mirrorbench.training.augmentations",
        ),
    ],
)
def test_plugin_with_taken_name_is_skipped_alone(install: Install, body: str, owner: str) -> None:
    """All its registrations are dropped, also those of other hooks; other plugins stay."""
    more = "\n@mirrorbench.hookimpl\ndef register_metrics(register): register('half', max)"
    install("bad", HOOK + body + more)
    install("good", GOOD)
    plugins = load_plugins()
    with pytest.warns(PluginWarning) as caught:
        names = plugins.metrics.names()
    assert {"spearman", "good-metric", "half"} & set(names) == {"spearman", "good-metric"}
    assert plugins.encoders.entry("sbert").origin == "mirrorbench.models.sbert"
    assert "tiny" not in plugins.encoders
    assert plugins.augmentations.entry("drophead").origin == "mirrorbench.training.augmentations"
    (warning,) = caught
    assert f"by {owner} and by bad" in str(warning.message)
    assert "bad" not in [row["name"] for row in plugins.listing()]


def test_task_named_like_a_suite_is_refused(plugins: Plugins) -> None:
    plugins.add(ToyPlugin(tasks=[PairSimilarity("sts", CATS)]), "intruder")
    with pytest.raises(PluginError, match=r"mirrorbench and by intruder \(.*, line \d+"):
        plugins.tasks  # noqa: B018


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


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("raise RuntimeError('boom')", "failed: RuntimeError: boom"),
        ("import sys; sys.exit(0)", "failed: SystemExit: 0"),
        ("syntax error", "SyntaxError"),
        ("x = 1", "has no hook"),
        (
            HOOK + "register_task(register): ...",
            r"unknown hook 'register_task' \(.*bad.py, line 2\)\nDid you mean register_tasks",
        ),
        (HOOK + "register_tasks(registr): ...", "'registr'"),
    ],
)
def test_unloadable_plugin_is_reported_and_not_registered(
    plugins: Plugins, tmp_path: Path, source: str, message: str
) -> None:
    file = tmp_path / "bad.py"
    file.write_text(source)
    with pytest.raises(PluginError, match=message):
        plugins.add_file(file)
    assert str(file) not in [row["name"] for row in plugins.listing()]
    file.write_text(HOOK + "register_metrics(register): register('good', max)")
    plugins.add_file(file)  # mended, it can be loaded
    assert "good" in plugins.metrics


@pytest.mark.parametrize(
    ("hook", "body", "message"),
    [
        (
            "register_encoders(register)",
            "register('a', max); raise KeyError('half')",
            "KeyError: 'half'",
        ),
        ("register_encoders(register)", "register('a', max); import sys; sys.exit()", "SystemExit"),
        ("register_encoders()", "...", "takes 0 positional arguments"),
        ("register_encoders(register)", "yield", "returned a generator"),
        ("register_encoders(register)", "register('a')", "missing 1 required positional argument"),
        ("register_encoders(register)", "register('a', max, 5)", "with a int, not a text"),
        (
            "register_encoders(register)",
            "register('a', max, desc='b')",
            r"register\(\) got an unexpected keyword argument 'desc' \(.*bad.py, line 3",
        ),
        ("register_encoders(register)", "register('sbert', max)", "registered twice"),
        *(
            (
                "register_encoders(register)",
                f"register({name!r}, max)",
                f"registers the encoder {name!r}",
            )
            for name in (5, "", "a b")
        ),
        *(
            (f"register_{kind}(register)", "register('a', 5)", "is a int, not a function")
            for kind in ("encoders", "renderers", "executors")
        ),
        ("register_methods(register)", "register('a', max)", "the method 'a'"),
        (
            "register_methods(register)",
            "from mirrorbench.plugin import Method; register('a', Method('b'))",
            "the method 'a' of .* has the name 'b'",
        ),
        ("register_metrics(register)", "register('a', None)", "is a NoneType"),
        ("register_augmentations(register)", "register('a', max, on='image')", "on='image'"),
        ("register_tasks(register)", "register(5)", "got a int"),
        ("register_tasks(register)", "register('no-such-card.yaml')", "cannot be read"),
        ("register_corpora(register)", "register('no-such-card.yaml')", "cannot be read"),
    ],
)
def test_invalid_plugin_registration_is_reported(
    plugins: Plugins, tmp_path: Path, hook: str, body: str, message: str
) -> None:
    file = tmp_path / "bad.py"
    file.write_text(f"{HOOK}{hook}: {body}")
    plugins.add_file(file)
    with pytest.raises(PluginError, match=message):
        plugins.registry(hook.partition("(")[0])
