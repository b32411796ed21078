"""``mirrorbench analyze``: commands, their output and their files. The other tests here check the measures."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.stored_results import stored, write
from helpers.toy_plugin import PLUGIN
from scipy.stats import spearmanr
from sklearn.metrics import roc_auc_score
from sklearn.metrics.pairwise import cosine_similarity

import mirrorbench as package
from mirrorbench.analysis import figures
from mirrorbench.analysis.geometry import measure_isotropy
from mirrorbench.cli.analyze import cell_text
from mirrorbench.core.encoder_protocol import TextInput
from mirrorbench.core.errors import UnknownNameError

PLAIN = "tiny+base:pooling=mean"


@pytest.fixture
def analyze(mirrorbench: Callable) -> Callable:
    return lambda *arguments: mirrorbench("analyze", *arguments)


def table(done: Any) -> list[dict[str, str]]:
    return list(
        csv.DictReader((line for line in done.out.splitlines() if "\t" in line), delimiter="\t")
    )


def rows(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))


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
        assert (first["encoder"], second["encoder"]) == ("bert-mp", "bert-CLS")
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


def test_layer_similarities_equal_direct_computation(
    analyze: Callable, folder: Path, random_model: Callable
) -> None:
    (folder / "texts.txt").write_text("the cat sat here\na dog ran\n", encoding="utf-8")
    path = random_model("bert")
    asked = (
        "layers",
        "-e",
        f"{path}+base",
        "-t",
        "quick-sts",
        "--texts",
        "texts.txt",
        "-o",
        "out",
        "-f",
        "none",
    )
    analyze(*asked).assert_works()
    measured = rows(folder / "out" / "layers-quick-sts.csv")
    assert [row["layer"] for row in measured] == ["0", "1", "2", "3"]
    spans = {
        "the cat sat here": [(0, 3), (4, 7), (8, 11), (12, 16)],
        "a dog ran": [(0, 1), (2, 5), (6, 9)],
    }
    for layer in (0, 2):
        encoder = package.load(f"{path}+base:pooling=target,layers={layer}")
        sentences = [
            encoder.encode([TextInput(text, (span,)) for span in own])
            for text, own in spans.items()
        ]
        similarities = [
            cosine_similarity(words, words.mean(axis=0, keepdims=True)).mean()
            for words in sentences
        ]
        assert float(measured[layer]["intra_similarity"]) == pytest.approx(
            np.mean(similarities), abs=1e-4
        )
    assert not list((folder / "out").glob("*.pdf"))


def test_predictions_are_computed_once(analyze: Callable, folder: Path) -> None:
    done = analyze("similarity", "-e", PLAIN, "-f", "svg").assert_works()
    assert [row["pairs"] for row in table(done)] == ["low", "middle", "high"]
    drawn = (folder / "analysis" / "similarity-quick-sts.svg").read_text()
    assert "STS17 (quick-sts): pairs by their judgement" in drawn  # svg names its texts in comments
    (path,) = (folder / "results").rglob("seed-0.npz")
    computed, before = np.load(path), path.stat().st_mtime_ns
    document = json.loads((folder / "analysis" / "similarity-quick-sts.json").read_text())
    bands = document["distributions"]["tiny-mp"]["bands"]
    assert sum(band["n"] for band in bands) == len(computed["scores"]) == 250
    gold = computed["gold"]
    low = computed["scores"][gold < gold.min() + np.ptp(gold) / 3]
    assert bands[0]["mean"] == pytest.approx(low.mean())
    asked = (
        "errors",
        "-e",
        PLAIN,
        "-e",
        "tiny+base:pooling=cls",
        "-t",
        "quick-sts",
        "--show",
        "2",
        "-f",
        "none",
    )
    assert len(table(analyze(*asked).assert_works())) == 4
    assert path.stat().st_mtime_ns == before
    shifts = rows(folder / "analysis" / "errors-quick-sts.csv")
    assert len(shifts) == 250
    ranks = [(float(row["gold_rank"]), float(row["rank_before"])) for row in shifts]
    assert np.corrcoef(np.array(ranks).T)[0, 1] == pytest.approx(
        spearmanr(computed["scores"], gold)[0]
    )


def test_roc_area_and_projected_senses_are_correct(
    analyze: Callable, folder: Path, random_model: Callable
) -> None:
    model = f"{random_model('bert')}+base:pooling=target"
    done = analyze("roc", "-e", model, "-f", "none").assert_works()
    (path,) = (folder / "results").rglob("seed-0.npz")
    computed = np.load(path)
    test = (
        computed["splits"] == "train"
    )  # the embedded part of the data is scored on its train split
    area = roc_auc_score(computed["gold"][test], computed["scores"][test])
    assert float(table(done)[0]["auc"]) == pytest.approx(area, abs=1e-4)
    assert rows(folder / "analysis" / "roc-quick-wic.csv")[0]["threshold"] == "inf"
    done = analyze(
        "projection", "-e", model, "--method", "pca", "--word", "summer", "-f", "none"
    ).assert_works()
    assert table(done)[0]["senses"] == "3"
    contexts = rows(folder / "analysis" / "projection-summer-pca.csv")
    assert {row["sense"] for row in contexts} == {"season", "person", "beam"}
    analyze("projection", "-e", model, "--word", "autumn").assert_fails(2, "autumn")


def test_curves_average_seeds_of_a_sweep(analyze: Callable, folder: Path) -> None:
    for n, scores in ((4, (0.5, 0.7)), (8, (0.4, 0.9))):
        for seed, score in enumerate(scores):
            for task in ("cats", "dogs"):
                spec = f"tiny+mirror:corpus_size={n}"
                write(
                    folder / "results", stored(spec, task, score, seed, corpus="x", corpus_size=n)
                )
    asked = ("curves", "results", "--x", "corpus_size", "-t", "cats", "--plugin", str(PLUGIN))
    analyze(*asked, "--log", "-f", "svg").assert_works()
    written = rows(folder / "analysis" / "curves-corpus_size.csv")
    points = [(row["task"], row["corpus_size"], row["seeds"]) for row in written]
    assert points == [("cats", "4", "2"), ("cats", "8", "2")]
    assert float(written[0]["mean"]) == pytest.approx(0.6)
    analyze("curves", "results", "--x", "lr").assert_fails(2, "two values of lr")


def test_frequency_counts_words_without_results(analyze: Callable, folder: Path) -> None:
    pytest.importorskip("wordfreq", reason="frequency buckets need the extra 'words'")
    done = analyze("frequency", "-f", "none").assert_works()
    counts = [int(row["words"]) for row in table(done)]
    assert (len(counts), counts[0]) == (10, max(counts))  # a long tail
    assert "mirrorbench run" in done.err


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
