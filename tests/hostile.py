"""Hostile inputs drawn from a seed, with commands that read them: archives, texts, models, results, predictions."""

from __future__ import annotations

import gzip
import io
import json
import shutil
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import samples

NAMES = (
    ".", "..", "a/..", "", "/etc/x", "../x", "x" * 300, "a\\b", "a\nb", "a\x1b[31mb", "con", "d/" * 500 + "f",
    "ä\u202e", "dev.tsv", "am2ico-de/dev.tsv", "am2ico-de/test.tsv", "STS.gs.ALL.txt", ".hidden", "a b",
)  # fmt: skip
"""Names of members of archives and of files."""
VALUES: tuple[Any, ...] = (
    None, True, 0, -1, 10**30, 1e308, float("nan"), float("inf"), "", "x" * 5000, "\ud800", "\x1b]0;x\x07", "[red]", [],
    [[]], {}, {"a": {"b": []}}, "mean", "../../x", 17.3, "2020-01-01", "0",
)  # fmt: skip
"""Values that stand in JSON where others are expected."""
TEXTS = (
    b"", b"\n", b"\xff\xfe", b"\0", b"a||b\n", b"a\tb\n", b"text,label\na,1\n", b'"open\n', b"[word] in text\n",
    b"[a\n", "\ufefftext\n".encode(), b"a\rb\r", b"\x1b[2Jclear\n", b"line\n" * 40, b"one two\nthree four\nfive six\n",
    b"x" * 100_000, b"9" * 5000 + b"\n", b'{"text": "a", "s": 0, "e": 1}\n', b'{"text": null}\n', b"{" * 3000,
    b"[" * 90_000,
)  # fmt: skip


@dataclass(frozen=True)
class Scene:
    """The folders that inputs are copied from: a model, and results of toys with their predictions."""

    model: Path
    results: Path


Command = Sequence[str]
Draw = Callable[[Random, Path, Scene], Command]


def mutated(draw: Random, data: bytes) -> bytes:
    """Bytes with some changed, cut out, repeated or put in."""
    changed = bytearray(data)
    for _ in range(draw.randint(1, 4)):
        at, length = draw.randrange(len(changed) + 1), draw.choice((1, 1, 8, 100))
        new = draw.choice(
            (draw.randbytes(length), b"", b"\0" * length, bytes(changed[:length]), draw.choice(TEXTS)[:200])
        )
        changed[at : at + draw.choice((0, length))] = new
    return bytes(changed[: draw.randrange(len(changed) + 1)] if draw.random() < 0.2 else changed)


def altered(draw: Random, value: Any) -> Any:
    """A JSON value with another one, or none, somewhere inside."""
    if not isinstance(value, dict | list) or not value or draw.random() < 0.15:
        return draw.choice(VALUES)
    inner = list(value) if isinstance(value, dict) else list(range(len(value)))
    copy, key = value.copy(), draw.choice(inner)
    if draw.random() < 0.2:
        del copy[key]
    else:
        copy[key] = altered(draw, copy[key])
    return copy


def alter_json(draw: Random, file: Path) -> None:
    """Change a JSON file: values inside, or bytes, or its depth."""
    way = draw.random()
    if way < 0.7:
        file.write_text(json.dumps(altered(draw, json.loads(file.read_text()))))
    elif way < 0.95:
        file.write_bytes(mutated(draw, file.read_bytes()))
    else:
        file.write_text('{"a":' * 3000 + "1" + "}" * 3000)


def archive(draw: Random, folder: Path, scene: Scene) -> Command:
    """A zip or tar archive with odd names, most often damaged."""
    (folder / "in").mkdir()
    sample = draw.choice(list(samples.SAMPLES.values()))
    contents = [*sample.files.values(), *TEXTS]
    members = {draw.choice((*NAMES, *sample.files)): draw.choice(contents) for _ in range(draw.randint(0, 6))}
    kind = draw.choice(("zip", "tgz", "tar", "deb"))
    if kind == "zip":
        stream = io.BytesIO()
        with zipfile.ZipFile(stream, "w") as made:
            for name, content in members.items():
                made.writestr(name or "~", content)
        data = stream.getvalue().replace(b"~", b" ")
    else:
        data = samples.archive(members, "w" if kind != "tgz" else "w:gz")
    (folder / "in" / f"a.{kind}").write_bytes(mutated(draw, data) if draw.random() < 0.7 else data)
    name = draw.choice([name for name in NAMES if name not in (".", "..", "a/..", "") and "/" not in name][2:])
    (folder / "in" / name).write_bytes(draw.choice(contents))
    return "data", "import", "in", "--data-dir", "data"


def text(draw: Random, folder: Path, scene: Scene) -> Command:
    """A file of texts, most often damaged, under one of the commands that read texts."""
    parts = [draw.choice(TEXTS) for _ in range(draw.randint(1, 4))]
    rows = [{"text": draw.choice(VALUES), "s": draw.choice(VALUES), "e": draw.choice(VALUES)} for _ in range(3)]
    parts.append(draw.choice((b"", "".join(json.dumps(row) + "\n" for row in rows).encode())))
    data = b"".join(parts)
    ending = draw.choice((".txt", ".jsonl", ".csv", ".tsv", ".parquet", ".json", "", ".txt.gz", ".csv.gz"))
    file = folder / f"t{ending}"
    if ending.endswith(".gz") and draw.random() < 0.8:
        data = gzip.compress(data)
    file.write_bytes(mutated(draw, data) if draw.random() < 0.5 else data)
    column = draw.choice(
        ((), (), ("-c", "text"), ("-c", "0"), ("-c", "9" * 5000), ("-c", "text,s"), ("-c", "\x1b[31m"))
    )
    model = ("-e", str(scene.model), "--device", "cpu")
    return draw.choice(
        (
            ("encode", file.name, "-e", "letters", *column),
            ("encode", file.name, "-e", "letters", "-w", *column, "-o", "v.npy"),
            ("encode", file.name, "-e", "letters", *column, "--span-columns", draw.choice(("s,e", "0,1", "s", "s,9"))),
            ("tune", file.name, *model, "-o", "out", *column),
            ("run", "-e", f"{scene.model}+mirror:batch_size=8", "-t", "cats", "--corpus", f"./{file.name}"),
            ("data", "overlap", f"./{file.name}", "cats"),
        )
    )


def model(draw: Random, folder: Path, scene: Scene) -> Command:
    """A directory of a model with one of its files changed, missing or new."""
    shutil.copytree(scene.model, folder / "m")
    for name, content in (
        ("mirrorbench.json", '{"spec": "tiny", "pooling": {"name": "mean", "layers": "-1:", "max_length": 64}}'),
        ("modules.json", '[{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"}]'),
        ("adapter_config.json", '{"base_model_name_or_path": "none", "peft_type": "LORA"}'),
    ):
        if draw.random() < 0.25:
            (folder / "m" / name).write_text(content)
    file = draw.choice(sorted((folder / "m").iterdir()))
    if draw.random() < 0.1:
        file.unlink()
    elif file.suffix == ".json":
        alter_json(draw, file)
    else:
        file.write_bytes(mutated(draw, file.read_bytes()))
    (folder / "t.txt").write_bytes(b"a text\nanother text\n" * 3 + b"a third one\na fourth one\n")
    spec = "./m" + draw.choice(("", "+base:pooling=mean", "+mirror:batch_size=4", "+base:pooling=target,layers=-4:"))
    return draw.choice(
        (
            ("encode", "t.txt", "-e", spec, "-o", "v.npy"),
            ("run", "-e", spec, "-t", "cats", "--corpus", "./t.txt"),
            ("run", "-e", spec, "-t", "cats", "--corpus", "./t.txt", "--dry-run"),
            ("tune", "t.txt", "-e", "./m", "-o", "out"),
        )
    )


def result(draw: Random, folder: Path, scene: Scene) -> Command:
    """Results of which one file is changed."""
    shutil.copytree(scene.results, folder / "results")
    alter_json(draw, draw.choice(sorted((folder / "results").rglob("seed-*.json"))))
    return draw.choice(READERS)


def prediction(draw: Random, folder: Path, scene: Scene) -> Command:
    """Results with predictions that are changed or missing."""
    shutil.copytree(scene.results, folder / "results")
    file = draw.choice(sorted((folder / "results").rglob("seed-*.npz")))
    way = draw.random()
    if way < 0.3:
        file.write_bytes(mutated(draw, file.read_bytes()))
    elif way < 0.4:
        file.unlink()
    else:
        with np.load(file) as stored:
            arrays: dict[str, Any] = dict(stored)
        key = draw.choice(sorted(arrays))
        values = arrays[key]
        arrays[key] = draw.choice(
            (values[:1], values[:0], values[None], np.array(3), values.astype(str), values[::-1], np.array([None] * 3),
             np.full(len(values), np.nan), np.concatenate([values, values]), np.array(["\x1b[2J", "", "x" * 999]))
        )  # fmt: skip
        if draw.random() < 0.2:
            del arrays[key]
        np.savez(file, **arrays)
    return draw.choice(READERS)


READERS: tuple[Command, ...] = (
    ("leaderboard", "results"), ("leaderboard", "results", "--intervals", "--ties"),
    ("leaderboard", "results", "--without-overlap"), ("leaderboard", "results", "--format", "json"),
    ("leaderboard", "results", "--format", "html", "-o", "t.html"), ("compare", "letters", "other"),
    ("compare", "letters", "other", "--json"), ("run", "-e", "letters", "-t", "cats,dogs"),
    ("run", "-e", "letters", "-t", "cats,dogs", "--dry-run"),
)  # fmt: skip
"""Commands that read results."""
KINDS: dict[str, Draw] = {"archive": archive, "text": text, "model": model, "result": result, "prediction": prediction}
