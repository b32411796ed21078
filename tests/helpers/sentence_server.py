"""A server around sentence-transformers with an OpenAI-compatible API: ``python sentence_server.py MODEL PORT [KEY]``."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import uvicorn
from fastapi import FastAPI, Header, HTTPException
from pydantic import BaseModel
from sentence_transformers import SentenceTransformer

PATH, PORT, KEY = sys.argv[1], int(sys.argv[2]), "".join(sys.argv[3:])
model = SentenceTransformer(PATH, device="cpu")
app = FastAPI()


class Asked(BaseModel):
    input: list[str]
    model: str


@app.get("/v1/models")
def models() -> dict[str, Any]:
    return {"data": [{"id": "minilm", "object": "model", "max_model_len": model.max_seq_length}]}


@app.post("/v1/embeddings")
def embeddings(asked: Asked, authorization: Annotated[str, Header()] = "") -> dict[str, Any]:
    if KEY and authorization != f"Bearer {KEY}":
        raise HTTPException(401, "wrong key")
    vectors = model.encode(asked.input).tolist()
    data = [{"object": "embedding", "index": i, "embedding": v} for i, v in enumerate(vectors)]
    lengths = model.tokenizer(asked.input, truncation=True, max_length=model.max_seq_length)
    usage = {"prompt_tokens": sum(map(len, lengths["input_ids"]))}
    usage["total_tokens"] = usage["prompt_tokens"]
    return {"object": "list", "model": asked.model, "data": data, "usage": usage}


if __name__ == "__main__":
    uvicorn.run(app, host="127.0.0.1", port=PORT, log_level="warning")
