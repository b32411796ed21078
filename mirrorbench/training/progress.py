"""Did it help, without labels? Looks at held-out strings along a tuning, and keeps the best state where asked to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from mirrorbench.core.devices import on_gpu
from mirrorbench.core.errors import EncodingError
from mirrorbench.core.inputs import TextInput
from mirrorbench.models.encoder import TransformerEncoder
from mirrorbench.training.held_out import measure_pairs, nearest_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from mirrorbench.models.transformer import Transformer
    from mirrorbench.training.recipes import Recipe

LOOKS = 10
"""Looks at equal distances along a tuning, beside the one before it."""
SHOWN = 5
"""Texts whose nearest neighbours are kept."""
COLLAPSED = 0.5
"""Share of its effective rank below which a space counts as collapsed: tunings that help raise the rank."""
CHANGED = 0.05
"""p-value below which a change of retrieval counts as one."""
MOVED = 0.1
"""Change of alignment plus uniformity below which nothing has happened: where that and retrieval stayed, no score of a
task moved by more than .015 (``benchmarks/stopping.py``, tiny and MiniLM)."""
_SATURATED = (
    "Retrieval was too good before the tuning to show a gain; labelled pairs could: lines text1||text2, or a task that "
    "mirrorbench run scores"
)
_TOO_FEW = "{n} held-out lines are too few to show a gain; hold out more (--held-out N), or tune on more text"
MANY = 60
"""Held-out lines from which retrieval that can show no gain counts as too good: five missed are under 10 %."""


def criterion(measures: dict[str, float]) -> float:
    """By what ``stop=auto`` chooses among states: the higher the better.

    Whole tenths of retrieval come first, then the sum of alignment and uniformity, which lies between -8 and 4.
    Retrieval alone is 1 on easy corpora; the sum alone does not notice a model that broke and spread its vectors anew.
    How both follow the score of a task is measured by ``benchmarks/stopping.py``.
    """
    return 100 * round(measures["accuracy@1"], 1) - measures["alignment"] - measures["uniformity"]


@dataclass(frozen=True, slots=True)
class State:
    """Measures of held-out strings at one moment of a tuning.

    Attributes:
        share: of the strings to tune on that had been seen, 0 to 1.
        measures: ``MEASURES`` by name.
        gained: pairs that are retrieved and were not before the tuning.
        lost: pairs that were retrieved before the tuning and are not.
        nearest: for each of the first ``SHOWN`` texts, the row of the nearest other one.
    """

    share: float
    measures: dict[str, float]
    gained: int
    lost: int
    nearest: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Trajectory:
    """The states of one tuning on held-out strings.

    Attributes:
        n: number of held-out pairs.
        states: before the tuning, along it, and after it.
        kept: which of the states the tuned model is in: the last one, or under ``stop=auto`` the best one.
    """

    n: int
    states: tuple[State, ...]
    kept: int

    @property
    def before(self) -> dict[str, float]:
        """The measures before the tuning."""
        return self.states[0].measures

    @property
    def after(self) -> dict[str, float]:
        """The measures of the tuned model."""
        return self.states[self.kept].measures

    @property
    def verdict(self) -> str:
        """In words, whether the tuning helped.

        The effective rank tells a collapse, McNemar's exact test of retrieval a gain or loss, and where retrieval is
        not separable, alignment plus uniformity what is likely. Where retrieval could not show a gain, since nearly all
        pairs were retrieved before or there are too few of them, the verdict says which, and what could.
        """
        from scipy.stats import binomtest

        if self.kept == 0:
            return "no state was better than that before the tuning, which was kept"
        kept, before, after = self.states[self.kept], self.before, self.after
        p = float(binomtest(kept.gained, kept.gained + kept.lost).pvalue) if kept.gained + kept.lost else 1.0
        retrieval = f"held-out retrieval from {before['accuracy@1']:.3f} to {after['accuracy@1']:.3f} (p = {p:.2g})"
        sums = [measures["alignment"] + measures["uniformity"] for measures in (before, after)]
        if after["effective_rank"] < COLLAPSED * before["effective_rank"]:
            ranks = f"effective rank from {before['effective_rank']:.0f} to {after['effective_rank']:.0f}"
            outcome = f"the vectors have collapsed: {ranks}"
        elif p < CHANGED:
            outcome = f"a {'gain' if kept.gained > kept.lost else 'loss'}: {retrieval}"
        elif abs(sums[1] - sums[0]) < MOVED:
            nothing = "change worth having" if not self.blind else "loss seen" if self.n >= MANY else "change seen"
            outcome = f"no {nothing}: {retrieval}"
        else:
            kind = "gain" if sums[1] < sums[0] else "loss"
            outcome = f"perhaps a {kind}: alignment + uniformity from {sums[0]:.2f} to {sums[1]:.2f}; {retrieval}"
        if self.blind and p >= CHANGED:
            outcome += f". {self.blind}"
        if self.kept == len(self.states) - 1:
            return outcome
        return f"the state at {kept.share:.0%} of the tuning was kept; {outcome}"

    @property
    def blind(self) -> str:
        """The reason why McNemar's test could not show a gain, and what could; empty where it could."""
        from scipy.stats import binomtest

        missed = round(self.n * (1 - self.before["accuracy@1"]))
        if missed and float(binomtest(missed, missed).pvalue) < CHANGED:
            return ""
        return _SATURATED if self.n >= MANY else _TOO_FEW.format(n=self.n)

    @property
    def columns(self) -> dict[str, State]:
        """The columns of reports, by title: the state before, the best one, the one after the last step."""
        best = max(range(len(self.states)), key=lambda row: criterion(self.states[row].measures))
        shown = {"before": 0, f"best, at {self.states[best].share:.0%}": best, "end": len(self.states) - 1}
        return {title: self.states[row] for title, row in shown.items()}


class Progress:
    """Looks at held-out pairs of texts with a model that is being tuned; its weights and random state stay as they are.

    Texts are read as in the tuning: the recipe's pooling, layers and length; in float32, unless weights that do not
    learn are kept in half precision.

    Args:
        transformer: the model.
        recipe: of its tuning.
        pairs: at least two pairs; without any, nothing is looked at.
        total: strings to tune on, each counted once per epoch.
        on_advance: called with what ``advance`` gets.
    """

    def __init__(
        self, transformer: Transformer, recipe: Recipe, pairs: Sequence[tuple[str, str]], total: int = 1,
        on_advance: Callable[[int], None] = lambda n: None,
    ) -> None:  # fmt: skip
        self.transformer, self.pairs, self.total, self.on_advance = transformer, pairs, total, on_advance
        self.pooling = recipe.readout(recipe.train_max_length)
        self.keeps_best = recipe.stop == "auto"
        self.states: list[State] = []
        self.done = self.best = 0
        self._hits: NDArray[np.bool_] | None = None
        self._weights: dict[str, torch.Tensor] = {}
        self.look(0.0)

    def advance(self, n: int) -> None:
        """Take note of ``n`` more strings that the model was tuned on; look once for each tenth."""
        before, self.done = self.done, self.done + n
        if before * LOOKS // self.total < self.done * LOOKS // self.total and self.done < self.total:
            self.look(self.done / self.total)
        self.on_advance(n)

    def state_dict(self) -> dict[str, Any]:
        """The state for a checkpoint."""
        return {"states": [asdict(state) for state in self.states], "done": self.done, "best": self.best,
                "weights": self._weights}  # fmt: skip

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a checkpoint."""
        self.states = [State(**fields) for fields in state["states"]]
        self.done, self.best, self._weights = state["done"], state["best"], state["weights"]

    def finish(self) -> Trajectory | None:
        """Look for the last time, and give the model its best weights where the recipe says so."""
        self.look(1.0)
        if not self.states:
            return None
        kept = self.best if self.keeps_best else len(self.states) - 1
        if kept < len(self.states) - 1:
            self.transformer.model.load_state_dict(self._weights, strict=False)  # those that learn
        return Trajectory(len(self.pairs), tuple(self.states), kept)

    def look(self, share: float) -> None:
        """Add a state; vectors that are not finite give none, since the tuning fails at its next check of the loss."""
        if not self.pairs:
            return
        try:
            left, right = self._vectors()
        except EncodingError:
            return
        measures, hits = measure_pairs(left, right)
        first = self._hits = hits if self._hits is None else self._hits
        gained, lost = int((hits & ~first).sum()), int((first & ~hits).sum())
        nearest = nearest_rows(left, min(SHOWN, len(left)))
        self.states.append(State(share, measures, gained, lost, tuple(nearest)))
        if len(self.states) == 1 or criterion(measures) > criterion(self.states[self.best].measures):
            self.best = len(self.states) - 1
            if self.keeps_best:
                learning = ((name, w) for name, w in self.transformer.model.named_parameters() if w.requires_grad)
                self._weights = {name: weight.detach().to("cpu", copy=True) for name, weight in learning}

    def _vectors(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """The vectors of the first and of the second texts."""
        device, model = self.transformer.device, self.transformer.model
        rows = {text: row for row, text in enumerate(dict.fromkeys(text for pair in self.pairs for text in pair))}
        training = [module for module in model.modules() if module.training]
        try:
            with torch.random.fork_rng(devices=[device] if on_gpu(device) else []):
                encoder = TransformerEncoder(self.transformer, self.pooling, self.transformer.kept)
                vectors = encoder.encode([TextInput(text) for text in rows])
        finally:
            for module in training:
                module.training = True
        left, right = (vectors[[rows[pair[side]] for pair in self.pairs]] for side in (0, 1))
        return left, right
