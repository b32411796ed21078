"""The texts on which encoders are compared by default."""

from __future__ import annotations

from mirrorbench.agreement.included_texts import included_texts
from mirrorbench.agreement.shared_traits import script_of


def test_texts_are_distinct_and_of_many_scripts_and_lengths() -> None:
    texts = included_texts()
    assert len(set(texts)) == len(texts) == 200
    assert len({script_of(text) for text in texts}) > 15
    lengths = sorted(len(text.split()) for text in texts)
    assert lengths[0] == 1
    assert sum(length > 256 for length in lengths) >= 8
    assert lengths[-1] > 1_000
