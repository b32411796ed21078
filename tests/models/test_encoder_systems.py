"""Encoders that are no backbones: of plugins, and of Python objects."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers.registered_toys import cats_score, toys

import mirrorbench
from mirrorbench.core.encoder_protocol import as_inputs
from mirrorbench.core.errors import UnknownNameError, UsageError
from mirrorbench.core.plugins import Plugins
from mirrorbench.core.specs import parse_spec
from mirrorbench.core.truncation import Truncation, TruncationWarning, truncation_of
from mirrorbench.models.encoder_systems import EncoderContext, as_encoder, create_encoder

__all__ = ["toys"]


class Counter:
    """Has ``encode`` and nothing else."""

    def encode(self, texts: list[str]) -> list[list[int]]:
        return [[len(text), text.count("a"), text.count("t"), text.count("z")] for text in texts]


def test_evaluate_accepts_any_object_with_encode(tmp_path: Path) -> None:
    results = mirrorbench.evaluate(Counter(), "cats")
    assert results["cats"] == pytest.approx(cats_score(Counter().encode))
    assert results.table.rows[0].label == "Counter"
    for name in ("mine", "50% + more: a=b@c"):
        assert mirrorbench.evaluate(Counter(), "cats", name=name).table.rows[0].label == name

    class Other(Counter):
        def encode(self, texts: list[str]) -> list[list[int]]:
            return [[len(text), -text.count("a")] for text in texts]

    Other.__name__ = "Counter"  # nothing of an object without an identity is kept, so none is mistaken for another
    assert mirrorbench.evaluate(Other(), "cats")["cats"] == pytest.approx(
        cats_score(Other().encode)
    )
    assert not list((tmp_path / "default-cache").glob("embeddings/*"))
    with pytest.raises(UsageError, match="no encode"):
        mirrorbench.evaluate(object(), "cats")


def test_evaluate_rescores_sentence_transformer_after_weights_change(
    random_model: Callable[[str], Path],
) -> None:
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(random_model("bert")), device="cpu")
    first = mirrorbench.evaluate(model, "cats")
    assert first["cats"] == pytest.approx(cats_score(model.encode), abs=1e-6)
    model[0].model.embeddings.word_embeddings.weight.data.mul_(
        -1
    )  # a changed object is another encoder
    assert mirrorbench.evaluate(model, "cats")["cats"] == pytest.approx(
        cats_score(model.encode), abs=1e-6
    )


def test_evaluate_keeps_pooling_of_loaded_encoder(random_model: Callable[[str], Path]) -> None:
    for pooling in ("cls", "mean"):  # two poolings of the same weights
        encoder = mirrorbench.load(
            f"{random_model('bert')}+base:max_length=32,pooling={pooling}", device="cpu"
        )
        assert mirrorbench.evaluate(encoder, "cats")["cats"] == pytest.approx(
            cats_score(encoder.encode), abs=1e-6
        )


def test_texts_cut_by_open_sentence_transformer_are_counted(
    random_model: Callable[[str], Path],
) -> None:
    from sentence_transformers import SentenceTransformer

    prompts = {"prompts": {"query": "query: "}, "default_prompt_name": "query"}
    model = SentenceTransformer(str(random_model("bert")), device="cpu", **prompts)
    texts = ["dogs " * n for n in range(60, 90)]
    lengths = [
        len(ids) for ids in model.tokenizer([f"query: {text}" for text in texts])["input_ids"]
    ]
    counts = truncation_of(as_encoder(model), as_inputs(texts))
    assert counts == Truncation(sum(n > 80 for n in lengths), 30, 80, 80)


def test_cut_texts_are_counted_and_warned_of_once(random_model: Callable[[str], Path]) -> None:
    encoder = mirrorbench.load(f"{random_model('bert')}:max_length=30", device="cpu")
    encoder.encode(["short"])
    with pytest.warns(TruncationWarning, match="2 of 3 texts are longer than 30 tokens"):
        encoder.encode(["a " * 60, "b " * 60])
    with warnings.catch_warnings():
        warnings.simplefilter("error", TruncationWarning)
        encoder.encode(["c " * 60])
    assert encoder.truncation == Truncation(3, 4, 30, 80)


@pytest.mark.parametrize(
    ("spec", "error", "message"),
    [
        ("fasttext:path=x.vec,limits=3", UnknownNameError, "unknown key of fasttext 'limits'"),
        ("fasttext:path=x.vec,lower=maybe", UsageError, "lower=maybe is not true or false"),
        ("sapbert:lr=1", UnknownNameError, "unknown key of sapbert 'lr'"),
        ("sapbert:max_length=long", UsageError, "max_length=long is not a whole number"),
    ],
)
def test_unknown_and_mistyped_keys_are_rejected(
    spec: str, error: type[Exception], message: str, plugins: Plugins
) -> None:
    with pytest.raises(error, match=message):
        create_encoder(parse_spec(spec), plugins, EncoderContext())
