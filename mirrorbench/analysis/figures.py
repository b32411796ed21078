"""Figures of analyses, one function for each analysis, in the sizes of the ACL style; call them inside ``style()``.

No figure depends on colour alone: markers, line styles or positions differ as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from mirrorbench.analysis.scores import Series, bounds
from mirrorbench.core.errors import UsageError, not_installed, unknown_name
from mirrorbench.core.files import writing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TableRows = Sequence[Mapping[str, Any]]
"""Rows of a table, by column name."""
FIGURE_FORMATS: dict[str, dict[str, Any]] = {
    "pdf": {"CreationDate": None},
    "svg": {"Date": None},
    "png": {},
}
"""Formats, each with the metadata that leave out dates, so that files are reproducible."""
COLUMN, PAGE = 3.03, 6.3
"""Width of a column and of a page, in inches."""

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999")
"""Okabe and Ito's palette for colour-blind readers, without yellow."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
LINES = ("-", "--", "-.", ":")

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
    "legend.handlelength": 2.2,
    "axes.grid": False,
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
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False, **shared)
    return figure, list(axes.flat)


def titled(figure: Figure, title: str) -> Figure:
    """Write a title above the legend of a figure, which grows by the height of the title."""
    text = _wrapped(title, figure.get_figwidth())
    if figure.legends:
        figure.legends[0].set_title(text)
        figure.legends[0].get_title().set_fontsize(8)
    elif text:
        figure.suptitle(text, fontsize=8)
    figure.set_figheight(figure.get_figheight() + _LINE * len(text.splitlines()))
    return figure


def save(figure: Figure, stem: Path, formats: Sequence[str]) -> list[Path]:
    """Write a figure as ``<stem>.<format>`` in each format; equal figures give equal bytes."""
    files = [stem.with_name(f"{stem.name}.{name}") for name in formats]
    for path, name in zip(files, formats, strict=True):
        with writing(path) as sink:
            figure.savefig(sink, format=name, metadata=FIGURE_FORMATS[name])
    return files


_ROW, _LINE, _LETTER = 0.24, 0.17, 0.06
"""Height of a row, height of a line of the legend, and width of a letter, in inches."""


def isotropy_figure(table: TableRows) -> Figure:
    """Draw three isotropy measures of each encoder (Mirror-BERT, Table 14, as a figure)."""
    figure, axes = _panels(1, 3, PAGE, 0.75 + _ROW * len(table), sharey=True)
    names = ("log_isotropy", "mean_vector_norm", "mean_cosine")
    titles = ("log isotropy score", "mean-vector norm", "mean cosine")
    rows = np.arange(len(table))
    for ax, name, title in zip(axes, names, titles, strict=True):
        values = _column(table, name)
        ax.hlines(rows, 0, values, color="0.75", linewidth=1.5, zorder=1)
        ax.scatter(
            values,
            rows,
            color=[_line_style(row)["color"] for row in range(len(table))],
            s=18,
            zorder=2,
        )
        ax.axvline(0, color="0.4", linewidth=0.6)
        ax.set(xlabel=title, xmargin=0.08)
        ax.spines["left"].set_visible(False)
        ax.tick_params(left=False)
    axes[0].set_yticks(rows, [_wrapped(row["encoder"], 2.0) for row in table])
    axes[0].set_ylim(len(table) - 0.5, -0.5)
    return figure


def similarity_figure(distributions: Mapping[str, dict[str, Any]]) -> Figure:
    """Draw histograms of the cosines in each band of pairs, a panel for each encoder (Mirror-BERT, Figure 7)."""
    figure, axes = _panels(
        len(distributions), 1, COLUMN, 0.45 + 0.95 * len(distributions), sharex=True
    )
    # Blue positives and orange negatives, as in the paper; line styles differ for print without colour.
    looks = {
        "negative": (1, "--"),
        "positive": (0, "-"),
        "low": (1, "--"),
        "middle": (4, ":"),
        "high": (0, "-"),
    }
    for ax, (label, distribution) in zip(axes, distributions.items(), strict=True):
        for band in distribution["bands"]:
            (colour, line), edges = looks[band["name"]], distribution["edges"]
            density = np.where(
                band["density"] > 0, band["density"], np.nan
            )  # draws no line along the axis
            ax.stairs(density, edges, fill=True, color=COLOURS[colour], alpha=0.35)
            ax.stairs(
                density,
                edges,
                color=COLOURS[colour],
                linewidth=0.9,
                linestyle=line,
                label=band["name"],
            )
        ax.set_title(_wrapped(label, COLUMN), loc="left")
        ax.set_yticks([])
        ax.spines["left"].set_visible(False)
        ax.set_ylim(bottom=0)
    axes[-1].set_xlabel("cosine similarity")
    return _with_legend(figure, axes[0])


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
    spreads = {"log_isotropy": "log_isotropy_sd", "random_similarity": "random_sd"}
    for ax, (name, title) in zip(axes, titles.items(), strict=True):
        ax.set_ylabel(_wrapped(title, 1.6))
        for number, (label, measured) in enumerate(measures.items()):
            spread = _column(measured, spreads[name]) if name in spreads else None
            _line(ax, _column(measured, "layer"), _column(measured, name), number, label, spread)
    for ax in axes[2:]:
        ax.set_xlabel("layer")
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    return _with_legend(figure, axes[0])


def projection_figure(
    points: Mapping[str, NDArray[np.float64]], senses: Sequence[str], axis_names: bool
) -> Figure:
    """Draw contexts of a word in two dimensions, marked by sense, a panel for each encoder (MirrorWiC, Figure 3).

    ``axis_names``: label the axes as components of a PCA; the axes of t-SNE and UMAP have no meaning and no scale.
    """
    columns = min(3, len(points))
    rows = -(-len(points) // columns)
    width = COLUMN if columns == 1 else PAGE
    figure, axes = _panels(rows, columns, width, 0.5 + rows * (0.25 + width / columns * 0.9))
    for ax, (label, plane) in zip(axes, points.items(), strict=False):
        for number, name in enumerate(dict.fromkeys(senses)):
            _dots(ax, plane[[sense == name for sense in senses]], number, name, s=14)
        ax.set_title(_wrapped(label, width / columns), loc="left")
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
            label=f"{label}: {roc['auc']:.3f}",
            **_line_style(number) | {"marker": None},
        )
    ax.set(
        xlim=(-0.005, 1),
        ylim=(0, 1.005),
        xlabel="false positive rate",
        ylabel="true positive rate",
        box_aspect=1,
    )
    return _with_legend(figure, ax)


def curves_figure(curves: Mapping[str, Series], key: str, log: bool) -> Figure:
    """Draw scores by a hyper-parameter, with the deviation over seeds (Mirror-BERT, Figure 5; MirrorWiC, Figure 4)."""
    figure, (ax,) = _panels(1, 1, COLUMN, 2.1)
    for number, (label, curve) in enumerate(curves.items()):
        x, y, spread = ([point[name] for point in curve.points] for name in ("x", "mean", "sd"))
        _line(ax, x, y, number, label, spread)
    if log:
        ax.set_xscale("log")
        values = sorted({point["x"] for curve in curves.values() for point in curve.points})
        ax.set_xticks(
            values, [f"{value:g}" for value in values], rotation=60 if len(values) > 5 else 0
        )
        ax.minorticks_off()
    ax.set(xlabel=key.replace("_", " "), ylabel=_metric(curves))
    return _with_legend(figure, ax)


def frequency_figure(buckets: TableRows, lines: Mapping[str, Series]) -> Figure:
    """Draw words of a task by frequency bucket (bars), and scores after tuning on it (lines; Mirror-BERT, Figure 8).

    A bucket without words and scores is left out; each bar has its number above it.
    """
    buckets = [
        row for row in buckets if row["words"] or any(row[label] is not None for label in lines)
    ]
    figure, (ax,) = _panels(1, 1, COLUMN, 2.3)
    bars = ax.bar(
        np.arange(len(buckets)), [row["words"] for row in buckets], width=0.8, color="0.82"
    )
    ax.bar_label(bars, [str(row["words"] or "") for row in buckets], fontsize=6, color="0.4")
    ticks = ["–".join(map(str, bounds(row["corpus"]) or ())) for row in buckets]
    ax.set_xticks(np.arange(len(buckets)), ticks, rotation=60)
    ax.set(xlabel="frequency rank (thousands)", ylabel="words of the task")
    if not lines:
        return figure
    scores = ax.twinx()
    scores.spines["right"].set_visible(True)
    scores.set_ylabel(_metric(lines))
    for number, label in enumerate(lines):
        x = [index for index, row in enumerate(buckets) if row[label] is not None]
        y, spread = (
            [buckets[index][label] for index in x],
            [buckets[index][f"{label} sd"] or 0.0 for index in x],
        )
        scores.errorbar(
            x, y, yerr=spread, capsize=2, elinewidth=0.8, label=label, **_line_style(number)
        )
    return _with_legend(figure, scores)


def errors_figure(
    better: TableRows, worse: TableRows, labels: Sequence[str], graded: bool
) -> Figure:
    """Draw each changed item under both encoders: score minus threshold (MirrorWiC, Table 6), or error of the rank."""
    figure, (ax,) = _panels(1, 1, COLUMN, COLUMN)
    if graded:
        names, measure, look = (
            ("nearer", "further"),
            "error of the rank",
            {"s": 8, "linewidths": 0, "alpha": 0.6},
        )
        ax.plot([0, 1], [0, 1], color="0.6", linewidth=0.6)
        ax.set_box_aspect(1)
    else:
        names, measure, look = ("corrected", "spoiled"), "score − threshold", {"s": 12}
        ax.axhline(0, color="0.6", linewidth=0.6)
        ax.axvline(0, color="0.6", linewidth=0.6)
    for number, (name, rows) in enumerate(zip(names, (better, worse), strict=True)):
        sides = [
            [
                abs(row[f"rank_{side}"] - row["gold_rank"]) if graded else row[f"score_{side}"]
                for row in rows
            ]
            for side in ("before", "after")
        ]
        _dots(ax, np.transpose(sides), number, f"{name} ({len(rows)})", **look)
    across, up = (_wrapped(f"{label}: {measure}", 2.2) for label in labels)
    ax.set(xlabel=across, ylabel=up)
    return _with_legend(figure, ax)


def _line_style(number: int) -> dict[str, Any]:
    """Colour, line style and marker; markers shift by one after each round of colours, so 64 combinations differ."""
    marker = MARKERS[(number + number // len(COLOURS)) % len(MARKERS)]
    return {
        "color": COLOURS[number % len(COLOURS)],
        "linestyle": LINES[number % len(LINES)],
        "marker": marker,
    }


def _dots(ax: Axes, points: NDArray[np.float64], number: int, label: str, **options: Any) -> None:
    """Points of shape (n, 2), with a white border unless ``linewidths`` is given."""
    border: dict[str, Any] = (
        {} if "linewidths" in options else {"linewidths": 0.3, "edgecolors": "white"}
    )
    look = {key: value for key, value in _line_style(number).items() if key != "linestyle"}
    ax.scatter(points[:, 0], points[:, 1], label=label, **look, **border, **options)


def _line(
    ax: Axes,
    x: Sequence[float],
    y: Sequence[float],
    number: int,
    label: str,
    spread: Sequence[float | None] | None,
) -> None:
    """A line with a band of the standard deviation."""
    ax.plot(x, y, label=label, **_line_style(number))
    if spread:
        centre, sd = np.array(y), np.array([value or 0.0 for value in spread])
        ax.fill_between(
            x, centre - sd, centre + sd, color=_line_style(number)["color"], alpha=0.2, linewidth=0
        )


def _column(rows: TableRows, name: str) -> list[float]:
    """The values of a column, with NaN, which is drawn as a gap, for ``None``."""
    return [np.nan if row[name] is None else row[name] for row in rows]


def _metric(lines: Mapping[str, Series]) -> str:
    metrics = {line.metric for line in lines.values()}
    return metrics.pop().replace("_", " ") if len(metrics) == 1 else "score"


def _with_legend(figure: Figure, ax: Axes) -> Figure:
    """One legend above all panels, in as many columns as fit; the figure grows by its height."""
    width = figure.get_figwidth()
    handles, labels = ax.get_legend_handles_labels()
    labels = [_wrapped(label, width - 0.6) for label in labels]
    longest = max(len(line) for label in labels for line in label.splitlines())
    columns = max(1, min(len(labels), int(width / (0.55 + _LETTER * longest))))
    lines = [label.count("\n") + 1 for label in labels]
    rows = sum(max(lines[row : row + columns]) for row in range(0, len(lines), columns))
    figure.set_figheight(figure.get_figheight() + _LINE * rows + 0.1)
    figure.legend(handles, labels, loc="outside upper center", ncols=columns)
    return figure


def _wrapped(text: str, inches: float) -> str:
    """A text broken into lines of a width."""
    return "\n".join(wrap(text, max(8, int(inches / _LETTER)), break_long_words=False)) or text
