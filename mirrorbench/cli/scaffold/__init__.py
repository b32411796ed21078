"""The skeleton of a plugin package, as ``mirrorbench plugin new`` writes it."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path
from string import Template

from mirrorbench.core.errors import UsageError
from mirrorbench.core.files import writing

_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")

# Where each template goes, with $module in the path.
TEMPLATES = {
    "pyproject.toml": "pyproject.toml.tmpl",
    "README.md": "README.md.tmpl",
    "$module/__init__.py": "plugin.py.tmpl",
    "$module/pets.yaml": "pets.yaml.tmpl",
    "$module/pets.tsv": "pets.tsv.tmpl",
    "tests/test_plugin.py": "test_plugin.py.tmpl",
}


def write_plugin(name: str, parent: Path) -> Path:
    """Write the package ``mirrorbench-<name>`` into a folder of that name.

    Args:
        name: lower-case letters, digits and single hyphens; begins with a letter.
        parent: where the folder is made.

    Returns:
        The folder.

    Raises:
        UsageError: the name is none, or the folder is there already.
        StorageError: it cannot be written.
    """
    name = name.removeprefix("mirrorbench-")
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} is no name for a plugin", "Lower-case letters, digits and single hyphens, e.g. my-lab."
        )
    folder = parent / f"mirrorbench-{name}"
    if folder.exists():
        raise UsageError(f"{folder} is there already", "Choose another name, or another --output.")
    values = {"name": name, "key": name.replace("-", "_"), "module": f"mirrorbench_{name.replace('-', '_')}"}
    source = files("mirrorbench.cli") / "scaffold" / "templates"
    for target, template in TEMPLATES.items():
        text = Template((source / template).read_text(encoding="utf-8")).substitute(values)
        with writing(folder / Template(target).substitute(values)) as sink:
            sink.write(text.encode("utf-8"))
    return folder
