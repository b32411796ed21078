"""Directories with the files of sentence-transformers."""

from __future__ import annotations

import json
import shutil
from pathlib import Path


def as_sentence_transformers(path: Path, folder: Path, *classes: str) -> Path:
    """A model's directory with the ``modules.json`` of sentence-transformers."""
    shutil.copytree(path, folder)
    modules = [
        {
            "type": f"sentence_transformers.models.{name}",
            "path": f"{n}_{name}" if n else "",
            "idx": n,
            "name": str(n),
        }
        for n, name in enumerate(classes)
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "1_Pooling").mkdir(exist_ok=True)
    (folder / "1_Pooling" / "config.json").write_text(
        '{"embedding_dimension": 32, "pooling_mode": "mean"}'
    )
    return folder
