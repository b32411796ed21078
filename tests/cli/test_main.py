from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from stored import stored, write
from typer._completion_classes import BashComplete
from typer.main import get_command

from mirrorbench import __version__
from mirrorbench.cli import app
from mirrorbench.core.errors import UnknownNameError
from mirrorbench.data.card_files import builtin_cards, builtin_suites

GRIDS = Path(__file__).parents[2] / "leaderboards" / "grids"
HEAVY = ("torch", "transformers", "scipy", "sklearn", "pandas")
LIGHT = (
    "--help",
    "run --help",
    "leaderboard --help",
    "list tasks",
    "list methods --json",
    "list augmentations",
    "list backbones",
    "list suites",
    "list plugins",
    "data list",
    "tune --help",
    "encode --help",
    "doctor --help",
    "cache list",
    "leaderboard results",
)
MODULES = f"""
import contextlib, io, sys
from mirrorbench.cli import main
for line in {LIGHT!r}:
    sys.argv = ["mirrorbench", *line.split()]
    with contextlib.redirect_stdout(io.StringIO()) as out:
        try:
            main()
        except SystemExit as stop:
            assert not stop.code, line
    assert out.getvalue(), line
    print(line, *(name for name in {HEAVY!r} if name in sys.modules), sep=" | ")
"""


GREETER = '''"""``mirrorbench greet``: a word to everybody."""
print("imported")
def greet(): print("hello")
def odd(x: int | str): print(x)
'''
COMPLETION = f"""
import sys, mirrorbench
assert not {{'numpy', 'typer', *{HEAVY!r}}} & set(sys.modules)
from mirrorbench.cli.completion import NAMES
for kind, names in NAMES.items():
    assert list(names()), kind
assert not {{*{HEAVY!r}}} & set(sys.modules)
"""


def printed_by(code: str, folder: Path) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


@pytest.mark.slow
def test_light_commands_import_nothing_heavy(folder: Path) -> None:
    write(folder / "results", stored("tiny+base", "stsb", 0.5))
    assert printed_by(MODULES, folder) == list(LIGHT)


def test_the_package_and_completion_import_nothing_heavy(folder: Path) -> None:
    assert printed_by(COMPLETION, folder) == []


def test_version_help_and_completion(
    mirrorbench: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert mirrorbench("--version").out.split() == ["mirrorbench", __version__]
    said = mirrorbench("--help").assert_works()
    assert all(command in said.out for command in ("run", "leaderboard", "data", "list", "plugin"))
    assert "plugins " not in said.out  # the old name of a list
    said = mirrorbench("run", "--help").assert_works()
    places = [said.out.index(f"─ {panel} ─") for panel in ("What", "How", "Where", "Output")]
    assert places == sorted(places)
    monkeypatch.setenv("_MIRRORBENCH_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "mirrorbench en")
    monkeypatch.setenv("COMP_CWORD", "1")
    assert mirrorbench().assert_works().out.split() == ["encode"]


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("methods", "mirror"),
        ("tasks", "stsb"),
        ("augmentations", "span_mask"),
        ("corpora", "sts-sentences"),
        ("suites", "sts"),
        ("backbones", "roberta"),
        ("renderers", "latex"),
        ("executors", "local"),
    ],
)
def test_lists(mirrorbench: Callable, kind: str, name: str) -> None:
    rows = {row["name"]: row for row in json.loads(mirrorbench("list", kind, "--json").out)}
    assert name in rows
    if kind not in ("suites", "backbones"):
        assert rows[name]["plugin"].startswith("mirrorbench.")
    plain = mirrorbench("list", kind).out.splitlines()
    assert [line.split("\t")[0] for line in plain[1:]] == list(rows)


def test_encoders_and_plugins_are_listed_with_what_they_are(
    mirrorbench: Callable, toys: Callable
) -> None:
    kinds = {
        row["name"]: row["type"]
        for row in json.loads(mirrorbench("list", "encoders", "--json").out)
    }
    assert kinds.items() >= {"sbert": "system", "roberta": "backbone", "+mirror": "method"}.items()
    rows = {
        Path(row["name"]).name: row
        for row in json.loads(toys("plugins", "--json", command="list").out)
    }
    assert rows["letters.py"]["hooks"] == ["register_encoders", "register_tasks"]
    assert rows["mirrorbench.training.methods"]["distribution"] == "built in"


@pytest.mark.slow
def test_a_command_of_a_plugin_is_imported_when_it_is_called(
    tmp_path: Path, process: Callable[..., subprocess.Popen[str]]
) -> None:
    (tmp_path / "toy_greeter.py").write_text(GREETER)
    info = tmp_path / "toy_greeter-3.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: toy-greeter\nVersion: 3.0\n")
    points = "".join(f"{name} = toy_greeter:{name}\n" for name in ("greet", "odd", "absent", "run"))
    (info / "entry_points.txt").write_text(
        f"[mirrorbench]\ngreeter = toy_greeter\n[mirrorbench.commands]\n{points}"
    )

    def said(*arguments: str, **environment: str) -> tuple[int, str, str]:
        running = process(*arguments, PYTHONPATH=str(tmp_path), **environment)
        out, err = running.communicate(timeout=60)
        return running.returncode, out, err

    assert said("greet") == (0, "imported\nhello\n", "")
    for name, reason in (("odd", "AssertionError: Typer"), ("absent", "AttributeError")):
        code, _, err = said(name)
        assert (code, "Traceback" in err) == (2, False)
        assert f"the command '{name}' of toy_greeter failed: {reason}" in " ".join(err.split())
    code, out, err = said("--help")
    assert (code, err, out.count("A word to everybody."), "imported" in out) == (0, "", 3, False)
    assert "Train, evaluate and print" in out  # a built-in name is not replaced
    assert "word to everybody" not in said("--help", MIRRORBENCH_DISABLE_PLUGINS="greeter")[1]
    code, _, err = said("greet", MIRRORBENCH_DISABLE_PLUGINS="greeter")
    assert (code, "the command greet is in the plugin toy-greeter, which is disabled" in err) == (
        2,
        True,
    )


@pytest.mark.parametrize(
    "command",
    [
        "run none.yaml",
        "run --plugin none.py",
        "run -e tiny+mirror -t quick-sts --corpus none.txt",
        "tune none.txt -e tiny -o enc",
        "tune none.jsonl -c a,b -e tiny -o enc",
        "encode none.txt -e tiny",
        "encode none.txt -e tiny -w",
        "leaderboard none",
        "leaderboard none.json",
        "compare tiny tiny -r none",
        "data import none",
        "data overlap none.txt quick-sts",
        f"tune {'none' * 80} -e tiny -o enc",
    ],
)
def test_what_is_named_on_the_command_line_and_not_there(
    mirrorbench: Callable, folder: Path, command: str
) -> None:
    mirrorbench(*command.split()).assert_fails(2, "none", out="")
    assert list(folder.iterdir()) == []


def test_debugging_shows_the_traceback(
    mirrorbench: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MIRRORBENCH_DEBUG", "1")
    with pytest.raises(UnknownNameError):
        mirrorbench("run", "--tasks", "nothing")


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("run --tasks sts,xlwic-f", {"sts,xlwic-fa", "sts,xlwic-fr"}),
        ("run -t wordle", set()),
        ("data fetch am2ico-k", {"am2ico-ka", "am2ico-kk", "am2ico-ko"}),
        ("run --encoder rob", {"roberta"}),
        ("run -e roberta+mirrorw", {"roberta+mirrorwic"}),
        ("run --corpus sts-sent", {"sts-sentences"}),
        ("run mirrorwic-", {file.stem for file in GRIDS.glob("mirrorwic-*.yaml")}),
        ("run --device cu", {"cuda", "cuda:0"}),
        ("paper mirrorwic/table3", {"mirrorwic/table3"}),
        ("leaderboard --format ma", {"markdown"}),
        ("list tasks --suite xl", {"xlwic"}),
        ("list encod", {"encoders"}),
    ],
)
def test_completion_offers_names(typed: str, offered: set[str]) -> None:
    command, words = get_command(app), typed.split()
    with command.make_context("mirrorbench", words[:-1], resilient_parsing=True):
        found = BashComplete(command, {}, "mirrorbench", "_X").get_completions(
            words[:-1], words[-1]
        )
    assert {item.value for item in found} == offered


def test_tasks_are_chosen_by_suite_level_language_and_what_is_here(
    mirrorbench: Callable, tmp_path: Path
) -> None:
    def chosen(*options: str) -> list[str]:
        return [
            row["name"] for row in json.loads(mirrorbench("list", "tasks", "--json", *options).out)
        ]

    tasks = {card.name: card for card in builtin_cards().values() if card.kind != "corpus"}
    assert chosen() == list(tasks)
    assert set(chosen("--suite", "sts")) == set(builtin_suites()["sts"])
    assert chosen("--level", "wic", "--language", "de") == [
        name for name, card in tasks.items() if card.level == "wic" and "de" in card.languages
    ]
    inside = chosen("--here", "--data-dir", str(tmp_path))
    assert set(builtin_suites()["quick"]) <= set(inside) < set(tasks)
    mirrorbench("list", "tasks", "--level", "words").assert_fails(
        2, "unknown level 'words'", "Did you mean word"
    )
    mirrorbench("list", "suites", "--here").assert_fails(2, "choose tasks")
    (sts,) = (
        row
        for row in json.loads(mirrorbench("list", "suites", "--json").out)
        if row["name"] == "sts"
    )
    assert sts["measures"] == "similarity of two English sentences"
