"""AdamW, on a CPU without the rows of the token embedding that no string has touched.

Half of MiniLM's weights embed tokens, and a corpus of words touches few of them. AdamW changes the others by their
decay alone, a factor of 1 - lr * weight_decay a step: that is made up for before a row is read for the first time, or
at the end. What comes out is what torch's AdamW gives for all rows, but for rounding.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.optim.adamw import adamw

BETAS, EPSILON = (0.9, 0.999), 1e-8
"""Of AdamW; torch's defaults, which the released code takes."""


class TuningOptimizer:
    """All weights of a model.

    Args:
        model: a transformers model; on a CPU its input embedding is optimised by rows.
        lr: learning rate.
        weight_decay: as AdamW has it.
    """

    def __init__(self, model: Any, lr: float, weight_decay: float) -> None:
        table = model.get_input_embeddings().weight
        by_rows = table.device.type == "cpu" and table.requires_grad
        self._rows = LazyAdamW(table, lr, weight_decay) if by_rows else None
        others = [p for p in model.parameters() if self._rows is None or p is not table]
        self._others = torch.optim.AdamW(others, lr=lr, weight_decay=weight_decay, betas=BETAS, eps=EPSILON, fused=True)
        self._weights = list(model.parameters())

    def zero_grad(self) -> None:
        """Forget all gradients."""
        for weight in self._weights:
            weight.grad = None

    def catch_up(self, tokens: NDArray[np.integer[Any]]) -> None:
        """Make up for what was put off for the rows of some token ids; to be called before each batch is read."""
        if self._rows is not None:
            self._rows.touch(torch.from_numpy(np.unique(tokens)).long())

    def step(self) -> None:
        """Change the weights as their gradients say. Sparse ones are made whole where all rows are optimised."""
        if self._rows is not None:
            self._rows.step()
        for group in self._others.param_groups:
            for weight in group["params"]:
                if weight.grad is not None and weight.grad.is_sparse:
                    weight.grad = weight.grad.to_dense()
        self._others.step()

    def finish(self) -> None:
        """Make up for what was put off; to be called once, behind the last step."""
        if self._rows is not None:
            self._rows.finish()


class LazyAdamW:
    """AdamW for a table of which few rows ever get a gradient.

    Args:
        table: shape (rows, dimensions); its gradient is sparse or dense.
        lr: learning rate.
        weight_decay: as AdamW has it.
    """

    def __init__(self, table: torch.nn.Parameter, lr: float, weight_decay: float) -> None:
        self.table = table
        self.lr, self.weight_decay = lr, weight_decay
        self.steps = 0
        self.touched = torch.empty(0, dtype=torch.int64)
        self._slots = torch.full((len(table),), -1)  # where a row stands among those touched
        # As long as the table, so that they never have to move; NumPy's zeros take no memory until they are written.
        dtype = table.detach().numpy().dtype
        self._mean, self._square = (torch.from_numpy(np.zeros(table.shape, dtype)) for _ in range(2))

    @torch.no_grad()
    def step(self) -> None:
        """One step; without a gradient nothing but the decay, as for any other row."""
        gradient = self.table.grad
        if gradient is None:
            rows, values = torch.empty(0, dtype=torch.int64), self.table.new_empty(0, self.table.shape[1])
        elif gradient.is_sparse:
            few = gradient.coalesce()
            rows, values = few.indices()[0], few.values()
        else:
            rows, values = torch.arange(len(self.table)), gradient
        self.touch(rows)
        n = len(self.touched)
        whole = self.table.new_zeros(n, self.table.shape[1])
        whole[self._slots[rows]] = values
        weights = self.table.index_select(0, self.touched)
        adamw(
            [weights], [whole], [self._mean[:n]], [self._square[:n]], [], [torch.tensor(float(self.steps))],
            fused=True, amsgrad=False, beta1=BETAS[0], beta2=BETAS[1], lr=self.lr, weight_decay=self.weight_decay,
            eps=EPSILON, maximize=False,
        )  # fmt: skip
        self.table.index_copy_(0, self.touched, weights)
        self.steps += 1

    @torch.no_grad()
    def finish(self) -> None:
        """Let the rows that were never touched decay."""
        factors = torch.ones(len(self.table), dtype=self.table.dtype).masked_fill_(self._slots < 0, self._decay)
        self.table.mul_(factors[:, None])  # in place: the rows alone would be copied twice

    @torch.no_grad()
    def touch(self, rows: torch.Tensor) -> None:
        """From now on these rows, all different, take part in every step."""
        new = rows[self._slots[rows] < 0]
        self._slots[new] = torch.arange(len(self.touched), len(self.touched) + len(new))
        self.touched = torch.cat([self.touched, new])
        self.table[new] *= self._decay

    @property
    def _decay(self) -> float:
        """What is left of a weight after all steps so far, were it not for its gradient."""
        return float((1 - self.lr * self.weight_decay) ** self.steps)
