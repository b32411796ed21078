"""``mirrorbench same``: its output and exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from helpers.page_reader import Shell


@pytest.fixture
def shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Shell:
    texts = [f"the river rose {n} metres" if n % 2 else f"a cat {n}" for n in range(14)]
    (tmp_path / "texts.txt").write_text("".join(f"{text}\n" for text in texts))
    return Shell(tmp_path, monkeypatch, capsys.readouterr)


def test_equal_vectors_end_with_zero(shell: Shell) -> None:
    assert shell("mirrorbench encode texts.txt -e tiny -o served.npy").code == 0
    done = shell("mirrorbench same tiny vectors:path=served.npy -t texts.txt")
    assert done.code == 0, done.err
    lines = done.out.splitlines()
    assert lines[:2] == ["A: tiny", "B: vectors:path=served.npy,texts=texts.txt"]
    assert lines[2] == "Texts: texts.txt"
    assert lines[4] == "Equal. B's vectors are A's on all 14 texts."
    assert "differ most" not in done.out


def test_different_vectors_end_with_four_and_their_cause(shell: Shell) -> None:
    command = "mirrorbench same tiny tiny+base:pooling=cls -t texts.txt"
    done = shell(command)
    assert done.code == 4
    assert (
        "Different. B's vectors are not A's: 0 of 14 texts have a cosine above 0.9999." in done.out
    )
    assert "\nB is A read at its first token.\n" in done.out
    assert "The texts that differ most:" in done.out
    report = json.loads(shell(f"{command} --json").out)
    assert report["verdict"] == "different"
    assert report["cause"]["kind"] == "reading"
    assert report["texts"]["number"] == 14
    assert len(report["texts"]["worst"]) == 10
    assert report["texts"]["worst"][0]["text"]


def test_data_that_do_not_suffice_end_with_three(tmp_path: Path, shell: Shell) -> None:
    rows = [f"a cat {n},a dog {n * n % 13},{n % 7}\n" for n in range(25)]
    (tmp_path / "few.csv").write_text("sentence1,sentence2,score\n" + "".join(rows))
    done = shell("mirrorbench same tiny tiny+base:layers=-2 --data few.csv")
    assert done.code == 3
    assert "few.csv cannot show that two usual encoders" in done.err
    assert "few.csv (cosine_spearman): cannot say. No separable difference: " in done.out


def test_texts_are_left_out_if_they_are_private(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MIRRORBENCH_NO_TEXTS", "1")
    command = "mirrorbench same tiny tiny+base:pooling=cls -t texts.txt"
    assert "river" not in shell(command).out
    assert "river" not in shell(f"{command} --json").out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("tiny tiny", "tiny is compared with itself"),
        ("tiny tiny+base:pooling=cls -t nosuch.txt", "nosuch.txt"),
        ("tiny vectors:path=nosuch.npy -t texts.txt", "there is no file of vectors"),
        ("tiny", "Missing argument 'B'"),
    ],
)
def test_wrong_commands_end_with_two(shell: Shell, arguments: str, message: str) -> None:
    done = shell(f"mirrorbench same {arguments}")
    assert done.code == 2
    assert message in done.err
