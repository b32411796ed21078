"""The list of backbones, against MTEB's own descriptions of them."""

from __future__ import annotations

import pytest

from mirrorbench.models.backbones import BACKBONES

mteb = pytest.importorskip("mteb")


def test_backbone_facts_agree_with_mteb() -> None:
    """Licence, size and language of a short name are those of MTEB's own description, if it has one."""
    compared = 0
    for known in BACKBONES.values():
        try:
            theirs = mteb.get_model_meta(known.hub_id, fetch_from_hf=False)
        except (KeyError, ValueError):
            continue
        compared += 1
        assert not known.licence or known.licence == theirs.license, known.name
        size = theirs.n_parameters if known.millions else 0
        assert known.millions * 1e6 == pytest.approx(size, rel=0.02), known.name
        assert theirs.languages is None or (known.language == "multilingual") == (
            len(theirs.languages) > 1
        ), known.name
    assert compared >= 10
