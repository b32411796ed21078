"""The names of ``mirrorbench.plugin``."""

from __future__ import annotations

import ast
import doctest
import inspect
import re
import subprocess
import sys
from pathlib import Path

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


PACKAGES = sorted((Path(mirrorbench.__file__).parents[1] / "plugins").glob("*/"))


@pytest.mark.skipif(not PACKAGES, reason="the packages are in a checkout alone")
@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: path.name)
def test_packages_import_public_names_alone(package: Path) -> None:
    """Code of a package, and of its tests, is written as that of any other plugin."""
    public = {"mirrorbench": mirrorbench.__all__, "mirrorbench.plugin": mirrorbench.plugin.__all__}
    wrong = []
    for file in sorted(package.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
                wrong += [(file, name) for name in names if name.startswith("mirrorbench.")]
            elif (
                isinstance(node, ast.ImportFrom) and str(node.module).split(".")[0] == "mirrorbench"
            ):
                names = [alias.name for alias in node.names]
                allowed = public.get(str(node.module), ())
                wrong += [(file, node.module, name) for name in names if name not in allowed]
    assert not wrong
