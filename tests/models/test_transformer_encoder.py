"""One pass for every pooling, texts tokenised in chunks ahead of the model, and the count of what that cost."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from helpers.random_models import Models, encoder
from helpers.suite_marks import few

import mirrorbench
from mirrorbench.core.devices import cpu_threads
from mirrorbench.core.encoder_protocol import TextInput
from mirrorbench.models import transformer_encoder
from mirrorbench.models.batching import min_tokens
from mirrorbench.models.pooling import Pooling
from mirrorbench.models.transformer import load_transformer
from mirrorbench.models.transformer_encoder import Cost, LanguageRouter

CPU = torch.device("cpu")
TINY = Path(mirrorbench.__file__).parent / "embedded" / "tiny"
WORDS = ["the", "bank", "of", "the", "river", "was", "steep", "and", "green", "in", "may"]
INPUTS = [TextInput(" ".join(WORDS[:n]), ((0, 3),)) for n in range(1, 12)] + [
    TextInput("x " * 60, ((110, 111),))
]
POOLINGS = [Pooling("target", "-2:", 40), Pooling("mean", max_length=40), Pooling("cls", "1", 40)]


@pytest.mark.parametrize("architecture", few(["bert", "roberta", "modernbert", "t5"], 0, 1))
def test_cut_texts_are_those_with_more_tokens(random_model: Models, architecture: str) -> None:
    reader = encoder(random_model(architecture))
    texts = (
        ["word " * n for n in range(1, 60, 3)] + ["你好世界" * n for n in range(8)] + ["", "ﷺ" * 9]
    )
    for window in (8, 20, 64):
        pooling = Pooling("mean", max_length=window)
        lengths = [len(ids) for ids in reader.transformer.tokenizer(texts)["input_ids"]]
        counts = reader.count_cut([TextInput(text) for text in texts], pooling)
        assert (counts.cut, counts.texts, counts.window) == (
            sum(length > window for length in lengths),
            len(texts),
            window,
        )


def test_cut_texts_are_counted_for_each_pooling(random_model: Models) -> None:
    reader = encoder(random_model("bert"))
    items = [TextInput("a " * n + "b", ((2 * n, 2 * n + 1),)) for n in (3, 40, 70)]
    assert reader.count_cut(items, Pooling("target", max_length=30)).cut == 2
    begun = [TextInput("b" + " a" * n, ((0, 1),)) for n in (3, 40, 70)]
    assert reader.count_cut(begun, Pooling("target-marked", max_length=30)).cut == 2
    prompt = Pooling("mean", max_length=80, prompt="x y {text} z")
    whole = [TextInput("a " * n) for n in (70, 75, 76, 79)]  # of 80 positions, 5 are taken
    assert reader.transformer.read(whole, prompt).ids.lengths.tolist() == [75, 80, 80, 80]
    counts = reader.count_cut(whole, prompt)
    assert (counts.cut, counts.window, counts.positions) == (2, 77, 77)


@pytest.mark.parametrize("prompt", few(["query: {text} yes", "q: {text}", "{text}:{text}"], 0))
@pytest.mark.parametrize("architecture", few(["gpt2", "llama", "roberta"], 0))
def test_texts_are_counted_as_tokenised_in_prompts(
    random_model: Models, architecture: str, prompt: str
) -> None:
    """A text begins with another token behind a space than alone."""
    reader = encoder(random_model(architecture))
    long_window = Pooling("mean", max_length=70, prompt=prompt)
    short_window = Pooling("mean", max_length=20, prompt=prompt)
    texts = [TextInput("dogs " * n + end) for n in range(1, 25) for end in ("", "x", "  ", "é")]
    lengths = reader.transformer.read(texts, long_window).ids.lengths
    lengths_after_cut = reader.transformer.read(texts, short_window).ids.lengths
    is_cut = (lengths_after_cut < lengths).tolist()
    assert 0 < sum(is_cut) < len(texts)
    assert [reader.count_cut([text], short_window).cut == 1 for text in texts] == is_cut


def test_poolings_in_one_pass_equal_separate_passes(random_model: Models) -> None:
    """The last text is cut, and read at its start and around its target."""
    together = encoder(random_model("deberta"))
    alone = encoder(random_model("deberta"))
    for pooling, vectors in zip(POOLINGS, together.encode_pooled(INPUTS, POOLINGS), strict=True):
        np.testing.assert_allclose(vectors, alone.encode_pooled(INPUTS, [pooling])[0], atol=1e-5)
    assert together.cost.texts == len(INPUTS) + 1


def test_chunk_is_fetched_after_next_chunk_starts(
    random_model: Models, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each chunk is fetched after the start of the next one."""
    reader = encoder(random_model("bert"), POOLINGS[1])
    texts = [item.text for item in INPUTS for _ in range(2)]
    whole = reader.encode(texts)
    seen: list[str] = []

    def started(tensor: torch.Tensor) -> Callable[[], np.ndarray]:
        number = sum("start" in line for line in seen)
        seen.append(f"start {number}")
        return lambda: seen.append(f"fetch {number}") or tensor.numpy()  # type: ignore[func-returns-value]

    monkeypatch.setattr(transformer_encoder, "fetched", started)
    monkeypatch.setattr(transformer_encoder, "TEXTS_PER_CHUNK", 6)
    done: list[int] = []
    actual = reader.encode_pooled(
        [TextInput(text) for text in texts], [reader.pooling], done.append
    )
    np.testing.assert_allclose(actual[0], whole, atol=1e-5)
    assert sum(done) == len(texts)
    assert seen == [
        "start 0",
        "start 1",
        "fetch 0",
        "start 2",
        "fetch 1",
        "start 3",
        "fetch 2",
        "fetch 3",
    ]


@pytest.mark.parametrize(
    "architecture",
    few(["bert", "roberta", "deberta", "tiny", "modernbert", "qwen3"], "roberta", "deberta"),
)
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.usefixtures("rows_stand_alone")
def test_vector_does_not_depend_on_other_texts(
    architecture: str, padded: bool, random_model: Models
) -> None:
    reader = encoder(TINY if architecture == "tiny" else random_model(architecture))
    poolings = [*POOLINGS, Pooling("mean-padded", max_length=40)] if padded else POOLINGS
    rng = random.Random(architecture)
    inputs = list(INPUTS)
    for _ in range(80):
        words = rng.choices(WORDS, k=rng.randint(1, 9))
        inputs.append(TextInput(" ".join(words), ((0, 2),)))
    whole = reader.encode_pooled(inputs, poolings)
    for size in (1, 2, 3, 7, 30):
        rows = rng.sample(range(len(inputs)), size)
        for vectors, expected in zip(
            reader.encode_pooled([inputs[row] for row in rows], poolings), whole, strict=True
        ):
            np.testing.assert_array_equal(vectors, expected[rows])


@pytest.mark.slow
@pytest.mark.skipif(not torch.backends.mkl.is_available(), reason="a torch without MKL")
def test_products_are_bit_identical_across_thread_counts() -> None:
    torch.manual_seed(0)
    for inner, outer in ((1024, 256), (1536, 384), (3072, 768), (4096, 1024)):
        weights = torch.randn(inner, outer)
        rows = torch.randn(1024, inner)
        least = min_tokens(SimpleNamespace(intermediate_size=inner))
        for n in (least, least + 1, 700, 1024):
            actual = []
            for threads in (1, 2):
                with cpu_threads(threads):
                    actual.append(rows[:n] @ weights)
            assert torch.equal(*actual), (inner, outer, n)


def test_texts_tokens_and_padding_are_counted(
    random_model: Models, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Texts are in one row, or in batches of one length; the shortest text is repeated for a product of many rows."""
    monkeypatch.setattr("mirrorbench.models.batching.MIN_TOKENS", 64)
    texts = ["ab", "abcd" * 10, "ab"]
    for architecture in ("deberta", "bert"):
        reader = encoder(random_model(architecture), Pooling())
        ids = [len(reader.transformer.tokenizer(text)["input_ids"]) for text in texts]
        assert (ids[0], ids[1]) == (4, 42)
        reader.encode(texts)
        positions = 84 + 64 if architecture == "deberta" else sum(ids) + 16
        assert (reader.cost.texts, reader.cost.tokens, reader.cost.positions) == (
            3,
            sum(ids),
            positions,
        )
    assert reader.cost.to_json()["padding"] == round(1 - sum(ids) / positions, 4)
    reader.encode(texts[:2])
    assert (reader.cost.texts, reader.cost.tokens) == (5, sum(ids) + sum(ids[:2]))
    speed = reader.cost.tokens / reader.cost.seconds
    assert reader.cost.to_json()["tokens_per_second"] == pytest.approx(speed, rel=0.01)
    assert Cost().to_json()["padding"] == Cost().to_json()["texts_per_second"] == 0
    router = LanguageRouter({"en": reader, "de": encoder(random_model("bert"))}, "both")
    router.encode([TextInput("a", language="en"), TextInput("b", language="de")])
    assert router.cost.texts == 7


@pytest.mark.gpu
def test_gpu_and_cpu_vectors_agree(random_model: Models, monkeypatch: pytest.MonkeyPatch) -> None:
    path = random_model("bert")
    wanted = encoder(path).encode_pooled(INPUTS, POOLINGS)
    monkeypatch.setattr(transformer_encoder, "TEXTS_PER_CHUNK", 3)
    there = transformer_encoder.TransformerEncoder(
        load_transformer(path, torch.device("cuda")), POOLINGS[0]
    )
    for vectors, expected in zip(there.encode_pooled(INPUTS, POOLINGS), wanted, strict=True):
        np.testing.assert_allclose(vectors, expected, atol=1e-4)
