"""The verdict of a certificate, on texts and on labelled data."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mirrorbench import Session
from mirrorbench.agreement.certificate import (
    CANNOT_SAY,
    DIFFERENT,
    EQUAL,
    Certificate,
    TaskAgreement,
)
from mirrorbench.agreement.measures import Agreement
from mirrorbench.core.errors import UsageError


def certificate(is_same: bool, *verdicts: str) -> Certificate:
    vectors = np.random.default_rng(0).normal(size=(15, 4)).astype(np.float32)
    other = vectors if is_same else -vectors
    tasks = tuple(TaskAgreement("faq", "accuracy", verdict, "", 0.0) for verdict in verdicts)
    texts = [f"text {number}" for number in range(15)]
    return Certificate(
        "a", "b", "x", texts, Agreement.of(vectors, other), 0.9999, 0.01, None, tasks
    )


@pytest.mark.parametrize(
    ("is_same", "verdicts", "expected"),
    [
        (True, (), EQUAL),
        (False, (), DIFFERENT),
        (True, (CANNOT_SAY,), EQUAL),
        (False, (CANNOT_SAY,), CANNOT_SAY),
        (False, (EQUAL, EQUAL), EQUAL),
        (False, (EQUAL, CANNOT_SAY), CANNOT_SAY),
        (False, (EQUAL, DIFFERENT), DIFFERENT),
    ],
)
def test_verdict_follows_from_vectors_and_data(
    is_same: bool, verdicts: tuple[str, ...], expected: str
) -> None:
    assert certificate(is_same, *verdicts).verdict == expected


def session(folder: Path) -> Session:
    return Session(folder / "results", cache=folder / "cache", device="cpu")


def test_stored_vectors_of_the_encoder_are_equal(tmp_path: Path) -> None:
    texts = tmp_path / "texts.txt"
    texts.write_text("a cat\nthe river\n\nthe river\nMoskva\n", encoding="utf-8")
    found = session(tmp_path)
    lines = texts.read_text(encoding="utf-8").splitlines()
    np.save(tmp_path / "served.npy", found.load("tiny").encode(lines))
    same = found.same("tiny", f"vectors:path={tmp_path}/served.npy", texts=texts)
    assert same.verdict == EQUAL
    assert same.texts == ["a cat", "the river", "", "Moskva"]
    # The file of the vectors states its texts.
    spec = f"vectors:path={tmp_path}/served.npy,texts={texts}"
    assert found.same("tiny", spec).texts == same.texts


def test_scores_on_labelled_data_are_judged(tmp_path: Path) -> None:
    data = tmp_path / "pairs.csv"
    rows = [f"word {n} here,word {n + n % 3} there,{n % 5}" for n in range(40)]
    data.write_text("\n".join(["sentence1,sentence2,score", *rows]), encoding="utf-8")
    found = session(tmp_path).same("tiny", "tiny+base:pooling=cls", data=str(data), margin=0.01)
    (task,) = found.tasks
    assert task.verdict in (CANNOT_SAY, DIFFERENT)
    assert found.verdict == task.verdict
    assert found.source == "pairs.csv"
    assert found.to_json()["tasks"][0]["sentence"] == task.sentence


@pytest.mark.parametrize(
    ("first", "second", "options", "message"),
    [
        ("tiny", "tiny", {}, "compared with itself"),
        ("tiny", "tiny+base:pooling=cls", {"cosine": 1.5}, "a cosine of 1.5"),
        ("tiny", "tiny+base:pooling=cls", {"margin": 0.0}, "a margin of 0"),
    ],
)
def test_wrong_arguments_are_refused(
    tmp_path: Path, first: str, second: str, options: dict[str, float], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        session(tmp_path).same(first, second, **options)  # type: ignore[arg-type]
