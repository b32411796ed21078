"""Progress of a tuning without labels: measures of held-out strings along it, a verdict, and the best state."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from mirrorbench.core.devices import on_gpu
from mirrorbench.core.encoder_protocol import TextInput
from mirrorbench.core.errors import EncodingError
from mirrorbench.models.transformer_encoder import TransformerEncoder
from mirrorbench.training.held_out import measure_pairs, nearest_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from mirrorbench.models.transformer import Transformer
    from mirrorbench.training.recipes import Recipe

MEASUREMENTS = 10
"""Number of measurements at equal distances along a tuning, the last one at its end, without the one before it."""
SHOWN = 5
"""Number of texts whose nearest neighbours are stored."""
COLLAPSED = 0.5
"""Share of the effective rank before the tuning; below it, vectors have collapsed. Useful tunings raise the rank."""
CHANGED = 0.05
"""p-value below which a change of retrieval is significant."""
MOVED = 0.1
"""Smallest change of alignment plus uniformity that is worth a remark.

Below it, with equal retrieval, no score of a task changed by more than .015 (``benchmarks/stopping.py``, tiny and
MiniLM).
"""
MANY = 60
"""Number of held-out pairs from which saturation explains that retrieval cannot gain: five missed pairs are under 10 %."""


class Obstacle(Enum):
    """A reason why retrieval of held-out pairs cannot show a gain, with its remedy."""

    SATURATED = (
        "Retrieval was too good before the tuning to show a gain; labelled pairs could: lines text1||text2, or a task "
        "that mirrorbench run scores"
    )
    TOO_FEW = "{n} held-out lines are too few to show a gain; hold out more (--held-out N), or tune on more text"


_NO_CHANGE = {
    None: "change worth having",
    Obstacle.SATURATED: "loss seen",
    Obstacle.TOO_FEW: "change seen",
}
"""What verdicts of no change say after "no", by the obstacle to a gain."""


def criterion(measures: dict[str, float]) -> float:
    """Return the criterion by which ``stop=auto`` chooses the state: the higher, the better.

    Retrieval, rounded to tenths, comes first; then the sum of alignment and uniformity, which is between -8 and 4.
    Retrieval alone is 1 on easy corpora; the sum alone does not notice a broken model with uniform vectors.
    ``benchmarks/stopping.py`` measures both against the scores of tasks.
    """
    retrieval = round(measures["accuracy@1"], 1)
    return 100 * retrieval - measures["alignment"] - measures["uniformity"]


@dataclass(frozen=True, slots=True)
class State:
    """Measures of held-out strings at one moment of a tuning."""

    share: float
    """Share of the tuning that is done, 0 to 1."""
    measures: dict[str, float]
    """``MEASURES`` by name."""
    gained: int
    """Pairs retrieved now, but not before the tuning."""
    lost: int
    """Pairs retrieved before the tuning, but not now."""
    nearest: tuple[int, ...]
    """Row of the nearest neighbour of each of the first ``SHOWN`` texts."""


@dataclass(frozen=True, slots=True)
class Trajectory:
    """The states of one tuning on held-out strings."""

    n: int
    """Number of held-out pairs."""
    states: tuple[State, ...]
    """States before the tuning, along it, and after it."""
    kept: int
    """Index of the tuned model's state: the last one, or the best one under ``stop=auto``."""

    @property
    def before(self) -> dict[str, float]:
        """Measures before the tuning."""
        return self.states[0].measures

    @property
    def after(self) -> dict[str, float]:
        """Measures of the tuned model."""
        return self.states[self.kept].measures

    @property
    def verdict(self) -> str:
        """Verdict in words on whether the tuning helped.

        The effective rank shows a collapse; McNemar's exact test of retrieval shows a gain or a loss. Without a
        significant change of retrieval, alignment plus uniformity may suggest one, and an ``obstacle`` to a gain is
        named with its remedy.
        """
        # 0 is the state before the tuning.
        if self.kept == 0:
            return "no state was better than that before the tuning, which was kept"
        p = self._p_of_retrieval()
        outcome = self._outcome(p)
        if self.obstacle and p >= CHANGED:
            outcome += f". {self.obstacle.value.format(n=self.n)}"
        # The last state is kept unless an earlier one was better.
        if self.kept == len(self.states) - 1:
            return outcome
        share = self.states[self.kept].share
        return f"the state at {share:.0%} of the tuning was kept; {outcome}"

    def _p_of_retrieval(self) -> float:
        """Return the p-value of McNemar's exact test of retrieval before and after the tuning."""
        from scipy.stats import binomtest

        kept = self.states[self.kept]
        changed = kept.gained + kept.lost
        if changed == 0:
            return 1.0
        return float(binomtest(kept.gained, changed).pvalue)

    def _outcome(self, p: float) -> str:
        """Return the outcome with the numbers that show it: a collapse, a significant gain or loss, or neither.

        ``p``: p-value of the change of retrieval.
        """
        kept = self.states[self.kept]
        before = self.before
        after = self.after
        retrieval = f"held-out retrieval from {before['accuracy@1']:.3f} to {after['accuracy@1']:.3f} (p = {p:.2g})"
        if after["effective_rank"] < COLLAPSED * before["effective_rank"]:
            ranks = f"effective rank from {before['effective_rank']:.0f} to {after['effective_rank']:.0f}"
            return f"the vectors have collapsed: {ranks}"
        if p < CHANGED:
            change = "gain" if kept.gained > kept.lost else "loss"
            return f"a {change}: {retrieval}"
        # No significant change of retrieval: a lower sum of alignment and uniformity still suggests a gain, a higher
        # one a loss.
        sum_before = before["alignment"] + before["uniformity"]
        sum_after = after["alignment"] + after["uniformity"]
        if abs(sum_after - sum_before) < MOVED:
            return f"no {_NO_CHANGE[self.obstacle]}: {retrieval}"
        likely = "gain" if sum_after < sum_before else "loss"
        sums = f"alignment + uniformity, from {sum_before:.2f} to {sum_after:.2f}, suggest one"
        return f"no {likely} shown: {retrieval}; {sums}"

    @property
    def obstacle(self) -> Obstacle | None:
        """Obstacle to a significant gain in McNemar's test; ``None`` if one is possible.

        It is possible if retrieving all pairs that were missed before the tuning would be significant.
        """
        from scipy.stats import binomtest

        missed = round(self.n * (1 - self.before["accuracy@1"]))
        if missed and float(binomtest(missed, missed).pvalue) < CHANGED:
            return None
        return Obstacle.SATURATED if self.n >= MANY else Obstacle.TOO_FEW

    @property
    def columns(self) -> dict[str, State]:
        """Columns of reports by title: the state before the tuning, the best one, and the last one."""
        best = max(self.states, key=lambda state: criterion(state.measures))
        return {
            "before": self.states[0],
            f"best, at {best.share:.0%}": best,
            "end": self.states[-1],
        }


class Progress:
    """Measurements of held-out pairs of texts along a tuning, which leave weights and random state unchanged.

    Texts are read as in the tuning: by the recipe's pooling, layers and length; in float32, or in the half precision of
    frozen weights.

    Args:
        transformer: the model that is tuned.
        recipe: the hyper-parameters.
        pairs: held-out pairs, at least two; or none for no measurements.
        total: strings to tune on, each counted once per epoch.
        on_advance: called with the argument of ``advance``.
    """

    def __init__(
        self,
        transformer: Transformer,
        recipe: Recipe,
        pairs: Sequence[tuple[str, str]],
        total: int = 1,
        on_advance: Callable[[int], None] = lambda n: None,
    ) -> None:
        self.transformer = transformer
        self.pairs = pairs
        self.total = total
        self.on_advance = on_advance
        self.pooling = recipe.readout(recipe.train_max_length)
        self.keeps_best = recipe.stop == "auto"
        self.states: list[State] = []
        self.done = 0
        self.best = 0
        self._first_hits: NDArray[np.bool_] | None = None
        self._weights: dict[str, torch.Tensor] = {}
        self.measure(0.0)

    def advance(self, n: int) -> None:
        """Count ``n`` more strings that the model was tuned on, and measure after each tenth of the tuning.

        The last measurement is made by ``finish``.
        """
        measurements_before = self.done * MEASUREMENTS // self.total
        self.done += n
        measurements_now = self.done * MEASUREMENTS // self.total
        if measurements_now > measurements_before and self.done < self.total:
            self.measure(self.done / self.total)
        self.on_advance(n)

    def state_dict(self) -> dict[str, Any]:
        """Return the state for a checkpoint."""
        return {
            "states": [asdict(state) for state in self.states],
            "done": self.done,
            "best": self.best,
            "weights": self._weights,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resume from a checkpoint."""
        self.states = [State(**fields) for fields in state["states"]]
        self.done = state["done"]
        self.best = state["best"]
        self._weights = state["weights"]

    def finish(self) -> Trajectory | None:
        """Measure for the last time, and under ``stop=auto`` restore the best weights.

        Return ``None`` without held-out pairs.
        """
        self.measure(1.0)
        if not self.states:
            return None
        kept = self.best if self.keeps_best else len(self.states) - 1
        if kept < len(self.states) - 1:
            # Not strict: only the weights that learn were copied.
            self.transformer.model.load_state_dict(self._weights, strict=False)
        return Trajectory(len(self.pairs), tuple(self.states), kept)

    def measure(self, share: float) -> None:
        """Measure the current state, and add it to the states; copy its weights under ``stop=auto`` if it is the best.

        Without held-out pairs, or if the vectors are not finite, do nothing. ``share``: the part of the tuning that is done.
        """
        if not self.pairs:
            return
        try:
            left, right = self._vectors()
        except EncodingError:
            # The tuning fails at its next check of the loss.
            return
        measures, hits = measure_pairs(left, right)
        if self._first_hits is None:
            self._first_hits = hits
        gained = int((hits & ~self._first_hits).sum())
        lost = int((self._first_hits & ~hits).sum())
        nearest = nearest_rows(left, min(SHOWN, len(left)))
        self.states.append(State(share, measures, gained, lost, tuple(nearest)))
        is_first = len(self.states) == 1
        best_so_far = self.states[self.best]
        if is_first or criterion(measures) > criterion(best_so_far.measures):
            self.best = len(self.states) - 1
            if self.keeps_best:
                self._weights = self._copied_weights()

    def _copied_weights(self) -> dict[str, torch.Tensor]:
        """Return a copy, on the CPU, of the weights that learn."""
        return {
            name: weight.detach().to("cpu", copy=True)
            for name, weight in self.transformer.model.named_parameters()
            if weight.requires_grad
        }

    def _vectors(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return the vectors of the first and of the second texts, each shape (pairs, dimensions)."""
        # Each distinct text is read once.
        row_of: dict[str, int] = {}
        for pair in self.pairs:
            for text in pair:
                row_of.setdefault(text, len(row_of))
        device = self.transformer.device
        # Encoding sets evaluation mode.
        modules_in_training = [
            module for module in self.transformer.model.modules() if module.training
        ]
        try:
            with torch.random.fork_rng(devices=[device] if on_gpu(device) else []):
                encoder = TransformerEncoder(
                    self.transformer, self.pooling, self.transformer.matrix_precision
                )
                vectors = encoder.encode([TextInput(text) for text in row_of])
        finally:
            for module in modules_in_training:
                module.training = True
        left_rows = [row_of[left] for left, _ in self.pairs]
        right_rows = [row_of[right] for _, right in self.pairs]
        return vectors[left_rows], vectors[right_rows]
