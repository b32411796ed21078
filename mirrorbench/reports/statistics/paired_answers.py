"""Score test and interval for the difference of two shares of right answers to the same independent questions."""

from __future__ import annotations

from math import inf, sqrt


def score_p(wins: float, losses: float, df: float = inf) -> float:
    """Return the two-sided p-value of McNemar's score test (1947).

    Args:
        wins: number of questions that only the first encoder answers.
        losses: number of questions that only the second encoder answers.
        df: degrees of freedom of the standard error; infinite if the numbers are counts.
    """
    from scipy.stats import t

    if wins == losses:
        return 1.0
    return 2 * float(t.sf(abs(wins - losses) / sqrt(wins + losses), df))


def score_interval(
    wins: float, losses: float, n: float, level: float, df: float = inf
) -> tuple[float, float]:
    """Return Tango's interval (1998) of the difference of two shares: all differences that the score test accepts.

    It contains 0 if and only if ``score_p`` is at least ``1 - level``. It does not shrink to a point if both encoders
    answer the same questions.

    Args:
        wins: number of questions that only the first encoder answers.
        losses: number of questions that only the second encoder answers.
        n: number of all questions.
        level: level of confidence.
        df: as in ``score_p``.
    """
    from scipy.optimize import brentq
    from scipy.stats import t

    quantile = float(t.ppf((1 + level) / 2, df))
    difference = (wins - losses) / n

    # The distance falls from the lowest difference to the highest. It is the quantile at the lower end of the interval,
    # 0 at the observed difference, and minus the quantile at the upper end.
    def lower(value: float) -> float:
        return score_distance(value, wins, losses, n) - quantile

    def upper(value: float) -> float:
        return score_distance(value, wins, losses, n) + quantile

    low = -1.0 if difference <= -1 else float(brentq(lower, -1, difference))
    high = 1.0 if difference >= 1 else float(brentq(upper, difference, 1))
    return low, high


def score_distance(difference: float, wins: float, losses: float, n: float) -> float:
    """Return Tango's score statistic (1998): how far the observed difference of two shares is from an assumed one.

    The distance is in standard errors, which are computed under the assumption.

    Args:
        difference: the assumed difference, from -1 to 1.
        wins: number of questions that only the first encoder answers.
        losses: number of questions that only the second encoder answers.
        n: number of all questions.
    """
    if abs(difference) == 1:
        return -inf if difference == 1 else inf
    # The maximum-likelihood share of questions that only the second encoder answers, under the assumed difference: the
    # larger root of a quadratic equation.
    a = 2 * n
    b = -wins - losses + (2 * n - wins + losses) * difference
    c = -losses * difference * (1 - difference)
    share = (sqrt(max(0.0, b * b - 4 * a * c)) - b) / (2 * a)
    variance = n * (2 * share + difference * (1 - difference))
    distance = wins - losses - n * difference
    if variance <= 0:
        if distance == 0:
            return 0.0
        return inf if distance > 0 else -inf
    return distance / sqrt(variance)
