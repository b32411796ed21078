"""The parts work, through mirrorbench and against computations of their own."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path

import mirrorbench_latent
import numpy as np
import pytest
from mirrorbench_latent import oddity
from mirrorbench_latent.commands import nearest, nearest_texts
from mirrorbench_latent.encoder import Latent, own_texts
from mirrorbench_latent.letters import swap_letters

import mirrorbench
from mirrorbench.plugin import (
    AugmentationContext,
    DataFormatError,
    Encoder,
    TextInput,
    UsageError,
    Vectors,
    parse_spec,
)

ODD = Path(mirrorbench_latent.__file__).with_name("odd.tsv")


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MIRRORBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


def grams(text: str) -> Counter[str]:
    """Count the n-grams inside words as scikit-learn's documentation describes ``char_wb``."""
    found: Counter[str] = Counter()
    for word in text.lower().split():
        padded = f" {word} "
        for n in (2, 3, 4):
            if n >= len(padded):
                found[padded] += 1
                break
            found.update(padded[i : i + n] for i in range(len(padded) - n + 1))
    return found


def independent(texts: list[str], dims: int) -> np.ndarray:
    """Compute the vectors by hand, up to the signs of the dimensions."""
    fitted = [grams(text) for text in own_texts()]
    names = sorted(set().union(*fitted))
    idf = {
        name: math.log((1 + len(fitted)) / (1 + sum(name in one for one in fitted))) + 1
        for name in names
    }

    def row(counts: Counter[str]) -> np.ndarray:
        values = [(1 + math.log(counts[n])) * idf[n] if counts[n] else 0.0 for n in names]
        length = math.sqrt(sum(value * value for value in values))
        return np.array(values) / (length or 1)

    _, _, axes = np.linalg.svd(np.array([row(one) for one in fitted]), full_matrices=False)
    vectors: np.ndarray = np.array([row(grams(text)) for text in texts]) @ axes[:dims].T
    return vectors


def angle(a: np.ndarray, b: np.ndarray) -> float:
    """Return the cosine of two vectors, 0 if one of them is zero."""
    length = math.sqrt(float(a @ a) * float(b @ b))
    return float(a @ b) / length if length else 0.0


def test_it_is_loaded() -> None:
    (listed,) = [r for r in mirrorbench.Session().plugins.listing() if r["name"] == "latent"]
    assert listed["commands"] == ["latent"]
    assert len(listed["hooks"]) == 7


@pytest.mark.parametrize("dims", [1, 5, 16, 39])
def test_the_vectors(dims: int) -> None:
    texts = ["a cat on a sofa", "bread and butter", "trains", "qqq \u4e16", *own_texts()[:3]]
    encoder = Latent(dims)
    assert isinstance(encoder, Encoder)
    vectors = encoder.encode([TextInput(text) for text in texts])
    assert vectors.shape == (len(texts), dims)
    expected = independent(texts, dims)
    np.testing.assert_allclose(vectors @ vectors.T, expected @ expected.T, atol=1e-5)


def test_the_fingerprint() -> None:
    assert Latent().fingerprint == Latent(16).fingerprint
    different = [Latent(), Latent(8), Latent(8, own_texts()[1:]), Latent(8, own_texts()[::-1])]
    assert len({encoder.fingerprint for encoder in different}) == 4


@pytest.mark.parametrize("rank", [0, -1, 40, True])
def test_wrong_ranks(rank: int) -> None:
    with pytest.raises(UsageError, match="from 1 to 39"):
        Latent(rank)
    with pytest.raises(UsageError):
        mirrorbench.load(f"latent:rank={rank}")


def test_a_misspelt_key() -> None:
    with pytest.raises(UsageError, match="rnk"):
        mirrorbench.load("latent:rnk=3")


def test_the_task() -> None:
    rights = 0.0
    for line in ODD.read_text(encoding="utf-8").splitlines():
        *words, odd = line.split("\t")
        vectors = dict(zip(words, independent(words, 16), strict=True))
        means = {
            word: sum(angle(vectors[word], vectors[o]) for o in words if o != word) / 3
            for word in words
        }
        rights += min(means, key=lambda word: means[word]) == odd
    board = mirrorbench.evaluate("latent", "odd-words", offline=True)
    assert not board.failures
    assert board["odd-words"] == pytest.approx(rights / 10)


def test_the_margin() -> None:
    item = oddity.OddItem("1", ("a", "b", "c", "d"), 3)
    task = oddity.OddOneOut("four", [item])
    array = np.array([[1, 0], [1, 0], [1, 0], [0, 1]], dtype=np.float32)
    scores = task.score([item], Vectors(task.inputs([item]), array), "paper")
    assert scores.scores.tolist() == [pytest.approx(2 / 3)]
    assert oddity.found(np.array([1.0, 0.0, -1.0, 2.0]), np.zeros(4)) == 0.625
    assert oddity.found(np.zeros(0), np.zeros(0)) is None


@pytest.mark.parametrize("line", ["a\tb\tc\td", "a\tb\tc\td\te", "a\tb\tb\td\ta", "", "a b c d a"])
def test_damaged_lines(tmp_path: Path, line: str) -> None:
    path = tmp_path / "odd.tsv"
    path.write_text(f"a\tb\tc\td\ta\n{line}\n", encoding="utf-8")
    with pytest.raises(DataFormatError, match="line 2"):
        oddity.parse_odd({"odd.tsv": path}, {})


def test_the_augmentation() -> None:
    change = mirrorbench.Session().plugins.augmentations["letter_swap"].function
    text = "one two, three four"
    for seed in range(50):
        context = AugmentationContext(np.random.default_rng(seed), 0.5, "[MASK]", "paper")
        changed = change(text, context)
        again = AugmentationContext(np.random.default_rng(seed), 0.5, "[MASK]", "paper")
        assert change(text, again) == changed
        assert [sorted(w) for w in changed.split()] == [sorted(w) for w in text.split()]
    always = AugmentationContext(np.random.default_rng(0), 1.0, "[MASK]", "paper")
    assert change("abcde fg h", always) == "badce gf h"


def test_the_rate() -> None:
    context = AugmentationContext(np.random.default_rng(0), 0.2, "[MASK]", "paper")
    swapped = sum(swap_letters("ab", context) == "ba" for _ in range(5000))
    assert swapped / 5000 == pytest.approx(0.2, abs=0.02)


def test_the_executor() -> None:
    specs = ["latent", "latent:rank=4", "tiny+base:pooling=mean", "tiny+base:pooling=cls"]
    alone = mirrorbench.run(specs, "odd-words", output="alone", device="cpu")
    threads = mirrorbench.run(
        specs, "odd-words", output="threads", device="cpu", executor="threads:workers=3"
    )
    assert not alone.failures
    assert not threads.failures
    columns = ["encoder", "task"]
    one, other = alone.to_frame(), threads.to_frame()
    assert len(one) == 4
    assert one[columns].equals(other[columns])
    assert one["score"].tolist() == other["score"].tolist()


@pytest.mark.parametrize("option", ["workers=0", "workers=true", "threads=2", "workers=two"])
def test_wrong_options_of_the_executor(option: str) -> None:
    with pytest.raises(UsageError):
        mirrorbench.run("latent", "odd-words", device="cpu", executor=f"threads:{option}")


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    nearest(["a cat on the sofa", "bread"])
    first, second = capsys.readouterr().out.splitlines()
    assert first.endswith("The cat sleeps on the warm sofa.")
    known = independent(own_texts(), 16)
    (vector,) = independent(["bread"], 16)
    cosines = [angle(vector, one) for one in known]
    assert second.endswith(own_texts()[int(np.argmax(cosines))])
    assert nearest_texts(["bread"])[0][0] == pytest.approx(max(cosines), abs=1e-5)
    with pytest.raises(UsageError, match="empty"):
        nearest([" "])


def test_the_spec() -> None:
    assert parse_spec("latent:rank=8").get("rank") == 8
