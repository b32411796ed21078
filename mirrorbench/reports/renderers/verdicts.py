"""Verdicts as sentences, the same in every command and format."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from mirrorbench.core.specs import parse_spec
from mirrorbench.models.backbones import label as backbone_label
from mirrorbench.reports.renderers.numbers import number, p_words
from mirrorbench.reports.table import Column, Equality, Row, Table, Unseen, Verdict

Show = Callable[[float], str]
"""A function that formats a score."""
Line = tuple[str, str]
"""A mark (``+`` gain, ``-`` loss, ``=`` neither, ``!`` warning, or none) and a sentence."""


class Names(NamedTuple):
    """The words of a sentence for the two rows of a verdict and its column."""

    row: str
    over: str
    where: str
    """A phrase such as `` on STS-B``; empty if the table has one column."""


def names_of(table: Table, verdict: Verdict) -> Names:
    """Return the words for a verdict of a table."""
    row, over = table.rows_of(verdict)
    column = next(column for column in table.columns if column.name == verdict.column)
    encoders = [row for row in table.rows if row.spec]
    return Names(
        row_name(row, encoders),
        over_name(over, encoders, verdict.best),
        column_phrase(column, table.columns),
    )


def row_name(row: Row, encoders: Sequence[Row]) -> str:
    """Return the name of a row in a sentence: its label or, if all ``encoders`` have one backbone, a shorter name.

    The shorter name is the label without the backbone; that of an untuned row is ``the untuned model (mp)``.
    """
    ending = _label_ending(row, encoders)
    if ending is None:
        return row.label
    if row.tuned:
        return ending or row.label
    return f"the untuned model ({ending})" if ending else "the untuned model"


def over_name(row: Row, encoders: Sequence[Row], best: bool) -> str:
    """Return the name of the row that another one is compared with; ``best``: it is the best untuned row."""
    if not best:
        return row_name(row, encoders)
    ending = _label_ending(row, encoders)
    name = row.label if ending is None else ending
    return f"the best untuned row ({name})" if name else "the best untuned row"


def _label_ending(row: Row, encoders: Sequence[Row]) -> str | None:
    """Return what a label adds to the backbone that all encoders share, such as ``mp``.

    ``None`` if they have several backbones or protocols, or if an encoder has another label than the papers', such as
    ``bert+mirror``.
    """
    if len({(encoder.backbone, encoder.protocol) for encoder in encoders}) > 1:
        return None
    endings = [_ending_of_papers_label(encoder) for encoder in encoders]
    return None if None in endings else _ending_of_papers_label(row)


def _ending_of_papers_label(row: Row) -> str | None:
    """Return what a row's label adds to the name of its backbone; ``None`` if it is not a label as in the papers."""
    backbone = backbone_label(parse_spec(row.spec))
    if not row.label.startswith(backbone):
        return None
    ending = row.label.removeprefix(backbone)
    if ending and not ending.startswith(("-", " + ", " (", ", ")):
        return None
    return ending.lstrip(" +,-")


def column_phrase(column: Column, columns: Sequence[Column]) -> str:
    """Return `` on STS-B`` or `` on average over 7 tasks``; an empty text for the only column."""
    if len(columns) == 1:
        return ""
    if column.average_of:
        return f" on average over {len(column.average_of)} tasks"
    return f" on {column.title}"


def sentence(verdict: Verdict, names: Names, show: Show = number) -> Line:
    """Return a verdict as a sentence, with its mark: ``headline`` and its caveats."""
    mark, text = headline(verdict, names, show)
    if verdict.this_model and verdict.decided:
        text += ", this model"
    if verdict.two_seeds and verdict.decided:
        text += ", two seeds"
    text += _other_test(verdict, names)
    text += clause_on_overlap(verdict.unseen, show)
    if verdict.left_out:
        items = "item" if verdict.left_out == 1 else "items"
        text += f"; without {verdict.left_out:,} {items} that only one of them has"
    return mark, text


def headline(verdict: Verdict, names: Names, show: Show = number) -> Line:
    """Return the mark of a verdict and the first part of its sentence: answer, rows and numbers.

    ``Mirror beats the untuned model on STS-B: +.067 [.051, .083], p = .0069 (2 tests: .014)``
    """
    # Without a corrected p-value there was no test; ``why_not`` is the reason.
    if verdict.corrected is None:
        rows = f"{names.row} over {names.over}"
        if verdict.difference is not None:
            rows += f" {signed(verdict, show)}"
        return "=", f"Not tested{names.where}: {rows} ({verdict.why_not})"
    if verdict.answer == "equal" and verdict.equality:
        margin = margin_words(verdict.equality.margin)
        rows = f"{names.row} and {names.over} {signed(verdict, show)}"
        p = _p_of_equality(verdict.equality)
        return "=", f"Equal within {margin}{names.where}: {rows}, p {p}"
    numbers = f"{signed(verdict, show)}, p {_p_of_difference(verdict)}"
    if verdict.answer == "not separable":
        rows = f"{names.row} over {names.over}"
        return "=", f"No separable difference{names.where}: {rows} {numbers}"
    if verdict.answer == "better":
        mark, verb = "+", "beats"
    else:
        mark, verb = "-", "loses to"
    # The name begins the sentence, so it gets a capital.
    row = names.row
    if row.startswith("the "):
        row = f"T{row[1:]}"
    return mark, f"{row} {verb} {names.over}{names.where}: {numbers}"


def margin_words(margin: float) -> str:
    """Return a margin as in sentences: ``.02``."""
    return f"{margin:g}".removeprefix("0")


def _other_test(verdict: Verdict, names: Names) -> str:
    """Return a clause on the test that the headline leaves out; empty if there is nothing to say.

    After an equality it is on the difference, if that is significant; otherwise on the equality, if one is asked for.
    """
    equality = verdict.equality
    if equality is None or verdict.corrected is None:
        return ""
    if equality.shown:
        if not verdict.separable:
            return ""
        better = names.row if (verdict.difference or 0.0) > 0 else names.over
        return f", though {better} is better, p {_p_of_difference(verdict)}"
    hypothesis = f"equal within {margin_words(equality.margin)}"
    if equality.p is None:
        return f"; whether {hypothesis}, {equality.why_not}"
    return f"; not shown to be {hypothesis}, p {_p_of_equality(equality)}"


def sentences(table: Table, show: Show = number) -> list[Line]:
    """Return all verdicts of a table as sentences, in their order."""
    return [sentence(verdict, names_of(table, verdict), show) for verdict in table.verdicts]


def signed(gain: Verdict | Unseen, show: Show) -> str:
    """Return a difference and its interval, if any: ``+.067 [.053, .082]``; ``undefined`` without a difference."""
    if gain.difference is None:
        return "undefined"
    text = show(gain.difference)
    if gain.difference > 0:
        text = f"+{text}"
    if gain.interval is None:
        return text
    low, high = gain.interval
    if low == high == 0:
        return f"{text}, the same on all items"
    return f"{text} [{show(low)}, {show(high)}]"


def _p_of_difference(verdict: Verdict) -> str:
    return _with_tests(verdict.p, verdict.corrected, verdict.n_tests)


def _p_of_equality(equality: Equality) -> str:
    return _with_tests(equality.p, equality.corrected, equality.n_tests)


def _with_tests(p: float | None, corrected: float | None, n_tests: int) -> str:
    """Return the p-value, the number of tests, and the corrected p-value if it is printed differently."""
    p_text = p_words(p or 0.0)
    corrected_text = p_words(corrected or 0.0)
    # Tables that earlier versions wrote as JSON have no number of tests.
    tests = f"{n_tests} tests" if n_tests > 1 else "several tests"
    if corrected_text != p_text:
        return f"{p_text} ({tests}: {corrected_text.removeprefix('= ')})"
    return f"{p_text} ({tests})" if n_tests > 1 else p_text


def clause_on_overlap(unseen: Unseen | None, show: Show = number) -> str:
    """Return a clause on unseen items: ``; without overlap +.009 [-.006, .023], p = .21``; empty without overlap."""
    if unseen is None:
        return ""
    if unseen.p is None:
        return f"; {unseen.share:.0%} of the items hold a text that was tuned on"
    return f"; without overlap {signed(unseen, show)}, p {p_words(unseen.p)}"
