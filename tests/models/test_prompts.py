"""Prompts: vectors against transformers on the whole text of the prompt, and against sentence-transformers' own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.plain_transformers import hidden_states, opened
from helpers.random_models import POSITIONS, Models, encoder
from helpers.suite_marks import few
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer import modules

import mirrorbench
from mirrorbench.core.encoder_protocol import TextInput
from mirrorbench.core.errors import ModelUnavailableError, UnknownNameError, UsageError
from mirrorbench.core.plugins import Plugins
from mirrorbench.core.specs import EncoderSpec, parse_spec
from mirrorbench.models.backbones import embedded_directory
from mirrorbench.models.encoder_systems import EncoderContext, create_encoder
from mirrorbench.models.pooling import PROMPTS, Pooling, prefix, stored_prompts, template
from mirrorbench.models.transformer_encoder import TransformerEncoder
from mirrorbench.training.recipes import Recipe

TINY = embedded_directory()
TEXTS = [
    "A man plays the guitar.",
    "bank",
    "The river bank was wet, and the bank was closed; nobody said why.",
]
ECHO = PROMPTS["echo"]
SHORT = ["ab cd", "e", "the fox, the cat"]
TEMPLATES = ["query: {text}", 'about "{text}" in {mask}.', "{text} {mask}"]


@pytest.fixture(scope="module")
def tiny() -> TransformerEncoder:
    return encoder(TINY)


def last_layer(whole: str, path: Path = TINY) -> tuple[np.ndarray, list[tuple[int, int]]]:
    """Return the states and token offsets of a string with the tokenizer's mask, by transformers alone."""
    states, offsets = hidden_states(path, whole.replace("{mask}", opened(path)[0].mask_token or ""))
    return states[-1], offsets


def within(whole: str, start: int, end: int) -> np.ndarray:
    actual, offsets = last_layer(whole)
    return actual[[a < b and start <= a and b <= end for a, b in offsets]]


def encoded(
    reader: TransformerEncoder, pooling: str, prompt: str, items: list[Any], length: int = 64
) -> np.ndarray:
    inputs = [item if isinstance(item, TextInput) else TextInput(item) for item in items]
    return reader.encode_pooled(inputs, [Pooling(pooling, max_length=length, prompt=prompt)])[0]


@pytest.mark.parametrize("architecture", ["tiny", "bert", "roberta"])
def test_prompt_surrounds_each_text(random_model: Models, architecture: str) -> None:
    path, texts = (TINY, TEXTS) if architecture == "tiny" else (random_model(architecture), SHORT)
    reader = encoder(path)
    for prompt in (*TEMPLATES, "Instruct: find it\nQuery: {text}", PROMPTS["eol"]):
        actual = {name: encoded(reader, name, prompt, texts) for name in ("cls", "mean", "last")}
        for row, text in enumerate(texts):
            states, _ = last_layer(prompt.replace("{text}", text), path)
            for name, expected in (
                ("cls", states[0]),
                ("mean", states.mean(0)),
                ("last", states[-1]),
            ):
                np.testing.assert_allclose(actual[name][row], expected, atol=1e-5)


def test_echo_prompt_pools_the_second_copy(tiny: TransformerEncoder) -> None:
    actual = {
        name: encoded(tiny, name, ECHO, TEXTS)
        for name in ("mean", "last", "weighted-mean", "target")
    }
    for row, text in enumerate(TEXTS):
        whole = ECHO.replace("{text}", text)
        inside = within(whole, len(whole) - len(text), len(whole))
        weights = np.arange(1, len(inside) + 1)
        for name, expected in (
            ("mean", inside.mean(0)),
            ("target", inside.mean(0)),  # a text without a word is its own
            ("last", inside[-1]),
            ("weighted-mean", weights @ inside / weights.sum()),
        ):
            np.testing.assert_allclose(actual[name][row], expected, atol=1e-5)


@pytest.mark.parametrize("prompt", [ECHO, 'In "{text}" it means'])
def test_target_is_located_within_a_prompt(tiny: TransformerEncoder, prompt: str) -> None:
    text = "  the river bank was wet, and the bank was closed"
    (first, second), word = (i for i in range(len(text)) if text.startswith("bank", i)), len("bank")
    items = [TextInput(text, ((start, start + word),)) for start in (first, second)]
    actual = encoded(tiny, "target", prompt, items)
    for row, start in enumerate((first, second)):
        at = prompt.replace("{text}", text, prompt.count("{text}") - 1).index("{text}") + start
        expected = within(prompt.replace("{text}", text), at, at + word).mean(0)
        np.testing.assert_allclose(actual[row], expected, atol=1e-5)


@pytest.mark.parametrize("prompt", few([*TEMPLATES, PROMPTS["eol"], ECHO], 1, 3, 4))
def test_truncation_cuts_the_text_not_the_prompt(tiny: TransformerEncoder, prompt: str) -> None:
    words = ["one", "two", "three", "four"] * 20
    for pooling in ("mean", "last") if "{mask}" in prompt else ("mean", "last", "target"):
        got = encoded(tiny, pooling, prompt, [" ".join(words)], length=12)
        kept = " ".join(words[:10])  # and two special tokens; those of the prompt come on top
        np.testing.assert_allclose(got, encoded(tiny, pooling, prompt, [kept]), atol=1e-5)
    size, places = len(last_layer(prompt.replace("{text}", ""))[0]), prompt.count("{text}")
    got = encoded(
        tiny, "mean", prompt, [" ".join(words)], length=64
    )  # the model has 64 positions, for prompts too
    kept = " ".join(words[: (64 - size) // places])
    np.testing.assert_allclose(got, encoded(tiny, "mean", prompt, [kept]), atol=1e-5)
    if "{mask}" in prompt:
        return
    around = [*words, "bank", *words]
    targets = []
    for text in (
        " ".join(around),
        " ".join(around[75:85]),
    ):  # a window of ten words, the target in its middle
        at = text.index("bank")
        targets.append(TextInput(text, ((at, at + 4),)))
    got = encoded(tiny, "target", prompt, targets[:1], length=12)
    np.testing.assert_allclose(got, encoded(tiny, "target", prompt, targets[1:]), atol=1e-5)


@pytest.mark.parametrize("prompt", ["about {text} now", "about {text} now {mask}"])
def test_left_truncation_keeps_the_end_of_the_text(prompt: str) -> None:
    transformer = encoder(TINY).transformer
    transformer.tokenizer.truncation_side = "left"
    text = "the quick fox and the lazy dog " * 5 + "at the river"
    (ids,) = transformer.read([TextInput(text)], Pooling("mean", max_length=12, prompt=prompt)).ids
    before, after = transformer.prompt_ids(prompt)
    of_text = transformer.tokenizer(text, add_special_tokens=False)["input_ids"]
    assert ids.tolist()[1:-1] == [*before, *of_text[-10:], *after]


def test_prompts_in_one_call_do_not_interfere(tiny: TransformerEncoder) -> None:
    """The poolings of one call are separate, also of words and texts together."""
    items = [TextInput(TEXTS[2], ((4, 9),)), TextInput(TEXTS[0], ((2, 5),))]
    poolings = [
        Pooling(mode, prompt=prompt)
        for prompt in ("", "query: {text}", ECHO)
        for mode in ("mean", "target")
    ]
    for pooling, together in zip(poolings, tiny.encode_pooled(items, poolings), strict=True):
        np.testing.assert_allclose(together, tiny.encode_pooled(items, [pooling])[0], atol=1e-5)
        assert np.isfinite(tiny.encode_pooled([TextInput("")], [pooling])[0]).all()
    assert len({pooling.identity[-1] for pooling in poolings}) == 3


@pytest.fixture
def named(tmp_path: Path) -> Path:
    settings = {"prompts": {"query": "query: ", "document": ""}, "default_prompt_name": "query"}
    (tmp_path / "config_sentence_transformers.json").write_text(json.dumps(settings))
    return tmp_path


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        ("query", "query: {text}"),
        ("document", ""),
        ("passage:", "passage:{text}"),
        ("say: ", "say: {text}"),
        ("eol", 'This sentence : "{text}" means in one word:"'),
        ("x{text}y", "x{text}y"),
        ("{text}", ""),
    ],
)
def test_prompt_names_resolve_to_templates(named: Path, prompt: str, expected: str) -> None:
    assert template(prompt, named) == expected
    spec = EncoderSpec("tiny", "", "base", (("prompt", f'{prompt}\n, "b" + 50%:'),))
    assert parse_spec(str(spec)) == spec
    assert "\n" not in str(spec)


def test_invalid_prompts_are_refused(named: Path, random_model: Models) -> None:
    with pytest.raises(UnknownNameError, match="unknown prompt 'qery'") as caught:
        template("qery", named)
    assert "Did you mean query" in caught.value.hint
    assert "prompt=qery:%20" in caught.value.hint
    assert stored_prompts(named / "nowhere") == {}
    (named / "config_sentence_transformers.json").write_text("[]")
    with pytest.raises(ModelUnavailableError, match="cannot be read"):
        stored_prompts(named)
    with pytest.raises(UsageError, match="has no place for the text"):
        Pooling(prompt="about")
    for pooling, prompt in (("mean", "{text} {mask} {text}"), ("target", TEMPLATES[1])):
        with pytest.raises(UsageError, match=r"read a word|only once"):
            Pooling(pooling, prompt=prompt)
    for prompt in ("{text}.", TEMPLATES[1], "{mask} {text}"):
        with pytest.raises(UsageError, match="has more than a text before"):
            prefix(prompt)
    with pytest.raises(UsageError, match="the prompt alone has 64 tokens, of the 64"):
        encoded(encoder(TINY), "target", "go " * 61 + ": {text}", TEXTS)
    transformer = encoder(random_model("bert")).transformer
    with pytest.raises(UsageError, match="leaves no room for a text"):
        transformer.tokenize(TEXTS, POSITIONS, "ab " * POSITIONS + "{text}")
    transformer.tokenizer.mask_token = None
    with pytest.raises(UsageError, match="has a mask, and the tokenizer of"):
        transformer.tokenize(TEXTS, 20, TEMPLATES[1])


def test_prompt_is_part_of_the_identity(random_model: Models) -> None:
    assert "prompt" not in Recipe(1.0, 1, 64, "mean").to_json()
    assert Pooling().identity == ["mean", "-1:", 64]
    assert Recipe(1.0, 1, 64, "mean", prompt=TEMPLATES[0]).to_json()["prompt"] == TEMPLATES[0]
    assert Pooling(prompt=TEMPLATES[0]).identity == ["mean", "-1:", 64, TEMPLATES[0]]
    path = random_model("bert")
    (actual,) = mirrorbench.load(f"{path}:pooling=mean,prompt={TEMPLATES[1]}", device="cpu").encode(
        SHORT[:1]
    )
    expected = last_layer(TEMPLATES[1].replace("{text}", SHORT[0]), path)[0].mean(0)
    np.testing.assert_allclose(actual, expected, atol=1e-5)


def test_sbert_prompts_equal_sentence_transformers(tmp_path: Path, registered: Plugins) -> None:
    parts = [modules.Transformer(str(TINY)), modules.Pooling(256, "mean", include_prompt=False)]
    prompts = {"query": "query: ", "document": "passage: "}
    own = SentenceTransformer(
        modules=parts, device="cpu", prompts=prompts, default_prompt_name="document"
    )
    own.save(str(tmp_path / "own"))

    def ours(prompt: str) -> np.ndarray:
        spec = parse_spec(f"sbert:path={tmp_path}/own{prompt}")
        return create_encoder(spec, registered, EncoderContext(offline=True)).encode(
            [TextInput(t) for t in TEXTS]
        )

    for prompt, theirs in (
        ("", {}),
        (",prompt=query", {"prompt_name": "query"}),
        (",prompt=find:%20", {"prompt": "find: "}),
        (",prompt={text}", {"prompt": ""}),
    ):
        np.testing.assert_allclose(ours(prompt), own.encode(TEXTS, **theirs), atol=1e-5)
    around = own.encode([PROMPTS["eol"].replace("{text}", text) for text in TEXTS], prompt="")
    np.testing.assert_allclose(ours(",prompt=eol"), around, atol=1e-5)
    alone = ours(
        ",prompt=query,pooling=mean"
    )  # which pools the prompt too, as mirrorbench's poolings do
    for row, text in enumerate(TEXTS):
        np.testing.assert_allclose(alone[row], last_layer(f"query: {text}")[0].mean(0), atol=1e-5)
    specs = [
        parse_spec(f"sbert:path={tmp_path}/own{p}")
        for p in ("", ",prompt=query", ",prompt=find:%20")
    ]
    context = EncoderContext(offline=True)
    assert len({create_encoder(spec, registered, context).fingerprint for spec in specs}) == 3
