from __future__ import annotations

import re
import socket
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import pytest
from helpers.stored_results import stored, write
from helpers.toy_plugin import CATS_AND_DOGS, results


def test_plugin_run_writes_tables_and_reuses_results(toys: Callable, folder: Path) -> None:
    said = toys("--encoder", "letters", *CATS_AND_DOGS).assert_works()
    table = [
        line.strip("|").replace(" ", "").split("|")
        for line in said.out.splitlines()
        if line.startswith("|")
    ]
    assert table[0] == ["encoder", "cats", "dogs", "avg."]
    assert table[2][0] == "letters"
    file = (folder / "results" / "leaderboard.md").read_text()
    assert file.endswith("\n<!-- Made by mirrorbench run, which replaces it. -->\n")
    assert "Protocol: paper" in file  # all notes, although the screen has the short ones
    assert r"\toprule" in (folder / "results" / "leaderboard.tex").read_text()
    assert "2 results in results" in said.err
    stored = results(folder / "results")
    assert set(stored) == {"letters/cats/seed-0.json", "letters/dogs/seed-0.json"}
    assert f"{stored['letters/cats/seed-0.json']['main_score']:.3f}"[1:] in table[2][1]
    second = toys("--encoder", "letters", *CATS_AND_DOGS)
    assert second.out == said.out
    assert "2 results in results, from earlier runs" in second.err
    assert results(folder / "results") == stored
    assert (folder / "calls").read_text() == "letters 4\n"


def test_dry_run_lists_done_and_remaining_cells(
    toys: Callable, folder: Path, random_model: Callable
) -> None:
    toys("--encoder", "letters", *CATS_AND_DOGS, "--dry-run").assert_works(
        "2 cells: 0 done, 2 to do, 0 cannot run"
    )
    assert list(folder.iterdir()) == []
    toys("--encoder", "letters", "--tasks", "cats")
    said = toys("--encoder", "letters", "--encoder", "./nowhere", *CATS_AND_DOGS, "--dry-run")
    assert re.findall("^ *(done|to do) +(.*?)  (.*?)  ", said.out, re.M) == [
        ("done", "letters", "cats"),
        ("to do", "letters", "dogs"),
    ]
    assert "2 cells: 1 done, 1 to do, 6 cannot run" in said.out
    (folder / "results" / "letters" / "cats" / "seed-1.json").write_text(
        "{"
    )  # what a run would compute again
    said = toys("--encoder", "letters", *CATS_AND_DOGS, "--dry-run")
    assert (said.code, said.out.count("done, 1 to do, 0 cannot run")) == (0, 1)
    long = folder / ("long" * 30)  # no line is broken
    long.symlink_to(random_model("bert"))
    said = toys("--encoder", f"{long}+base", "--tasks", "cats", "--dry-run")
    assert f"  to do  {long}+base  cats  [" in said.out


GRID = """
title: Letters twice
tasks: cats
blocks:
  - encoders: letters
  - {encoders: letters, tasks: dogs}
"""


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        (["-t", "xxxxx"], "unknown task or suite 'xxxxx'", "listed by: mirrorbench list tasks;"),
        (["-t", ""], "--tasks names no task", "mirrorbench list tasks"),
        (
            ["-e", "letters", "--corpus", "hf:a/b@main/train#text"],
            "asks for 'main'",
            "commits/main",
        ),
        (["-e", "letters:pooling"], "cannot read the encoder spec 'letters:pooling'", "Grammar"),
        (["-e", "robreta"], "unknown encoder 'robreta'", "Did you mean roberta?"),
        (
            ["-e", "tiny", "--executor", "ray"],
            "unknown executor 'ray'",
            "Others are packages: pip install mirrorbench-EXECUTOR",
        ),
        (["grid.yaml", "--executor", "lcoal"], "unknown executor 'lcoal'", "local"),
        (
            ["grid.yaml", "--encoder", "tiny+mirror"],
            "--encoder tiny+mirror: with a grid file",
            "--encoder tiny",
        ),
        (["--device", "cuda:99", "-t", "cats"], "cuda:99", ""),
        (["-o", ""], "--output is empty", "Name a folder"),
        (["--column", "body"], "--column", "Add --corpus FILE"),
        (["--notes", "few"], "'few'", "none, short, all"),
    ],
)
def test_invalid_run_arguments_are_rejected_before_fetching(
    toys: Callable,
    folder: Path,
    arguments: list[str],
    message: str,
    hint: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Told before anything is fetched."""
    monkeypatch.setattr(
        "mirrorbench.data.store.DataStore.resolve", lambda *_: pytest.fail("data are fetched")
    )
    (folder / "grid.yaml").write_text(GRID)
    tasks = [] if "-t" in arguments or arguments[0].endswith("yaml") else ["-t", "stsb"]
    toys(*arguments, *tasks).assert_fails(2, message, hint, out="")
    assert not (folder / "results").exists()


def test_failed_cells_are_reported_and_others_stored(toys: Callable, folder: Path) -> None:
    said = toys("--encoder", "broken", "--encoder", "letters", *CATS_AND_DOGS).assert_fails(
        1, "RuntimeError: it broke [down]", "Failed: broken on cats, broken on dogs"
    )
    assert "2 scores are missing" in said.out
    assert (
        "missing: broken on cats: RuntimeError: it broke"
        in (folder / "results" / "leaderboard.md").read_text()
    )
    assert set(results(folder / "results")) == {
        "letters/cats/seed-0.json",
        "letters/dogs/seed-0.json",
    }
    row = next(line for line in said.out.splitlines() if line.startswith("| broken"))
    assert row.count("–") == 3
    toys("--encoder", "broken", "--tasks", "cats", "-o", "none").assert_fails(
        1, "No results.", out=""
    )


def test_unavailable_models_are_summarised_and_logged(
    toys: Callable, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(folder / "hub"))
    run = ("--encoder", "roberta", "--encoder", "letters", *CATS_AND_DOGS, "--offline")
    summary = "6 of 8 cells cannot run, since these are not available:\n  models  roberta-base\n"
    said = toys(*run).assert_fails(
        1, summary, "--encoder ./path/to/model", "HF_HOME=", "mirrorbench run"
    )
    assert "No answer" not in said.err  # none was asked
    assert len(results(folder / "results")) == 2
    log = (folder / "results" / "failures.log").read_text()
    assert log.count("the model roberta-base is not available") == 1
    assert str(folder / "hub") in log
    assert "roberta+mirror dogs\n" in log
    assert log.splitlines()[1] not in said.err
    (folder / "model").mkdir()
    monkeypatch.setattr(
        "mirrorbench.data.store.DataStore.resolve", lambda *_: pytest.fail("data are fetched")
    )
    said = toys("-e", "./modle", "-t", "stsb")
    said.assert_fails(
        1, "backbone ./modle: there is no such directory", "Did you mean model?", out=""
    )


def test_grid_file_cells_are_run(toys: Callable, folder: Path) -> None:
    (folder / "grid.yaml").write_text(GRID)
    toys("grid.yaml", "--dry-run").assert_works(
        "2 cells: 0 done, 2 to do, 0 cannot run\ndevice: cpu; evaluated in fp32\n"
    )
    toys("grid.yaml").assert_works("Letters twice")
    assert set(results(folder / "results")) == {
        "letters/cats/seed-0.json",
        "letters/dogs/seed-0.json",
    }
    said = toys("grid.yaml", "--tasks", "cats", "--protocol", "released", "--dry-run")
    assert "1 cell: 0 done, 1 to do, 0 cannot run\n" in said.out
    assert "2 cells: 2 done, 0 to do, 0 cannot run\n" in toys("grid.yaml", "--dry-run").out


def test_dry_run_downloads_nothing(
    toys: Callable, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = Mock(side_effect=AssertionError("a socket was opened"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(folder / "hub"))
    monkeypatch.setattr(socket.socket, "connect", opened)
    monkeypatch.setattr(socket, "getaddrinfo", opened)
    toys("-e", "roberta", "-e", "letters", "-t", "cats,sts12", "--dry-run").assert_works(
        "6 cannot run, since these are not available here (the run fetches them)",
        "  models  roberta-base\n",
    )
    assert "fetches" not in toys("-e", "roberta", "-t", "cats", "--dry-run", "--offline").out
    opened.assert_not_called()


def test_full_disk_prints_one_error(
    toys: Callable, folder: Path, full_disk: Callable[[str], None]
) -> None:
    (folder / "file").write_text("in the way")
    toys("--encoder", "letters", "--tasks", "cats", "-o", "file").assert_fails(1, "annot write")
    assert not (folder / "calls").exists()  # nothing was computed that could not have been stored
    full_disk("results")
    said = toys("--encoder", "letters", *CATS_AND_DOGS).assert_fails(1)
    assert said.err.count("No space left on device") == 1
    assert "Free some space" in said.err


def test_table_is_printed_despite_an_unwritable_folder(
    toys: Callable, folder: Path, full_disk: Callable[[str], None]
) -> None:
    full_disk("leaderboard.md")
    first = toys("--encoder", "letters", *CATS_AND_DOGS).assert_works(
        "1.000"
    )  # cells are stored, the table printed
    assert (
        "were not updated: Cannot write results/leaderboard.md: No space left on device"
        in first.err
    )
    assert not (folder / "results" / "leaderboard.md").exists()
    full_disk("results")
    again = toys("--encoder", "letters", *CATS_AND_DOGS).assert_works()
    assert again.out == first.out
    assert "leaderboard.md and leaderboard.tex were not updated: Cannot write" in again.err
    assert "2 results in results, from earlier runs" in again.err


def test_user_files_are_not_overwritten_by_tables(toys: Callable, folder: Path) -> None:
    run = ("-e", "letters", "-t", "cats", "-o")
    for name in ("leaderboard.md", "leaderboard-1.tex"):
        (folder / name).write_text("mine, by mirrorbench run\n")
    (folder / "leaderboard.tex").symlink_to("nowhere")
    said = toys(*run, ".").assert_works()
    assert said.err.endswith(
        "; table of all results in this folder: leaderboard-1.md, leaderboard-2.tex\n"
    )
    assert (folder / "leaderboard.md").read_text() == "mine, by mirrorbench run\n"
    assert not (folder / "nowhere").exists()
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    toys(*run, ".").assert_works()
    assert before == {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def test_leaderboard_file_contains_all_stored_results(toys: Callable, folder: Path) -> None:
    (folder / "go").touch()  # nothing blocks
    file = folder / "results" / "leaderboard.md"
    one = toys("-e", "letters", "-t", "cats", "--notes", "none").assert_works()
    assert file.read_text().startswith(one.out)
    two = toys("-e", "blocking", "-t", "cats", "-q").assert_works()
    assert two.err == ""
    assert "letters" not in two.out
    assert {"letters", "blocking"} <= {
        line.split("|")[1].strip() for line in file.read_text().splitlines()[2:4]
    }
    toys("-e", "letters", "-t", "cats", "--limit", "2").assert_works(
        "SMOKE RUN on only the first 2 items"
    )
    stored = folder / "results" / "limit-2" / "leaderboard.md"
    assert stored.read_text().lstrip().startswith("**SMOKE RUN on only the first 2 items")
    assert "smoke" not in file.read_text()
    (folder / "results" / "seed-9.json").write_text("{")  # of another run
    said = toys("-e", "letters", "-t", "cats").assert_works()
    assert "hold only the results of this run" in said.err


def test_table_labels_are_accepted_as_encoder_names(mirrorbench: Callable, folder: Path) -> None:
    write(folder / "results", stored("tiny+mirror", "quick-sts", 0.5))
    plan = ("run", "-t", "quick-sts", "--dry-run", "--device", "cpu", "-e")
    mirrorbench(*plan, "tiny + Mirror").assert_works("tiny+mirror seed 0: tune on ")
    mirrorbench(*plan, "tiny + Mirr").assert_fails(2, "cannot read the encoder spec 'tiny + Mirr'")
