"""Checkpoints, from which an interrupted tuning resumes and ends in the same weights, bit for bit.

They take at most 2 % of the time. A damaged checkpoint, or one of another device or version of torch, is not used. A
full disk ends checkpoints, but not the tuning.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from pickle import UnpicklingError
from typing import Any, Protocol
from zipfile import BadZipFile, ZipFile

from mirrorbench.core.errors import StorageError
from mirrorbench.storage.files import TEMPORARY, writing

INTERVAL = 30.0
"""Least seconds between two checkpoints."""
SHARE = 0.02
"""Largest share of the time for checkpoints."""
ASSUMED_SPEED = 250e6
"""Bytes written per second, before a first checkpoint was timed."""
FORMAT = 1
STATE = "state.pt"


class Stateful(Protocol):
    """The protocol of parts of a tuning with a state."""

    def state_dict(self) -> dict[str, Any] | None:
        """Return plain values and tensors, or ``None`` for a part without checkpoints."""


class Checkpoint:
    """The last checkpoint of one tuning; the caller holds the tuning's lease.

    ``folder``: for this tuning alone. ``origin``: values that must be equal to resume, such as versions. ``note``:
    called with a message when checkpoints end.
    """

    def __init__(
        self,
        folder: Path,
        origin: Mapping[str, Any],
        note: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.folder, self.origin, self.note = folder, {"format": FORMAT, **origin}, note
        self.parts: dict[str, Stateful] = {}
        self._path: Path | None = folder / STATE
        self._cost, self._last = 0.0, time.perf_counter()

    def read(self) -> dict[str, Any]:
        """Read the state of each part by its name; empty without a complete checkpoint of this origin."""
        import torch

        for left in self.folder.glob(f"{TEMPORARY}*"):
            left.unlink(missing_ok=True)
        if damaged(self.folder):
            return {}
        try:
            state: dict[str, Any] = torch.load(
                self.folder / STATE, map_location="cpu", weights_only=True
            )
            return state["parts"] if state["origin"] == self.origin else {}
        except (
            UnpicklingError,
            RuntimeError,
            LookupError,
        ):  # of an objective that keeps more than values and tensors
            self.note(
                f"The checkpoint {self.folder / STATE} cannot be read; the tuning starts anew."
            )
            return {}

    def begin(self, name: str, part: Stateful, size: int) -> None:
        """Add the last part, of about ``size`` bytes, and start the time until the first checkpoint."""
        self.parts[name] = part
        self._cost, self._last = size / ASSUMED_SPEED, time.perf_counter()

    def save_when_due(self) -> None:
        """Write a checkpoint if enough time has passed since the last one."""
        if self._path is None or time.perf_counter() - self._last < max(
            INTERVAL, self._cost / SHARE
        ):
            return
        started = time.perf_counter()
        self.save()
        self._last = time.perf_counter()
        self._cost = self._last - started

    def save(self) -> None:
        """Write a checkpoint in place of the last one."""
        import torch

        states = {name: part.state_dict() for name, part in self.parts.items()}
        if self._path is None or None in states.values():
            self._path = None
            return
        try:
            with writing(self._path, flush=False) as sink:
                torch.save({"origin": self.origin, "parts": states}, sink)
        except (
            StorageError,
            RuntimeError,
        ) as error:  # RuntimeError: torch's own, after a write that failed
            self._path = None
            self.note(
                f"No checkpoint could be written, so an interrupted tuning starts anew. {error}"
            )

    def remove(self) -> None:
        """Remove the checkpoint."""
        shutil.rmtree(self.folder, ignore_errors=True)


def damaged(folder: Path) -> str:
    """Return the fault of a checkpoint; empty if it is complete."""
    with suppress(OSError, BadZipFile, EOFError), ZipFile(folder / STATE) as archive:
        wrong = archive.testzip()  # compares checksums
        return f"{wrong} in {STATE}" if wrong else ""
    return f"no {STATE} that can be read"
