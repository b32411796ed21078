"""Figures: one function a kind of analysis. Each takes numbers and returns a figure; ``canvas`` has sizes and colours.

Call them inside ``canvas.style()``. Colours come with markers, line styles or positions, so that no figure needs them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from textwrap import wrap
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mirrorbench.analysis import frequency as buckets
from mirrorbench.analysis.canvas import COLOURS, COLUMN, LINES, MARKERS, PAGE, panels
from mirrorbench.analysis.curves import Series
from mirrorbench.analysis.errors import Changes, Shift
from mirrorbench.analysis.frequency import Bucket
from mirrorbench.analysis.isotropy import Isotropy
from mirrorbench.analysis.layers import Layer
from mirrorbench.analysis.roc import Curve
from mirrorbench.analysis.similarity import Distribution

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_ROW, _LINE, _LETTER = 0.24, 0.17, 0.06
"""Height of a bar with its label, of a line of a legend, and width of a letter, in inches."""


def isotropy(found: Mapping[str, Isotropy]) -> Figure:
    """Three measures of each encoder as points beside each other (Mirror-BERT, Table 14, as a figure)."""
    labels = list(found)
    figure, axes = panels(1, 3, PAGE, 0.75 + _ROW * len(labels), sharey=True)
    measures = (
        ("log isotropy score", [i.log_isotropy for i in found.values()]),
        ("mean-vector norm", [i.mean_vector_norm for i in found.values()]),
        ("mean cosine", [np.nan if i.mean_cosine is None else i.mean_cosine for i in found.values()]),
    )
    rows = np.arange(len(labels))
    for ax, (title, values) in zip(axes, measures, strict=True):
        ax.hlines(rows, 0, values, color="0.75", linewidth=1.5, zorder=1)
        ax.scatter(values, rows, color=[_colour(row) for row in range(len(labels))], s=18, zorder=2)
        ax.axvline(0, color="0.4", linewidth=0.6)
        ax.set_xlabel(title)
        ax.margins(x=0.08)
        ax.spines["left"].set_visible(False)
        ax.tick_params(left=False)
    axes[0].set_yticks(rows, [_broken(label, 2.0) for label in labels])
    axes[0].set_ylim(len(labels) - 0.5, -0.5)
    return figure


def similarity(found: Mapping[str, Distribution]) -> Figure:
    """Histograms of the cosines of each kind of pair, one panel an encoder, on one scale (Mirror-BERT, Figure 7)."""
    figure, axes = panels(len(found), 1, COLUMN, 0.45 + 0.95 * len(found), sharex=True)
    # Blue for positives and orange for negatives, as in the paper; dissimilar is hatched for print without colour.
    palette = {"negative": 1, "positive": 0, "low": 1, "middle": 4, "high": 0}
    for ax, (label, one) in zip(axes, found.items(), strict=True):
        for band in one.bands:
            colour = COLOURS[palette[band.name]]
            density = np.where(band.density > 0, band.density, np.nan)  # no line along the axis
            ax.stairs(density, one.edges, fill=True, color=colour, alpha=0.35)
            line = {"negative": "--", "low": "--", "middle": ":"}.get(band.name, "-")
            ax.stairs(density, one.edges, color=colour, linewidth=0.9, linestyle=line, label=band.name)
        ax.set_title(_broken(label, COLUMN), loc="left")
        ax.set_yticks([])
        ax.spines["left"].set_visible(False)
        ax.set_ylim(bottom=0)
    axes[-1].set_xlabel("cosine similarity")
    _legend_above(figure, axes[0])
    return figure


def layers(found: Mapping[str, Sequence[Layer]], metric: str) -> Figure:
    """Four measures by layer, a line an encoder (MirrorWiC, Figure 2)."""
    from matplotlib.ticker import MaxNLocator

    figure, axes = panels(2, 2, PAGE, 3.4, sharex=True)
    titles = (metric, "log isotropy score", "random-word similarity", "intra-sentence similarity (adjusted)")
    for ax, title in zip(axes, titles, strict=True):
        ax.set_ylabel(_broken(title, 1.6))
    for number, (label, measured) in enumerate(found.items()):
        x = [one.layer for one in measured]
        random = np.array([one.random_similarity for one in measured])
        columns: tuple[Sequence[float] | NDArray[np.float64], ...] = (
            [np.nan if one.score is None else one.score for one in measured],
            [one.log_isotropy for one in measured],
            random,
            [one.adjusted_intra_similarity for one in measured],
        )
        for ax, values in zip(axes, columns, strict=True):
            _line(ax, x, values, number, label)
        spread = np.array([one.random_sd or 0.0 for one in measured])
        axes[2].fill_between(x, random - spread, random + spread, color=_colour(number), alpha=0.2, linewidth=0)
    for ax in axes[2:]:
        ax.set_xlabel("layer")
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    _legend_above(figure, axes[0])
    return figure


def projection(points: Mapping[str, NDArray[np.float64]], senses: Sequence[str], axis_names: bool) -> Figure:
    """Contexts of a word in the plane, a colour and a marker a sense, a panel an encoder (MirrorWiC, Figure 3).

    Args:
        points: for each encoder shape (n, 2).
        senses: of the n contexts.
        axis_names: name the axes (components of a PCA); otherwise they have no meaning and no scale.
    """
    columns = min(3, len(points))
    rows = -(-len(points) // columns)
    width = COLUMN if columns == 1 else PAGE
    figure, axes = panels(rows, columns, width, 0.5 + rows * (0.25 + width / columns * 0.9))
    names = list(dict.fromkeys(senses))
    kinds = np.array([names.index(sense) for sense in senses])
    for ax, (label, plane) in zip(axes, points.items(), strict=False):
        for kind, name in enumerate(names):
            own = plane[kinds == kind]
            ax.scatter(
                own[:, 0], own[:, 1], s=14, color=_colour(kind), marker=_marker(kind),
                linewidths=0.3, edgecolors="white", label=name,
            )  # fmt: skip
        ax.set_title(_broken(label, width / columns), loc="left")
        ax.set_aspect("equal", adjustable="datalim")
        if axis_names:
            ax.set_xlabel("component 1")
            ax.set_ylabel("component 2")
        else:
            ax.set_xticks([])
            ax.set_yticks([])
            for spine in ax.spines.values():
                spine.set_visible(True)
    for ax in axes[len(points) :]:
        ax.set_visible(False)
    _legend_above(figure, axes[0])
    return figure


def roc(found: Mapping[str, Curve]) -> Figure:
    """Share of true positives by share of false positives, the area in the legend (Mirror-BERT, Figure 4)."""
    figure, (ax,) = panels(1, 1, COLUMN, COLUMN)
    ax.plot([0, 1], [0, 1], color="0.7", linewidth=0.8)
    for number, (label, one) in enumerate(found.items()):
        ax.plot(
            one.fpr, one.tpr, color=_colour(number), linestyle=LINES[number % len(LINES)],
            label=f"{label}: {one.auc:.3f}",
        )  # fmt: skip
    ax.set(xlim=(-0.005, 1), ylim=(0, 1.005), xlabel="false positive rate", ylabel="true positive rate", box_aspect=1)
    _legend_above(figure, ax, "area under the curve")
    return figure


def curves(found: Mapping[str, Series], key: str, log: bool) -> Figure:
    """Scores by a setting of the tuning, with the deviation over seeds (Mirror-BERT, Figure 5; MirrorWiC, Figure 4)."""
    figure, (ax,) = panels(1, 1, COLUMN, 2.1)
    for number, (label, one) in enumerate(found.items()):
        _with_deviation(ax, one, number, label)
    if log:
        ax.set_xscale("log")
        values = sorted({point.x for one in found.values() for point in one.points})
        ax.set_xticks(values, [f"{value:g}" for value in values], rotation=60 if len(values) > 5 else 0)
        ax.minorticks_off()
    ax.set_xlabel(key.replace("_", " "))
    metrics = list(dict.fromkeys(one.metric for one in found.values()))
    ax.set_ylabel(metrics[0].replace("_", " ") if len(metrics) == 1 else "score")
    _legend_above(figure, ax)
    return figure


def frequency(found: Sequence[Bucket], lines: Mapping[str, Series]) -> Figure:
    """Words of a task in each bucket (bars), and scores after tuning on it (lines; Mirror-BERT, Figure 8)."""
    figure, (ax,) = panels(1, 1, COLUMN, 2.3)
    x = np.arange(len(found))
    ax.bar(x, [bucket.words for bucket in found], width=0.8, color="0.82")
    ax.set_xticks(x, [f"{bucket.start}–{bucket.end}" for bucket in found], rotation=60)
    ax.set_xlabel("frequency rank (thousands)")
    ax.set_ylabel("words of the task")
    if lines:
        scores = ax.twinx()
        scores.spines["right"].set_visible(True)
        metrics = list(dict.fromkeys(one.metric for one in lines.values()))
        scores.set_ylabel(metrics[0].replace("_", " ") if len(metrics) == 1 else "score")
        for number, (label, one) in enumerate(lines.items()):
            there = [(row, point) for row, bucket in enumerate(found) if (point := buckets.at(one, bucket))]
            scores.errorbar(
                [row for row, _ in there], [p.mean for _, p in there], yerr=[p.sd or 0.0 for _, p in there],
                color=_colour(number), linestyle=LINES[number % len(LINES)], marker=_marker(number),
                capsize=2, elinewidth=0.8, label=label,
            )  # fmt: skip
        _legend_above(figure, scores)
    return figure


def errors(changes: Changes, labels: tuple[str, str]) -> Figure:
    """Each changed item by both scores, from each encoder's threshold (MirrorWiC, Table 6, as a figure)."""
    figure, (ax,) = panels(1, 1, COLUMN, COLUMN)
    ax.axhline(0, color="0.6", linewidth=0.6)
    ax.axvline(0, color="0.6", linewidth=0.6)
    for number, (name, corrected) in enumerate((("corrected", True), ("spoiled", False))):
        own = [change for change in changes.changed if change.corrected is corrected]
        ax.scatter(
            [change.score_before for change in own], [change.score_after for change in own], s=12,
            color=COLOURS[number], marker=MARKERS[number], linewidths=0.3, edgecolors="white",
            label=f"{name} ({len(own)})",
        )  # fmt: skip
    _name_axes(ax, labels, "score − threshold")
    _legend_above(figure, ax)
    return figure


def shifts(found: Sequence[Shift], labels: tuple[str, str]) -> Figure:
    """How far each item lies from its place by the judgements, under both encoders; below the line is better."""
    figure, (ax,) = panels(1, 1, COLUMN, COLUMN)
    ax.plot([0, 1], [0, 1], color="0.6", linewidth=0.6)
    for number, (name, better) in enumerate((("nearer", True), ("further", False))):
        own = [shift for shift in found if shift.gain and (shift.gain > 0) is better]
        ax.scatter(
            [abs(shift.before - shift.gold) for shift in own], [abs(shift.after - shift.gold) for shift in own], s=8,
            color=COLOURS[number], marker=MARKERS[number], linewidths=0, alpha=0.6, label=f"{name} ({len(own)})",
        )  # fmt: skip
    ax.set_box_aspect(1)
    _name_axes(ax, labels, "error of the rank")
    _legend_above(figure, ax)
    return figure


def _colour(number: int) -> str:
    return COLOURS[int(number) % len(COLOURS)]


def _marker(number: int) -> str:
    """Moves on by one each time the colours begin anew, so that 64 pairs of colour and marker differ."""
    return MARKERS[(int(number) + int(number) // len(COLOURS)) % len(MARKERS)]


def _line(ax: Axes, x: Sequence[float], y: Sequence[float] | NDArray[np.float64], number: int, label: str) -> None:
    ax.plot(
        x, y, color=_colour(number), linestyle=LINES[number % len(LINES)], marker=_marker(number),
        label=label,
    )  # fmt: skip


def _with_deviation(ax: Axes, one: Series, number: int, label: str) -> None:
    x, y = np.array([point.x for point in one.points]), np.array([point.mean for point in one.points])
    spread = np.array([point.sd or 0.0 for point in one.points])
    _line(ax, x.tolist(), y, number, label)
    ax.fill_between(x, y - spread, y + spread, color=_colour(number), alpha=0.2, linewidth=0)


def _name_axes(ax: Axes, labels: tuple[str, str], measure: str) -> None:
    """The same measure of two encoders on the two axes."""
    across, up = (_broken(f"{label}: {measure}", 2.2) for label in labels)
    ax.set_xlabel(across)
    ax.set_ylabel(up)


def _legend_above(figure: Figure, ax: Axes, title: str = "") -> None:
    """One legend for all panels, above them, where it covers no data: the figure grows by its height.

    It has as many columns as the lengths of the labels permit; a label that is too long for one is broken.
    """
    width = figure.get_figwidth()
    handles, labels = ax.get_legend_handles_labels()
    labels = [_broken(label, width - 0.6) for label in labels]
    longest = max(len(line) for label in labels for line in label.splitlines())
    columns = max(1, min(len(labels), int(width / (0.55 + _LETTER * longest))))
    lines = [label.count("\n") + 1 for label in labels]
    rows = sum(max(lines[row : row + columns]) for row in range(0, len(lines), columns)) + bool(title)
    figure.set_figheight(figure.get_figheight() + _LINE * rows + 0.1)
    figure.legend(handles, labels, loc="outside upper center", ncols=columns, title=title or None, title_fontsize=7)


def _broken(text: str, inches: float) -> str:
    """A text in lines that fit into a width."""
    return "\n".join(wrap(text, max(8, int(inches / _LETTER)), break_long_words=False)) or text
