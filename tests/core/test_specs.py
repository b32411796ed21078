from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mirrorbench.core.errors import UsageError
from mirrorbench.core.specs import EncoderSpec, parse_spec

CHARACTERS = "%+:@,=/.~ \\é[]'\"#" + "abC19_-"  # so few that reserved ones meet often
texts = st.text(CHARACTERS, min_size=1, max_size=12)
words = texts.map(lambda text: f"w{text}w")  # a value that looks like a number is one
numbers = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
values = st.booleans() | numbers | words | st.just("-4:")
params = st.dictionaries(st.from_regex(r"[a-z][a-z0-9_]*", fullmatch=True), values, max_size=4)
methods = st.just("") | st.from_regex(r"[A-Za-z][A-Za-z0-9_-]*", fullmatch=True)


@given(texts, st.just("") | texts, methods, params)
def test_specs_survive_formatting_and_parsing(
    backbone: str, revision: str, method: str, params: dict
) -> None:
    local = EncoderSpec(backbone).is_path
    spec = EncoderSpec(backbone, "" if local else revision, method, tuple(params.items()))
    assert parse_spec(str(spec)) == spec
    assert spec == EncoderSpec(
        spec.backbone, spec.revision, method, tuple(params.items())[::-1]
    )  # in any order


@pytest.mark.parametrize(
    ("text", "backbone", "revision", "method", "params"),
    [
        ("roberta", "roberta", "", "", {}),
        (" roberta ", "roberta", "", "", {}),
        ("./a@b", "./a@b", "", "", {}),
        ("org/model@main+mirror:lr=1e-5", "org/model", "main", "mirror", {"lr": 1e-5}),
        (
            "bert+base:pooling=cls,layers=-4:",
            "bert",
            "",
            "base",
            {"pooling": "cls", "layers": "-4:"},
        ),
        ("./my-model+mirror", "./my-model", "", "mirror", {}),
        ("/data/c++/model", "/data/c++/model", "", "", {}),
        ("./c%2B%2Bplus+base", "./c++plus", "", "base", {}),
        (r"C:\models\bert:pooling=cls", r"C:\models\bert", "", "", {"pooling": "cls"}),
        ("fasttext:path=cc.en.300.bin", "fasttext", "", "", {"path": "cc.en.300.bin"}),
        (
            "bert:corpus=a%2Cb,clean_corpus=false",
            "bert",
            "",
            "",
            {"corpus": "a,b", "clean_corpus": False},
        ),
        ("bert:a=1,b=1.0,c=x1,d=-.5", "bert", "", "", {"a": 1, "b": 1.0, "c": "x1", "d": -0.5}),
    ],
)
def test_valid_specs_are_parsed(
    text: str, backbone: str, revision: str, method: str, params: dict
) -> None:
    spec = parse_spec(text)
    assert (spec.backbone, spec.revision, spec.method, dict(spec.params)) == (
        backbone,
        revision,
        method,
        params,
    )
    assert [type(spec.get(key)) for key in params] == [type(value) for value in params.values()]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "needs a backbone"),
        ("+mirror", "needs a backbone"),
        ("bert@", "the revision after '@' is empty"),
        ("bert:", "cannot read the encoder spec 'bert:'"),
        ("bert,roberta", "cannot read"),
        ("bert+", "cannot read"),
        ("bert@main:pooling", "cannot read the encoder spec 'bert@main:pooling'"),
        ("bert+base+mirror", "cannot read"),
        ("bert:a=1,b", "'b' is not KEY=VALUE"),
        ("bert:a=", "'a=' is not KEY=VALUE"),
        ("bert:A=1", "'A=1' is not KEY=VALUE"),
        ("bert:a=1,a=2", "the key 'a' occurs twice"),
    ],
)
def test_malformed_specs_are_rejected(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message.replace("+", r"\+")) as caught:
        parse_spec(text)
    assert caught.value.hint


def test_directory_with_revision_is_rejected() -> None:
    assert all(parse_spec(text).is_path for text in ("./x", "../x", "/x", "~/x", r"C:\x"))
    assert not any(parse_spec(text).is_path for text in ("x/y", "bert"))
    with pytest.raises(UsageError, match="a directory has no revisions"):
        EncoderSpec("./model", "main")


def test_spec_changes_return_copies() -> None:
    spec = parse_spec("bert:pooling=cls")
    assert (
        str(spec.with_method("base").with_params(layers="-4:"))
        == "bert+base:layers=-4:,pooling=cls"
    )
    assert str(spec) == "bert:pooling=cls"
    assert spec.get("layers", "none") == "none"
    assert str(spec.with_params(pooling="mean")) == "bert:pooling=mean"


HOSTILE = st.text("%+:@,=/.~ \\ab0195eE-_é٣\0\ud800\n", max_size=30) | st.text(max_size=30)
PARTS = (
    "bert",
    "./a",
    "@",
    "+mirror",
    ":",
    "a=",
    "b=1",
    ",",
    "%FF",
    "%00",
    "%2",
    "1e999",
    "9" * 500,
    "=",
    "+",
)
PIECES = st.lists(st.sampled_from(PARTS), max_size=8).map("".join)


@settings(max_examples=settings().max_examples * 2)
@given(HOSTILE | PIECES)
def test_arbitrary_text_parses_or_raises_usage_error(text: str) -> None:
    try:
        spec = parse_spec(text)
    except UsageError:
        return
    assert parse_spec(str(spec)) == spec


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("bert:a=" + "9" * 5000, "has 5000 digits"),
        ("bert:a=1e999", "is too large"),
        ("bert:a=%00", "not valid text"),
        ("./%FF", "not UTF-8"),
        ("a" * 1_000_000, "1,000,000 characters"),
    ],
)
def test_oversized_or_undecodable_specs_are_rejected(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_spec(text)


specs = st.builds(
    EncoderSpec,
    st.text("abAB./~: +@%=é_-", min_size=1, max_size=150),
    method=st.sampled_from(["", "mirror", "base"]),
    params=st.lists(st.tuples(st.just("corpus"), st.text("aA/.,~", min_size=1)), max_size=1).map(
        tuple
    ),
)
protocols = st.sampled_from(["paper", "released"])


@settings(max_examples=25)
@given(specs, specs, protocols, protocols)
def test_folder_names_are_safe_and_unique(
    one: EncoderSpec, other: EncoderSpec, first: str, second: str
) -> None:
    name = one.folder_name(first)
    assert name.strip(". ") == name != ""
    assert len(name) <= 120
    assert not set(name) & set('/\\:*?"<>| \n')
    same = (one, first) == (other, second)
    assert (name.lower() == other.folder_name(second).lower()) == same
