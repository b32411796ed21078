"""Checkpoints, from which an interrupted tuning resumes and ends with the same weights, bit for bit.

Writing them takes at most 2 % of the time. A damaged checkpoint, or one of another device or version of torch, is not
used. If the disk is full, no more checkpoints are written, but the tuning goes on.
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
"""Fewest seconds between two checkpoints."""
SHARE = 0.02
"""Largest share of the time that checkpoints may take."""
ASSUMED_SPEED = 250e6
"""Bytes written per second, assumed until a first checkpoint is timed."""
FORMAT = 1
"""Version of the file format; another one is not read."""
STATE = "state.pt"
"""Name of the file in the checkpoint's folder."""


class Stateful(Protocol):
    """A part of a tuning whose state a checkpoint holds."""

    def state_dict(self) -> dict[str, Any] | None:
        """Return plain values and tensors, or ``None`` if no checkpoint can be written."""


class Checkpoint:
    """The last checkpoint of one tuning; the caller holds the tuning's lease.

    Args:
        folder: a folder that no other tuning uses.
        origin: values, such as versions, that must be equal for a tuning to resume.
        note: called with a message if a checkpoint cannot be read or written.
    """

    def __init__(
        self,
        folder: Path,
        origin: Mapping[str, Any],
        note: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.folder = folder
        self.origin = {"format": FORMAT, **origin}
        self.note = note
        self.parts: dict[str, Stateful] = {}
        # None once no more checkpoints are written.
        self._path: Path | None = folder / STATE
        self._seconds_to_write = 0.0
        self._last_written = time.perf_counter()

    def read(self) -> dict[str, Any]:
        """Return the state of each part by its name; empty without a complete checkpoint of this origin.

        Remove files of a write that was interrupted.
        """
        import torch

        for unfinished in self.folder.glob(f"{TEMPORARY}*"):
            unfinished.unlink(missing_ok=True)
        if checkpoint_fault(self.folder):
            return {}
        path = self.folder / STATE
        try:
            state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
            return state["parts"] if state["origin"] == self.origin else {}
        except (UnpicklingError, RuntimeError, LookupError):
            # The state of an objective may hold other objects than values and tensors.
            self.note(f"The checkpoint {path} cannot be read; the tuning starts anew.")
            return {}

    def begin(self, name: str, part: Stateful, size: int) -> None:
        """Add the last part, and start to count the time until the first checkpoint.

        Args:
            name: name of the part.
            part: the part.
            size: approximate bytes of its state.
        """
        self.parts[name] = part
        self._seconds_to_write = size / ASSUMED_SPEED
        self._last_written = time.perf_counter()

    def save_when_due(self) -> None:
        """Write a checkpoint if enough time has passed since the last one."""
        if self._path is None:
            return
        interval = max(INTERVAL, self._seconds_to_write / SHARE)
        if time.perf_counter() - self._last_written < interval:
            return
        started = time.perf_counter()
        self.save()
        self._last_written = time.perf_counter()
        self._seconds_to_write = self._last_written - started

    def save(self) -> None:
        """Write a checkpoint in place of the last one; write no more if a part has no state, or the write fails."""
        import torch

        states = {name: part.state_dict() for name, part in self.parts.items()}
        if self._path is None or None in states.values():
            self._path = None
            return
        try:
            with writing(self._path, flush=False) as sink:
                torch.save({"origin": self.origin, "parts": states}, sink)
        except (StorageError, RuntimeError) as error:
            # torch raises a RuntimeError after a write that failed.
            self._path = None
            self.note(
                f"No checkpoint could be written, so an interrupted tuning starts anew. {error}"
            )

    def remove(self) -> None:
        """Remove the checkpoint."""
        shutil.rmtree(self.folder, ignore_errors=True)


def checkpoint_fault(folder: Path) -> str:
    """Describe the fault of the checkpoint in a folder; empty if it is complete."""
    with suppress(OSError, BadZipFile, EOFError), ZipFile(folder / STATE) as archive:
        # This compares checksums.
        damaged_member = archive.testzip()
        return f"{damaged_member} in {STATE}" if damaged_member else ""
    return f"no {STATE} that can be read"
