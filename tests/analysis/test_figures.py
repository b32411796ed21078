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
    rows = []
    for n, name in enumerate(NAMES):
        vectors = RNG.normal(n, 1, size=(20, 4))
        rows.append({"encoder": name, **geometry.measure_isotropy(vectors)})
    return figures.isotropy_figure(rows)


def _similarity(gold: np.ndarray) -> Any:
    stored = {}
    for n, name in enumerate(NAMES):
        stored[name] = {"scores": RNG.uniform(0.2 * n, 1, len(gold)), "gold": gold}
    edges = scores.shared_edges([arrays["scores"] for arrays in stored.values()])
    distributions = {name: scores.distribution(arrays, edges) for name, arrays in stored.items()}
    return figures.similarity_figure(distributions)


def _layers(n: int, score: float | None) -> Any:
    sums = LayerSums(words_in(["the cat sat here", "a dog ran", "so it goes"]), 0)
    for sentence, words in enumerate((4, 3, 3)):
        sums.add(sentence, RNG.normal(1, 1, size=(4, words, 5)))
    layers = sums.measure([np.array([0, 1]), np.array([1, 2])], [score] * 4)
    return figures.layers_figure(dict.fromkeys(NAMES[:n], layers), "WiC: accuracy")


def _frequency(n: int) -> Any:
    buckets = []
    for k in range(0, 100, 10):
        words = ["cat"] if k == 0 else []
        buckets.append((f"words-en-{k}-{k + 10}k", words))
    rows = scores.count_words(["cat"], buckets)
    for k, row in enumerate(rows):
        for name in NAMES[:n]:
            row[name] = k / 20 if k % 3 else None
            row[f"{name} sd"] = 0.01
    return figures.frequency_figure(rows, score_curves(n, 0.01))


def _errors(n: int) -> Any:
    before = RNG.integers(0, 2, n)
    after = RNG.integers(0, 2, n)
    ids = [str(k) for k in range(n)]
    rows = scores.changed_answers(ids, after, (before, before - 0.7), (after, after - 0.7))
    return figures.errors_figure(rows, [], NAMES[:2], graded=False)


def _shifts() -> Any:
    rows = scores.shifted_ranks([str(k) for k in range(30)], *RNG.normal(size=(3, 30)))
    return figures.errors_figure(rows[:20], rows[20:], NAMES[:2], graded=True)


def _roc() -> Any:
    gold = RNG.integers(0, 2, 40).astype(float)
    roc_curves = {}
    for name in NAMES:
        predictions = {"scores": gold + RNG.normal(size=40), "gold": gold}
        roc_curves[name] = scores.roc_curve(predictions)
    roc_curves["perfect"] = scores.roc_curve({"scores": gold, "gold": gold})
    return figures.roc_figure(roc_curves)


def _projection(n: int, senses: int, axis_names: bool) -> Any:
    names = [f"sense {k % senses}" for k in range(30)]
    points = {}
    silhouettes = {}
    for k in range(n):
        points[f"encoder {k}"] = RNG.normal(size=(30, 2))
        silhouettes[f"encoder {k}"] = -0.25 if k else None
    return figures.projection_figure(points, names, axis_names, silhouettes)


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


FIRST_SUITE = (
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


@pytest.mark.parametrize("name", few(DRAWN, *FIRST_SUITE))
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


LONG_SPEC = "tiny+mirror:pooling=cls,dropout=0.2,span_mask=3,corpus_size=50,epochs=1"
"""A label without a space, wider than a column."""


def _equal_roc(n: int) -> Any:
    curve = scores.roc_curve({"scores": np.arange(8.0), "gold": np.arange(8) % 2.0})
    return figures.roc_figure({f"{LONG_SPEC} {k}": curve for k in range(n)})


def _marker_places(line: Any) -> set[tuple[float, ...]]:
    """Places of a line's markers on the page."""
    points = line.get_xydata()
    every = line.get_markevery()
    if isinstance(every, tuple):
        first, step = every
        points = points[first::step]
    elif every is not None:
        points = points[every]
    places = line.get_transform().transform(points)
    return set(map(tuple, places.round(2).tolist()))


def test_many_curves_differ_without_colour() -> None:
    styles = [figures._line_style(number) for number in range(24)]
    assert len({(style["marker"], style["linestyle"]) for style in styles}) == 24
    assert len({(style["color"], style["linestyle"]) for style in styles}) == 24
    with figures.style():
        lines = _equal_roc(24).axes[0].lines[1::2]
    assert [line.get_marker() for line in lines] == [style["marker"] for style in styles]


def test_equal_roc_curves_have_separate_markers() -> None:
    with figures.style():
        figure = _equal_roc(9)
        figure.draw_without_rendering()
        places = [_marker_places(line) for line in figure.axes[0].lines[2::2]]
    assert len(set.union(*places)) == sum(map(len, places)) == 27


@pytest.mark.parametrize("layers", [3, 13])
def test_equal_layers_have_separate_markers(layers: int) -> None:
    """Few layers are drawn side by side; of many layers, each encoder marks others."""
    columns = ("score", "log_isotropy", "random_similarity", "adjusted_intra_similarity")
    numbers = dict.fromkeys(columns, 0.5) | dict.fromkeys(("log_isotropy_sd", "random_sd"), 0.1)
    rows = [{"layer": layer, **numbers} for layer in range(layers)]
    with figures.style():
        figure = figures.layers_figure({f"encoder {k}": rows for k in range(5)}, "accuracy")
        figure.draw_without_rendering()
        for ax in figure.axes:
            places = [_marker_places(line) for line in ax.lines]
            assert len(places) == 5
            assert len(set.union(*places)) == sum(map(len, places))


def test_long_specs_in_legends_are_wrapped() -> None:
    with figures.style():
        figure = _equal_roc(9)
        figure.draw_without_rendering()
        (legend,) = figure.legends
        box = legend.get_window_extent()
    assert figure.bbox.x0 <= box.x0
    assert box.x1 <= figure.bbox.x1


def test_long_titles_of_panels_are_wrapped() -> None:
    points = {f"{LONG_SPEC},seed={k}": RNG.normal(size=(30, 2)) for k in range(3)}
    with figures.style():
        figure = figures.projection_figure(points, ["a", "b"] * 15, False, dict.fromkeys(points))
        figure.draw_without_rendering()
        boxes = [ax._left_title.get_window_extent() for ax in figure.axes]
    edges = [*(box.x0 for box in boxes[1:]), figure.bbox.x1]
    assert all(box.x1 <= edge for box, edge in zip(boxes, edges, strict=True))


def test_isotropy_axis_labels_stay_apart() -> None:
    rows = [{"encoder": LONG_SPEC, **geometry.measure_isotropy(RNG.normal(size=(20, 4)))}]
    with figures.style():
        figure = figures.isotropy_figure(rows)
        figure.draw_without_rendering()
        boxes = [ax.xaxis.label.get_window_extent() for ax in figure.axes]
    assert boxes[0].x1 < boxes[1].x0
    assert boxes[1].x1 < boxes[2].x0


def test_similarity_panels_have_a_density_axis() -> None:
    with figures.style():
        figure = _similarity(RNG.integers(0, 2, 200))
    assert figure.get_supylabel() == "density of pairs"
    assert all(len(ax.get_yticks()) > 1 for ax in figure.axes)


def test_overlap_is_shown_and_explained() -> None:
    gold = np.array([0.0, 0.0, 1.0, 1.0])
    cosines = np.array([0.1, 0.6, 0.6, 0.9])
    edges = np.array([0.0, 0.5, 0.7, 1.0])
    overlap = scores.distribution({"scores": cosines, "gold": gold}, edges)
    with figures.style():
        figure = figures.similarity_figure({"BERT": overlap})
    assert figure.axes[0].get_title("left") == "BERT\noverlap 0.50, AUC 0.875"
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert "overlap: area shared by negative and positive" in legend


def test_projections_state_their_silhouettes() -> None:
    with figures.style():
        first, second = _projection(2, 3, False).axes
    assert first.get_title("left") == "encoder 0\nsilhouette: undefined"
    assert second.get_title("left") == "encoder 1\nsilhouette: −0.250"


def test_frequency_lines_stay_above_the_bars() -> None:
    """Scores that fall from bucket to bucket, as the words do, cover no number of a bar."""
    with figures.style():
        figure = _frequency(2)
        figure.draw_without_rendering()
        bars, lines = figure.axes
        number = bars.texts[0].get_window_extent()
        points = [y for line in lines.lines for _, y in _marker_places(line)]
    assert min(points) > number.y1
