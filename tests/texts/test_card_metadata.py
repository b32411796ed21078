"""Scores in the metadata of model cards as people write them; everything else stays byte for byte."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from huggingface_hub import ModelCard

from mirrorbench.core.errors import DataFormatError
from mirrorbench.texts.card_metadata import CardFile, one_metric_each


def entry(value: float, data: str = "a/b") -> dict[str, Any]:
    return {
        "task": {"type": "sentence-similarity"},
        "dataset": {"name": data, "type": data},
        "metrics": [{"type": "spearman", "value": value}],
    }


OLD = yaml.safe_dump({"model-index": [{"name": "theirs", "results": [entry(0.5)]}]})
FLOW = 'model-index: [{name: theirs, results: [{task: {type: x}, dataset: {name: "a/b", type: "a/b"}, metrics: [{type: spearman, value: 0.5}]}]}]\n'
CARDS = {
    "without metadata": ("", "A model.\n", ""),
    "empty card": ("", "", ""),
    "no scores": ("---\n", "license: mit\n", "---\ntext"),
    "scores first": ("---\n", f"{OLD}license: mit\n", "---\n"),
    "scores last": ("---\n", f"license: mit\n{OLD}", "---"),
    "scores alone": ("---\n", OLD, "---\n"),
    "comments around": ("---\n", f"# a\n{OLD}\n# b\nlanguage: no\nversion: 1.10\n", "---\n"),
    "quoted key": (
        "---\n",
        OLD.replace("model-index", '"model-index"') + "license: mit\n",
        "---\n",
    ),
    "flow": ("---\n", f"{FLOW}license: mit\n", "---\n"),
    "other text": ("---\n", f'a: "x\n\n  model-index: y"\n{OLD}', "---\n"),
    "block of text": ("---\n", f"a: |\n  model-index: y\n{OLD}b: |\n  z\n", "---\n"),
    "byte order mark": ("\ufeff---\n", f"license: mit\n{OLD}", "---\n"),
    "rule in the text": ("---\n", "license: mit\n", "---\n\n---\nmodel-index: no\n---\n"),
}


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("card", CARDS)
def test_other_metadata_and_text_stay(tmp_path: Path, card: str, newline: str) -> None:
    start, keys, end = (part.replace("\n", newline) for part in CARDS[card])
    path = tmp_path / "README.md"
    path.write_bytes(f"{start}{keys}{end}".encode())
    read = CardFile.read(path)
    n_before = 1 if "0.5" in keys else 0
    assert len(read.results) == n_before

    text = read.with_results([*read.results, entry(0.75, "c/d")], "mine")
    results = ModelCard(text.removeprefix("\ufeff")).data.eval_results
    assert [result.metric_value for result in results] == ([0.5, 0.75] if n_before else [0.75])
    if newline in keys:
        assert text.count("\n") == text.count(newline)
    assert text.startswith(start)
    assert text.endswith(end or keys)
    without_scores = keys.replace(OLD.replace("\n", newline), "").replace(FLOW.strip(), "")
    for line in without_scores.split(newline):
        assert line in text or "model-index" in line

    # Without results the card is as before, but for the scores of others.
    path.write_bytes(text.encode())
    if start and not n_before:
        assert CardFile.read(path).with_results([], "mine") == f"{start}{keys}{end}"


@pytest.mark.parametrize(
    "metadata",
    [
        f"{OLD}{OLD}",
        "{license: mit}\n",
        f"? model-index\n: {yaml.safe_load(OLD)['model-index']}\n",
        OLD.replace("theirs", "&name theirs") + "copy: *name\n",
    ],
    ids=["twice", "flow", "question mark", "alias"],
)
def test_card_that_could_lose_something_is_refused(tmp_path: Path, metadata: str) -> None:
    path = tmp_path / "README.md"
    path.write_text(f"---\n{metadata}---\n")
    with pytest.raises(DataFormatError, match="metadata"):
        CardFile.read(path).with_results([entry(0.75)], "mine")


def test_entry_with_several_metrics_is_taken_apart() -> None:
    joined = {**entry(0.5), "metrics": [{"type": "a"}, {"type": "b"}]}
    assert [part["metrics"] for part in one_metric_each(joined)] == [
        [{"type": "a"}],
        [{"type": "b"}],
    ]
    assert list(one_metric_each({**entry(0.5), "metrics": []})) == []
