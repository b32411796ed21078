from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers.stored_results import stored, write

from mirrorbench import __version__
from mirrorbench.core.errors import UnknownNameError

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
def test_light_commands_import_no_heavy_libraries(folder: Path) -> None:
    write(folder / "results", stored("tiny+base", "stsb", 0.5))
    assert printed_by(MODULES, folder) == list(LIGHT)


def test_package_and_completion_import_no_heavy_libraries(folder: Path) -> None:
    assert printed_by(COMPLETION, folder) == []


def test_version_help_and_completion_are_printed(
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
    "command",
    [
        "run",
        "tune",
        "encode",
        "evaluate",
        "leaderboard",
        "compare",
        "paper",
        "list",
        "analyze errors",
        "analyze layers",
        "analyze projection",
    ],
)
def test_every_option_is_in_a_panel(mirrorbench: Callable, command: str) -> None:
    said = mirrorbench(*command.split(), "--help").assert_works()
    _, _, rest = said.out.partition("─ Options ─")
    options_without_panel, _, _ = rest.partition("╰")
    names = [word for word in options_without_panel.split() if word.startswith("--")]
    assert names == ["--help"]


@pytest.mark.slow
def test_plugin_commands_are_imported_only_when_called(
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
    assert "Tune and evaluate encoders" in out  # a built-in name is not replaced
    assert "word to everybody" not in said("--help", MIRRORBENCH_DISABLE_PLUGINS="greeter")[1]
    code, _, err = said("greet", MIRRORBENCH_DISABLE_PLUGINS="greeter")
    assert (code, "the command greet of the plugin toy-greeter is disabled" in err) == (
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
def test_missing_paths_are_rejected_without_writing_files(
    mirrorbench: Callable, folder: Path, command: str
) -> None:
    mirrorbench(*command.split()).assert_fails(2, "none", out="")
    assert list(folder.iterdir()) == []


def test_debug_mode_raises_the_original_error(
    mirrorbench: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MIRRORBENCH_DEBUG", "1")
    with pytest.raises(UnknownNameError):
        mirrorbench("run", "--tasks", "nothing")


@pytest.mark.parametrize("command", ["run", "leaderboard", "evaluate"])
def test_defaults_stand_in_one_pair_of_brackets(mirrorbench: Callable, command: str) -> None:
    said = mirrorbench(command, "--help").assert_works().out
    assert "[default: " in said
    assert "default: (" not in said
