"""Prompts: vectors against transformers on the whole text of the prompt, and against sentence-transformers' own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModel, AutoTokenizer, LlamaConfig, LlamaModel

from mirrorbench.core.errors import ModelUnavailableError, UnknownNameError, UsageError
from mirrorbench.core.inputs import TextInput
from mirrorbench.core.plugins import Plugins
from mirrorbench.core.specs import EncoderSpec, parse_spec
from mirrorbench.models.backbones import embedded_directory
from mirrorbench.models.encoder import TransformerEncoder
from mirrorbench.models.pooling import Pooling
from mirrorbench.models.prompts import PROMPTS, own_prompts, template
from mirrorbench.models.systems import EncoderContext, create_encoder
from mirrorbench.models.transformer import load_transformer

CPU = torch.device("cpu")
TINY = embedded_directory()
TEXTS = ["A man plays the guitar.", "bank", "The river bank was wet, and the bank was closed; nobody said why."]
ECHO = PROMPTS["echo"]


@pytest.fixture(scope="module")
def tiny() -> TransformerEncoder:
    return TransformerEncoder(load_transformer(TINY, CPU), Pooling())


def states(whole: str, path: Path = TINY) -> tuple[np.ndarray, list[tuple[int, int]]]:
    """The last layer's states of a string and where its tokens stand in it, by transformers alone."""
    batch = AutoTokenizer.from_pretrained(path)(whole, return_tensors="pt", return_offsets_mapping=True)
    offsets = batch.pop("offset_mapping")[0].tolist()
    with torch.no_grad():
        return AutoModel.from_pretrained(path, add_pooling_layer=False).eval()(**batch).last_hidden_state[
            0
        ].numpy(), offsets


def within(whole: str, start: int, end: int) -> np.ndarray:
    """The mean over the tokens between two characters."""
    found, offsets = states(whole)
    return found[[a < b and start <= a and b <= end for a, b in offsets]].mean(0)


def encoded(
    encoder: TransformerEncoder, pooling: str, prompt: str, items: list[Any], max_length: int = 64
) -> np.ndarray:
    inputs = [item if isinstance(item, TextInput) else TextInput(item) for item in items]
    return encoder.encode_pooled(inputs, [Pooling(pooling, max_length=max_length, prompt=prompt)])[0]


def test_a_prompt_is_read_with_the_text(tiny: TransformerEncoder) -> None:
    for prompt in ("query: {text}", "Instruct: find it\nQuery: {text}", PROMPTS["eol"]):
        found = {name: encoded(tiny, name, prompt, TEXTS) for name in ("cls", "mean", "last")}
        for row, text in enumerate(TEXTS):
            naive, _ = states(prompt.replace("{text}", text))
            for name, expected in (("cls", naive[0]), ("mean", naive.mean(0)), ("last", naive[-1])):
                np.testing.assert_allclose(found[name][row], expected, atol=1e-5)
    one, other = (encoded(tiny, "mean", prompt, TEXTS) for prompt in ("query: {text}", "passage: {text}"))
    assert np.abs(one - other).max(axis=1).min() > 0.01


def test_of_a_text_twice_the_second_is_read(tiny: TransformerEncoder) -> None:
    found = {name: encoded(tiny, name, ECHO, TEXTS) for name in ("mean", "last", "weighted-mean", "target")}
    for row, text in enumerate(TEXTS):
        whole = ECHO.replace("{text}", text)
        at = len(whole) - len(text)
        expected = within(whole, at, len(whole))
        np.testing.assert_allclose(found["mean"][row], expected, atol=1e-5)
        np.testing.assert_allclose(found["target"][row], expected, atol=1e-5)  # a text without a word is its own
        inside, offsets = states(whole)
        inside = inside[[a < b and at <= a for a, b in offsets]]
        np.testing.assert_allclose(found["last"][row], inside[-1], atol=1e-5)
        weights = np.arange(1, len(inside) + 1)
        np.testing.assert_allclose(found["weighted-mean"][row], weights @ inside / weights.sum(), atol=1e-5)


@pytest.mark.parametrize("prompt", ["word: {text}", ECHO, 'In "{text}" it means'])
def test_a_target_is_found_behind_a_prompt(tiny: TransformerEncoder, prompt: str) -> None:
    text = "  the river bank was wet, and the bank was closed"
    (first, second), word = (i for i in range(len(text)) if text.startswith("bank", i)), len("bank")
    items = [TextInput(text, ((place, place + word),)) for place in (first, second)]
    found = encoded(tiny, "target", prompt, items)
    for row, place in enumerate((first, second)):
        at = prompt.replace("{text}", text, prompt.count("{text}") - 1).index("{text}") + place
        np.testing.assert_allclose(found[row], within(prompt.replace("{text}", text), at, at + word), atol=1e-5)


@pytest.mark.parametrize("prompt", ["query: {text}", PROMPTS["eol"], ECHO])
def test_a_long_text_is_cut_and_the_prompt_is_kept(tiny: TransformerEncoder, prompt: str) -> None:
    words = ["one", "two", "three", "four"] * 20
    for pooling in ("mean", "last", "target"):
        got = encoded(tiny, pooling, prompt, [" ".join(words)], max_length=12)
        kept = " ".join(words[:10])  # and two special tokens; those of the prompt come on top
        np.testing.assert_allclose(got, encoded(tiny, pooling, prompt, [kept]), atol=1e-5)
    text = " ".join([*words, "bank", *words])
    at = text.index("bank")
    got = encoded(tiny, "target", prompt, [TextInput(text, ((at, at + 4),))], max_length=12)
    near = " ".join([*words, "bank", *words][75:85])  # a window of ten words, the target in its middle
    at = near.index("bank")
    np.testing.assert_allclose(got, encoded(tiny, "target", prompt, [TextInput(near, ((at, at + 4),))]), atol=1e-5)
    size, places = len(states(prompt.replace("{text}", ""))[0]), prompt.count("{text}")
    got = encoded(tiny, "mean", prompt, [" ".join(words)], max_length=64)  # the model has 64 positions, for prompts too
    kept = " ".join(words[: (64 - size) // places])
    np.testing.assert_allclose(got, encoded(tiny, "mean", prompt, [kept]), atol=1e-5)
    with pytest.raises(UsageError, match="the prompt alone has 64 tokens, of the 64"):
        encoded(tiny, "target", "go " * 61 + ": {text}", TEXTS)


def test_several_prompts_at_once(tiny: TransformerEncoder) -> None:
    """The poolings of one call are told apart, also where words and texts are read."""
    items = [TextInput(TEXTS[2], ((4, 9),)), TextInput(TEXTS[0], ((2, 5),))]
    poolings = [Pooling(mode, prompt=prompt) for prompt in ("", "query: {text}", ECHO) for mode in ("mean", "target")]
    for pooling, together in zip(poolings, tiny.encode_pooled(items, poolings), strict=True):
        np.testing.assert_allclose(together, tiny.encode_pooled(items, [pooling])[0], atol=1e-5)
    assert len({pooling.identity[-1] for pooling in poolings}) == 3


def test_an_empty_text_has_a_vector(tiny: TransformerEncoder) -> None:
    for prompt in ("query: {text}", PROMPTS["eol"], ECHO):
        assert np.isfinite(encoded(tiny, "mean", prompt, [""])).all()


def test_the_second_text_of_a_causal_model_knows_the_whole(tmp_path: Path) -> None:
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    LlamaModel(LlamaConfig(vocab_size=8192, **sizes)).save_pretrained(tmp_path)
    AutoTokenizer.from_pretrained(TINY).save_pretrained(tmp_path)
    encoder = TransformerEncoder(load_transformer(tmp_path, CPU), Pooling())
    items = [TextInput(text, ((0, 4),)) for text in ("bank of the river", "bank holds my money")]
    for prompt, same in (("word: {text}", True), (ECHO, False)):
        one, other = encoded(encoder, "target", prompt, items)
        assert np.allclose(one, other, atol=1e-5) == same


@pytest.fixture
def named(tmp_path: Path) -> Path:
    settings = {"prompts": {"query": "query: ", "document": ""}, "default_prompt_name": "query"}
    (tmp_path / "config_sentence_transformers.json").write_text(json.dumps(settings))
    return tmp_path


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        ("query", "query: {text}"), ("document", ""), ("passage:", "passage:{text}"), ("say: ", "say: {text}"),
        ("eol", 'This sentence : "{text}" means in one word:"'), ("x{text}y", "x{text}y"), ("{text}", ""),
    ],
)  # fmt: skip
def test_what_a_prompt_stands_for(named: Path, prompt: str, expected: str) -> None:
    assert template(prompt, named) == expected


def test_prompts_that_cannot_be_had(named: Path) -> None:
    with pytest.raises(UnknownNameError, match="unknown prompt 'qery'") as caught:
        template("qery", named)
    assert "Did you mean query" in caught.value.hint
    assert "prompt=qery:%20" in caught.value.hint
    assert own_prompts(named / "nowhere") == {}
    (named / "config_sentence_transformers.json").write_text("[]")
    with pytest.raises(ModelUnavailableError, match="cannot be read"):
        own_prompts(named)


@pytest.mark.parametrize("prompt", ["query: ", 'a, "b" + 50% {text}: x=1', "Instruct: find\nQuery: ", "`$(x)`\t!"])
def test_a_prompt_in_a_spec(prompt: str) -> None:
    spec = EncoderSpec("tiny", "", "base", (("prompt", prompt),))
    assert parse_spec(str(spec)) == spec
    assert "\n" not in str(spec)


def test_prompts_of_sentence_transformers(tmp_path: Path, registered: Plugins) -> None:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.models import Pooling as Module
    from sentence_transformers.models import Transformer as First

    modules = [First(str(TINY)), Module(256, "mean", include_prompt=False)]
    prompts = {"query": "query: ", "document": "passage: "}
    own = SentenceTransformer(modules=modules, device="cpu", prompts=prompts, default_prompt_name="document")
    own.save(str(tmp_path / "own"))

    def ours(prompt: str) -> np.ndarray:
        spec = parse_spec(f"sbert:path={tmp_path}/own{prompt}")
        return create_encoder(spec, registered, EncoderContext(offline=True)).encode([TextInput(t) for t in TEXTS])

    for prompt, theirs in (
        ("", {}), (",prompt=query", {"prompt_name": "query"}), (",prompt=find:%20", {"prompt": "find: "}),
        (",prompt={text}", {"prompt": ""}),
    ):  # fmt: skip
        np.testing.assert_allclose(ours(prompt), own.encode(TEXTS, **theirs), atol=1e-5)
    around = own.encode([PROMPTS["eol"].replace("{text}", text) for text in TEXTS], prompt="")
    np.testing.assert_allclose(ours(",prompt=eol"), around, atol=1e-5)
    alone = ours(",prompt=query,pooling=mean")  # which pools the prompt too, as mirrorbench's poolings do
    for row, text in enumerate(TEXTS):
        np.testing.assert_allclose(alone[row], states(f"query: {text}")[0].mean(0), atol=1e-5)
    specs = [parse_spec(f"sbert:path={tmp_path}/own{p}") for p in ("", ",prompt=query", ",prompt=find:%20")]
    context = EncoderContext(offline=True)
    assert len({create_encoder(spec, registered, context).fingerprint for spec in specs}) == 3
