from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from mirrorbench.core.errors import UsageError
from mirrorbench.core.plugins import Plugins
from mirrorbench.core.specs import parse_spec
from mirrorbench.runs.ladder import expand_ladder, with_baselines
from mirrorbench.training.methods import Method, mirror_preset


def rows(specs: tuple[Any, ...]) -> list[str]:
    return list(map(str, specs))


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("roberta", ["roberta+base:pooling=cls", "roberta+base:pooling=mean", "roberta+mirror"]),
        (
            "roberta:layers=-4:",
            [
                "roberta+base:layers=-4:,pooling=cls",
                "roberta+base:layers=-4:,pooling=mean",
                "roberta+mirror:layers=-4:",
            ],
        ),
        ("roberta:pooling=cls", ["roberta+base:pooling=cls"]),
        ("minilm", ["minilm+base:pooling=mean", "minilm+mirror"]),
        (
            "tiny",
            [
                "tiny+base:pooling=cls",
                "tiny+base:pooling=mean",
                "tiny+base:layers=:,pooling=mean",
                "tiny+mirror",
            ],
        ),
        ("qwen3-embedding", ["qwen3-embedding+base:pooling=last", "qwen3-embedding+mirror"]),
        ("roberta+mirror:lr=1e-5", ["roberta+mirror:lr=1e-05"]),
        ("toy", ["toy"]),
    ],
)
def test_bare_backbone_expands_to_the_papers_ladder(
    registered: Plugins, spec: str, expected: list[str]
) -> None:
    assert rows(expand_ladder(parse_spec(spec), "sentence", registered)) == expected
    if spec == "roberta":
        padded = [row.replace("=mean", "=mean-padded") for row in expected]
        assert rows(expand_ladder(parse_spec(spec), "word", registered, "released")) == padded


WHITENED = "post=whiten,whiten=256"


def transformed(row: str, whitened: str = WHITENED) -> list[str]:
    return [
        str(parse_spec(f"{row},{post}")) for post in (whitened, "post=abtt,abtt=3", "post=zscore")
    ]


def test_baselines_are_added_to_the_ladder(registered: Plugins) -> None:
    """Transformed is what the last tuned row reads; each tuned row is whitened too; methods declare themselves."""
    method = Method("theirs", mirror_preset, baseline=True)
    own = registered.extended("register_methods", "theirs", method)
    own = own.extended("register_methods", "others", replace(method, name="others", baseline=False))
    mean = "tiny+base:layers=:,pooling=mean"
    ladder = expand_ladder(tiny := parse_spec("tiny"), "word", own)
    assert rows(with_baselines(tiny, ladder, "word", own, 256)) == [
        "tiny+base:pooling=cls",
        "tiny+base:pooling=mean",
        mean,
        *transformed(mean, "post=whiten"),  # it has no more than 256 dimensions
        "tiny+static:layers=:",
        "tiny+mirror",
        "tiny+mirror:post=whiten",
        "tiny+theirs",
    ]
    target = "roberta+base:layers=-4:,pooling=target"
    roberta = parse_spec("roberta:max_length=90")
    found = with_baselines(roberta, expand_ladder(roberta, "wic", registered), "wic", registered)
    assert rows(found) == [
        row if "static" in row else str(parse_spec(row).with_params(max_length=90))
        for row in (
            target,
            "roberta+base:pooling=mean",
            *transformed(target),
            "roberta+static",
            "roberta+mirror",
            f"roberta+mirror:{WHITENED}",
            "roberta+mirrorwic",
            f"roberta+mirrorwic:{WHITENED}",
        )
    ]


@pytest.mark.parametrize(
    ("spec", "message", "hint"),
    [
        ("roberta:dropout=0.2", "dropout belongs to a tuning", r"roberta\+mirror:dropout=0.2"),
        ("roberta:poling=cls", "unknown encoder spec key 'poling'", "pooling"),
        ("served:poling=cls", "no encoder 'served' is installed", "mirrorbench list encoders"),
        ("roberta+miror", "unknown method 'miror'", "mirror"),
        ("toy+mirror", "toy is a complete encoder, not a backbone, and takes no method", ""),
    ],
)
def test_invalid_specs_are_rejected(
    registered: Plugins, spec: str, message: str, hint: str
) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        expand_ladder(parse_spec(spec), "sentence", registered)
    assert re.search(hint, caught.value.hint)


def test_task_maximum_lengths_equal_the_released_code(registered: Plugins) -> None:
    """MirrorWiC's evaluation scripts: ``maxlen`` in them, and the lengths that ``eval.sh`` hands to ``test_wic.py``.

    SapBERT's ``embed_dense`` for entity linking: 25.
    """
    lengths = {
        "usim": 80,
        "cosimlex": 120,
        "wic": 100,
        "wic-tsv": 90,
        "xlwic": 100,
        "am2ico": 300,
        "wsd": 100,
    }
    lengths |= dict.fromkeys(("askapatient", "bc5cdr", "cometa", "ncbi-disease"), 25)
    found = {entry.name: entry.value.max_length for entry in registered.tasks}
    families = {
        name: max((f for f in lengths if name.startswith(f)), key=len, default="") for name in found
    }
    assert set(families.values()) == {"", *lengths}
    assert found == {name: lengths.get(family, 0) for name, family in families.items()}
