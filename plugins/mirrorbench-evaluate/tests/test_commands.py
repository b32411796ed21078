"""The answer of ``mirrorbench evaluate``: better, worse or not separable, and how many items it would take."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from mirrorbench_evaluate.commands import Answer, named, untuned
from reader import Shell
from scipy.stats import t

from mirrorbench.core.errors import UsageError
from mirrorbench.reports.statistics.comparisons import Comparison, SeedMean
from mirrorbench.reports.statistics.estimates import PointEstimate
from mirrorbench.session import Session


def test_the_answer_is_that_of_the_items(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Three encoders on texts of letters: the difference of the accuracies, and Holm's correction of two p-values."""
    (tmp_path / "letters.py").write_text(
        "import numpy as np\nfrom mirrorbench import hookimpl\n"
        "class Letters:\n"
        "    def __init__(self, used): self.used, self.fingerprint = used, used\n"
        "    def encode(self, inputs):\n"
        "        return np.array([[1 + i.text.count(c) for c in self.used] for i in inputs], 'f4')\n"
        "@hookimpl\ndef register_encoders(register):\n"
        "    for used in ('ab', 'ba', 'abcdef'):\n"
        "        register(used, lambda spec, context: Letters(spec.backbone))\n"
    )
    rng = np.random.default_rng(0)
    words = ["".join(rng.choice(list("abcdef"), 9)) for _ in range(240)]
    rows = [f"{a},{a[:-1]}a,{b}\n" for a, b in zip(words[::2], words[1::2], strict=True)]
    (tmp_path / "a.csv").write_text("anchor,positive,negative\n" + "".join(rows))
    shell = Shell(tmp_path, monkeypatch, capsys.readouterr)
    command = "mirrorbench evaluate a.csv --plugin letters.py -e ab -e abcdef -e ba"
    said, answers = shell(command), json.loads(shell(f"{command} --json").out)
    assert said.code == 0, said.err
    better, same = said.out.splitlines()[-2:]
    assert better.startswith("abcdef on a.csv: better, +")
    assert "ba on a.csv: not separable, .000" in same
    (first, second), difference = answers, answers[0]["score"] - answers[0]["first"]
    assert first["difference"] == pytest.approx(difference)
    assert first["interval"][0] > 0
    assert first["p_holm"] == pytest.approx(2 * first["p"])
    assert (second["verdict"], second["p_holm"]) == ("not separable", 1.0)


def test_so_many_items_show_the_difference_in_four_of_five_samples() -> None:
    error, n, difference = 0.02, 100, 0.03
    means = SeedMean(0.0, None, 1), SeedMean(0.0, None, 1)
    found = Answer(
        "a", "b", Comparison(n, 0, *means, PointEstimate(difference, ((error**2, n - 1.0),))), 0.1
    ).items_needed
    assert found is not None
    drawn = difference + error * np.sqrt(n / found) * np.random.default_rng(0).normal(size=100_000)
    assert np.mean(drawn / (error * np.sqrt(n / found)) > t.ppf(0.975, found - 1)) == pytest.approx(0.8, abs=0.01)


def test_names_of_data_and_rows_of_encoders(tmp_path: Path) -> None:
    assert named("a.csv", "pairs", ["label=l"]) == "./a.csv:kind=pairs,label=l"
    assert named("../a", "", ()) == "../a"
    with pytest.raises(UsageError, match="--columns label is not COLUMN=NAME"):
        named("a", "", ["label"])
    session = Session(tmp_path, offline=True)
    assert str(untuned("tiny", session)) == "tiny+base"
    assert str(untuned("tiny+base:pooling=cls", session)) == "tiny+base:pooling=cls"
    assert str(untuned("minilm", session)) == "minilm+base:max_length=256,normalize=true,pooling=mean"
