"""Calls in Python as a new user gets them wrong: each has one error of this package that says what to pass."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.registered_toys import toys

import mirrorbench
from mirrorbench.core.errors import MirrorbenchError
from mirrorbench.runs.pool import UNGUARDED_SCRIPT

__all__ = ["toys"]


class Shapeless:
    def encode(self, texts: list[str]) -> Any:
        return np.ones(len(texts))


class Boom:
    def encode(self, texts: list[str]) -> Any:
        return {}["boom"]


CALLS: dict[str, tuple[Callable[[], Any], tuple[str, ...]]] = {
    "keyword": (lambda: mirrorbench.run(encoder="tiny"), ("run() has no argument", "encoders")),
    "other word": (lambda: mirrorbench.run(model="tiny"), ("no argument 'model'", "encoders")),
    "setting": (lambda: mirrorbench.load("tiny", devise="cpu"), ("load()", "device")),
    "unknown word": (lambda: mirrorbench.evaluate("tiny", xyz=1), ("Its arguments: encoder",)),
    "method": (lambda: mirrorbench.Session().run(task="cats"), ("run()", "tasks")),
    "session": (lambda: mirrorbench.Session(devices="cpu"), ("Session()", "device")),
    "load None": (lambda: mirrorbench.load(None), ("not None", "'tiny'")),
    "run None": (lambda: mirrorbench.run(None, "cats"), ("not None", "'tiny'")),
    "run number": (lambda: mirrorbench.run(["letters", 3], "cats"), ("not 3",)),
    "no encoder": (lambda: mirrorbench.evaluate([], "cats"), ("0 encoders", "at least one")),
    "names": (
        lambda: mirrorbench.evaluate(["letters", "tiny"], "cats", name=["a"]),
        ("2 encoders and 1 names",),
    ),
    "object": (lambda: mirrorbench.evaluate(object(), "cats"), ("has no encode(texts)",)),
    "no task": (lambda: mirrorbench.run("letters", []), ("no task is named",)),
    "task None": (lambda: mirrorbench.run("letters", [None]), ("not None", "'stsb'")),
    "task": (lambda: mirrorbench.run("letters", "catz"), ("'catz'", "cats")),
    "missing file": (
        lambda: mirrorbench.evaluate("letters", Path("none.csv")),
        ("no file or folder ./none.csv",),
    ),
    "string": (lambda: mirrorbench.load("letters").encode("a"), ("one string", "[text]")),
    "text None": (
        lambda: mirrorbench.load("letters").encode(["a", None]),
        ("texts[1] is a NoneType", "empty cells"),
    ),
    "surrogate": (
        lambda: mirrorbench.load("letters").encode(["a\ud800"]),
        ("texts[0] holds U+D800", "UTF-8"),
    ),
    "limit": (lambda: mirrorbench.run("letters", "cats", limit=-1), ("limit=-1", "whole number")),
    "part": (lambda: mirrorbench.run("letters", "cats", limit=3.7), ("limit=3.7", "whole number")),
    "seeds": (lambda: mirrorbench.run("letters", "cats", seeds=0), ("seeds=0", "at least 1")),
    "device": (
        lambda: mirrorbench.run("letters", "cats", device="gpu"),
        ("device", "gpu", "cpu"),
    ),
    "level": (lambda: mirrorbench.load("tiny", level=3), ("unknown level 3", "Known")),
    "device number": (lambda: mirrorbench.load("tiny", device=0), ("device=0", "Pass a text")),
    "output": (lambda: mirrorbench.run("letters", "cats", output=3), ("output=3", "a path")),
    "workers": (lambda: mirrorbench.run("letters", "cats", workers=0), ("workers=0", "at least 1")),
    "flag": (lambda: mirrorbench.run("letters", "cats", baselines="no"), ("baselines='no'",)),
    "tasks number": (lambda: mirrorbench.run("letters", 3), ("not int", "'stsb'")),
    "corpus": (lambda: mirrorbench.run("letters", "cats", corpus=3), ("corpus=3", "corpus")),
    "reporter": (lambda: mirrorbench.run("letters", "cats", reporter=print), ("reporter=",)),
    "margin": (lambda: mirrorbench.compare("a", "b", margin="x"), ("no folder",)),
    "class": (lambda: mirrorbench.evaluate(Boom, "cats"), ("is a class", "Boom()")),
    "object in run": (lambda: mirrorbench.run(Boom(), "cats"), ("mirrorbench.evaluate",)),
    "batch size": (
        lambda: mirrorbench.load("letters").encode(["a"], batch_size=3),
        ("encode() has no argument 'batch_size'", "texts"),
    ),
    "mapping": (lambda: mirrorbench.load("letters").encode({"a": 1}), ("not a dict", "column")),
    "tuning texts": (lambda: mirrorbench.tune(None, "tiny"), ("texts must be a list, not None",)),
    "tuning surrogate": (lambda: mirrorbench.tune(["a\ud800"] * 40, "tiny"), ("texts[0] holds",)),
    "seed": (lambda: mirrorbench.tune(["a b"] * 40, "tiny", seed=-1), ("seed=-1",)),
    "results": (lambda: mirrorbench.leaderboard([]), ("results=[]", "a path")),
    "compare": (lambda: mirrorbench.compare("a", "b"), ("no folder results with results",)),
}


@pytest.mark.parametrize("name", list(CALLS))
def test_wrong_call_says_what_to_pass(name: str) -> None:
    call, messages = CALLS[name]
    with pytest.raises(MirrorbenchError) as caught:
        call()
    for message in messages:
        assert message in str(caught.value)
    assert "--" not in str(caught.value)


def test_texts_may_come_from_an_iterator() -> None:
    encoder = mirrorbench.load("letters")
    assert encoder.encode(iter(["a", "b"])).shape == encoder.encode(["a", "b"]).shape


def test_failures_are_warned_of() -> None:
    with pytest.warns(mirrorbench.FailureWarning, match=r"1 of 2 cells failed: .*boom.*in encode"):
        board = mirrorbench.evaluate([Boom(), "letters"], "cats", name=["b", "l"])
    assert [str(failure.spec) for failure in board.failures] == ["b"]
    with pytest.warns(mirrorbench.FailureWarning, match="shape"):
        mirrorbench.evaluate(Shapeless(), "cats")


def test_several_encoders_are_compared_on_own_data(tmp_path: Path) -> None:
    rows = [f"{'a' * n} b,{'a' * n} {'b' * (n % 2)},{n % 2}\n" for n in range(1, 21)]
    (tmp_path / "pairs.csv").write_text("text1,text2,label\n" + "".join(rows))
    board = mirrorbench.evaluate(["letters", "letters:x=1"], tmp_path / "pairs.csv")
    (verdict,) = board.table.verdicts
    assert (verdict.spec, verdict.over) == ("letters:x=1", "letters")
    assert len(board.to_frame()) == 2


def test_comparison_shows_as_table_and_frame() -> None:
    mirrorbench.run(["letters", "letters:x=1"], "cats,dogs")
    compared = mirrorbench.compare("letters", "letters:x=1")
    assert "| task" in repr(compared)
    assert "<table>" in compared._repr_html_()
    frame = compared.to_frame()
    assert list(frame["task"]) == ["cats", "dogs", "avg."]
    assert list(frame["difference"]) == [0.0, 0.0, 0.0]


def test_script_without_guard_is_named(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import mirrorbench\n"
        "mirrorbench.run('tiny+base:pooling=mean', 'quick-sts', workers=2, device='cpu')\n"
    )
    done = subprocess.run(
        [sys.executable, str(script)], cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert done.returncode not in (0, UNGUARDED_SCRIPT)
    assert 'if __name__ == "__main__":' in done.stderr.splitlines()[-1]


def test_contradicting_numbers_of_workers_are_refused() -> None:
    with pytest.raises(MirrorbenchError, match="workers=3, but workers=2"):
        mirrorbench.Session(executor="pool:workers=2", workers=3).compute  # noqa: B018
    assert mirrorbench.Session(executor="pool:workers=2", workers=2).compute.options["workers"] == 2
