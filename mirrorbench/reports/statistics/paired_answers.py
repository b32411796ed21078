"""The difference of two shares of right answers to the same independent questions: score test and interval."""

from __future__ import annotations

from math import inf, sqrt


def score_p(wins: float, losses: float, df: float = inf) -> float:
    """Return the two-sided p-value of McNemar's score test (1947).

    Args:
        wins: number of questions that the first encoder alone answers.
        losses: number of those that the second alone answers.
        df: degrees of freedom of the numbers' standard error; infinite for numbers that are only counted.
    """
    from scipy.stats import t

    if wins == losses:
        return 1.0
    return 2 * float(t.sf(abs(wins - losses) / sqrt(wins + losses), df))


def score_interval(
    wins: float, losses: float, n: float, level: float, df: float = inf
) -> tuple[float, float]:
    """Return Tango's interval (1998) of the difference of two shares: all differences that the score test accepts.

    It holds 0 if and only if ``score_p`` is at least ``1 - level``, and does not shrink to a point where both encoders
    answer the same questions.

    Args:
        wins: number of questions that the first encoder alone answers.
        losses: number of those that the second alone answers.
        n: number of all questions.
        level: of confidence.
        df: as of ``score_p``.
    """
    from scipy.optimize import brentq
    from scipy.stats import t

    quantile = float(t.ppf((1 + level) / 2, df))
    difference = (wins - losses) / n

    def lower(value: float) -> float:
        return score_distance(value, wins, losses, n) - quantile

    def upper(value: float) -> float:
        return score_distance(value, wins, losses, n) + quantile

    low = -1.0 if difference <= -1 else float(brentq(lower, -1, difference))
    high = 1.0 if difference >= 1 else float(brentq(upper, difference, 1))
    return low, high


def score_distance(difference: float, wins: float, losses: float, n: float) -> float:
    """Return the distance of the observed difference from an assumed one, in standard errors under the assumption.

    Args:
        difference: the assumed one, from -1 to 1.
        wins: as of ``score_p``, as are the others.
        losses: likewise.
        n: number of all questions.
    """
    if abs(difference) == 1:
        return -inf if difference == 1 else inf
    # The share of questions that the second encoder alone answers, most likely under the assumed difference.
    a = 2 * n
    b = -wins - losses + (2 * n - wins + losses) * difference
    c = -losses * difference * (1 - difference)
    share = (sqrt(max(0.0, b * b - 4 * a * c)) - b) / (2 * a)
    variance = n * (2 * share + difference * (1 - difference))
    distance = wins - losses - n * difference
    if variance <= 0:
        return 0.0 if distance == 0 else inf if distance > 0 else -inf
    return distance / sqrt(variance)
