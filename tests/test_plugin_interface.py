"""The door for plugins: those that come with mirrorbench use no other, and it works without them."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import mirrorbench.plugin
from mirrorbench.core.errors import UnknownNameError
from mirrorbench.runs.registry import HOOKS, expand_tasks, load_plugins

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
SHIPPED: dict[str, str] = PROJECT["project"]["entry-points"]["mirrorbench"]
"""The modules of the plugins that come with mirrorbench, by name."""
CELL = f"""
import pkgutil, sys
from importlib import import_module
import mirrorbench
for module in pkgutil.walk_packages(mirrorbench.__path__, "mirrorbench."):
    if not module.name.endswith("__main__"):
        import_module(module.name)
sys.argv = "mirrorbench run -e tiny+base:pooling=mean -t quick-sts --offline --device cpu".split()
from mirrorbench.cli import main
try:
    main()
except SystemExit as stop:
    assert not stop.code
print(*({{*{list(SHIPPED.values())!r}}} & sys.modules.keys()))
"""


def test_every_name_can_be_imported() -> None:
    for name in dir(mirrorbench.plugin):
        assert getattr(mirrorbench.plugin, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        mirrorbench.plugin.nothing  # type: ignore[attr-defined]  # noqa: B018


@pytest.mark.parametrize("module", SHIPPED.values())
def test_a_plugin_that_comes_with_it_imports_nothing_else(module: str) -> None:
    (folder,) = (ROOT / "plugins").glob(f"*/{module}")
    used = {name for path in folder.rglob("*.py") for name in imported_modules(path)}
    of_mirrorbench = {name for name in used if name.partition(".")[0].startswith("mirrorbench")}
    assert {name for name in of_mirrorbench if name.partition(".")[0] != module} <= {
        "mirrorbench.plugin"
    }
    assert (
        f"plugins/{folder.parent.name}/{module}"
        in PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    )


def imported_modules(path: Path) -> set[str]:
    """Return the modules that a file imports, in functions and for annotations too."""
    modules = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            modules.add(node.module)
        elif isinstance(node, ast.Import):
            modules.update(alias.name for alias in node.names)
    return modules


@pytest.mark.parametrize("blocked", SHIPPED)
def test_what_is_missing_is_named_with_its_plugin(
    blocked: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MIRRORBENCH_DISABLE_PLUGINS", raising=False)
    whole = load_plugins(discover=False)
    monkeypatch.setenv("MIRRORBENCH_DISABLE_PLUGINS", blocked)
    left = load_plugins(discover=False)
    missing = [
        (left.registry(hook), name)
        for hook in HOOKS
        for name in [
            name for name in whole.registry(hook).names() if name not in left.registry(hook)
        ][:2]
    ]
    assert missing
    for registry, name in missing:
        said = re.escape(
            f"the {registry.noun} {name} is in the plugin mirrorbench-{blocked}, which is disabled"
        )
        with pytest.raises(UnknownNameError, match=said):
            registry.entry(name)


@pytest.mark.parametrize(
    ("task", "plugin"),
    [("./own.csv", "evaluate"), ("bli-en-fr:train=1k", "lexical"), ("wsd", "lexical")],
)
def test_tasks_that_are_in_no_list_are_named_with_their_plugin(
    task: str, plugin: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MIRRORBENCH_DISABLE_PLUGINS", plugin)
    plugins = load_plugins(discover=False)
    assert task not in plugins.tasks
    with pytest.raises(UnknownNameError, match=f"mirrorbench-{plugin}, which is disabled"):
        expand_tasks([task], plugins)


@pytest.mark.slow
@pytest.mark.parametrize("blocked", [*SHIPPED, ",".join(SHIPPED)])
def test_the_core_works_without_them(blocked: str, tmp_path: Path) -> None:
    environment = os.environ | {
        "MIRRORBENCH_DISABLE_PLUGINS": blocked,
        "MIRRORBENCH_CACHE": str(tmp_path / "cache"),
    }
    done = subprocess.run(
        [sys.executable, "-c", CELL],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "tiny-mp" in done.stdout
    loaded = done.stdout.splitlines()[-1].split()
    assert not {SHIPPED[name] for name in blocked.split(",")} & {*loaded}


@pytest.mark.full
def test_the_tests_of_the_core_pass_without_them() -> None:
    environment = os.environ | {"MIRRORBENCH_DISABLE_PLUGINS": ",".join(SHIPPED)}
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "-m", "not full", "tests"]
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-4000:]
