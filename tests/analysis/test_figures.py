"""Figures of every analysis: drawn without a warning, reproducible, and with the numbers of their rows."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.score_curves import NAMES, score_curves
from helpers.suite_marks import few

from mirrorbench.analysis import figures, geometry, scores
from mirrorbench.analysis.layers import LayerSums, words_in
from mirrorbench.core.errors import UnknownNameError

pytest.importorskip("matplotlib", reason="figures need the extra 'figures'")
from matplotlib import rcParams
from matplotlib.image import imread

RNG = np.random.default_rng(0)


def _isotropy() -> Any:
    vectors = {name: RNG.normal(n, 1, size=(20, 4)) for n, name in enumerate(NAMES)}
    return figures.isotropy_figure(
        [{"encoder": k, **geometry.measure_isotropy(v)} for k, v in vectors.items()]
    )


def _similarity(gold: np.ndarray) -> Any:
    stored = {
        name: {"scores": RNG.uniform(0.2 * n, 1, len(gold)), "gold": gold}
        for n, name in enumerate(NAMES)
    }
    edges = scores.shared_edges([arrays["scores"] for arrays in stored.values()])
    return figures.similarity_figure(
        {name: scores.distribution(arrays, edges) for name, arrays in stored.items()}
    )


def _layers(n: int, score: float | None) -> Any:
    sums = LayerSums(words_in(["the cat sat here", "a dog ran", "so it goes"]), 0)
    for sentence, words in enumerate((4, 3, 3)):
        sums.add(sentence, RNG.normal(1, 1, size=(4, words, 5)))
    layers = sums.measure([np.array([0, 1]), np.array([1, 2])], [score] * 4)
    return figures.layers_figure(dict.fromkeys(NAMES[:n], layers), "WiC: accuracy")


def _frequency(n: int) -> Any:
    rows = scores.count_words(
        ["cat"], [(f"words-en-{k}-{k + 10}k", ["cat"] * (k == 0)) for k in range(0, 100, 10)]
    )
    for k, row in enumerate(rows):
        row |= {name: k / 20 if k % 3 else None for name in NAMES[:n]} | {
            f"{name} sd": 0.01 for name in NAMES[:n]
        }
    return figures.frequency_figure(rows, score_curves(n, 0.01))


def _errors(n: int) -> Any:
    before, after = RNG.integers(0, 2, n), RNG.integers(0, 2, n)
    answers = (before, before - 0.7), (after, after - 0.7)
    rows = scores.changed_answers([str(k) for k in range(n)], after, *answers)
    return figures.errors_figure(rows, [], NAMES[:2], graded=False)


def _shifts() -> Any:
    rows = scores.shifted_ranks([str(k) for k in range(30)], *RNG.normal(size=(3, 30)))
    return figures.errors_figure(rows[:20], rows[20:], NAMES[:2], graded=True)


def _roc() -> Any:
    gold = RNG.integers(0, 2, 40).astype(float)
    roc_curves = {
        n: scores.roc_curve({"scores": gold + RNG.normal(size=40), "gold": gold}) for n in NAMES
    }
    return figures.roc_figure(
        roc_curves | {"perfect": scores.roc_curve({"scores": gold, "gold": gold})}
    )


def _projection(n: int, senses: int, axis_names: bool) -> Any:
    names = [f"sense {k % senses}" for k in range(30)]
    return figures.projection_figure(
        {f"encoder {k}": RNG.normal(size=(30, 2)) for k in range(n)}, names, axis_names
    )


DRAWN: dict[str, Callable[[], Any]] = {
    "isotropy": _isotropy,
    "similarity of labels": lambda: _similarity(RNG.integers(0, 2, 200)),
    "layers": lambda: _layers(2, 0.6),
    "layers of one encoder without a score": lambda: _layers(1, None),
    "projection of one": lambda: _projection(1, 12, True),
    "projection of four": lambda: _projection(4, 1, False),
    "roc": _roc,
    "curves": lambda: figures.curves_figure(score_curves(3, 0.02), "corpus_size", True),
    "a curve of one seed": lambda: figures.curves_figure(score_curves(1, None), "dropout", False),
    "frequency": lambda: _frequency(2),
    "frequency without results": lambda: _frequency(0),
    "errors": lambda: _errors(40),
    "no errors": lambda: _errors(0),
    "shifts": _shifts,
}


KEPT = (
    "isotropy",
    "similarity of labels",
    "layers",
    "projection of one",
    "roc",
    "frequency",
    "errors",
    "shifts",
)
"""Figures of the first suite, one of each analysis; curves are drawn below."""


@pytest.mark.parametrize("name", few(DRAWN, *KEPT))
def test_every_figure_is_drawn_without_a_warning(name: str, tmp_path: Path) -> None:
    """Nothing is cut off: the outermost pixels of every figure are blank."""
    heading = "Multi-SimLex (multisimlex-en): 10,000 pairs by their judgement"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with figures.style():
            rcParams["savefig.dpi"] = 150  # quicker
            figure = figures.titled(DRAWN[name](), heading)
            (path,) = figures.save(figure, tmp_path / "figure", ["png"])
    assert figure.get_figwidth() in (figures.COLUMN, figures.PAGE)
    title = figure.legends[0].get_title().get_text() if figure.legends else figure.get_suptitle()
    assert " ".join(title.split()) == heading
    pixels = imread(path)[..., :3]
    assert (pixels < 1).any()
    edges = (pixels[0], pixels[-1], pixels[:, 0], pixels[:, -1])
    assert name.startswith("projection") or all((edge == 1).all() for edge in edges)


def test_figure_files_are_reproducible(tmp_path: Path) -> None:
    def draw(stem: str) -> list[bytes]:
        with figures.style():
            figure = figures.curves_figure(score_curves(1, 0.02), "corpus_size", False)
            files = figures.save(figure, tmp_path / stem, list(figures.FIGURE_FORMATS))
        assert [path.name for path in files] == [f"{stem}.pdf", f"{stem}.svg", f"{stem}.png"]
        (line,) = figure.axes[0].lines
        np.testing.assert_allclose(line.get_xydata(), [(10, 0.5), (25, 0.65), (35, 0.75)])
        assert (figure.axes[0].get_xlabel(), figure.axes[0].get_ylabel()) == (
            "corpus size",
            "spearman",
        )
        return [path.read_bytes() for path in files]

    contents = draw("one")
    assert [content[1:4] for content in contents] == [b"PDF", b"?xm", b"PNG"]
    assert contents == draw("two")


def test_matplotlib_settings_are_restored() -> None:
    before = dict(rcParams)
    with figures.style():
        assert (rcParams["font.size"], rcParams["pdf.fonttype"]) == (8, 42)
    assert dict(rcParams) == before


def test_empty_frequency_buckets_are_not_drawn() -> None:
    """One of ten buckets has a word, and six others have a score."""
    with figures.style():
        bars, lines = (_frequency(n).axes for n in (0, 2))
    assert [label.get_text() for label in bars[0].get_xticklabels()] == ["0–10"]
    assert [text.get_text() for text in bars[0].texts] == ["1"]
    labels = ["0–10", *(f"{k}0–{k + 1}0" for k in range(10) if k % 3)]
    assert [label.get_text() for label in lines[0].get_xticklabels()] == labels


def test_unknown_figure_formats_are_rejected() -> None:
    assert figures.check_formats(["png", "pdf", "png"]) == ("png", "pdf")
    assert figures.check_formats([]) == ()
    with pytest.raises(UnknownNameError, match="'jpg'"):
        figures.check_formats(["jpg"])


def test_senses_have_distinct_markers() -> None:
    with figures.style():
        (ax,) = _projection(1, 30, True).axes
    looks = {
        (*dots.get_facecolor()[0], *map(tuple, dots.get_paths()[0].vertices.tolist()))
        for dots in ax.collections
    }
    assert len(looks) == len(ax.collections) == 30
