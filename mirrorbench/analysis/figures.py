"""Figures of analyses, one function for each analysis, in the sizes of the ACL style; call them inside ``style()``.

No figure depends on colour alone: markers, line styles or positions differ as well.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from mirrorbench.analysis.scores import Series, bucket_ranks
from mirrorbench.core.errors import UsageError, not_installed, unknown_name
from mirrorbench.storage.files import writing

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TableRows = Sequence[Mapping[str, Any]]
"""Rows of a table, by column name."""
FIGURE_FORMATS: dict[str, dict[str, Any]] = {
    "pdf": {"CreationDate": None},
    "svg": {"Date": None},
    "png": {},
}
"""Formats, each with the metadata that leave out the date, so that files are reproducible."""
COLUMN = 3.03
"""Width of a column, in inches."""
PAGE = 6.3
"""Width of a page, in inches."""

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999")
"""Okabe and Ito's palette for colour-blind readers, without yellow."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
LINES: tuple[Any, ...] = (
    "-",
    (0, (4, 1.5)),
    (0, (5, 1, 1, 1)),
    (0, (1, 1)),
    (0, (6, 1, 1, 1, 1, 1)),
)
"""Solid, dashed, dash-dotted, dotted, and a dash with two dots."""

_STYLE: dict[str, Any] = {
    "font.size": 8,
    "axes.labelsize": 8,
    "axes.titlesize": 8,
    "legend.fontsize": 7,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "font.family": "sans-serif",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "lines.linewidth": 1.2,
    "lines.markersize": 3.5,
    "legend.frameon": False,
    "legend.handlelength": 3.0,
    "axes.grid": False,
    "hatch.linewidth": 0.5,
    "figure.dpi": 100,
    "savefig.dpi": 300,
    "pdf.fonttype": 42,
    "ps.fonttype": 42,  # TrueType: publishers refuse type 3 fonts
    "svg.hashsalt": "mirrorbench",  # reproducible files
    "axes.formatter.useoffset": False,
    "axes.unicode_minus": True,
}


def check_formats(names: Sequence[str]) -> tuple[str, ...]:
    """Return the formats without repeats; ``UsageError`` for an unknown one, or without matplotlib."""
    for name in names:
        if name not in FIGURE_FORMATS:
            raise unknown_name("figure format", name, list(FIGURE_FORMATS))
    if names and not have_matplotlib():
        raise not_installed(
            UsageError,
            "figures need",
            "matplotlib",
            "figures",
            "\nor leave them out: --format none",
        )
    return tuple(dict.fromkeys(names))


def have_matplotlib() -> bool:
    """Return whether matplotlib is installed."""
    return find_spec("matplotlib") is not None


@contextmanager
def style() -> Iterator[None]:
    """Apply publication settings to figures that are drawn and saved in this context."""
    from matplotlib import rc_context

    with rc_context(cast(Any, _STYLE)):
        yield


def _panels(
    rows: int, columns: int, width: float, height: float, **shared: Any
) -> tuple[Figure, list[Axes]]:
    """Return a figure and its panels, row by row; ``shared``: the options ``sharex`` and ``sharey``."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False, **shared)
    return figure, list(axes.flat)


def titled(figure: Figure, title: str) -> Figure:
    """Write a title above the legend of a figure, which grows by the height of the title."""
    text = _wrapped(title, figure.get_figwidth() - 0.2)
    if not text:
        return figure
    if figure.legends:
        legend = figure.legends[0]
        height_without_title = _height(legend)
        legend.set_title(text)
        legend.get_title().set_fontsize(8)
        _grow(figure, _height(legend) - height_without_title)
    else:
        _grow(figure, _height(figure.suptitle(text, fontsize=8)))
    return figure


def save(figure: Figure, stem: Path, formats: Sequence[str]) -> list[Path]:
    """Write a figure as ``<stem>.<format>`` in each format; equal figures give equal bytes."""
    files = []
    for name in formats:
        path = stem.with_name(f"{stem.name}.{name}")
        with writing(path) as sink:
            figure.savefig(sink, format=name, metadata=FIGURE_FORMATS[name])
        files.append(path)
    return files


_LINE = 0.15
"""Height of a line of text, in inches."""


def isotropy_figure(table: TableRows) -> Figure:
    """Draw three isotropy measures of each encoder (Mirror-BERT, Table 14, as a figure)."""
    labels = [_wrapped(row["encoder"], 2.0) for row in table]
    # All rows are as high as the longest label.
    row_height = 0.09 + _LINE * max(_line_count(label) for label in labels)
    height = 0.85 + row_height * len(table)
    figure, axes = _panels(1, 3, PAGE, height, sharey=True)
    titles = {
        "log_isotropy": "log isotropy score",
        "mean_vector_norm": "mean-vector norm",
        "mean_cosine": "mean cosine",
    }
    rows = np.arange(len(table))
    for ax, (name, title) in zip(axes, titles.items(), strict=True):
        values = _column(table, name)
        ax.hlines(rows, 0, values, color="0.75", linewidth=1.5, zorder=1)
        ax.scatter(values, rows, color=COLOURS[0], s=18, zorder=2)
        ax.axvline(0, color="0.4", linewidth=0.6)
        ax.set(xlabel=_wrapped(title, 1.0), xmargin=0.08)
        ax.spines["left"].set_visible(False)
        ax.tick_params(left=False)
    axes[0].set_yticks(rows, labels)
    axes[0].set_ylim(len(table) - 0.5, -0.5)
    return figure


def similarity_figure(distributions: Mapping[str, dict[str, Any]]) -> Figure:
    """Draw histograms of the cosines in each band of pairs, a panel for each encoder (Mirror-BERT, Figure 7).

    The area that the lowest and the highest band share is hatched; its size is in the title of the panel.
    """
    from matplotlib.ticker import MaxNLocator

    if len(distributions) <= 4:
        columns = 1
        width = COLUMN
    else:
        columns = 2
        width = PAGE
    rows = math.ceil(len(distributions) / columns)
    titles = [
        _similarity_title(label, distribution, width / columns - 0.5)
        for label, distribution in distributions.items()
    ]
    title_lines = max(_line_count(title) for title in titles)
    height = 0.45 + rows * (0.95 + _LINE * title_lines)
    figure, axes = _panels(rows, columns, width, height, sharex=True)
    # The last row may have more panels than encoders: zip leaves them out, and they are hidden.
    for ax, title, distribution in zip(axes, titles, distributions.values(), strict=False):
        _draw_bands(ax, distribution)
        ax.set_title(title, loc="left")
        ax.yaxis.set_major_locator(MaxNLocator(3, steps=[1, 2, 5, 10]))
        ax.set_ylim(bottom=0)
    for ax in axes[len(distributions) :]:
        ax.set_visible(False)
    # The lowest panel of each column has the numbers of the axis that all panels share.
    for ax in axes[len(distributions) - columns : len(distributions)]:
        ax.tick_params(labelbottom=True)
    figure.supxlabel("cosine similarity", fontsize=8)
    figure.supylabel("density of pairs", fontsize=8)
    return _with_legend(figure, axes[0])


def _similarity_title(label: str, distribution: Mapping[str, Any], inches: float) -> str:
    """Return the label of an encoder, and a line with the numbers that compare its lowest and highest band."""
    numbers = f"overlap {distribution['overlap']:.2f}, AUC {distribution['auc']:.3f}"
    return f"{_wrapped(label, inches)}\n{numbers}"


def _draw_bands(ax: Axes, distribution: Mapping[str, Any]) -> None:
    """Draw the histogram of each band, and hatch the area shared by those of the lowest and the highest band."""
    # Positives are blue and negatives orange, as in the paper, and so are high and low pairs. Line styles differ for
    # print without colour.
    styles = {
        "negative": (COLOURS[1], "--"),
        "positive": (COLOURS[0], "-"),
        "low": (COLOURS[1], "--"),
        "middle": (COLOURS[4], ":"),
        "high": (COLOURS[0], "-"),
    }
    bands = distribution["bands"]
    edges = distribution["edges"]
    for band in bands:
        colour, line_style = styles[band["name"]]
        # An empty bin is NaN, so that its outline does not run along the axis.
        density = np.where(band["density"] > 0, band["density"], np.nan)
        ax.stairs(density, edges, fill=True, color=colour, alpha=0.35)
        ax.stairs(
            density, edges, color=colour, linewidth=0.9, linestyle=line_style, label=band["name"]
        )
    # Bands are in rising order.
    lowest = bands[0]
    highest = bands[-1]
    if lowest is not highest:
        ax.stairs(
            np.minimum(lowest["density"], highest["density"]),
            edges,
            fill=True,
            facecolor="none",
            edgecolor="0.25",
            linewidth=0,
            hatch="//////",
            label=f"overlap: area shared by {lowest['name']} and {highest['name']}",
        )


def layers_figure(measures: Mapping[str, TableRows], metric: str) -> Figure:
    """Draw four measures by layer, a line for each encoder (MirrorWiC, Figure 2)."""
    from matplotlib.ticker import MaxNLocator

    figure, axes = _panels(2, 2, PAGE, 3.4, sharex=True)
    titles = {
        "score": metric,
        "log_isotropy": "log isotropy score",
        "random_similarity": "random-word similarity",
        "adjusted_intra_similarity": "intra-sentence similarity (adjusted)",
    }
    spread_columns = {"log_isotropy": "log_isotropy_sd", "random_similarity": "random_sd"}
    for ax, (name, title) in zip(axes, titles.items(), strict=True):
        ax.set_ylabel(_wrapped(title, 1.6))
        lines = []
        for label, rows in measures.items():
            # Empty for measures without a deviation.
            spread: list[float | None] = []
            if name in spread_columns:
                spread = [row[spread_columns[name]] for row in rows]
            lines.append(_LineData(label, _column(rows, "layer"), _column(rows, name), spread))
        _draw_lines(ax, lines)
    for ax in axes[2:]:
        ax.set_xlabel("layer")
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    return _with_legend(figure, axes[0])


def projection_figure(
    points: Mapping[str, NDArray[np.float64]],
    senses: Sequence[str],
    axis_names: bool,
    silhouettes: Mapping[str, float | None],
) -> Figure:
    """Draw contexts of a word in two dimensions, marked by sense, a panel for each encoder (MirrorWiC, Figure 3).

    Args:
        points: the projected contexts of each encoder, by label.
        senses: the sense of each context.
        axis_names: label the axes as components of a PCA; the axes of t-SNE and UMAP have no meaning and no scale.
        silhouettes: the silhouette of each encoder's vectors, which is in the title of its panel; ``None``: undefined.
    """
    columns = min(3, len(points))
    rows = math.ceil(len(points) / columns)
    width = COLUMN if columns == 1 else PAGE
    # Room beside and below a panel, in inches; more of it for the numbers and names of axes.
    if axis_names:
        axis_width = 0.6
        axis_height = 0.35
    else:
        axis_width = 0.2
        axis_height = 0.1
    panel_width = width / columns - axis_width
    titles = []
    for label in points:
        value = silhouettes[label]
        silhouette = "undefined" if value is None else f"{value:.3f}".replace("-", "\N{MINUS SIGN}")
        titles.append(f"{_wrapped(label, panel_width)}\nsilhouette: {silhouette}")
    title_lines = max(_line_count(title) for title in titles)
    height = 0.1 + rows * (panel_width + axis_height + _LINE * title_lines)
    figure, axes = _panels(rows, columns, width, height)
    # The last row may have more panels than encoders: zip leaves them out, and they are hidden.
    for ax, title, plane in zip(axes, titles, points.values(), strict=False):
        for number, name in enumerate(dict.fromkeys(senses)):
            has_sense = [sense == name for sense in senses]
            _draw_dots(ax, plane[has_sense], number, name, s=14)
        ax.set_title(title, loc="left")
        ax.set_aspect("equal", adjustable="datalim")
        if axis_names:
            ax.set(xlabel="component 1", ylabel="component 2")
        else:
            ax.set(xticks=[], yticks=[])
            for spine in ax.spines.values():
                spine.set_visible(True)
    for ax in axes[len(points) :]:
        ax.set_visible(False)
    return _with_legend(figure, axes[0])


def roc_figure(curves: Mapping[str, dict[str, Any]]) -> Figure:
    """Draw ROC curves with the areas under them in the legend (Mirror-BERT, Figure 4)."""
    figure, (ax,) = _panels(1, 1, COLUMN, COLUMN)
    ax.plot([0, 1], [0, 1], color="0.7", linewidth=0.8)
    for number, (label, roc) in enumerate(curves.items()):
        ax.plot(
            roc["fpr"],
            roc["tpr"],
            label=f"{label}, AUC\N{NO-BREAK SPACE}{roc['auc']:.3f}",
            markevery=[],  # markers are drawn below, on top of all curves
            linewidth=_line_width(number, len(curves)),
            **_line_style(number),
        )
        x, y = _marker_places(roc["fpr"], roc["tpr"], number, len(curves))
        ax.plot(
            x,
            y,
            clip_on=False,
            zorder=3,
            markeredgecolor="white",
            markeredgewidth=0.3,
            **_line_style(number) | {"linestyle": "none"},
        )
    ax.set(
        xlim=(-0.005, 1),
        ylim=(0, 1.005),
        xlabel="false positive rate",
        ylabel="true positive rate",
        box_aspect=1,
        anchor="S",  # a square in the middle of the figure would cut off the label below
    )
    return _with_legend(figure, ax)


_MARKERS_OF_A_CURVE = 3
"""Number of markers on each ROC curve."""


def _marker_places(
    x: Sequence[float], y: Sequence[float], number: int, curves: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return x and y of the markers on a curve, the one with a ``number`` from 0 among several ``curves``.

    The markers of several curves are at different distances from the start, so equal curves can be told apart.
    """
    steps = np.hypot(np.diff(x), np.diff(y))
    distances = np.concatenate([[0.0], np.cumsum(steps)])
    shift = (number + 0.5) / curves
    places = distances[-1] * (np.arange(_MARKERS_OF_A_CURVE) + shift) / _MARKERS_OF_A_CURVE
    return np.interp(places, distances, x), np.interp(places, distances, y)


def curves_figure(curves: Mapping[str, Series], key: str, log: bool) -> Figure:
    """Draw scores by a hyper-parameter, with the deviation over seeds (Mirror-BERT, Figure 5; MirrorWiC, Figure 4)."""
    figure, (ax,) = _panels(1, 1, COLUMN, 2.1)
    lines = []
    for label, curve in curves.items():
        x = [point["x"] for point in curve.points]
        y = [point["mean"] for point in curve.points]
        spread = [point["sd"] for point in curve.points]
        lines.append(_LineData(label, x, y, spread))
    # Before the lines are drawn: how far they are shifted depends on the scale.
    if log:
        ax.set_xscale("log")
    _draw_lines(ax, lines)
    # Ticks at the values that have scores, instead of powers of ten.
    if log:
        values = sorted({point["x"] for curve in curves.values() for point in curve.points})
        labels = [f"{value:g}" for value in values]
        ax.set_xticks(values, labels, rotation=60 if len(values) > 5 else 0)
        ax.minorticks_off()
    ax.set(xlabel=key.replace("_", " "), ylabel=_metric(curves))
    return _with_legend(figure, ax)


def frequency_figure(buckets: TableRows, lines: Mapping[str, Series]) -> Figure:
    """Draw words of a task by frequency bucket (bars), and scores after tuning on it (lines; Mirror-BERT, Figure 8).

    A bucket without words and scores is left out. The number of words is above each bar, and the lines are above all.
    """

    def has_score(row: Mapping[str, Any]) -> bool:
        return any(row[label] is not None for label in lines)

    buckets = [row for row in buckets if row["words"] or has_score(row)]
    figure, (ax,) = _panels(1, 1, COLUMN, 2.8 if lines else 2.3)
    positions = np.arange(len(buckets))
    word_counts = [row["words"] for row in buckets]
    bars = ax.bar(positions, word_counts, width=0.8, color="0.82")
    # No label above a bar of height 0.
    ax.bar_label(bars, [str(n or "") for n in word_counts], fontsize=6, color="0.4")
    ticks = []
    for row in buckets:
        ranks = bucket_ranks(row["corpus"]) or ()
        ticks.append("–".join(map(str, ranks)))
    ax.set_xticks(positions, ticks, rotation=60)
    ax.set(xlabel="frequency rank (thousands)", ylabel="words of the task")
    if not lines:
        return figure
    scores = ax.twinx()
    scores.spines["right"].set_visible(True)
    scores.set_ylabel(_metric(lines))
    drawn_lines = []
    # The rows of buckets hold the scores of each line under its label.
    for label in lines:
        x = [index for index, row in enumerate(buckets) if row[label] is not None]
        y = [buckets[index][label] for index in x]
        spread = [buckets[index][f"{label} sd"] for index in x]
        drawn_lines.append(_LineData(label, x, y, spread))
    _draw_lines(scores, drawn_lines)
    # Bars in the lower half and lines in the upper half do not cover each other: the axis of words is more than twice
    # as high as the highest bar, and the axis of scores begins more than its range below the lowest score.
    ax.set_ylim(0, 2.2 * max([1, *word_counts]))
    lowest, highest = scores.get_ylim()
    scores.set_ylim(lowest - 1.1 * (highest - lowest), highest)
    return _with_legend(figure, scores)


def errors_figure(
    better: TableRows, worse: TableRows, labels: Sequence[str], graded: bool
) -> Figure:
    """Draw each changed item as a point: its value under the first encoder across, under the second upwards.

    The value is the score minus the threshold (MirrorWiC, Table 6), or for ``graded`` judgements the error of the rank.

    Args:
        better: the items that the second encoder answers or ranks better.
        worse: those that it answers or ranks worse.
        labels: the labels of the two encoders.
        graded: whether the judgements are graded; otherwise they are binary.
    """
    figure, (ax,) = _panels(1, 1, COLUMN, COLUMN)
    dots: dict[str, Any]
    if graded:
        groups = {"nearer": better, "further": worse}
        measure = "error of the rank"
        dots = {"s": 8, "linewidths": 0, "alpha": 0.6}
        ax.plot([0, 1], [0, 1], color="0.6", linewidth=0.6)
        ax.set(box_aspect=1, anchor="S")
    else:
        groups = {"corrected": better, "spoiled": worse}
        measure = "score − threshold"
        dots = {"s": 12}
        ax.axhline(0, color="0.6", linewidth=0.6)
        ax.axvline(0, color="0.6", linewidth=0.6)
    for number, (name, rows) in enumerate(groups.items()):
        if graded:
            before = [abs(row["rank_before"] - row["gold_rank"]) for row in rows]
            after = [abs(row["rank_after"] - row["gold_rank"]) for row in rows]
        else:
            before = [row["score_before"] for row in rows]
            after = [row["score_after"] for row in rows]
        points = np.transpose([before, after])
        _draw_dots(ax, points, number, f"{name} ({len(rows)})", **dots)
    label_before, label_after = labels
    ax.set(
        xlabel=f"{_wrapped(label_before, 2.2)}\n{measure}",
        ylabel=f"{_wrapped(label_after, 2.2)}\n{measure}",
    )
    return _with_legend(figure, ax)


def _line_style(number: int) -> dict[str, Any]:
    """Return colour, line style and marker of the line with a number from 0.

    The numbers of colours, line styles and markers have no common factor. So any 35 successive lines differ in every
    two of the three, for example in line style and marker where there is no colour.
    """
    return {
        "color": COLOURS[number % len(COLOURS)],
        "linestyle": LINES[number % len(LINES)],
        "marker": MARKERS[number % len(MARKERS)],
    }


def _line_width(number: int, lines: int) -> float:
    """Return the width of a line in points: later lines are thinner, so earlier ones show beneath them."""
    if lines == 1:
        return 1.2
    return 1.8 - 0.9 * number / (lines - 1)


def _draw_dots(
    ax: Axes, points: NDArray[np.float64], number: int, label: str, **options: Any
) -> None:
    """Draw points of shape (n, 2), with white borders unless ``linewidths`` is among the options."""
    style = _line_style(number)
    if "linewidths" not in options:
        options |= {"linewidths": 0.3, "edgecolors": "white"}
    ax.scatter(
        points[:, 0],
        points[:, 1],
        label=label,
        color=style["color"],
        marker=style["marker"],
        **options,
    )


@dataclass(frozen=True)
class _LineData:
    """A line of a figure.

    Attributes:
        label: its name in the legend.
        x: positions of its points.
        y: values of its points.
        spread: standard deviation of each value, if any has one.
    """

    label: str
    x: Sequence[float]
    y: Sequence[float]
    spread: Sequence[float | None]


_PLOT_WIDTH = 170.0
"""Approximate width of the plots with lines, in points; both kinds of page width have it."""
_LEAST_SHIFT = 2.0
_LARGEST_SHIFT = 4.0
"""Limits of the distance between the markers of two lines with equal values, in points."""


def _draw_lines(ax: Axes, lines: Sequence[_LineData]) -> None:
    """Draw lines with bars of the standard deviation, so that lines with equal values can all be seen.

    Each line is shifted a little to the side, by less than a third of the distance between two of its points. Where
    that is too little to see, a line has markers and bars at some of its points only, and the next line at others.
    """
    from matplotlib.transforms import ScaledTranslation

    # How far each line is shifted from the one before it, in typographic points. All lines together take less than 0.6
    # of the least distance between two points of a line.
    shift = 0.6 * _least_distance(ax, lines) / len(lines)
    shift_is_visible = shift >= _LEAST_SHIFT
    shift = min(shift, _LARGEST_SHIFT) if shift_is_visible else 0.0
    # Wide enough for the markers of the outermost lines.
    ax.set_xmargin(0.05 + 0.5 * shift * (len(lines) - 1) / _PLOT_WIDTH)
    middle = (len(lines) - 1) / 2
    for number, line in enumerate(lines):
        # Lines that are shifted have markers and bars at every point. Of the others, each has them at every n-th point
        # of n lines, beginning one point after the line before it.
        step = 1 if shift_is_visible else min(len(lines), len(line.x))
        first_and_step = (number % step, step)
        deviations = [value or 0.0 for value in line.spread]
        drawn = ax.errorbar(
            line.x,
            line.y,
            yerr=deviations if any(deviations) else None,
            errorevery=first_and_step,
            markevery=first_and_step,
            elinewidth=0.7,
            linewidth=_line_width(number, len(lines)),
            label=line.label,
            **_line_style(number),
        )
        if shift_is_visible:
            # 72 points are an inch.
            inches = shift * (number - middle) / 72
            translation = ScaledTranslation(inches, 0, ax.figure.dpi_scale_trans)
            for artist in drawn.get_children():
                artist.set_transform(ax.transData + translation)


def _least_distance(ax: Axes, lines: Sequence[_LineData]) -> float:
    """Return the least horizontal distance between two points of the lines, in points of the page."""
    positions = np.unique([x for line in lines for x in line.x])
    if ax.get_xscale() == "log":
        positions = np.log(positions)
    if len(positions) < 2:
        return _PLOT_WIDTH
    distances = np.diff(positions)
    return float(_PLOT_WIDTH * distances.min() / distances.sum())


def _column(rows: TableRows, name: str) -> list[float]:
    """Return the values of a column, with NaN, which is drawn as a gap, for ``None``."""
    return [np.nan if row[name] is None else row[name] for row in rows]


def _metric(curves: Mapping[str, Series]) -> str:
    """Return the name of the metric that all curves share; ``score`` if they have several."""
    metrics = {curve.metric for curve in curves.values()}
    if len(metrics) != 1:
        return "score"
    return metrics.pop().replace("_", " ")


def _with_legend(figure: Figure, ax: Axes) -> Figure:
    """Add one legend above all panels, in as many columns as fit; the figure grows by its height."""
    size = _STYLE["legend.fontsize"]
    width = figure.get_figwidth()
    handles, labels = ax.get_legend_handles_labels()
    labels = [_wrapped(label, width - 0.65, size) for label in labels]
    longest = max(_text_width(line, size) for label in labels for line in label.splitlines())
    fitting_columns = int((width - 0.1) / (0.6 + longest))
    columns = max(1, min(len(labels), fitting_columns))
    legend = figure.legend(handles, labels, loc="outside upper center", ncols=columns)
    _grow(figure, _height(legend))
    return figure


def _grow(figure: Figure, inches: float) -> None:
    figure.set_figheight(figure.get_figheight() + inches)


def _height(artist: Artist) -> float:
    """Return the height of a legend or text, in inches."""
    figure = cast("Figure", artist.figure)
    return artist.get_window_extent().height / figure.dpi


def _line_count(text: str) -> int:
    return text.count("\n") + 1


def _text_width(text: str, size: float) -> float:
    """Return the width of a line of text in a font size, in inches."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    width, _, _ = text_to_path.get_text_width_height_descent(
        text, FontProperties(size=size), ismath=False
    )
    return float(width) / 72


_PARTS = re.compile(r"\+?[^ ,:/+]*[ ,:/]+|\+?[^ ,:/+]+|\+")
"""Parts of a text between which a line may break: at spaces, and at the separators of specs and paths."""


def _wrapped(text: str, inches: float, size: float = 8) -> str:
    """Break a text into lines of a width, at spaces and separators, or inside a word that is wider than a line."""
    lines = [""]
    for part in _PARTS.findall(text):
        if lines[-1] and _text_width((lines[-1] + part).rstrip(" "), size) > inches:
            lines.append("")
        for letter in part:
            if lines[-1] and _text_width((lines[-1] + letter).rstrip(" "), size) > inches:
                lines.append("")
            lines[-1] += letter
    return "\n".join(line.strip(" ") for line in lines)
