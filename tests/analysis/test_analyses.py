"""Each analysis, run as a command, against an independent computation from the vectors or the stored results."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from helpers.analysis_command import rows, table
from helpers.stored_results import stored, write
from helpers.toy_plugin import PLUGIN
from scipy.stats import spearmanr
from sklearn.metrics import roc_auc_score
from sklearn.metrics.pairwise import cosine_similarity

import mirrorbench as package
from mirrorbench.core.encoder_protocol import TextInput

PLAIN = "tiny+base:pooling=mean"


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
        similarities = []
        for text, word_spans in spans.items():
            words = encoder.encode([TextInput(text, (span,)) for span in word_spans])
            mean = words.mean(axis=0, keepdims=True)
            similarities.append(cosine_similarity(words, mean).mean())
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
    computed = np.load(path)
    time_before = path.stat().st_mtime_ns
    document = json.loads((folder / "analysis" / "similarity-quick-sts.json").read_text())
    bands = document["distributions"][PLAIN]["bands"]
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
    assert path.stat().st_mtime_ns == time_before
    shifts = rows(folder / "analysis" / "errors-quick-sts.csv")
    assert len(shifts) == 250
    ranks = [(float(row["gold_rank"]), float(row["rank_before"])) for row in shifts]
    assert np.corrcoef(np.array(ranks).T)[0, 1] == pytest.approx(
        spearmanr(computed["scores"], gold)[0]
    )


def test_errors_names_every_encoder_it_got(analyze: Callable) -> None:
    """An encoder that cannot be planned counts too."""
    encoders = (PLAIN, "tiny+base:pooling=cls", "./missing+base")
    arguments = [argument for spec in encoders for argument in ("-e", spec)]
    done = analyze("errors", *arguments, "-t", "quick-sts", "-f", "none")
    done.assert_fails(2, f"but got 3: {', '.join(encoders)}")


def test_roc_area_and_projected_senses_are_correct(
    analyze: Callable, folder: Path, random_model: Callable
) -> None:
    model = f"{random_model('bert')}+base:pooling=target"
    done = analyze("roc", "-e", model, "-f", "none").assert_works()
    (path,) = (folder / "results").rglob("seed-0.npz")
    computed = np.load(path)
    # The embedded part of the data is scored on its train split.
    scored = computed["splits"] == "train"
    area = roc_auc_score(computed["gold"][scored], computed["scores"][scored])
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
                result = stored(spec, task, score, seed, corpus="x", corpus_size=n)
                write(folder / "results", result)
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
