"""The encoder ``endpoint`` at a server that answers rightly or with every fault."""

from __future__ import annotations

import base64
import re
import socket
import time
from pathlib import Path
from typing import Any

import mirrorbench_endpoint
import numpy as np
import pytest
from faulty_server import Answer, Reply, embeddings, refusal, serving, vector
from mirrorbench_endpoint.encoder import REFERENCE_TEXTS, EndpointEncoder

from mirrorbench import Session
from mirrorbench.plugin import (
    EncoderContext,
    EncodingError,
    MirrorbenchError,
    ModelUnavailableError,
    TextInput,
    UsageError,
    load_plugins,
    parse_spec,
)

TEXTS = ["a cat", "the old stone bridge", "music"]


def right(texts: list[str], number: int) -> Reply:
    return Reply(embeddings(texts))


def opened(
    url: str, keys: str = "", folder: Path | None = None, offline: bool = True
) -> EndpointEncoder:
    spec = parse_spec(f"endpoint:url={url},model=right{keys}")
    return EndpointEncoder(spec, EncoderContext(offline=offline, folder=folder))


def encoded(url: str, texts: list[str] = TEXTS, keys: str = "") -> np.ndarray:
    return opened(url, keys).encode([TextInput(text) for text in texts])


def expected(texts: list[str], model: str = "right") -> np.ndarray:
    return np.array([vector(text, model) for text in texts], dtype=np.float32)


def test_vectors_come_in_the_order_of_texts() -> None:
    texts = [f"text {n}" for n in range(50)]

    def shuffled(asked: list[str], number: int) -> Reply:
        answer = embeddings(asked)
        answer["data"].reverse()
        return Reply(answer)

    with serving(shuffled) as server:
        vectors = encoded(server.url, texts, ",batch=7,requests=3")
        np.testing.assert_array_equal(vectors, expected(texts))
        assert max(map(len, server.requests)) <= 20


def test_no_texts_have_no_vectors() -> None:
    with serving(right) as server:
        assert encoded(server.url, []).shape == (0, 6)


def test_base64_answers_are_decoded() -> None:
    def packed(texts: list[str], number: int) -> Reply:
        answer = embeddings(texts)
        for entry in answer["data"]:
            floats = np.array(entry["embedding"], dtype="<f4")
            entry["embedding"] = base64.b64encode(floats.tobytes()).decode()
        return Reply(answer)

    with serving(packed) as server:
        np.testing.assert_array_equal(encoded(server.url), expected(TEXTS))


@pytest.mark.parametrize(
    "fault",
    [
        Reply({}, 429, {"Retry-After": "0.01"}),
        Reply({}, 429),
        Reply({}, 500),
        Reply({}, 503),
        Reply(cut=True),
    ],
    ids=["429 with Retry-After", "429", "500", "503", "cut connection"],
)
def test_passing_faults_are_tried_again(fault: Reply) -> None:
    def answer(texts: list[str], number: int) -> Reply:
        return fault if number in (2, 3, 5) else Reply(embeddings(texts))

    with serving(answer) as server:
        np.testing.assert_array_equal(encoded(server.url, keys=",batch=1"), expected(TEXTS))


def changed(**changes: Any) -> Answer:
    """Return answers whose first entry is changed, but for reference texts."""

    def answer(texts: list[str], number: int) -> Reply:
        body = embeddings(texts)
        if len(texts) < len(REFERENCE_TEXTS):
            body["data"][0] |= changes
        return Reply(body)

    return answer


def every_embedding(embedding: Any) -> Answer:
    def answer(texts: list[str], number: int) -> Reply:
        body = embeddings(texts)
        for entry in body["data"]:
            entry["embedding"] = embedding
        return Reply(body)

    return answer


def other_dimensions(texts: list[str], number: int) -> Reply:
    body = embeddings(texts)
    if number > 2:
        for entry in body["data"]:
            entry["embedding"] = entry["embedding"][:2]
    return Reply(body)


def one_less(texts: list[str], number: int) -> Reply:
    body = embeddings(texts)
    del body["data"][1:2]
    return Reply(body)


@pytest.mark.parametrize(
    ("answer", "error", "message"),
    [
        (one_less, EncodingError, "returned 18 vectors .* for 19 texts"),
        (changed(index=1), EncodingError, "one vector for each text"),
        (changed(embedding=[float("nan")] * 6), EncodingError, "not finite"),
        (changed(index=None), EncodingError, "one vector for each text"),
        (changed(index=["secret"]), EncodingError, "one vector for each text"),
        (changed(embedding=None), EncodingError, "something else than a vector"),
        (changed(embedding={"a": 1}), EncodingError, "something else than a vector"),
        (changed(embedding=[[1.0, 2.0]] * 6), EncodingError, "something else than a vector"),
        (changed(embedding=[1e300] * 6), EncodingError, "not finite"),
        (every_embedding([]), EncodingError, "something else than a vector"),
        (every_embedding([[1.0] * 6]), EncodingError, "something else than a vector"),
        (changed(embedding=[1.0, 2.0]), EncodingError, "of 2, 6 dimensions in one"),
        (other_dimensions, EncodingError, "of 2 dimensions, and of 6 before"),
        (lambda texts, n: Reply({"hello": 1}), EncodingError, "not one of /embeddings"),
        (lambda texts, n: Reply([1]), EncodingError, "not one of /embeddings|vectors"),
        (lambda texts, n: refusal("no", 401), ModelUnavailableError, "401: no\n.*key_env"),
        (lambda texts, n: refusal("no such model", 404), ModelUnavailableError, "404: no such"),
        (lambda texts, n: refusal("slow down", 429), ModelUnavailableError, "429: slow down"),
        (lambda texts, n: refusal("broken", 500), ModelUnavailableError, "500: broken"),
        (lambda texts, n: Reply({"detail": "no"}, 401), ModelUnavailableError, "401: no\n"),
        (lambda texts, n: Reply({"error": "no"}, 404), ModelUnavailableError, "404: no\n"),
        (lambda texts, n: refusal("nothing works"), EncodingError, "refuses"),
    ],
)
def test_lasting_faults_have_a_message_each(
    answer: Answer, error: type[MirrorbenchError], message: str
) -> None:
    with serving(answer) as server, pytest.raises(error, match=f"(?s){message}"):
        encoded(server.url)


def test_a_server_that_is_too_slow_is_named() -> None:
    def sleepy(texts: list[str], number: int) -> Reply:
        time.sleep(0.3)
        return Reply(embeddings(texts))

    with serving(sleepy) as server:
        np.testing.assert_array_equal(encoded(server.url), expected(TEXTS))
        with pytest.raises(ModelUnavailableError, match="did not answer in time"):
            encoded(server.url, keys=",timeout=0.05")


def test_a_passing_fault_does_not_change_the_identity() -> None:
    with serving(right, [{"id": "right", "max_model_len": 512}], list_faults=2) as server:
        first = opened(server.url).fingerprint
        assert opened(server.url).fingerprint == first


def test_a_list_of_something_else_than_models_states_nothing() -> None:
    with serving(right) as none, serving(right, ["right"]) as other:  # type: ignore[list-item]
        assert opened(other.url).fingerprint == opened(none.url).fingerprint


def test_redirects_are_not_followed() -> None:
    with serving(right) as elsewhere:

        def moved(texts: list[str], number: int) -> Reply:
            return Reply({}, 307, {"Location": f"{elsewhere.url}/embeddings"})

        with serving(moved) as server, pytest.raises(ModelUnavailableError, match="not followed"):
            encoded(server.url)
        assert not elsewhere.requests


def test_no_server_says_what_to_do() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(ModelUnavailableError, match=r"(?s)no answer from .*Start the server"):
        opened(f"http://127.0.0.1:{port}/v1")


def test_batches_are_halved_where_the_server_refuses_them() -> None:
    texts = [f"text {n}" for n in range(40)]

    def small(asked: list[str], number: int) -> Reply:
        return refusal("too many") if len(asked) > 8 else Reply(embeddings(asked))

    with serving(small) as server:
        encoder = opened(server.url)
        inputs = [TextInput(text) for text in texts]
        np.testing.assert_array_equal(encoder.encode(inputs), expected(texts))
        assert encoder.notes == ()
        encoder.encode(inputs)
        n_requests = len(server.requests)
        encoder.encode(inputs)
        asked = server.requests[n_requests:]
        assert max(map(len, asked)) <= 8  # the limit is remembered


def test_refused_texts_are_read_in_part_and_counted() -> None:
    long = "word " * 60

    def strict(asked: list[str], number: int) -> Reply:
        too_long = any(len(text.split()) > 24 for text in asked)
        return refusal("at most 24 tokens") if too_long else Reply(embeddings(asked))

    with serving(strict) as server:
        encoder = opened(server.url)
        vectors = encoder.encode([TextInput(text) for text in ["a cat", long, "music"]])
    np.testing.assert_array_equal(vectors[[0, 2]], expected(["a cat", "music"]))
    np.testing.assert_array_equal(vectors[1], expected([" ".join(["word"] * 15)])[0])
    assert encoder.count_cut([TextInput(text) for text in ["a cat", long]]).cut == 1


def test_refused_empty_texts_are_read_as_a_space() -> None:
    def without_empty(asked: list[str], number: int) -> Reply:
        return Reply(embeddings(asked)) if all(asked) else refusal("input cannot be empty")

    with serving(without_empty) as server:
        vectors = encoded(server.url, ["a cat", "", "music"])
    np.testing.assert_array_equal(vectors, expected(["a cat", "", "music"]))


def test_texts_without_tokens_are_not_taken_as_cut() -> None:
    with serving(right) as server:
        encoder = opened(server.url)
        encoder.encode([TextInput("   "), TextInput("")])
        encoder.encode([TextInput(text) for text in TEXTS])
        assert encoder.count_cut([TextInput(text) for text in ["   ", *TEXTS]]).cut == 0


def test_silently_cut_texts_are_counted(tmp_path: Path) -> None:
    long = [" ".join([f"w{n}"] * 40) for n in range(3)]

    def cutting(asked: list[str], number: int) -> Reply:
        return Reply(embeddings(asked, tokens=12))

    with serving(cutting) as server:
        encoder = opened(server.url, folder=tmp_path)
        encoder.encode([TextInput(text) for text in ["a cat", *long, "music"]])
        counted = encoder.count_cut([TextInput(text) for text in ["a cat", *long, "music"]])
        assert (counted.cut, counted.texts, counted.window) == (3, 5, 12)
        # Another run, whose vectors come from the cache, knows them too.
        again = opened(server.url, folder=tmp_path)
        assert again.count_cut([TextInput(text) for text in long]).cut == 3


def test_number_of_texts_cut_by_a_server_that_counts_no_tokens_is_unknown(tmp_path: Path) -> None:
    short = ["a cat", "music"]
    long = [" ".join(f"w{n}-{word}" for word in range(40 + n)) for n in range(3)]

    def cutting(asked: list[str], number: int) -> Reply:
        return Reply(embeddings(asked, tokens=12, counts_characters=True))

    with serving(cutting) as server:
        first = opened(server.url, folder=tmp_path)
        first.encode([TextInput(text) for text in short])
        first.encode([TextInput(text) for text in long])
        again = opened(server.url, folder=tmp_path)
        for encoder in (first, again):
            counted = encoder.count_cut([TextInput(text) for text in [*short, *long]])
            assert counted.unknown
            assert counted.cut == 1
            # Texts that are no longer than one that was seen to fit are whole.
            assert not encoder.count_cut([TextInput(text) for text in short]).sentence


def test_other_window_is_another_encoder() -> None:
    def wide(asked: list[str], number: int) -> Reply:
        return Reply(embeddings(asked, tokens=512))

    def narrow(asked: list[str], number: int) -> Reply:
        return Reply(embeddings(asked, tokens=256))

    with serving(wide) as one, serving(narrow) as other:
        stored = opened(one.url).reference_vectors()
        assert opened(one.url).matches(stored)
        assert not opened(other.url).matches(stored)


def test_prompts_stand_around_texts() -> None:
    with serving(right) as server:
        vectors = encoded(server.url, keys=",prompt=query:%20")
        np.testing.assert_array_equal(vectors, expected([f"query: {text}" for text in TEXTS]))
        vectors = encoded(server.url, keys=",prompt=<{text}>")
        np.testing.assert_array_equal(vectors, expected([f"<{text}>" for text in TEXTS]))


def test_the_address_is_no_part_of_the_identity() -> None:
    with serving(right) as one, serving(right) as other:
        assert opened(one.url).fingerprint == opened(other.url).fingerprint
        assert opened(one.url, ",prompt=x").fingerprint != opened(one.url).fingerprint


def times(factor: float) -> Answer:
    """Return answers with vectors times a factor."""

    def answer(texts: list[str], number: int) -> Reply:
        body = embeddings(texts)
        for entry in body["data"]:
            entry["embedding"] = [number * factor for number in entry["embedding"]]
        return Reply(body)

    return answer


def test_lengths_of_vectors_are_part_of_the_identity() -> None:
    with serving(right) as one, serving(times(1.01)) as near, serving(times(0.5)) as other:
        stored = opened(one.url).reference_vectors()
        assert opened(near.url).matches(stored)
        assert not opened(other.url).matches(stored)


@pytest.mark.parametrize("factor", [0.0, 1e30])
def test_extreme_vectors_match_themselves(factor: float) -> None:
    with serving(times(factor)) as server:
        stored = opened(server.url).reference_vectors()
        assert opened(server.url).matches(stored)
        assert not opened(server.url).matches(stored + np.float32(1.0 + factor))


def test_vectors_of_zeros_do_not_show_that_a_text_was_cut() -> None:
    def static(texts: list[str], number: int) -> Reply:
        body = embeddings(texts)
        del body["usage"]
        for text, entry in zip(texts, body["data"], strict=True):
            if text == "unknown":
                entry["embedding"] = [0.0] * 6
        return Reply(body)

    with serving(static) as server:
        encoder = opened(server.url)
        encoder.encode([TextInput("unknown")])
        counted = encoder.count_cut([TextInput("unknown")])
    assert (counted.cut, counted.unknown) == (0, False)


def test_what_the_server_states_is_part_of_the_identity() -> None:
    listed = [{"id": "right", "object": "model", "created": 1, "owned_by": "x"}]
    with (
        serving(right, [{**listed[0], "max_model_len": 512}]) as one,
        serving(right, [{**listed[0], "max_model_len": 512, "created": 2}]) as same,
        serving(right, [{**listed[0], "max_model_len": 256}]) as other,
    ):
        assert opened(one.url).fingerprint == opened(same.url).fingerprint
        assert opened(one.url).fingerprint != opened(other.url).fingerprint


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("http://user:secret@127.0.0.1/v1", "has a name or a key in it"),
        ("http://secret@127.0.0.1/v1", "has a name or a key in it"),
        ("http://127.0.0.1/v1?key=secret", "has a query in it"),
        ("http://127.0.0.1/v1#secret", "has a query in it"),
        ("127.0.0.1:8000", "not an address"),
        ("ftp://127.0.0.1", "not an address"),
        ("http://127.0.0.1\t/v1", "characters that no address has"),
        ("http://１２７.0.0.1/v1", "characters that no address has"),
        ("http://192.0.2.1/v1", "permits no other"),
        ("http://user:secret@[::1", "not an address"),
    ],
)
def test_unfit_addresses_are_refused(url: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as raised:
        opened(url.replace("%", "%25").replace(",", "%2C"))
    assert "secret" not in str(raised.value)


def test_keys_go_to_the_server_and_nowhere_else(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("MY_KEY", "sk-very-secret-7")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-another")
    monkeypatch.setenv("OPENAI_ORG_ID", "an-organisation")
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login me password netrc-secret\n")

    def answer(texts: list[str], number: int) -> Reply:
        if number > 5:
            return refusal("wrong key sk-very-secret-7", 401)
        return Reply(embeddings(texts))

    with serving(answer) as server:
        opened(server.url).encode([TextInput("a cat")])
        sent = str(server.headers)
        assert "sk-" not in sent
        assert "an-organisation" not in sent
        assert "netrc-secret" not in sent
        with pytest.raises(ModelUnavailableError, match="wrong key") as raised:
            opened(server.url, ",key_env=MY_KEY").encode([TextInput("a cat")])
        assert server.headers[-1]["authorization"] == "Bearer sk-very-secret-7"
    assert "secret" not in str(raised.value)
    with pytest.raises(UsageError, match="no variable NO_SUCH"):
        opened(server.url, ",key_env=NO_SUCH")


@pytest.mark.parametrize(
    "answer",
    [
        refusal(f"{'x' * 280} my sk-very-secret  key-7", 401),
        refusal("wrong key SK-Very-Secret  Key-7", 401),
        Reply({}, 307, {"Location": "http://my.sk-very-secret  key-7.example.org/v1"}),
        Reply({}, 307, {"Location": "http://[sk-very-secret  key-7"}),
    ],
    ids=["cut", "upper case", "host", "unfit host"],
)
def test_keys_that_a_server_repeats_are_not_shown(
    answer: Reply, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", "sk-very-secret  key-7")
    with serving(lambda texts, number: answer) as server:
        encoder = opened(server.url, ",key_env=MY_KEY")
        with pytest.raises(ModelUnavailableError) as raised:
            encoder.encode([TextInput("a cat")])
    assert "sk-ver" not in str(raised.value).lower()
    assert "key-7" not in str(raised.value).lower()


@pytest.mark.parametrize("key", ["sk-secret\nX-Header: 1", "sk-secret-é", "sk-secret-\udcff"])
def test_keys_that_cannot_be_sent_are_refused(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", key)
    with serving(right) as server, pytest.raises(UsageError, match="cannot be sent") as raised:
        opened(server.url, ",key_env=MY_KEY")
    assert "secret" not in str(raised.value)


def test_a_key_in_place_of_its_variable_is_not_shown() -> None:
    with serving(right) as server, pytest.raises(UsageError, match="not the name of") as raised:
        opened(server.url, ",key_env=sk-very-secret-7")
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize("bare", [False, True])
def test_proxy_is_asked_for_hosts_that_this_machine_does_not_know(
    bare: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(right) as proxy:
        place = proxy.url.removesuffix("/v1")
        monkeypatch.setenv("HTTP_PROXY", place.removeprefix("http://") if bare else place)
        url = "http://encoders.example.invalid/v1"
        encoder = opened(url, offline=False)
        vectors = encoder.encode([TextInput(text) for text in TEXTS])
        np.testing.assert_array_equal(vectors, expected(TEXTS))
        assert proxy.headers[-1]["Host"] == "encoders.example.invalid"
        with pytest.raises(UsageError, match="permits no other"):
            opened(url)
        monkeypatch.setenv("NO_PROXY", "example.invalid")
        with pytest.raises(ModelUnavailableError, match="is unknown"):
            opened(url, offline=False)


def test_unfit_proxies_are_reported_without_their_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "other://me:secret@127.0.0.1")
    with pytest.raises(UsageError, match="names a proxy") as raised:
        opened("http://encoders.example.invalid/v1", offline=False)
    assert "secret" not in str(raised.value)


def session(folder: Path) -> Session:
    plugins = load_plugins(discover=False)
    plugins.add(mirrorbench_endpoint, "endpoint")
    return Session(folder / "results", plugins=plugins, cache=folder / "cache", device="cpu")


def test_interrupted_runs_go_on_with_what_is_stored(tmp_path: Path) -> None:
    def failing(texts: list[str], number: int) -> Reply:
        return refusal("out of credit", 402) if number > 4 else Reply(embeddings(texts))

    state: dict[str, Answer] = {"answer": failing}
    with serving(lambda texts, number: state["answer"](texts, number)) as server:
        spec = f"endpoint:url={server.url},model=right,batch=16,requests=1"
        board = session(tmp_path).run(spec, "quick-sts,quick-simlex")
        assert all("out of credit" in failure.reason for failure in board.failures)
        assert len(board.failures) == 2
        state["answer"] = right
        board = session(tmp_path).run(spec, "quick-sts,quick-simlex")
        assert not board.failures
        scores = [result.main_score for result in board.results]
        n_requests = len(server.requests)
        again = session(tmp_path).run(spec, "quick-sts,quick-simlex")
        assert [result.main_score for result in again.results] == scores
        assert len(server.requests) == n_requests + 3  # the reference texts

        # Another model behind the same name is another encoder.
        state["answer"] = lambda texts, number: Reply(embeddings(texts, "wrong"))
        other = session(tmp_path).run(spec, "quick-sts")
        assert [result.main_score for result in other.results] != scores[:1]


def test_secret_words_are_in_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "sk-very-secret-7")
    with serving(right) as server:
        spec = f"endpoint:url={server.url},model=right,key_env=MY_KEY"
        session(tmp_path).run(spec, "quick-sts")
    files = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert files
    assert not [file for file in files if b"very-secret" in file.read_bytes()]


def test_revisions_are_refused() -> None:
    with pytest.raises(UsageError, match="no revisions, but is given 'main'"):
        EndpointEncoder(
            parse_spec("endpoint@main:url=http://127.0.0.1/v1,model=x"), EncoderContext()
        )


def test_words_in_context_need_another_encoder() -> None:
    with serving(right) as server, pytest.raises(UsageError, match="word in a text"):
        opened(server.url).encode([TextInput("a cat", spans=((2, 5),))])


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ("model=x", "needs url="),
        ("url=http://127.0.0.1/v1", "needs model="),
        ("url=http://127.0.0.1/v1,model=x,batch=0", "batch=0"),
        ("url=http://127.0.0.1/v1,model=x,requests=-1", "requests=-1"),
        ("url=http://127.0.0.1/v1,model=x,key=abc", "key of endpoint"),
    ],
)
def test_wrong_keys_of_the_spec_are_refused(keys: str, message: str) -> None:
    plugins = load_plugins(discover=False)
    plugins.add(mirrorbench_endpoint, "endpoint")
    with pytest.raises(UsageError, match=re.escape(message)):
        plugins.encoders["endpoint"](parse_spec(f"endpoint:{keys}"), EncoderContext(offline=True))
