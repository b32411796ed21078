"""What came of a tuning: an encoder directory, and the report on the texts that were held out."""

from __future__ import annotations

import html
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mirrorbench.core.specs import EncoderSpec
from mirrorbench.models.pooling import Pooling
from mirrorbench.texts.held_out import LOWER_IS_BETTER, METRICS, TITLES, Sanity
from mirrorbench.training.recipes import Recipe


@dataclass(frozen=True)
class Tuned:
    """A tuned encoder.

    Attributes:
        folder: the directory; ``mirrorbench.load(folder)`` opens it.
        spec: the encoder spec with its method.
        recipe: every hyper-parameter.
        pooling: how the encoder's vectors are read.
        corpus: name, checksum and number of the strings that it was tuned on.
        sanity: the report on the held-out texts, ``None`` where none were held out.
        seconds: that the tuning took, now or when it was first done.
    """

    folder: Path
    spec: EncoderSpec
    recipe: Recipe
    pooling: Pooling
    corpus: dict[str, Any]
    sanity: Sanity | None
    seconds: float

    def _repr_html_(self) -> str:
        """The report as a small table for notebooks."""
        caption = html.escape(f"{self.spec}, tuned on {self.corpus['n']:,} lines: {self.folder}")
        if self.sanity is None:
            return f"<p>{caption}</p>"
        rows = "".join(
            f"<tr><th>{TITLES[m]}{' (lower is better)' if m in LOWER_IS_BETTER else ''}</th>"
            f"<td>{self.sanity.before[m]:.3f}</td><td>{self.sanity.after[m]:.3f}</td></tr>"
            for m in METRICS
        )
        head = "<tr><th></th><th>before</th><th>after</th></tr>"
        return f"<table><caption>{caption}</caption>{head}{rows}</table>"
