"""Paper and ink of the figures: sizes, fonts, colours, files. What is drawn is in ``figures``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from mirrorbench.core.errors import UsageError
from mirrorbench.core.files import writing
from mirrorbench.core.registry import unknown_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = ("pdf", "svg", "png")
COLUMN, PAGE = 3.03, 6.3
"""Width of a column and of a page in inches, as in the ACL style, so that a figure is printed at its own size."""

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999")
"""Okabe and Ito's colours, which people with the usual kinds of colour blindness tell apart, without their yellow."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
LINES = ("-", "--", "-.", ":")

_STYLE: dict[str, Any] = {
    "font.size": 8, "axes.labelsize": 8, "axes.titlesize": 8, "legend.fontsize": 7,
    "xtick.labelsize": 7, "ytick.labelsize": 7, "font.family": "sans-serif",
    "axes.spines.top": False, "axes.spines.right": False, "axes.linewidth": 0.6,
    "xtick.major.width": 0.6, "ytick.major.width": 0.6, "xtick.major.size": 2.5, "ytick.major.size": 2.5,
    "lines.linewidth": 1.2, "lines.markersize": 3.5, "legend.frameon": False, "legend.handlelength": 2.2,
    "axes.grid": False, "figure.dpi": 100, "savefig.dpi": 300,
    "pdf.fonttype": 42, "ps.fonttype": 42,  # letters stay letters: publishers refuse type 3 fonts
    "svg.hashsalt": "mirrorbench",  # the same figure is the same file
    "axes.formatter.useoffset": False, "axes.unicode_minus": True,
}  # fmt: skip


def check_formats(names: Sequence[str]) -> tuple[str, ...]:
    """The formats of figures that were asked for, if they can be made.

    Raises:
        UnknownNameError: a format that is none of ``FORMATS``.
        UsageError: matplotlib is not installed.
    """
    for name in names:
        if name not in FORMATS:
            raise unknown_name("figure format", name, list(FORMATS))
    if names and not have_matplotlib():
        raise UsageError(
            "figures need matplotlib, which is not installed",
            "Install it: pip install 'mirrorbench[figures]'\nor leave figures out: --format none",
        )
    return tuple(dict.fromkeys(names))


def have_matplotlib() -> bool:
    """Whether figures can be drawn."""
    return find_spec("matplotlib") is not None


@contextmanager
def style() -> Iterator[None]:
    """The settings of publications, for what is drawn and saved inside; matplotlib's own are left as they are."""
    from matplotlib import rc_context

    with rc_context(cast(Any, _STYLE)):
        yield


def panels(rows: int, columns: int, width: float, height: float, **shared: Any) -> tuple[Figure, list[Axes]]:
    """A figure of ``rows`` x ``columns`` panels, and its panels row by row; width and height in inches."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False, **shared)
    return figure, list(axes.flat)


def save(figure: Figure, stem: Path, formats: Sequence[str]) -> list[Path]:
    """Write a figure as ``<stem>.<format>`` for each format; the same figure gives the same bytes.

    Raises:
        StorageError: the folder cannot be written.
    """
    undated: dict[str, dict[str, Any]] = {"pdf": {"CreationDate": None}, "svg": {"Date": None}, "png": {}}
    files = [stem.with_name(f"{stem.name}.{name}") for name in formats]
    for path, name in zip(files, formats, strict=True):
        with writing(path) as sink:
            figure.savefig(sink, format=name, metadata=undated[name])
    return files
