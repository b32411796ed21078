"""Notes below the papers' tables."""

from __future__ import annotations

import pytest
from helpers.paper_results import joined

from mirrorbench.papers.notes import table_notes


@pytest.mark.parametrize(
    ("table", "note"),
    [
        ("mirrorwic/table9", "?: not legible"),
        (
            "mirror-bert/table1",
            "Printed differently in poster/table1: fastText (row 1), EN: .434 on the poster",
        ),
        ("mirror-bert/table4", "Inconsistent: BERT (row 1), avg.: the printed values give .535"),
    ],
)
def test_doubtful_printed_values_are_noted(table: str, note: str) -> None:
    assert [found for found in table_notes(joined(table, [])) if found.startswith(note)]
