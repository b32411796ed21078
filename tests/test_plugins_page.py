"""Every file and command of docs/plugins.md, in an environment that has nothing but the wheel of mirrorbench."""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path

import numpy as np
import pytest
from fresh import Fresh, fresh_environment
from pages import commands, files

from mirrorbench.core.plugins import Plugins
from mirrorbench.data.cardfile import load_card
from mirrorbench.data.store import DataStore
from mirrorbench.tasks import Vectors
from mirrorbench.tasks.base import score_task

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "plugins.md"


@pytest.mark.real
def test_the_page_from_the_first_file_to_the_package(tmp_path: Path) -> None:
    environment: Fresh = fresh_environment(tmp_path, [ROOT])
    work = tmp_path / "work"
    work.mkdir()
    for name, text in files(PAGE).items():
        (work / name).write_text(text, encoding="utf-8")
    said = {}
    for command in commands(PAGE):
        # No network: what builds the package is the hatchling that is here.
        offline = ["--no-build-isolation"] if " -m pip " in command else []
        said[command] = environment.run(*shlex.split(command), *offline, cwd=work).stdout
    output = "\n".join(said.values())
    for expected in (
        "letters",
        "word_drop=0.2",
        "pets",
        "generality",
        "tiny + Mirror: ",
        "3 passed",
        "my-lab",
        "my-lab-code",
    ):
        assert expected in output, expected
    (wheel,) = (work / "dist").iterdir()
    assert wheel.name == "mirrorbench_my_lab-0.1.0-py3-none-any.whl"
    entry = tomllib.loads((work / "mirrorbench-my-lab" / "pyproject.toml").read_text(encoding="utf-8"))
    (shown,) = re.findall(r"```toml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
    assert tomllib.loads(shown)["project"]["entry-points"] == entry["project"]["entry-points"]


def test_a_task_of_fifteen_lines(plugins: Plugins, tmp_path: Path) -> None:
    source = files(PAGE)["generality.py"]
    assert len(source.splitlines()) <= 15
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


def test_no_block_of_the_page_is_left_out(tmp_path: Path) -> None:
    text = PAGE.read_text(encoding="utf-8")
    kinds = re.findall(r"^```(\w+)$", text, re.M)
    assert len(files(PAGE)) == len([kind for kind in kinds if kind not in ("console", "toml")])
    assert set(kinds) <= {"console", "toml", "python", "yaml", "tsv"}


def test_the_cards_are_cards(tmp_path: Path) -> None:
    shown = files(PAGE)
    for name, text in shown.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    cards = {name: load_card(tmp_path / name) for name in shown if name.endswith(".yaml")}
    assert len(cards) == 2
    (file,) = cards["stsb-hub.yaml"].files
    assert file.sources[0].describe() in shown["stsb-hub.yaml"]
