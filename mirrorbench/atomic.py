"""Writing files so that a reader never sees half of one."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from mirrorbench.errors import StorageError


@contextmanager
def writing(target: Path) -> Iterator[IO[bytes]]:
    """Write a file atomically: into a temporary file beside it, renamed once complete, removed on an error.

    Raises:
        StorageError: the folder or the file cannot be written, or the disk is full.
    """
    temporary = ""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=".part-", dir=target.parent)
        with os.fdopen(handle, "wb") as sink:
            yield sink
            sink.flush()
            os.fsync(sink.fileno())  # or a power cut could leave the new name with no content
        os.chmod(temporary, 0o644)
        os.replace(temporary, target)
        temporary = ""
    except OSError as error:
        raise StorageError(
            f"Cannot write {target}: {error.strerror or error}.",
            hint="Free some space, or name another folder.",
        ) from error
    finally:
        if temporary:
            Path(temporary).unlink(missing_ok=True)
