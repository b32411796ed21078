"""Every file and command of docs/plugins.md; its package in an environment that has nothing but mirrorbench's wheel."""

from __future__ import annotations

import dataclasses
import re
import runpy
import shlex
import tomllib
from pathlib import Path

import numpy as np
import pytest
from helpers.documentation_pages import commands, files
from helpers.fresh_environments import Fresh, fresh_environment
from helpers.page_reader import Shell

from mirrorbench.core.errors import DataFormatError
from mirrorbench.core.plugins import Plugins
from mirrorbench.data.card_files import load_card
from mirrorbench.data.store import DataStore
from mirrorbench.tasks import Vectors
from mirrorbench.tasks.base import score_task

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "plugins.md"


COMMANDS = commands(PAGE)
PACKAGE = next(
    row for row, command in enumerate(COMMANDS) if command.startswith("mirrorbench plugin new")
)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A working directory with the files of the page."""
    folder = tmp_path / "work"
    folder.mkdir()
    for name, text in files(PAGE).items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder


@pytest.mark.slow
def test_single_file_plugin_commands_work(
    work: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    shell, output = Shell(work, monkeypatch, capsys.readouterr), ""
    for command in COMMANDS[:PACKAGE]:
        said = shell(command)
        assert said.code == 0, (command, said.err)
        output += said.out
    for expected in (
        "letters",
        "word_drop=0.2",
        "pets",
        "scws",
        "senses",
        "uses",
        "generality",
        "layers=2",
        "nearest",
        "pets.bars",
        "tiny+mirror:corpus=quick-sentences,corpus_size=200 ",
        "tiny+mirror: ",
    ):
        assert expected in output, expected


@pytest.mark.slow
def test_plugin_package_works_in_fresh_environment(
    tmp_path: Path, work: Path, published: Path
) -> None:
    environment: Fresh = fresh_environment(tmp_path, list(published.glob("mirrorbench-*.whl")))
    package, said = work / "mirrorbench-my-lab", {}
    for command in COMMANDS[PACKAGE:]:
        # No network: what builds the package is the hatchling that is here.
        offline = ["--no-build-isolation"] if " -m pip " in command else []
        tested = " -m pytest " in command
        if tested:  # the installed files are what is tested
            (package / "mirrorbench_my_lab").rename(package / "not-imported")
        said[command] = environment.run(*shlex.split(command), *offline, cwd=work).stdout
        if tested:
            (package / "not-imported").rename(package / "mirrorbench_my_lab")
    output = "\n".join(said.values())
    for expected in ("3 passed", "mirrorbench-my-lab 0.1.0", "my-lab-pets", "my-lab-code"):
        assert expected in output, expected
    (wheel,) = (work / "dist").iterdir()
    assert wheel.name == "mirrorbench_my_lab-0.1.0-py3-none-any.whl"
    entry = tomllib.loads((package / "pyproject.toml").read_text(encoding="utf-8"))
    (shown,) = re.findall(r"```toml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
    assert tomllib.loads(shown)["project"]["entry-points"] == entry["project"]["entry-points"]


def test_documented_task_file_scores_correctly(plugins: Plugins, tmp_path: Path) -> None:
    source = files(PAGE)["generality.py"]
    (tmp_path / "generality.py").write_text(source, encoding="utf-8")
    plugins.add_file(tmp_path / "generality.py")
    task, store = plugins.tasks["generality"], DataStore(tmp_path, offline=True)
    assert (task.title, task.languages, task.version) == ("generality", ("en",), 1)
    items = task.load(store)
    inputs = task.inputs(items)
    vectors = Vectors(inputs, np.array([[0, 1], [2, 0], [2, 1], [3, 3]], np.float32))
    scores = score_task(task, items, vectors, "paper", plugins.metrics)
    assert scores.scores.tolist() == [1, 4, 5, 18]
    assert scores.metrics == {"spearman": 1.0}
    assert task.identity(store)


def test_documented_task_cards_load(tmp_path: Path) -> None:
    shown = files(PAGE)
    for name, text in shown.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    cards = {name: load_card(tmp_path / name) for name in shown if name.endswith(".yaml")}
    (file,) = cards["stsb-hub.yaml"].files
    assert file.sources[0].describe() in shown["stsb-hub.yaml"]


def test_documented_analysis_script_runs(
    work: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(work)
    runpy.run_path("ask.py")
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    similarities = [float(line.split()[0]) for line in lines]
    assert similarities == sorted(similarities, reverse=True)
    assert lines[0].endswith("The cat is asleep on a sofa.")


def test_documented_reader_names_the_wrong_line(plugins: Plugins, work: Path) -> None:
    plugins.add_file(work / "bars.py")
    path = work / "pets.bars"
    store = DataStore(work, offline=True)
    assert len(plugins.tasks[str(path)].load(store)) == 3
    path.write_text("4.8 | one text\n", encoding="utf-8")
    with pytest.raises(DataFormatError, match="line 1: not a number and two texts"):
        plugins.tasks[str(path)].load(store)


def test_plugin_page_lists_every_task_kind_correctly(plugins: Plugins) -> None:
    kinds = plugins.task_kinds.by_name()
    rows = re.findall(
        r"^\| `([a-z-]+)` \| `(\w+)` \| `(\w+)` \| (.*) \|$", PAGE.read_text(encoding="utf-8"), re.M
    )
    assert {kind: (name, item) for kind, name, item, _ in rows} == {
        kind: (cls.__name__, cls.item_class.__name__) for kind, cls in kinds.items()
    }
    for kind, _, _, holds in rows:
        names = set(re.findall(r"`([a-z]+)`", holds))
        assert names <= {field.name for field in dataclasses.fields(kinds[kind].item_class)}, kind
