"""The wheels of mirrorbench and of the packages in plugins/, as they are published, installed into a fresh environment.

Each plugin is found there by its entry point, and a command of it works. Its own tests are run where they lie.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from helpers.fresh_environments import Fresh, fresh_environment

from mirrorbench import __version__

ROOT = Path(__file__).resolve().parents[1]
PLUGINS = sorted((ROOT / "plugins").glob("*/pyproject.toml"))
# plugin -> (what it needs besides mirrorbench, the hooks that it uses)
EXPECTED = {
    "mirrorbench-endpoint": ("openai", ["register_encoders"]),
    "mirrorbench-methods": (
        "mirrorbench",
        [
            "register_augmentations",
            "register_losses",
            "register_methods",
            "register_papers",
            "register_poolings",
        ],
    ),
    "mirrorbench-mteb": ("mteb", ["register_tasks"]),
    "mirrorbench-ray": ("ray", ["register_executors"]),
    "mirrorbench-slurm": ("submitit", ["register_executors"]),
}
BASE = "mirrorbench run -e tiny+base:pooling=mean -t quick-sts --offline"
CORPUS = "batch_size=16,corpus_size=64,corpus=quick-sentences"
TUNED = f"mirrorbench run -e tiny+simcse:{CORPUS} -e tiny+tsdae:{CORPUS} -t quick-sts --offline"
GRID = "encoders: tiny+base:pooling=mean\ntasks: quick-sts\n"
# plugin -> commands (those of its page where nothing forbids it), and what the last of them must say
COMMANDS = {
    "mirrorbench-endpoint": (["mirrorbench list encoders"], "endpoint:url=http://HOST:PORT/v1"),
    "mirrorbench-mteb": ([BASE, "mirrorbench mteb export results -o mteb"], "STS17.json"),
    "mirrorbench-ray": (["mirrorbench run grid.yaml --executor ray --workers 2"], "tiny-mp"),
    "mirrorbench-methods": ([TUNED, "mirrorbench paper simcse/table5"], "SimCSE-BERT-base"),
    "mirrorbench-slurm": (
        ["mirrorbench run grid.yaml --executor slurm:cluster=local --workers 2"],
        "tiny-mp",
    ),
}

pytestmark = pytest.mark.real
slow, full = pytest.mark.slow, pytest.mark.full


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory, published: Path) -> Fresh:
    return fresh_environment(tmp_path_factory.mktemp("fresh"), sorted(published.glob("*.whl")))


def entry_point(project: Path) -> tuple[str, str]:
    """The name and the module of a plugin's only entry point."""
    ((name, module),) = tomllib.loads(project.read_text("utf-8"))["project"]["entry-points"][
        "mirrorbench"
    ].items()
    return name, module


def needs(project: Path) -> None:
    needed, _ = EXPECTED[project.parent.name]
    if importlib.util.find_spec(needed) is None:
        pytest.skip(f"the package {needed} is not installed")


@slow
def test_installed_wheels_provide_packages_and_plugin_hooks(fresh: Fresh, tmp_path: Path) -> None:
    modules = ["mirrorbench", *(entry_point(project)[1] for project in PLUGINS)]
    code = "import importlib.util, sys; print(*(importlib.util.find_spec(m).origin for m in sys.argv[1:]), sep='\\n')"
    found = fresh.run("python", "-c", code, *modules, cwd=tmp_path).stdout.split()
    assert len(found) == len(modules)
    assert [path for path in found if not Path(path).is_relative_to(fresh.folder)] == []
    said = fresh.run("mirrorbench", "list", "plugins", "--json", cwd=tmp_path).stdout
    listed = {row["name"]: row for row in json.loads(said)}
    for project in PLUGINS:
        row = listed[entry_point(project)[0]]
        assert row["distribution"] == f"{project.parent.name} {__version__}"
        assert row["hooks"] == EXPECTED[project.parent.name][1]


@full
def test_extras_of_installed_package_resolve_without_index(fresh: Fresh, tmp_path: Path) -> None:
    # What messages and pages say, `pip install 'mirrorbench[parquet]'`, holds where mirrorbench came from a clone too.
    pip = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        str(fresh.folder / "bin" / "python"),
        "install",
        "--dry-run",
    ]
    command = [*pip, "--no-index", "mirrorbench[parquet]"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "already satisfied: mirrorbench[parquet]" in done.stdout, done.stderr


@full
@pytest.mark.parametrize("project", PLUGINS, ids=lambda path: path.parent.name)
def test_plugin_commands_work_in_fresh_environment(
    project: Path, fresh: Fresh, tmp_path: Path
) -> None:
    needs(project)
    commands, expected = COMMANDS[project.parent.name]
    (tmp_path / "grid.yaml").write_text(GRID)
    said = ""
    for command in commands:
        said = fresh.run(*command.split(), cwd=tmp_path).stdout
    assert expected in said
