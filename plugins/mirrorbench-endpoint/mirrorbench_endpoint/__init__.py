"""Encoders behind an address: models that a server with an OpenAI-compatible ``/embeddings`` returns vectors of.

``endpoint:url=http://localhost:8000/v1,model=NAME`` names one. The client of openai is imported when such an encoder is
opened.
"""

from __future__ import annotations

from mirrorbench.plugin import Encoder, EncoderContext, EncoderSpec, Register, hookimpl

KEYS = {
    "url": str,
    "model": str,
    "key_env": str,
    "prompt": str,
    "batch": int,
    "requests": int,
    "timeout": float,
}
"""Keys of the spec, with their types; ``mirrorbench_endpoint.encoder`` describes them."""


@hookimpl
def register_encoders(register: Register) -> None:
    """Register the encoder ``endpoint``."""
    register(
        "endpoint",
        open_endpoint,
        "a model behind an address: endpoint:url=http://HOST:PORT/v1,model=NAME",
        keys=KEYS,
    )


def open_endpoint(spec: EncoderSpec, context: EncoderContext) -> Encoder:
    """Open the encoder of a spec, which asks the server for nothing yet."""
    from mirrorbench_endpoint.encoder import EndpointEncoder

    return EndpointEncoder(spec, context)
