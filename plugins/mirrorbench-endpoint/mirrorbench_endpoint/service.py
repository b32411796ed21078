"""Requests to a server: batches, retries, and the server's answers as vectors."""

from __future__ import annotations

import os
import re
import ssl
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import openai
from numpy.typing import NDArray

from mirrorbench.plugin import EncodingError, ModelUnavailableError, UsageError
from mirrorbench_endpoint.address import Address

Vectors = NDArray[np.float32]

RETRIES = 5
"""How often a request is sent again after 408, 409, 429, 5xx or a lost connection, each time after a longer pause."""
CONNECT_SECONDS = 10.0
"""Seconds to wait for a connection."""
_REFUSED = (400, 413, 422)
"""Status codes of a request that is too large: for its number of texts, or for the length of one."""
_NO_LIST = (400, 401, 403, 404, 405, 501)
"""Status codes of a server without a list of models, or whose key does not open it."""


class RefusedError(Exception):
    """The server refused the texts of a request, which may be too many or too long."""


@dataclass(frozen=True)
class Answer:
    """The answer to a request.

    Attributes:
        vectors: shape (texts, dimensions).
        tokens: number of tokens that the server read; ``None`` if it does not state it.
    """

    vectors: Vectors
    tokens: int | None


class Service:
    """A model of a server with an OpenAI-compatible ``/embeddings``.

    Args:
        address: the server's address.
        model: name of the model on the server.
        key_env: name of the environment variable that holds the key; empty for a server without keys.
        n_requests: number of requests at a time.
        timeout: seconds to wait for an answer.

    Raises:
        UsageError: the environment has no such variable.
    """

    def __init__(
        self, address: Address, model: str, key_env: str, n_requests: int, timeout: float
    ) -> None:
        self.address = address
        self.model = model
        self._key = ""
        if key_env:
            self._key = _key_in(key_env)
        self._n_requests = n_requests
        self._client = _client(address, self._key, timeout)
        self._lock = threading.Lock()
        self._dimensions: int | None = None
        self._counted_tokens = 0
        self._counted_characters = 0

    def stated(self) -> dict[str, Any]:
        """Return what the server says of the model in its list; empty if it has no list, or says nothing.

        Raises:
            ModelUnavailableError: there is no server, or it lists other models alone.
        """
        try:
            listed = {str(entry.id): entry.to_dict() for entry in self._client.models.list()}
        except openai.APIStatusError as error:
            # A fault that passes must not change the identity of the model.
            if error.status_code not in _NO_LIST:
                raise self._error(error) from None
            return {}
        except openai.APIConnectionError as error:
            raise self._error(error) from None
        except (openai.APIError, ValueError, TypeError, AttributeError):
            return {}
        values = listed.get(self.model)
        if values is not None:
            return {key: values[key] for key in ("root", "max_model_len") if values.get(key)}
        # Servers of one model, such as llama.cpp, accept any name; others refuse an unknown one when asked.
        return {"listed": list(listed)} if len(listed) == 1 else {}

    def embed(self, batches: Sequence[Sequence[str]]) -> list[Answer | RefusedError]:
        """Return the answer to each batch, or that it was refused, in their order; several are sent at a time.

        Raises:
            EncodingError: an answer is not one vector for each text, or a request failed for good.
            ModelUnavailableError: there is no server.
        """
        if len(batches) == 1:
            return [self._ask(batches[0])]
        with ThreadPoolExecutor(self._n_requests) as pool:
            return list(pool.map(self._ask, batches))

    @property
    def tokens(self) -> int | None:
        """Number of tokens of all texts so far; ``None`` if the server states none, or numbers of characters."""
        if self._counted_tokens in (0, self._counted_characters):
            return None
        return self._counted_tokens

    def _ask(self, texts: Sequence[str]) -> Answer | RefusedError:
        try:
            response = self._client.embeddings.create(input=list(texts), model=self.model)
        except openai.APIStatusError as error:
            if error.status_code in _REFUSED:
                return RefusedError(self._message_of(error))
            raise self._error(error) from None
        except (openai.APIError, ValueError, TypeError, AttributeError) as error:
            raise self._error(error) from None
        vectors = self._vectors_in(response, len(texts))
        tokens = getattr(response.usage, "prompt_tokens", None)
        if not isinstance(tokens, int) or tokens <= 0:
            tokens = None
        if tokens is not None:
            with self._lock:
                self._counted_tokens += tokens
                self._counted_characters += sum(map(len, texts))
        return Answer(vectors, tokens)

    def _vectors_in(self, response: Any, n: int) -> Vectors:
        """Return the vectors of an answer in the order of its indices."""
        entries = response.data or []
        rows: dict[float, Any] = {}
        for entry in entries:
            index = getattr(entry, "index", None)
            if isinstance(index, int | float):
                rows[index] = entry.embedding
        if len(entries) != n or sorted(rows) != list(range(n)):
            raise EncodingError(
                f"{self.address.host} returned {len(entries)} vectors with the indices "
                f"{sorted(rows)[:3]}... for {n} texts",
                "The server must return one vector for each text, with its index.",
            )
        lengths = {len(row) for row in rows.values() if isinstance(row, list)}
        if len(lengths) > 1:
            raise EncodingError(
                f"{self.address.host} returned vectors of {', '.join(map(str, sorted(lengths)))} dimensions in one answer"
            )
        try:
            # A number that is too large becomes infinite.
            with np.errstate(over="ignore"):
                vectors = np.array([rows[index] for index in range(n)], dtype=np.float32)
        except (TypeError, ValueError, OverflowError):
            vectors = np.empty(0, dtype=np.float32)
        if vectors.ndim != 2 or not vectors.size:
            raise EncodingError(
                f"{self.address.host} returned something else than a vector of numbers",
                "Look at the server's log.",
            )
        if not np.isfinite(vectors).all():
            raise EncodingError(f"{self.address.host} returned vectors that are not finite numbers")
        n_dimensions = vectors.shape[1]
        with self._lock:
            if self._dimensions is None:
                self._dimensions = n_dimensions
        if n_dimensions != self._dimensions:
            raise EncodingError(
                f"{self.address.host} returned vectors of {n_dimensions} dimensions, and of {self._dimensions} before"
            )
        return vectors

    def _message_of(self, error: BaseException) -> str:
        """Return the server's words on an error in one line, without the key."""
        body = getattr(error, "body", None)
        # Some servers answer {"detail": "..."} or {"error": "..."}.
        message = (body.get("message") or body.get("detail")) if isinstance(body, dict) else body
        return " ".join(self._without_key(str(message or error)).split())[:300]

    def _without_key(self, text: str) -> str:
        return re.sub(re.escape(self._key), "...", text, flags=re.IGNORECASE) if self._key else text

    def _error(self, error: Exception) -> Exception:
        """Return the error for a request that failed for good."""
        host = self.address.host
        if isinstance(error, openai.APITimeoutError):
            return ModelUnavailableError(
                f"{host} did not answer in time",
                "Run it again, or wait longer: timeout=600 in the encoder spec.",
            )
        if isinstance(error, openai.APIConnectionError):
            reason = error.__cause__ or error
            return ModelUnavailableError(
                f"no answer from {self.address.url}: {self._message_of(reason)}",
                "Start the server, or correct url= in the encoder spec; the same command then goes on.",
            )
        if isinstance(error, openai.APIStatusError):
            return self._status_error(error)
        return EncodingError(
            f"{host} gave an answer that is not one of /embeddings: {type(error).__name__}: "
            f"{self._message_of(error)}",
            "The address must be that of an OpenAI-compatible API, most often ending in /v1.",
        )

    def _status_error(self, error: openai.APIStatusError) -> Exception:
        """Return the error for an answer with a status that says that there are no vectors."""
        host = self.address.host
        code = error.status_code
        words = f"{host} answered {code}: {self._message_of(error)}"
        if 300 <= code < 400:
            target = _host_in(self._without_key(error.response.headers.get("location", "")))
            return ModelUnavailableError(
                f"{host} answered {code}: it sends requests on to {target or 'another path'}, which is not followed",
                "Name the server itself in url=.",
            )
        if code in (401, 403):
            return ModelUnavailableError(
                words,
                "Name the environment variable with the key: key_env=NAME in the encoder spec.",
            )
        if code == 404:
            return ModelUnavailableError(words, "Check model= and url= in the encoder spec.")
        if code == 429:
            return ModelUnavailableError(
                words,
                "Wait and run it again: what is computed is kept. Fewer at a time: requests=1.",
            )
        return ModelUnavailableError(
            words, "Look at the server's log, and run it again: what is computed is kept."
        )


def _host_in(location: str) -> str:
    """Return the host that a redirect leads to; empty without one."""
    try:
        return urlsplit(location).hostname or ""
    except ValueError:
        return ""


def _key_in(variable: str) -> str:
    """Return the key that a variable of the environment holds."""
    if not variable.isidentifier():
        # It is not quoted: it may be the key itself.
        raise UsageError(
            "key_env= is not the name of a variable of the environment",
            "Put the key into a variable, and name that: key_env=NAME",
        )
    key = os.environ.get(variable, "").strip()
    if not key:
        raise UsageError(
            f"the environment has no variable {variable}, which key_env= names",
            f"Set it: export {variable}=...",
        )
    if not (key.isascii() and key.isprintable()):
        # The client would quote it in its message.
        raise UsageError(
            f"the key in {variable} has characters that cannot be sent, such as line breaks",
            f"Set it again: export {variable}=...",
        )
    return key


def _client(address: Address, key: str, timeout: float) -> openai.OpenAI:
    """Return the client of a server, which takes nothing but proxies and certificates from the environment."""
    try:
        http_client = openai.DefaultHttpxClient(
            follow_redirects=False,
            trust_env=False,
            proxy=address.proxy,
            verify=ssl.create_default_context(),
        )
    except (ValueError, ImportError):
        # The proxy is not quoted: it may have a password in it.
        raise UsageError(
            f"the environment names a proxy for {address.host} that cannot be used",
            "Correct HTTPS_PROXY, HTTP_PROXY or ALL_PROXY, or name the host in NO_PROXY. A SOCKS proxy needs: "
            "pip install 'httpx[socks]'",
        ) from None
    client = openai.OpenAI(
        base_url=address.url,
        api_key=key or "none",
        max_retries=RETRIES,
        timeout=openai.Timeout(timeout, connect=CONNECT_SECONDS),
        http_client=http_client,
    )
    # The client reads them from variables of OpenAI, which are not meant for other servers.
    client.organization = None
    client.project = None
    return client
