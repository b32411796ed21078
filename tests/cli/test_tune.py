from __future__ import annotations

import io
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.toy_plugin import PLUGIN

from mirrorbench.cli.progress import Display
from mirrorbench.core.quoting import NO_TEXTS
from mirrorbench.training import checkpoints

LINES = [
    f"line {n} of a corpus about {word}"
    for n in range(10)
    for word in ("cats", "dogs", "letters", "snow")
]


@pytest.fixture
def corpus(folder: Path) -> Path:
    (folder / "mine.txt").write_text("\n".join([*LINES, LINES[0]]))
    return folder


def test_tuned_encoder_works_in_run_and_encode(
    mirrorbench: Callable, corpus: Path, random_model: Callable[[str], Path]
) -> None:
    spec = f"{random_model('bert')}:max_length=40,dropout=0.2,layers=:"
    name = "my texts, part 2+3.txt"
    (corpus / "mine.txt").rename(name)
    said = mirrorbench(
        "tune", name, "-e", spec, "-o", "my-encoder", "--held-out", "8", "--device", "cpu"
    )
    said.assert_works("alignment", "effective rank", "best, at", "Nearest neighbours")
    backbone = spec.partition(":")[0]
    assert f"Did it help? mirrorbench evaluate YOUR_DATA -e {backbone} -e ./my-encoder" in said.out
    assert "41 texts, 1 of them repeated; 32 to tune on, 8 held out" in said.err
    written = json.loads((corpus / "my-encoder" / "mirrorbench.json").read_text())
    assert (written["corpus"]["name"], written["corpus"]["n"]) == ("own texts", 32)
    for published in ("mirrorbench.json", "README.md"):
        assert "part 2" not in (corpus / "my-encoder" / published).read_text()
    assert written["recipe"]["augment"]["dropout"] == 0.2
    assert written["held_out"]["n"] == 8
    assert [state["share"] for state in written["held_out"]["states"]] == [0, 1]  # of a single step
    mirrorbench(
        "run", "--plugin", str(PLUGIN), "-e", "./my-encoder", "-t", "cats", "--device", "cpu"
    ).assert_works()
    (result,) = (json.loads(path.read_text()) for path in (corpus / "results").rglob("seed-0.json"))
    assert (result["encoder"]["pooling"], result["encoder"]["layers"]) == (
        written["readout"]["pooling"],
        ":",
    )
    assert result["encoder"]["max_length"] == 40
    mirrorbench(
        "encode", name, "-e", "./my-encoder", "-o", "v.npy", "--device", "cpu"
    ).assert_works()
    assert np.load(corpus / "v.npy").shape == (41, 32)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("tiny+base -o enc", "tunes nothing"),
        ("sbert -o enc", "a complete encoder"),
        ("tiny:corpus=words-en -o enc", "corpus="),
        ("tiny --level novel -o enc", "unknown level"),
        ("tiny -o .", "is the working directory"),
        ("no-such-model-anywhere --offline -o enc", "is not available"),
    ],
)
def test_invalid_tune_arguments_are_rejected(
    mirrorbench: Callable,
    corpus: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: str,
    message: str,
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    said = mirrorbench("tune", "mine.txt", "-e", *arguments.split())
    assert said.code in (1, 2)
    assert message in said.err
    assert [p.name for p in corpus.iterdir()] == ["mine.txt"]


@pytest.mark.parametrize("saved", [False, True])
def test_interrupted_tuning_names_its_checkpoint(
    mirrorbench: Callable,
    corpus: Path,
    monkeypatch: pytest.MonkeyPatch,
    random_model: Callable[[str], Path],
    saved: bool,
) -> None:
    """A checkpoint is named only where one was written, and nothing else is left."""
    steps = []

    def interrupt(self: Display, n: int) -> None:
        steps.append(n)
        if self._stage.startswith("tuning") and len(steps) > 1:
            raise KeyboardInterrupt

    if saved:
        monkeypatch.setattr(checkpoints, "INTERVAL", 0)
        monkeypatch.setattr(checkpoints, "SHARE", float("inf"))
    monkeypatch.setattr(Display, "advance", interrupt)
    encoder = f"{random_model('bert')}:batch_size=4"
    said = mirrorbench("tune", "mine.txt", "-e", encoder, "-o", "enc", "--device", "cpu")
    said.assert_fails(130, "nothing was written to enc.")
    assert said.err.endswith("The tuning goes on from its last checkpoint.\n") == saved
    assert [p.name for p in corpus.iterdir()] == ["mine.txt"]


def test_dry_run_prints_tuning_plan_or_error(
    mirrorbench: Callable,
    corpus: Path,
    random_model: Callable[[str], Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        "logging.raiseExceptions", False
    )  # transformers may log to what an earlier test captured
    plan = ("tune", "mine.txt", "-o", "enc", "--held-out", "0", "--device", "cpu")
    bert = random_model("bert")
    said = mirrorbench(*plan, "-e", str(bert), "--dry-run").assert_works()
    spec, device = said.out.splitlines()
    assert spec == f"{bert}+mirror seed 0: tune on 40 lines"
    assert device == "device: cpu; tuned in fp32"
    wrong = f"{random_model('mamba')}+mirror:attention=bidirectional,layers=9"
    mirrorbench(*plan, "-e", wrong, "--dry-run").assert_fails(
        2, "without attention; layers=9 selects none", "Write "
    )
    assert [path.name for path in corpus.iterdir()] == ["mine.txt"]


def test_corpus_texts_are_escaped_or_hidden(
    mirrorbench: Callable,
    corpus: Path,
    random_model: Callable[[str], Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(NO_TEXTS, "")  # restored at the end, since the option sets it
    (corpus / "evil.txt").write_text("".join(f"\x1b[2J{line}\u202e\n" for line in LINES))
    asked = (
        "tune",
        "evil.txt",
        "-e",
        str(random_model("bert")),
        "-o",
        "enc",
        "--held-out",
        "8",
        "--device",
        "cpu",
    )
    said = mirrorbench(*asked).assert_works("Nearest neighbours", "\\u001b[2Jline", "\\u202e")
    assert not set("\x1b\u202e") & set(said.out + said.err)
    said = mirrorbench("--no-texts", *asked, "--force").assert_works("alignment")
    assert "of a corpus" not in said.out + said.err
    (corpus / "mixed.txt").write_text("a secret||b\na secret||c\nsecret alone\n")
    mixed = ("tune", "mixed.txt", "-e", asked[3], "-o", "x")
    said = mirrorbench("--no-texts", *mixed).assert_fails(2, "(a text of 12 characters)")
    assert "secret" not in said.err
    written = [file for file in (corpus / "enc").rglob("*") if file.is_file()]
    assert not [file for file in written if b"a corpus about" in file.read_bytes()]


def test_tune_and_run_handle_pairs_identically(
    mirrorbench: Callable,
    corpus: Path,
    random_model: Callable[[str], Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = str(random_model("bert"))
    pairs = zip(LINES[::2], LINES[1::2], strict=True)
    lines = "".join(f"{a}||{b}\n" for a, b in pairs)
    columns = ("p.csv", "-c", "a,b")
    (corpus / "p.txt").write_text(lines)
    (corpus / "p.csv").write_text("a,b\n" + lines.replace("||", ","))
    (corpus / "some.txt").write_text(lines + "alone\n")

    def both(spec: str, file: str, *more: str) -> list[Any]:
        tune = (
            "tune",
            file,
            *more,
            "-e",
            spec,
            "-o",
            "enc",
            "--held-out",
            "0",
            "--device",
            "cpu",
            "--force",
        )
        run = (
            "run",
            "--plugin",
            str(PLUGIN),
            "-e",
            spec,
            "-t",
            "cats",
            "--corpus",
            file,
            *more,
            "--device",
            "cpu",
        )
        return [mirrorbench(*tune), mirrorbench(*run)]

    for said in both(f"{model}+mirror", *columns):
        said.assert_fails(
            2, f"{model}+mirror tunes on single texts, but these are pairs", f"Write {model}+pairs"
        )
    for said in both(model, "some.txt"):
        said.assert_fails(2, "20 of 21 lines are pairs", "not 'alone'")
    for said in both(f"{model}+pairs", "mine.txt"):
        said.assert_fails(2, "tunes on pairs, but the lines are not pairs")
    assert not (corpus / "results").exists()
    for given in (columns, ("p.txt",)):
        assert [said.code for said in both(model, *given)] == [0, 0]
    stored = [
        json.loads(path.read_text())["cell"] for path in (corpus / "results").rglob("seed-0.json")
    ]
    assert {cell["method"] for cell in stored} == {"base", "pairs"}
    assert json.loads((corpus / "enc" / "mirrorbench.json").read_text())["spec"] == f"{model}+pairs"
    for said in both(f"{model}+mirror", "p.txt"):  # a named method tunes on the lines as they are
        said.assert_works()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(lines.encode())))
    said = mirrorbench(
        "tune", "-", "-e", model, "-o", "piped", "--held-out", "5", "--device", "cpu"
    )
    assert "20 pairs" in said.assert_works(f"{model}+pairs").err
    assert "pairs of texts" in (corpus / "piped" / "README.md").read_text()
    written = json.loads((corpus / "piped" / "mirrorbench.json").read_text())["corpus"]
    assert (written["name"], written["n"]) == ("own texts", 15)


def test_model_tuned_on_standard_input_is_evaluated(
    mirrorbench: Callable,
    corpus: Path,
    random_model: Callable[[str], Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = [f"{line}\t{line} too\t{n % 6}" for n, line in enumerate(LINES)]
    (corpus / "pairs.tsv").write_text("\n".join(["sentence1\tsentence2\tscore", *rows]))
    lines = "\n".join(LINES)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(lines.encode())))
    options = ("-o", "piped", "--evaluate", "./pairs.tsv", "--device", "cpu")
    said = mirrorbench("tune", "-", "-e", str(random_model("bert")), *options)
    said.assert_works("piped")
    assert "overlap of the data with texts from standard input" in said.err


def test_tokenizer_is_checked_before_texts(
    mirrorbench: Callable, corpus: Path, random_model: Callable[[str], Path]
) -> None:
    (corpus / "broken.txt").write_bytes(b"one\n\xff\n")
    path = shutil.copytree(random_model("bert"), corpus / "model")
    for file in path.glob("*token*"):
        file.unlink()
    said = mirrorbench("tune", "broken.txt", "-e", "./model", "-o", "enc", "--device", "cpu")
    said.assert_fails(1, "tokenizer in")
    assert "UTF-8" not in said.err
    mirrorbench("tune", "missing.txt", "-e", "./model", "-o", "enc").assert_fails(
        2, "no file missing.txt"
    )
