"""``mirrorbench same`` names what deployments do to vectors, behind an address and in a file, and names nothing else."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import mirrorbench_endpoint
import numpy as np
import pytest
from faulty_server import Reply, serving
from helpers.planted_vectors import Deployment, PlainModel, Vectors

from mirrorbench import Session
from mirrorbench.agreement.certificate import Certificate
from mirrorbench.agreement.included_texts import included_texts
from mirrorbench.plugin import describe_model, load_plugins

LETTERS = "The quick Brown fox, 42 jumps over  thé lazy dog; nobody saw the old Grey cat on the Warm roof. "
SHORT_TEXTS = [LETTERS[start : start + 4 + start % 37] for start in range(0, 48, 3)]
LONG_TEXTS = [(2 * LETTERS)[start : start + 120] for start in range(4)]
TEXTS = list(dict.fromkeys([*SHORT_TEXTS, *LONG_TEXTS]))
DECODER = Deployment(window=80, scaled=False)
"""As mirrorbench reads the random models, which have 80 positions."""
MINILM = Deployment(window=256, scaled=True)
"""As the files of MiniLM say."""
END = 2
"""The id of </s> of the random decoder, which its tokenizer does not add."""
CLS = 101
"""The id of [CLS] of MiniLM."""
SEP = 102
"""And of [SEP]."""


class Comparison:
    """Compares a model's vectors with those of a deployment of it.

    Attributes:
        spec: of the model.
        model: computes the deployments' vectors.
        texts: the texts of both.
    """

    def __init__(self, spec: str, model: PlainModel, texts: Sequence[str], folder: Path) -> None:
        plugins = load_plugins(discover=False)
        plugins.add(mirrorbench_endpoint, "endpoint")
        self.spec = spec
        self.model = model
        self.texts = texts
        self.folder = folder
        self.session = Session(
            folder / "results", plugins=plugins, cache=folder / "cache", device="cpu", offline=True
        )

    def texts_file(self, texts: Sequence[str]) -> Path:
        path = self.folder / f"{len(list(self.folder.iterdir()))}.jsonl"
        path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
        return path

    def stored(self, vectors: Vectors, texts: Sequence[str]) -> str:
        """Return the spec of vectors in a file."""
        texts_file = self.texts_file(texts)
        path = texts_file.with_suffix(".npy")
        np.save(path, vectors)
        return f"vectors:path={path},texts={texts_file}"

    def with_file(
        self, deployment: Deployment, texts: Sequence[str] = (), cosine: float = 0.9999
    ) -> Certificate:
        texts = texts or self.texts
        vectors = self.model.encode(texts, deployment)
        return self.session.same(self.spec, self.stored(vectors, texts), cosine=cosine)

    def with_endpoint(self, deployment: Deployment, cosine: float = 0.9999) -> Certificate:
        def answer(texts: list[str], number: int) -> Reply:
            vectors = self.model.encode(texts, deployment)
            data = [{"index": i, "embedding": row.tolist()} for i, row in enumerate(vectors)]
            return Reply({"object": "list", "model": "served", "data": data})

        with serving(answer) as server:
            return self.session.same(
                self.spec,
                f"endpoint:url={server.url},model=served",
                texts=self.texts_file(self.texts),
                cosine=cosine,
            )


@pytest.fixture(scope="module")
def decoder(
    random_model: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> Comparison:
    path = random_model("llama")
    return Comparison(str(path), PlainModel(path), TEXTS, tmp_path_factory.mktemp("decoder"))


@pytest.fixture(scope="module")
def minilm(tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    folder = describe_model("minilm").folder
    if folder is None:
        pytest.skip("minilm is not installed")
    texts = included_texts()
    texts = [*texts[:24], *texts[120:176:2], *texts[-16:]]
    return Comparison("minilm", PlainModel(folder), texts, tmp_path_factory.mktemp("minilm"))


def sentence(certificate: Certificate) -> str:
    """Return the sentence on the cause, without numbers in brackets."""
    assert certificate.verdict == "different"
    assert certificate.cause is not None
    return certificate.cause.sentence.partition(" (median")[0]


DECODER_CAUSES = [
    pytest.param(replace(DECODER, pooling="last"), "read at its last token", id="pooling"),
    pytest.param(
        replace(DECODER, window=81, pooling="last", edit=lambda row: [*row[:80], END]),
        "read at its last token, with </s> after it",
        id="end token",
    ),
    pytest.param(replace(DECODER, prefix="query: "), "read with the prompt 'query: '", id="prompt"),
    pytest.param(
        replace(DECODER, window=50), "read in a window of 50 tokens (its own: 80)", id="window"
    ),
    pytest.param(replace(DECODER, scaled=True), "scaled to length 1", id="scale"),
    pytest.param(replace(DECODER, numbers="bf16"), "with noise as of half precision", id="bf16"),
]
"""Six causes and what is to be said of each; the vectors of bf16 are compared at a cosine of .99999."""
MORE_DECODER_CAUSES = [
    pytest.param(
        replace(DECODER, pooling="max"), "read by the maximum of its tokens", id="maximum"
    ),
    pytest.param(replace(DECODER, edit=lambda row: row[1:]), "read without <s>", id="no begin"),
    pytest.param(
        replace(DECODER, pooling="last", window=32),
        "read at its last token, in a window of 32 tokens (its own: 80)",
        id="last token and window",
    ),
    pytest.param(
        replace(DECODER, prefix="query: ", scaled=True),
        "read with the prompt 'query: ', scaled to length 1",
        id="prompt and scale",
    ),
    pytest.param(
        replace(DECODER, pooling="last", numbers="bf16"),
        "read at its last token",
        id="last token and bf16",
    ),
    pytest.param(replace(DECODER, numbers="int8"), "with noise of the size of int8", id="int8"),
]


@pytest.mark.parametrize(
    ("prefix", "expected"),
    [
        ("", "without its prompt"),
        ("find it: find it: ", "with its prompt twice"),
        ("passage: ", "with the prompt 'passage: '"),
    ],
    ids=["missing", "doubled", "other"],
)
def test_wrong_prompt_is_named(decoder: Comparison, prefix: str, expected: str) -> None:
    vectors = decoder.model.encode(SHORT_TEXTS, replace(DECODER, prefix=prefix))
    first = f"{decoder.spec}:prompt=find%20it:%20"
    certificate = decoder.session.same(first, decoder.stored(vectors, SHORT_TEXTS))
    assert sentence(certificate) == f"B is A read {expected}"


UNKNOWN = "what the difference comes from is unknown"
MIX = np.eye(384) + np.random.default_rng(0).normal(size=(384, 384)) / 20
"""A dense layer."""


def unforeseen(right: Deployment) -> list[Deployment]:
    """Return deployments that the code was not written against, as changes of the right one."""
    n = 32 if right is DECODER else 384
    return [
        replace(right, clean=str.swapcase if right is DECODER else ascii_letters),
        replace(right, cut="left"),
        replace(right, layer=-2),
        replace(right, pooling="padded"),
        replace(right, finish=lambda vectors: vectors @ MIX[:n, :n]),
    ]


UNFORESEEN = ("letters", "left", "layer", "padding", "dense layer")


def ascii_letters(text: str) -> str:
    """Drop what is not ASCII."""
    return text.encode("ascii", "ignore").decode()


def least_cosine(deployment: Deployment) -> float:
    """Return the cosine of the same vectors: whole models in bf16 differ by less than the default."""
    return 0.9999 if deployment.numbers == "fp32" else 0.99999


@pytest.mark.parametrize(("deployment", "expected"), [*DECODER_CAUSES, *MORE_DECODER_CAUSES])
def test_cause_is_named_of_a_file(
    decoder: Comparison, deployment: Deployment, expected: str
) -> None:
    certificate = decoder.with_file(deployment, cosine=least_cosine(deployment))
    assert sentence(certificate) == f"B is A {expected}"


@pytest.mark.parametrize(("deployment", "expected"), DECODER_CAUSES)
def test_cause_is_named_of_an_endpoint(
    decoder: Comparison, deployment: Deployment, expected: str
) -> None:
    certificate = decoder.with_endpoint(deployment, least_cosine(deployment))
    assert sentence(certificate) == f"B is A {expected}"


def test_right_deployments_are_equal(decoder: Comparison) -> None:
    assert decoder.with_file(DECODER).verdict == "equal"
    assert decoder.with_endpoint(DECODER).verdict == "equal"


@pytest.mark.parametrize("deployment", unforeseen(DECODER), ids=UNFORESEEN)
def test_unforeseen_cause_is_unknown(decoder: Comparison, deployment: Deployment) -> None:
    assert sentence(decoder.with_file(deployment)) == UNKNOWN


def test_unforeseen_cause_of_an_endpoint_is_unknown(decoder: Comparison) -> None:
    for deployment in unforeseen(DECODER)[:2]:
        assert sentence(decoder.with_endpoint(deployment)) == UNKNOWN


def test_batches_put_back_in_order_of_length_are_named(decoder: Comparison) -> None:
    order = np.argsort([len(text) for text in TEXTS], kind="stable")
    deployment = replace(DECODER, finish=lambda vectors: vectors[order])
    expected = "B has the vectors of A in another order of rows"
    assert sentence(decoder.with_file(deployment)) == expected


@pytest.mark.parametrize("n_texts", [1, 5])
def test_few_texts_do_not_make_a_wrong_cause_right(decoder: Comparison, n_texts: int) -> None:
    texts = TEXTS[1 : 1 + n_texts]
    last = decoder.with_file(replace(DECODER, pooling="last"), texts)
    assert sentence(last) == "B is A read at its last token"
    assert sentence(decoder.with_file(replace(DECODER, layer=-2), texts)) == UNKNOWN


def test_window_is_named_where_all_texts_are_longer(decoder: Comparison) -> None:
    certificate = decoder.with_file(replace(DECODER, window=64), LONG_TEXTS)
    assert sentence(certificate) == "B is A read in a window of 64 tokens (its own: 80)"


def test_empty_and_repeated_texts_are_compared(decoder: Comparison) -> None:
    texts = ["", " ", *TEXTS[:6], *TEXTS[:6]]
    certificate = decoder.with_file(replace(DECODER, pooling="max"), texts)
    assert len(certificate.texts) == 8
    assert sentence(certificate) == "B is A read by the maximum of its tokens"


def test_single_other_text_is_unknown(decoder: Comparison) -> None:
    def spoil(vectors: Vectors) -> Vectors:
        vectors[3] = vectors[5]
        return vectors

    certificate = decoder.with_file(replace(DECODER, finish=spoil))
    assert sentence(certificate) == UNKNOWN
    assert certificate.agreement.worst(1) == [3]


@pytest.mark.parametrize("dimensions", [20, 32])
def test_unrelated_vectors_are_unknown(decoder: Comparison, dimensions: int) -> None:
    numbers = np.random.default_rng(1).normal(size=(len(TEXTS), dimensions))
    certificate = decoder.with_file(replace(DECODER, finish=lambda vectors: numbers))
    assert sentence(certificate) == UNKNOWN


def test_file_may_be_the_first_encoder(decoder: Comparison) -> None:
    vectors = decoder.model.encode(TEXTS, replace(DECODER, pooling="last"))
    first = decoder.stored(vectors, TEXTS)
    certificate = decoder.session.same(first, decoder.spec)
    assert sentence(certificate) == "A is B read at its last token"
    # Without a model, only what the vectors show can be named.
    right = decoder.stored(decoder.model.encode(TEXTS, DECODER), TEXTS)
    assert sentence(decoder.session.same(first, right)) == UNKNOWN
    doubled = decoder.stored(2 * vectors, TEXTS)
    assert sentence(decoder.session.same(first, doubled)) == "B is A times 2"


MINILM_CAUSES = [
    pytest.param(replace(MINILM, pooling="first"), "read at its first token", id="pooling"),
    pytest.param(replace(MINILM, edit=lambda row: row[:-1]), "read without [SEP]", id="end token"),
    pytest.param(replace(MINILM, prefix="query: "), "read with the prompt 'query: '", id="prompt"),
    pytest.param(
        replace(MINILM, window=90), "read in a window of 90 tokens (its own: 256)", id="window"
    ),
    pytest.param(replace(MINILM, scaled=False), "without scaling to length 1", id="scale"),
    pytest.param(replace(MINILM, numbers="dynamic"), "with noise of the size of int8", id="int8"),
]
MORE_MINILM_CAUSES = [
    pytest.param(
        replace(MINILM, finish=lambda vectors: vectors * np.linspace(1, 2, len(vectors))[:, None]),
        "with vectors of other lengths",
        id="lengths",
    ),
    pytest.param(
        replace(MINILM, pooling="masked"),
        "read by the mean with padding to the longest of 8 texts",
        id="padded batches",
    ),
    pytest.param(
        replace(MINILM, edit=lambda row: [CLS, *row, SEP]),
        "read with special tokens twice",
        id="both twice",
    ),
    pytest.param(
        replace(MINILM, edit=lambda row: [*row, SEP]), "read with [SEP] twice", id="end twice"
    ),
    pytest.param(
        replace(MINILM, pooling="last", edit=lambda row: row[:-1]),
        "read at its last token, without [SEP]",
        id="last token and end token",
    ),
    pytest.param(
        replace(MINILM, window=512), "read in a window of 512 tokens (its own: 256)", id="512"
    ),
    pytest.param(
        replace(MINILM, pooling="last", window=127, scaled=False),
        "read at its last token, in a window of 127 tokens (its own: 256), without scaling to length 1",
        id="last token, window and scale",
    ),
    pytest.param(replace(MINILM, numbers="bf16"), "with noise as of half precision", id="bf16"),
    pytest.param(
        replace(MINILM, pooling="first", numbers="bf16"),
        "read at its first token",
        id="first token and bf16",
    ),
]


@pytest.mark.full
@pytest.mark.real
@pytest.mark.parametrize(("deployment", "expected"), [*MINILM_CAUSES, *MORE_MINILM_CAUSES])
def test_cause_of_a_real_model_is_named_of_a_file(
    minilm: Comparison, deployment: Deployment, expected: str
) -> None:
    certificate = minilm.with_file(deployment, cosine=least_cosine(deployment))
    assert sentence(certificate) == f"B is A {expected}"


@pytest.mark.full
@pytest.mark.real
@pytest.mark.parametrize(("deployment", "expected"), MINILM_CAUSES)
def test_cause_of_a_real_model_is_named_of_an_endpoint(
    minilm: Comparison, deployment: Deployment, expected: str
) -> None:
    certificate = minilm.with_endpoint(deployment, least_cosine(deployment))
    assert sentence(certificate) == f"B is A {expected}"


@pytest.mark.full
@pytest.mark.real
@pytest.mark.parametrize("deployment", unforeseen(MINILM), ids=UNFORESEEN)
def test_unforeseen_cause_of_a_real_model_is_unknown(
    minilm: Comparison, deployment: Deployment
) -> None:
    assert sentence(minilm.with_file(deployment)) == UNKNOWN


@pytest.mark.full
@pytest.mark.real
def test_unforeseen_cause_of_a_served_real_model_is_unknown(minilm: Comparison) -> None:
    for deployment in unforeseen(MINILM)[:2]:
        assert sentence(minilm.with_endpoint(deployment)) == UNKNOWN
