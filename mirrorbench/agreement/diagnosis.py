"""What a difference between the vectors of two encoders comes from.

A cause is named only if it was seen to give the other encoder's vectors: by rearranging or cutting the vectors, or by
reading the texts again with the model of one encoder. What nothing of this reproduces is called unknown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from mirrorbench.agreement.measures import SAME_LENGTH, Agreement, Numbers, cosines_of
from mirrorbench.agreement.noise import noise_words
from mirrorbench.agreement.readings import ModelReader, Reading, try_readings
from mirrorbench.agreement.shared_traits import shared_traits
from mirrorbench.core.encoder_protocol import Array

REPRODUCED = 0.999
"""Least cosine at which a vector counts as reproduced; half precision keeps it."""
SHARE_REPRODUCED = 0.9
"""Least share of texts whose vectors a cause reproduces."""
FEWER_ERRORS = 30
"""How many times smaller a cause makes the median of 1 - cosine, at least."""
SAMPLE = 24
"""Number of texts with which readings are tried."""
MOST_TEXTS = 400
"""Number of texts with which a cause is verified."""
EXACT_FIT = 0.99999
"""Least cosine of vectors, without their mean, that a shift and scale of each dimension reproduces."""
ROUNDED_FIT = 0.99
"""And of vectors that are rounded to integers."""
FIRST_SAMPLE = 6
"""Number of these with which a reading is tried first; with most readings, the others are not read."""
LONG_SAMPLE = 6
"""Number of texts with which readings are tried if no short text differs."""
WINDOW_SAMPLE = 4
"""Number of texts with which windows are tried."""
WINDOWS_AT_ONCE = 10
"""Number of windows that are tried before the search goes on around the best one."""
FEWEST_TEXTS_OF_A_FIT = 20
"""Number of texts from which a shift and a scale of each dimension can be found."""
MOST_MOVED_ROWS = 200
"""Number of texts whose vectors are looked for in other rows."""
ALONE = 6
"""Number of texts that are encoded alone, to see whether the texts beside one change its vector."""

EncodeAlone = Callable[[str], Array]
"""Returns the vector of a text that is sent alone, shape (dimensions,)."""


@dataclass(frozen=True)
class Cause:
    """What a difference comes from.

    Attributes:
        kind: ``rows``, ``dimensions``, ``length``, ``zeros``, ``numbers``, ``reading``, ``window``, ``noise`` or
            ``unknown``.
        sentence: what was found, as a sentence.
        details: further sentences.
    """

    kind: str
    sentence: str
    details: tuple[str, ...] = ()


@dataclass(frozen=True)
class Side:
    """One of the two encoders.

    Attributes:
        name: its name in sentences.
        vectors: its vectors, shape (n, dimensions).
        reader: reads texts with its model in other ways; ``None`` if it cannot be read in other ways.
        encode_alone: encodes a text that is sent alone; ``None`` for stored vectors.
    """

    name: str
    vectors: Array
    reader: ModelReader | None = None
    encode_alone: EncodeAlone | None = None


def diagnose(
    texts: Sequence[str], first: Side, second: Side, agreement: Agreement, cosine: float
) -> Cause | None:
    """Return the cause of the difference between two encoders; ``None`` if their vectors are the same.

    Args:
        texts: the texts, without repeats.
        first: the encoder whose vectors the other's should be.
        second: the other one.
        agreement: how far their vectors agree.
        cosine: a text whose two vectors have a larger cosine has the same vector.
    """
    if agreement.are_same(cosine):
        return None
    is_different = agreement.cosines <= cosine
    cause = _cause_in_vectors(texts, first, second, agreement, is_different)
    if cause is not None:
        return cause
    # The model of either encoder may be read so that it gives the vectors of the other.
    rows = _rows_to_read(is_different)
    texts_to_read = [texts[row] for row in rows]
    first_part = _part(first, rows)
    second_part = _part(second, rows)
    sides_to_read = [(first_part, second_part), (second_part, first_part)]
    for model, other in sides_to_read:
        if model.reader is not None:
            cause = _other_reading(texts_to_read, model.reader, model, other, is_different[rows])
            if cause is not None:
                return cause
    for original, changed in sides_to_read:
        words = _changed_numbers(original.vectors, changed.vectors, is_different[rows])
        if words:
            return Cause("numbers", f"{changed.name} is {original.name} with {words}")
    for model, other in sides_to_read:
        if model.reader is not None:
            words = noise_words(model.reader, texts_to_read, model.vectors, other.vectors)
            if words:
                return Cause("noise", f"{other.name} is {model.name} with {words}")
    return _unknown(texts, first, second, is_different)


def _rows_to_read(is_different: NDArray[np.bool_]) -> NDArray[np.intp]:
    """Return the rows of the texts with which causes are tried: all, or many that differ and as many that do not."""
    if len(is_different) <= MOST_TEXTS:
        return np.arange(len(is_different))
    differing = _spread(np.flatnonzero(is_different), MOST_TEXTS // 2)
    same = _spread(np.flatnonzero(~is_different), MOST_TEXTS // 2)
    return np.sort(np.concatenate([differing, same]))


def _part(side: Side, rows: NDArray[np.intp]) -> Side:
    """Return an encoder with the vectors of some texts."""
    return replace(side, vectors=side.vectors[rows])


def _cause_in_vectors(
    texts: Sequence[str],
    first: Side,
    second: Side,
    agreement: Agreement,
    is_different: NDArray[np.bool_],
) -> Cause | None:
    """Return the cause if the vectors alone show it: cut, of another length, or in other rows."""
    n_first, n_second = agreement.dimensions
    if not is_different.any():
        if n_first != n_second:
            shorter, longer = (first, second) if n_first < n_second else (second, first)
            sentence = (
                f"{shorter.name} has the first {min(n_first, n_second)} of the {max(n_first, n_second)} dimensions "
                f"of {longer.name}"
            )
            return Cause("dimensions", sentence)
        words = _length_words(texts, first, agreement)
        return Cause("length", f"{second.name} is {first.name} {words}")
    if n_first != n_second:
        return None
    for side in (first, second):
        are_zeros = not side.vectors[is_different].any()
        if are_zeros:
            rows = np.flatnonzero(is_different)
            which = f"text {rows[0] + 1}" if len(rows) == 1 else f"{len(rows):,} texts"
            return Cause("zeros", f"{side.name} has a vector of zeros for {which}")
    moved = _moved_rows(first.vectors, second.vectors, is_different)
    if moved:
        return Cause("rows", f"{second.name} has the vectors of {first.name} {moved}")
    return None


def _length_words(texts: Sequence[str], first: Side, agreement: Agreement) -> str:
    """Say how the lengths of the second vectors differ from the first ones', whose directions they have."""
    lengths = agreement.second_lengths
    is_longer_than_zero = agreement.first_lengths > 0
    ratios = lengths[is_longer_than_zero] / agreement.first_lengths[is_longer_than_zero]
    if np.ptp(ratios) <= SAME_LENGTH * ratios.mean():
        return f"times {ratios.mean():.4g}"
    if _are_one(lengths):
        return "scaled to length 1"
    if first.reader is not None and first.reader.own.pooling.normalize:
        rows = _spread(np.arange(len(texts)), SAMPLE)
        unscaled = first.reader.vectors([texts[row] for row in rows], [first.reader.own])[0]
        if _have_lengths(unscaled, lengths[rows]):
            return "without scaling to length 1"
    return "with vectors of other lengths"


def _changed_numbers(original: Array, changed: Array, is_different: NDArray[np.bool_]) -> str:
    """Say how numbers were changed if each dimension was shifted and scaled, or rounded; else return ""."""
    if original.shape != changed.shape or is_different.sum() < FEWEST_TEXTS_OF_A_FIT:
        return ""
    original = original[is_different].astype(np.float64)
    changed = changed[is_different].astype(np.float64)
    # Any vectors can be shifted and scaled to a single vector.
    if _are_one_vector(original) or _are_one_vector(changed):
        return ""
    values = np.unique(changed)
    if len(values) == 2:
        has_same_side = (original > 0) == (changed == values[1])
        return "its signs alone" if has_same_side.mean() > REPRODUCED else ""
    is_rounded = bool((values == np.round(values)).all())
    # The least squares fit of each dimension.
    deviations = original - original.mean(axis=0)
    deviations_of_changed = changed - changed.mean(axis=0)
    # A dimension that is the same for all texts has only rounding errors, which a scale of its own would enlarge.
    variances = (deviations**2).sum(axis=0)
    is_varying = variances > 1e-9 * variances.mean()
    deviations = deviations[:, is_varying]
    deviations_of_changed = deviations_of_changed[:, is_varying]
    variances = variances[is_varying]
    slopes = (deviations * deviations_of_changed).sum(axis=0) / variances
    # The means are left out: they would make the cosines of all vectors large.
    cosines = cosines_of(slopes * deviations, deviations_of_changed)
    if (cosines > (ROUNDED_FIT if is_rounded else EXACT_FIT)).mean() < SHARE_REPRODUCED:
        return ""
    if is_rounded:
        return f"its numbers rounded to integers from {values[0]:g} to {values[-1]:g}, each dimension on its own scale"
    return "each dimension shifted or scaled"


def _are_one_vector(vectors: Array | NDArray[np.float64]) -> bool:
    """Return whether all texts have the same vector."""
    return not np.ptp(vectors, axis=0).any()


def _are_one(lengths: Numbers) -> bool:
    """Return whether all vectors but zero vectors have length 1."""
    others = lengths[lengths > 0]
    return len(others) > 0 and bool((np.abs(others - 1) <= SAME_LENGTH).all())


def _have_lengths(vectors: Array, lengths: Numbers) -> bool:
    """Return whether vectors have these lengths."""
    differences = np.abs(np.linalg.norm(vectors.astype(np.float64), axis=1) - lengths)
    return bool((differences <= SAME_LENGTH * lengths).all())


def _moved_rows(first: Array, second: Array, is_different: NDArray[np.bool_]) -> str:
    """Say in which rows the second vectors stand if they are the first ones in another order; else return ""."""
    rows = np.flatnonzero(is_different)[:MOST_MOVED_ROWS]
    steps: Counter[int] = Counter()
    origins: set[int] = set()
    for row, origin in _origins(first, second, rows).items():
        steps[row - origin] += 1
        origins.add(origin)
    n_moved = steps.total()
    if n_moved < SHARE_REPRODUCED * len(rows) or n_moved < 2:
        return ""
    # One vector in several rows was not moved there.
    if len(origins) < SHARE_REPRODUCED * n_moved:
        return ""
    step, n_with_step = steps.most_common(1)[0]
    if n_with_step < SHARE_REPRODUCED * n_moved:
        return "in another order of rows"
    noun = "row" if abs(step) == 1 else "rows"
    return f"{abs(step)} {noun} {'later' if step > 0 else 'earlier'}"


def _origins(first: Array, second: Array, rows: NDArray[np.intp]) -> dict[int, int]:
    """Return for some rows the other row of the first vectors that has the second vector, if there is one."""
    origins = {}
    for row in rows:
        cosines = cosines_of(first, np.broadcast_to(second[row], first.shape))
        nearest = int(np.argmax(cosines))
        if nearest != row and cosines[nearest] > REPRODUCED:
            origins[int(row)] = nearest
    return origins


def _other_reading(
    texts: Sequence[str],
    reader: ModelReader,
    model: Side,
    other: Side,
    is_different: NDArray[np.bool_],
) -> Cause | None:
    """Return the reading of a model that gives the other vectors, if there is one."""
    if model.vectors.shape[1] != other.vectors.shape[1]:
        return None
    lengths = np.array(reader.lengths(texts))
    window = _window(texts, reader, model, other, is_different, lengths, reader.own, model.vectors)
    if window is not None:
        return window
    sample = _sample(lengths, is_different)
    reading = _matching_reading([texts[row] for row in sample], reader, model, other, sample)
    if reading is None:
        return None
    # The reading was found with short texts: long ones may be cut elsewhere.
    vectors = reader.vectors(texts, [reading])[0]
    still_different = cosines_of(vectors, other.vectors) <= REPRODUCED
    details: list[str] = []
    if still_different.any():
        cut = _window(texts, reader, model, other, still_different, lengths, reading, vectors)
        if cut is not None:
            return cut
        details.append(
            f"{still_different.sum():,} of {len(texts):,} texts have other vectors even so"
        )
    lengths_words = _scaling_words(vectors, other.vectors, reader)
    words = ", ".join([*reading.words, *lengths_words])
    return Cause("reading", f"{other.name} is {model.name} read {words}", tuple(details))


def _scaling_words(unscaled: Array, other: Array, reader: ModelReader) -> list[str]:
    """Say whether the other vectors are scaled to length 1 if those of the model are not, or the other way round.

    Args:
        unscaled: the vectors of the reading that gives the directions of the other ones, before any scaling.
        other: the other vectors of the same texts.
        reader: the reader of the model.
    """
    other_lengths = np.linalg.norm(other.astype(np.float64), axis=1)
    is_scaled = _are_one(other_lengths)
    if is_scaled and not reader.own.pooling.normalize:
        return ["scaled to length 1"]
    if is_scaled or not reader.own.pooling.normalize:
        return []
    # Texts with another vector than by this reading have no part in it.
    is_read = cosines_of(unscaled, other) > REPRODUCED
    if _have_lengths(unscaled[is_read], other_lengths[is_read]):
        return ["without scaling to length 1"]
    return ["with vectors of other lengths"]


def _sample(lengths: NDArray[np.int_], is_different: NDArray[np.bool_]) -> NDArray[np.intp]:
    """Return rows of short texts of several lengths, most of them texts that differ, the shortest first.

    The shortest quarter is hardly cut by another window, which is found afterwards.
    """
    order = np.argsort(lengths, kind="stable")
    short = order[: max(SAMPLE // 2, len(order) // 4)]
    differing = short[is_different[short]]
    same = short[~is_different[short]]
    if len(differing) == 0:
        # Long texts take long, and their other reading is most likely none that short texts do not show.
        differing = order[is_different[order]][:LONG_SAMPLE]
    sample = np.concatenate([_spread(differing, SAMPLE), _spread(same, SAMPLE // 3)])
    by_length = np.argsort(lengths[sample], kind="stable")
    rows: NDArray[np.intp] = sample[by_length]
    return rows


def _spread(rows: NDArray[np.intp], n: int) -> NDArray[np.intp]:
    """Return n of some rows at equal distances."""
    if len(rows) <= n:
        return rows
    positions = np.linspace(0, len(rows) - 1, n).astype(np.intp)
    chosen: NDArray[np.intp] = rows[positions]
    return chosen


def _matching_reading(
    texts: Sequence[str],
    reader: ModelReader,
    model: Side,
    other: Side,
    rows: NDArray[np.intp],
) -> Reading | None:
    """Return the reading with the fewest changes that gives the other vectors of some texts, the shortest first."""
    targets = other.vectors[rows]
    own_error = np.median(1 - cosines_of(model.vectors[rows], targets))
    for prompt_and_edit in (False, True):
        matches: list[tuple[int, float, Reading]] = []
        for group in reader.other_readings(prompt_and_edit):
            promising = _promising_readings(reader, texts[:FIRST_SAMPLE], group, targets)
            if not promising:
                continue
            for reading, vectors in try_readings(reader, texts, promising):
                cosines = cosines_of(vectors, targets)
                if _reproduces(cosines, own_error):
                    matches.append((len(reading.words), float(np.median(1 - cosines)), reading))
        if matches:
            # Of equally simple readings, the one that is nearest.
            n_changes_and_error = min(match[:2] for match in matches)
            return next(match[2] for match in matches if match[:2] == n_changes_and_error)
    return None


def _promising_readings(
    reader: ModelReader, texts: Sequence[str], readings: Sequence[Reading], targets: Array
) -> list[Reading]:
    """Return the readings that give the other vectors of at least half of a few texts."""
    promising = []
    for reading, vectors in try_readings(reader, texts, readings):
        cosines = cosines_of(vectors, targets[: len(texts)])
        if (cosines > REPRODUCED).mean() >= 0.5:
            promising.append(reading)
    return promising


def _reproduces(cosines: Numbers, own_error: float) -> bool:
    """Return whether vectors are the other ones, and much more so than the model's own."""
    share = (cosines > REPRODUCED).mean()
    error = np.median(1 - cosines)
    return bool(share >= SHARE_REPRODUCED and error * FEWER_ERRORS <= own_error)


def _window(
    texts: Sequence[str],
    reader: ModelReader,
    model: Side,
    other: Side,
    is_different: NDArray[np.bool_],
    lengths: NDArray[np.int_],
    reading: Reading,
    vectors: Array,
) -> Cause | None:
    """Return the window under which a reading gives the other vectors, if only long texts differ.

    Args:
        texts: all texts.
        reader: reads them with the model.
        model: the encoder of the model.
        other: the other encoder.
        is_different: which texts have other vectors by the reading.
        lengths: numbers of tokens of the texts.
        reading: a reading that gives the other vectors of short texts.
        vectors: the vectors of this reading.
    """
    if not is_different.any():
        return None
    candidates = _possible_windows(reader, lengths, is_different)
    rows = np.flatnonzero(is_different)
    few_rows = _spread(rows, WINDOW_SAMPLE)
    few_texts = [texts[row] for row in few_rows]

    def median_error(window: int) -> float:
        """Return the error of a few texts that are read in a window."""
        for _, array in try_readings(reader, few_texts, [reader.with_window(reading, window)]):
            return float(np.median(1 - cosines_of(array, other.vectors[few_rows])))
        return np.inf

    errors = {window: median_error(window) for window in candidates.usual}
    # A window of a token more or less gives nearly the same vectors.
    if min(errors.values(), default=np.inf) > 1 - EXACT_FIT:
        errors |= _errors_near_best(candidates.between, median_error)
    if not errors:
        return None

    best_window = min(errors, key=lambda window: errors[window])
    more_rows = _spread(rows, SAMPLE)
    targets = other.vectors[more_rows]
    own_error = np.median(1 - cosines_of(vectors[more_rows], targets))
    candidate = reader.with_window(reading, best_window)
    for found, array in try_readings(reader, [texts[row] for row in more_rows], [candidate]):
        if _reproduces(cosines_of(array, targets), own_error):
            words = ", ".join([*found.words, *_scaling_words(array, targets, reader)])
            return Cause("window", f"{other.name} is {model.name} read {words}")
    return None


@dataclass(frozen=True)
class _PossibleWindows:
    """Windows in which texts above a length would differ, and those below would not.

    Attributes:
        usual: windows that encoders often have.
        between: further ones, in ascending order.
    """

    usual: Sequence[int] = ()
    between: Sequence[int] = ()


def _possible_windows(
    reader: ModelReader, lengths: NDArray[np.int_], is_different: NDArray[np.bool_]
) -> _PossibleWindows:
    """Return the windows that the lengths of differing and other texts allow."""
    shortest_differing = int(lengths[is_different].min())
    longest_same = int(lengths[~is_different].max(initial=0))
    # A text that is a little longer than a window hardly changes.
    n_long_and_same = int((lengths[~is_different] > shortest_differing).sum())
    if n_long_and_same > 0.1 * is_different.sum():
        return _PossibleWindows()
    # A text that is cut by a few tokens may be among the same.
    shortest = max(3, min(longest_same, shortest_differing) - 8)
    longest = min(shortest_differing, reader.window - 1)
    usual = []
    for window in reader.windows():
        # Where both windows cut a text, the other one may be larger.
        is_larger = window > reader.window and shortest_differing > reader.window
        if shortest <= window <= longest or is_larger:
            usual.append(window)
    if is_different.all():
        return _PossibleWindows(usual)
    between = [window for window in range(shortest, longest + 1) if window not in usual]
    return _PossibleWindows(usual, between)


def _errors_near_best(
    windows: Sequence[int], median_error: Callable[[int], float]
) -> dict[int, float]:
    """Return the errors of windows, of which ever fewer around the best one are tried."""
    errors: dict[int, float] = {}
    while windows:
        step = -(-len(windows) // WINDOWS_AT_ONCE)
        tried = windows[::step]
        for window in tried:
            if window not in errors:
                errors[window] = median_error(window)
        if step == 1:
            break
        best = step * int(np.argmin([errors[window] for window in tried]))
        windows = windows[max(0, best - step + 1) : best + step]
    return errors


def _unknown(
    texts: Sequence[str], first: Side, second: Side, is_different: NDArray[np.bool_]
) -> Cause:
    """Describe what texts that differ have in common."""
    details = []
    if is_different.all():
        details.append("all texts differ")
    else:
        details += shared_traits(texts, is_different.tolist())
        if first.vectors.shape == second.vectors.shape:
            rows = np.flatnonzero(is_different)[:MOST_MOVED_ROWS]
            n_of_other_texts = len(_origins(first.vectors, second.vectors, rows))
            if n_of_other_texts:
                details.append(
                    f"{n_of_other_texts:,} of {len(rows):,} texts that differ have in {second.name} the vector that "
                    f"another text has in {first.name}"
                )
        if not details:
            details.append("the texts that differ share nothing that was looked at")
    for side in (first, second):
        if len(texts) > 1 and _are_one_vector(side.vectors):
            details.append(f"{side.name} has the same vector for all texts")
    rows = np.flatnonzero(is_different)[:ALONE]
    for side, other in ((second, first), (first, second)):
        if side.encode_alone is None:
            continue
        alone = np.array([side.encode_alone(texts[row]) for row in rows])
        if (cosines_of(alone, side.vectors[rows]) <= REPRODUCED).any():
            words = f"the vectors of {side.name} depend on the texts beside one in a batch"
            is_cause = side.vectors.shape == other.vectors.shape and bool(
                (cosines_of(alone, other.vectors[rows]) > REPRODUCED).all()
            )
            if is_cause:
                words += f"; alone, they are those of {other.name}"
            details.append(words)
    return Cause("unknown", "what the difference comes from is unknown", tuple(details))
