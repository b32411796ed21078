"""``mirrorbench analyze``: commands, their output and their files. ``tests/analysis`` checks the measures."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers.analysis_command import rows, table
from helpers.toy_plugin import PLUGIN

import mirrorbench as package
from mirrorbench.analysis import figures
from mirrorbench.analysis.geometry import measure_isotropy
from mirrorbench.cli.analyze import cell_text
from mirrorbench.core.errors import UnknownNameError


@pytest.mark.parametrize(
    "command",
    [
        "isotropy -e tiny+base --texts none.txt",
        "projection -e tiny+base --texts none.txt",
        "curves none",
        "frequency none",
    ],
)
def test_missing_files_and_folders_are_errors(
    analyze: Callable, folder: Path, command: str
) -> None:
    analyze(*command.split()).assert_fails(2, "none", out="")
    assert list(folder.iterdir()) == []


def test_isotropy_command_reports_measures_per_protocol(
    analyze: Callable, folder: Path, random_model: Callable
) -> None:
    """`released` keeps repeats: Mirror-BERT, footnote 15; the tuning text in the released code has some."""
    lines = ["a cat", "a dog", "a cat", "a cat ", "the tall ship"]
    (folder / "texts.txt").write_text("\n".join(lines), encoding="utf-8")
    specs = [f"{random_model('bert')}+base:pooling={name}" for name in ("mean", "cls")]
    asked = ("isotropy", "-e", specs[0], "-e", specs[1], "--texts", "texts.txt", "-f", "svg,png")
    for protocol, texts in (("paper", ["a cat", "a dog", "the tall ship"]), ("released", lines)):
        first, second = table(analyze(*asked, "--protocol", protocol).assert_works())
        assert [first["encoder"], second["encoder"]] == specs
        measured = measure_isotropy(package.load(specs[0]).encode(texts))
        assert float(first["log isotropy"]) == pytest.approx(measured["log_isotropy"], abs=1e-3)
        row = rows(folder / "analysis" / "isotropy-quick-sts.csv")[0]
        assert int(row["n"]) == len(texts)
        assert float(row["mean_vector_norm"]) == pytest.approx(measured["mean_vector_norm"])
    document = json.loads((folder / "analysis" / "isotropy-quick-sts.json").read_text())
    assert (document["texts"]["source"], document["texts"]["n"], document["seed"]) == (
        "texts.txt",
        5,
        0,
    )
    assert [encoder["spec"] for encoder in document["encoders"]] == specs
    for name in ("svg", "png"):
        assert (folder / "analysis" / f"isotropy-quick-sts.{name}").stat().st_size > 1000


@pytest.mark.parametrize(
    ("arguments", "needle"),
    [
        ("isotropy -t quick", "suite"),
        ("isotropy -t quick-stss", "quick-sts"),
        ("errors -e tiny", "two encoders"),
        ("curves nowhere", "no folder"),
        (f"layers -e letters -t cats --plugin {PLUGIN}", "layers"),
    ],
)
def test_invalid_analysis_arguments_are_rejected(
    analyze: Callable, arguments: str, needle: str
) -> None:
    analyze(*arguments.split()).assert_fails(2, needle)


def test_analysis_survives_failed_encoders_and_missing_matplotlib(
    analyze: Callable, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(figures, "find_spec", lambda name: None)
    broken = ("-e", "./nowhere", "-e", "broken", "-e", "letters", "--plugin", str(PLUGIN))
    (folder / "texts.txt").write_text("one text\nanother text\n", encoding="utf-8")
    done = analyze("isotropy", *broken, "--texts", "texts.txt").assert_fails(
        1,
        "nowhere",
        "the encoder broken failed: RuntimeError: it broke [down]",
        "mirrorbench[figures]",
    )
    assert [row["encoder"] for row in table(done)] == ["letters"]
    assert [path.suffix for path in sorted((folder / "analysis").iterdir())] == [".csv", ".json"]
    with pytest.raises(UnknownNameError, match="'limits'"):
        package.Session().analyze("isotropy", limits=3)


def test_table_values_are_rounded_for_display() -> None:
    assert [cell_text(v) for v in (None, 0.5, 0.00012345, 12345.6, 3, "x", float("nan"), 0.0)] == [
        "–",
        "0.5000",
        "0.0001234",
        "1.235e+04",
        "3",
        "x",
        "–",
        "0.0000",
    ]
