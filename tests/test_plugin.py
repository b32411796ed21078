"""The names of ``mirrorbench.plugin``."""

from __future__ import annotations

import ast
import doctest
import inspect
import re
import subprocess
import sys
from pathlib import Path
from string import Template

import pytest
from helpers.docstring_examples import run_examples

import mirrorbench.plugin
from mirrorbench.core.deprecated_names import DEPRECATED_NAMES


def test_every_public_plugin_name_is_importable() -> None:
    for name in mirrorbench.plugin.__all__:
        assert getattr(mirrorbench.plugin, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        mirrorbench.plugin.nothing  # noqa: B018


DOCUMENTED = [
    name
    for name in mirrorbench.plugin.__all__
    if inspect.isclass(getattr(mirrorbench.plugin, name))
    or inspect.isfunction(getattr(mirrorbench.plugin, name))
]


@pytest.mark.slow
@pytest.mark.parametrize("name", DOCUMENTED)
def test_docstring_examples_of_public_names_run(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    value = getattr(mirrorbench.plugin, name)
    (documented,) = doctest.DocTestFinder(recurse=False).find(value, name, globs={})
    imported = re.findall(r"(?:from|import) (mirrorbench[\w.]*)", documented.docstring)
    assert set(imported) <= {"mirrorbench", "mirrorbench.plugin"}
    run_examples([documented])


def test_public_names_are_not_deprecated() -> None:
    assert not DEPRECATED_NAMES.keys() & set(mirrorbench.plugin.__all__)


@pytest.mark.parametrize("name", DEPRECATED_NAMES)
def test_deprecated_plugin_names_forward_with_a_warning(name: str) -> None:
    replacement = DEPRECATED_NAMES[name].replacement
    with pytest.warns(DeprecationWarning, match=re.escape(f"use {replacement}")) as warnings:
        assert getattr(mirrorbench.plugin, name) is not None
    assert warnings[0].filename == __file__


def test_importing_the_interface_imports_no_torch() -> None:
    script = "import mirrorbench.plugin, sys; print([m for m in sys.modules if m in %r])"
    heavy = ("torch", "transformers", "scipy", "sklearn", "pandas", "sentence_transformers")
    printed = subprocess.check_output([sys.executable, "-c", script % (heavy,)], text=True)
    assert printed == "[]\n"


SOURCE = Path(mirrorbench.__file__).parent
PACKAGES = [
    *sorted((SOURCE.parent / "plugins").glob("*/")),
    *sorted((SOURCE.parent / "tests" / "worked_package").glob("*/")),
]
TEMPLATES = sorted((SOURCE / "cli" / "templates").glob("*.py.tmpl"))


def internal_imports(source: str) -> list[str]:
    """Return what a file imports from ``mirrorbench`` other than names of the public interface."""
    public = {"mirrorbench": mirrorbench.__all__, "mirrorbench.plugin": mirrorbench.plugin.__all__}
    internal = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
            internal += [module for module in modules if module.startswith("mirrorbench.")]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            module = str(node.module)
            if module.partition(".")[0] == "mirrorbench":
                names = [alias.name for alias in node.names]
                allowed = public.get(module, ())
                internal += [f"{module}.{name}" for name in names if name not in allowed]
    return internal


@pytest.mark.skipif(not PACKAGES, reason="the packages are in a checkout alone")
@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: path.name)
def test_packages_import_public_names_alone(package: Path) -> None:
    """Code of a package, and of its tests, is written as that of any other plugin."""
    internal = {
        file: internal_imports(file.read_text(encoding="utf-8")) for file in package.rglob("*.py")
    }
    assert {file: names for file, names in internal.items() if names} == {}


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: path.name)
def test_new_plugin_imports_public_names_alone(template: Path) -> None:
    """The files of ``mirrorbench plugin new`` are examples of a plugin."""
    placeholders = {"name": "my-lab", "module": "mirrorbench_my_lab", "key": "my_lab"}
    source = Template(template.read_text(encoding="utf-8")).substitute(placeholders)
    assert "mirrorbench" in source
    assert internal_imports(source) == []
