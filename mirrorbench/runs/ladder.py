"""The rows of a table that an encoder argument stands for: a backbone's ladder, and its baselines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from mirrorbench.core.errors import MirrorbenchError, UsageError, unknown_name
from mirrorbench.core.plugins import Plugins
from mirrorbench.core.specs import EncoderSpec, Value
from mirrorbench.models import backbones, sentence_transformer_files
from mirrorbench.models.pooling import ROLES, own_prompts
from mirrorbench.models.transformations import CORPUS_KEYS, POST_KEYS, split_post
from mirrorbench.runs.backbone_files import BackboneFiles, has_models_by_language
from mirrorbench.training.recipes import OUTSIDE_KEYS, RECIPE_KEYS

POOLING_KEYS = ("pooling", "layers", "max_length", "prompt", "attention", "normalize")

# What a bare backbone stands for: the rows of the papers' tables, from worst to best.
Ladder = tuple[tuple[str, dict[str, Value]], ...]
_WHOLE_TEXTS: Ladder = (("base", {"pooling": "cls"}), ("base", {"pooling": "mean"}), ("mirror", {}))
LADDERS: dict[str, Ladder] = {
    "sentence": _WHOLE_TEXTS,
    "phrase": _WHOLE_TEXTS,
    "word": _WHOLE_TEXTS,
    # Paper 2, Table 3 compares a sentence encoder with encoders of words; what it gains is over the mean of a sentence.
    "wic": (
        ("base", {"pooling": "target", "layers": "-4:"}),
        ("base", {"pooling": "mean"}),
        ("mirror", {}),
        ("mirrorwic", {}),
    ),
}


PAIRS, SINGLE, IN_CONTEXT = "pairs", "mirror", "mirrorwic"
"""Default methods for pairs, for texts, and for texts at the level of words in context."""

_WHITENED = 256
"""Dimensions that whitening keeps among baselines (Su et al. 2021); of models without more, all that vary."""


def expand_ladder(
    spec: EncoderSpec,
    level: str,
    plugins: Plugins,
    protocol: str = "paper",
    files: BackboneFiles | None = None,
) -> tuple[EncoderSpec, ...]:
    """Return the rows that one encoder argument stands for on tasks of a level.

    A bare backbone is the papers' ladder: untuned at [CLS], untuned mean, tuned. Exceptions: a short name of a text
    encoder has one untuned row, with its own pooling; a preset of Mirror with other layers adds an untuned mean row of
    these; a causal model is read at the last token instead of [CLS], where all texts have the same vector. A
    transformation is that of every row.

    One row are encoder systems, specs with a method or a pooling, directories of ``mirrorbench tune``, and models whose
    files of sentence-transformers state their readout.

    Without ``files`` of backbones a ladder is that of a model that is no encoder of texts.

    Raises:
        UsageError: a bare backbone has a key of the tuning, or its name resembles a short name.
    """
    if _is_single(spec, plugins):
        split_post(spec)
        return (spec,)
    _check_readout_keys(spec, plugins)
    own = sentence_transformer_files.own_readout(spec)
    if spec.get("pooling") == "mean-padded":
        own.pop("max_length", None)  # it would pad to that
    readout = {**own, **backbones.backbone_of(spec).readout}
    causal = False
    if files and not readout and spec.get("pooling") is None and not has_models_by_language(spec):
        try:
            readout = files.stated_keys(spec)
            causal = files.family(files.locate(spec)).traits.causal
        except sentence_transformer_files.NoPoolingError:
            return expand_ladder(
                sentence_transformer_files.as_system(spec), level, plugins, protocol
            )
        except MirrorbenchError:
            pass  # reported where the rows are planned
    if any(readout.get(key) != value for key, value in spec.params if key not in POST_KEYS):
        readout.pop("post", None)  # it is of vectors that are read as the directory says
    if readout or spec.get("pooling") is not None:
        return (spec.with_method("base").with_params(**{**readout, **dict(spec.params)}),)
    return tuple(dict.fromkeys(_rows(spec, level, protocol, causal)))


def _is_single(spec: EncoderSpec, plugins: Plugins) -> bool:
    """Whether a spec is an encoder system or names a method; raises ``UsageError`` where its names are unknown."""
    if spec.backbone in plugins.encoders:
        if spec.method:
            raise UsageError(
                f"{spec}: {spec.backbone} is a complete encoder, not a backbone, and takes no method"
            )
        return True
    backbones.check_name(spec, plugins.encoders.names())
    if spec.method:
        plugins.methods.entry(spec.method)
    return bool(spec.method)


def _check_readout_keys(spec: EncoderSpec, plugins: Plugins) -> None:
    """Raise ``UsageError`` where a bare backbone has a key that is not of its readout."""
    _, post = split_post(spec)
    for key, _ in spec.params:
        if key in (*POOLING_KEYS, *POST_KEYS) or (post and key in CORPUS_KEYS):
            continue
        if key in RECIPE_KEYS or key in OUTSIDE_KEYS or key in plugins.augmentations:
            raise UsageError(
                f"{spec}: {key} belongs to a tuning, and this spec names none",
                f"Write {spec.with_method('mirror')}",
            )
        known = dict.fromkeys(
            (*POOLING_KEYS, *POST_KEYS, *RECIPE_KEYS, *plugins.augmentations.names())
        )
        raise unknown_name("encoder spec key", key, list(known))


def _rows(spec: EncoderSpec, level: str, protocol: str, causal: bool) -> Iterator[EncoderSpec]:
    """Return the ladder of a bare backbone."""
    known = backbones.backbone_of(spec)
    made, mirror_layers = known.pooling, known.preset("mirror", "sentence").get("layers")
    for method, params in LADDERS[level]:
        if made and params.get("pooling") in ("cls", "mean"):
            params = {"pooling": made}
        elif causal and params.get("pooling") == "cls":
            params = {"pooling": "last"}
        pooling = str(params.get("pooling", ""))
        of_protocol = {"pooling": padded(pooling, protocol)} if pooling else {}
        row = spec.with_method(method).with_params(**{**params, **of_protocol})
        yield row
        if pooling == "mean" and mirror_layers and spec.get("layers") is None:
            yield row.with_params(layers=mirror_layers)


def padded(pooling: str, protocol: str) -> str:
    """Return a pooling under a protocol: under ``released``, ``mean`` is ``mean-padded``, over padding too."""
    return "mean-padded" if (pooling, protocol) == ("mean", "released") else pooling


def untuned_row(spec: EncoderSpec, plugins: Plugins, files: BackboneFiles) -> EncoderSpec:
    """Return the row of a spec on own data: a bare backbone is its untuned row, read as the model's files say.

    A model with prompts of its own for queries or documents is read by sentence-transformers (``sbert``).
    """
    row, *others = expand_ladder(spec, "sentence", plugins, files=files)
    if spec.method or row.backbone in plugins.encoders:
        return row
    try:
        folder = files.locate(spec)
    except MirrorbenchError:  # reported where the row is planned
        return row
    if not spec.params and any(own_prompts(folder).get(name) for name in ROLES):
        return sentence_transformer_files.as_system(spec)
    keys = (
        sentence_transformer_files.keys_of_files(spec, folder) if others else {}
    )  # of a short name
    return spec.with_method("base").with_params(**keys | dict(spec.params)) if others else row


def with_baselines(
    spec: EncoderSpec,
    ladder: Sequence[EncoderSpec],
    level: str,
    plugins: Plugins,
    dimensions: int = 0,
) -> tuple[EncoderSpec, ...]:
    """Return a backbone's ladder with further rows that need no labels: untrained ones, then tuned ones.

    Added are the untuned mean row (at level ``wic`` the target row) whitened, without its top components and z-scored;
    each tuned row whitened; static vectors of Mirror's layers; and methods registered as baselines. ``dimensions``: of
    the backbone's vectors, 0 if not known.
    """
    plain = [row for row in ladder if not plugins.methods[row.method].tunes]
    tuned, mean = ladder[len(plain) :], plain[-1]
    read = plain[0] if level == "wic" else mean
    methods = [entry.value for entry in plugins.methods if entry.value.baseline]
    layers = {"layers": mean.get("layers")} if mean.get("layers") is not None else {}
    static = [
        replace(spec, method=method.name, params=()).with_params(**layers)
        for method in methods
        if method.create
    ]
    baselines = [spec.with_method(method.name) for method in methods if not method.create]
    whitened: dict[str, Value] = {"post": "whiten"} | (
        {} if 0 < dimensions <= _WHITENED else {"whiten": _WHITENED}
    )
    posts: tuple[dict[str, Value], ...] = (
        whitened,
        {"post": "abtt", "abtt": 3},
        {"post": "zscore"},
    )
    transformed = [read.with_params(**post) for post in posts]
    rows = (
        *plain,
        *transformed,
        *static,
        *tuned,
        *(row.with_params(**whitened) for row in tuned),
        *baselines,
    )
    return tuple(sorted(rows, key=lambda row: place_of_row(row, level, plugins)))


def with_pairs(rows: Sequence[EncoderSpec], plugins: Plugins) -> tuple[EncoderSpec, ...]:
    """Return the rows of a ladder for a corpus of pairs, on which the tuned rows are tuned."""
    return tuple(
        dict.fromkeys(
            row.with_method(PAIRS) if plugins.methods[row.method].tunes else row for row in rows
        )
    )


def place_of_row(spec: EncoderSpec, level: str, plugins: Plugins) -> tuple[int, ...]:
    """Return the place of a row among those of its backbone on tasks of a level, as a key to sort by.

    By method, those that tune nothing first; without a transformation first; poolings as in the ladder; those with
    fewer keys first.
    """

    def place(name: Value | None, names: Sequence[Value | None]) -> int:
        return names.index(name) if name in names else len(names)

    poolings = [params.get("pooling") for _, params in LADDERS.get(level, ())]
    pooling = "cls" if (own := spec.get("pooling")) == "last" else str(own).removesuffix("-padded")
    methods = [entry.name for entry in sorted(plugins.methods, key=lambda entry: entry.value.tunes)]
    posts = (None, "whiten", "abtt", "zscore")
    return (
        place(spec.method, methods),
        place(spec.get("post"), posts),
        place(pooling, poolings),
        len(spec.params),
    )
