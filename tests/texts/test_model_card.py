"""Model cards of tuned encoders."""

from __future__ import annotations

from typing import Any

import yaml
from helpers.tuning_lines import LINES


def test_model_card_has_metadata_but_no_texts(exported: Any) -> None:
    text = (exported.folder / "README.md").read_text(encoding="utf-8")
    data = yaml.safe_load(text.split("---")[1])
    kind = (data["library_name"], data["pipeline_tag"], data["license"])
    assert kind == ("sentence-transformers", "sentence-similarity", "mit")
    assert {"sentence-transformers", "mirrorbench", "mirror"} <= set(data["tags"])
    # The hub would show them as scores on a data set.
    assert "model-index" not in data
    assert f"{exported.tuned.held_out.after['uniformity']:.3f} | lower is better" in text
    assert exported.tuned.corpus["sha256"] in text
    assert "| backbone | `./backbone` |" in text
    assert str(exported.folder.parent) not in text
    assert not any(line in text for line in LINES)  # the user's texts are nobody else's business
