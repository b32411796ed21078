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

LOOKS = 10
"""Measurements at equal distances along a tuning, beside the one before it."""
SHOWN = 5
"""Number of texts with stored nearest neighbours."""
COLLAPSED = 0.5
"""Share of the effective rank before the tuning below which vectors have collapsed: useful tunings raise the rank."""
CHANGED = 0.05
"""p-value below which a change of retrieval is significant."""
MOVED = 0.1
"""Least change of alignment plus uniformity: below it, with equal retrieval, no score of a task changed by more than
.015 (``benchmarks/stopping.py``, tiny and MiniLM)."""
MANY = 60
"""Held-out pairs from which missing gains of retrieval are due to saturation: five missed pairs are under 10 %."""


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


def criterion(measures: dict[str, float]) -> float:
    """Return the criterion by which ``stop=auto`` chooses the state: the higher, the better.

    Tenths of retrieval come first, then the sum of alignment and uniformity, which is between -8 and 4. Retrieval alone
    is 1 on easy corpora; the sum alone does not notice a broken model with uniform vectors. ``benchmarks/stopping.py``
    measures both against the scores of tasks.
    """
    return 100 * round(measures["accuracy@1"], 1) - measures["alignment"] - measures["uniformity"]


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

        The effective rank shows a collapse, McNemar's exact test of retrieval a gain or loss, and without a significant
        change alignment plus uniformity suggest one. An ``obstacle`` to a gain of retrieval is named with its remedy.
        """
        from scipy.stats import binomtest

        if self.kept == 0:
            return "no state was better than that before the tuning, which was kept"
        kept, before, after = self.states[self.kept], self.before, self.after
        p = (
            float(binomtest(kept.gained, kept.gained + kept.lost).pvalue)
            if kept.gained + kept.lost
            else 1.0
        )
        retrieval = f"held-out retrieval from {before['accuracy@1']:.3f} to {after['accuracy@1']:.3f} (p = {p:.2g})"
        sums = [measures["alignment"] + measures["uniformity"] for measures in (before, after)]
        if after["effective_rank"] < COLLAPSED * before["effective_rank"]:
            ranks = f"effective rank from {before['effective_rank']:.0f} to {after['effective_rank']:.0f}"
            outcome = f"the vectors have collapsed: {ranks}"
        elif p < CHANGED:
            outcome = f"a {'gain' if kept.gained > kept.lost else 'loss'}: {retrieval}"
        elif abs(sums[1] - sums[0]) < MOVED:
            outcome = f"no {_NO_CHANGE[self.obstacle]}: {retrieval}"
        else:
            likely = "gain" if sums[1] < sums[0] else "loss"
            moved = f"alignment + uniformity, from {sums[0]:.2f} to {sums[1]:.2f}, suggest one"
            outcome = f"no {likely} shown: {retrieval}; {moved}"
        if self.obstacle and p >= CHANGED:
            outcome += f". {self.obstacle.value.format(n=self.n)}"
        if self.kept == len(self.states) - 1:
            return outcome
        return f"the state at {kept.share:.0%} of the tuning was kept; {outcome}"

    @property
    def obstacle(self) -> Obstacle | None:
        """Obstacle to a significant gain in McNemar's test; ``None`` if gains of all missed pairs would be one."""
        from scipy.stats import binomtest

        missed = round(self.n * (1 - self.before["accuracy@1"]))
        if missed and float(binomtest(missed, missed).pvalue) < CHANGED:
            return None
        return Obstacle.SATURATED if self.n >= MANY else Obstacle.TOO_FEW

    @property
    def columns(self) -> dict[str, State]:
        """Columns of reports by title: the state before the tuning, the best one, and the last one."""
        best = max(range(len(self.states)), key=lambda row: criterion(self.states[row].measures))
        shown = {
            "before": 0,
            f"best, at {self.states[best].share:.0%}": best,
            "end": len(self.states) - 1,
        }
        return {title: self.states[row] for title, row in shown.items()}


class Progress:
    """Measurements of held-out pairs of texts along a tuning, which leave weights and random state unchanged.

    Texts are read as in the tuning: by the recipe's pooling, layers and length; in float32, or in the half precision of
    frozen weights. ``pairs``: at least two, or none for no measurements; ``total``: strings to tune on, each counted
    once per epoch; ``on_advance``: called with the argument of ``advance``.
    """

    def __init__(
        self,
        transformer: Transformer,
        recipe: Recipe,
        pairs: Sequence[tuple[str, str]],
        total: int = 1,
        on_advance: Callable[[int], None] = lambda n: None,
    ) -> None:
        self.transformer, self.pairs, self.total, self.on_advance = (
            transformer,
            pairs,
            total,
            on_advance,
        )
        self.pooling = recipe.readout(recipe.train_max_length)
        self.keeps_best = recipe.stop == "auto"
        self.states: list[State] = []
        self.done = self.best = 0
        self._hits: NDArray[np.bool_] | None = None
        self._weights: dict[str, torch.Tensor] = {}
        self.look(0.0)

    def advance(self, n: int) -> None:
        """Count ``n`` more strings that the model was tuned on, and look once per tenth of all."""
        before, self.done = self.done, self.done + n
        if (
            before * LOOKS // self.total < self.done * LOOKS // self.total
            and self.done < self.total
        ):
            self.look(self.done / self.total)
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
        self.done, self.best, self._weights = state["done"], state["best"], state["weights"]

    def finish(self) -> Trajectory | None:
        """Look for the last time, and restore the best weights under ``stop=auto``; ``None`` without held-out pairs."""
        self.look(1.0)
        if not self.states:
            return None
        kept = self.best if self.keeps_best else len(self.states) - 1
        if kept < len(self.states) - 1:
            self.transformer.model.load_state_dict(self._weights, strict=False)  # those that learn
        return Trajectory(len(self.pairs), tuple(self.states), kept)

    def look(self, share: float) -> None:
        """Add the current state."""
        if not self.pairs:
            return
        try:
            left, right = self._vectors()
        except (
            EncodingError
        ):  # vectors that are not finite: the tuning fails at its next check of the loss
            return
        measures, hits = measure_pairs(left, right)
        first = self._hits = hits if self._hits is None else self._hits
        gained, lost = int((hits & ~first).sum()), int((first & ~hits).sum())
        nearest = nearest_rows(left, min(SHOWN, len(left)))
        self.states.append(State(share, measures, gained, lost, tuple(nearest)))
        if len(self.states) == 1 or criterion(measures) > criterion(
            self.states[self.best].measures
        ):
            self.best = len(self.states) - 1
            if self.keeps_best:
                learning = (
                    (name, w)
                    for name, w in self.transformer.model.named_parameters()
                    if w.requires_grad
                )
                self._weights = {
                    name: weight.detach().to("cpu", copy=True) for name, weight in learning
                }

    def _vectors(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        device, model = self.transformer.device, self.transformer.model
        rows = {
            text: row
            for row, text in enumerate(dict.fromkeys(text for pair in self.pairs for text in pair))
        }
        training = [module for module in model.modules() if module.training]
        try:
            with torch.random.fork_rng(devices=[device] if on_gpu(device) else []):
                encoder = TransformerEncoder(self.transformer, self.pooling, self.transformer.kept)
                vectors = encoder.encode([TextInput(text) for text in rows])
        finally:
            for module in training:
                module.training = True
        left, right = zip(*self.pairs, strict=True)
        return vectors[[rows[text] for text in left]], vectors[[rows[text] for text in right]]
