"""The rows of a table that an encoder argument stands for: a backbone's ladder, and its baselines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from mirrorbench.core.errors import MirrorbenchError, UnknownNameError, UsageError, unknown_name
from mirrorbench.core.plugins import Plugins
from mirrorbench.core.specs import EncoderSpec, Value
from mirrorbench.models import backbones, sentence_transformer_files
from mirrorbench.models.pooling import ROLES, stored_prompts
from mirrorbench.models.transformations import CORPUS_KEYS, POST_KEYS, split_post
from mirrorbench.runs.backbone_files import BackboneFiles, has_models_by_language
from mirrorbench.training.recipes import OUTSIDE_KEYS, RECIPE_KEYS

POOLING_KEYS = ("pooling", "layers", "max_length", "prompt", "attention", "normalize")

# The rows of the papers' tables that a bare backbone stands for, from worst to best: method and keys of each.
Ladder = tuple[tuple[str, dict[str, Value]], ...]
_WHOLE_TEXTS: Ladder = (("base", {"pooling": "cls"}), ("base", {"pooling": "mean"}), ("mirror", {}))
LADDERS: dict[str, Ladder] = {
    "sentence": _WHOLE_TEXTS,
    "phrase": _WHOLE_TEXTS,
    "word": _WHOLE_TEXTS,
    # Paper 2, Table 3 also tunes a sentence encoder, whose gain is measured against the untuned mean of the sentence.
    "wic": (
        ("base", {"pooling": "target", "layers": "-4:"}),
        ("base", {"pooling": "mean"}),
        ("mirror", {}),
        ("mirrorwic", {}),
    ),
}


PAIRS_METHOD = "pairs"
"""Default method for a corpus of pairs."""
TEXTS_METHOD = "mirror"
"""Default method for a corpus of texts."""
CONTEXT_METHOD = "mirrorwic"
"""Default method for a corpus of texts at the level of words in context."""

_WHITENED = 256
"""Dimensions that whitening keeps in baselines (Su et al. 2021); models with no more dimensions keep all that vary."""
_POSTS = (None, "whiten", "abtt", "zscore")
"""Transformations of rows in their order; ``None`` for rows without one."""


def expand_ladder(
    spec: EncoderSpec,
    level: str,
    plugins: Plugins,
    protocol: str = "paper",
    files: BackboneFiles | None = None,
) -> tuple[EncoderSpec, ...]:
    """Return the rows that one encoder argument stands for on tasks of a level.

    A bare backbone stands for the papers' ladder: untuned at [CLS], untuned mean, tuned. Exceptions: a short name of a
    text encoder has one untuned row, with its own pooling; if Mirror's preset for the backbone reads other layers, an
    untuned mean row of these layers is added; a causal model is read at the last token instead of [CLS], where all
    texts have the same vector. A transformation applies to every row.

    Encoder systems, specs with a method or a pooling, directories of ``mirrorbench tune``, and models whose files of
    sentence-transformers state their readout stand for a single row.

    With ``files``, a backbone's files are fetched if they are missing. Without, assume that they state no readout.

    Raises:
        UsageError: a bare backbone has a key of the tuning, or its name resembles a short name.
    """
    if _is_single_row(spec, plugins):
        split_post(spec)  # checks its keys
        return (spec,)
    _check_readout_keys(spec, plugins)
    pooling = spec.get("pooling")

    # The readout of a directory of ``tune`` or of a short name, or else the one that the files of the model state.
    readout = _described_readout(spec)
    is_causal = False
    if files and not readout and pooling is None and not has_models_by_language(spec):
        try:
            readout = files.stated_keys(spec)
            is_causal = files.family(files.locate(spec)).traits.causal
        except sentence_transformer_files.NoPoolingError:
            # sentence-transformers itself must read it: an encoder system, and so a single row.
            system = sentence_transformer_files.as_sbert_spec(spec)
            return expand_ladder(system, level, plugins, protocol)
        except MirrorbenchError:
            pass  # reported where the rows are planned

    # The transformation (``post``) of a directory of ``tune`` was fitted on vectors with exactly this readout, so it is
    # left out if the spec changes a key.
    changes_readout = any(
        readout.get(key) != value for key, value in spec.params if key not in POST_KEYS
    )
    if changes_readout:
        readout.pop("post", None)
    # A readout, also one that the spec gives by a pooling, makes a single row. Keys of the spec replace its values.
    if readout or pooling is not None:
        row = spec.with_method("base").with_params(**{**readout, **dict(spec.params)})
        return (row,)
    return tuple(dict.fromkeys(_rows(spec, level, protocol, is_causal)))


def _described_readout(spec: EncoderSpec) -> dict[str, Value]:
    """Return the readout of a directory of ``mirrorbench tune`` or of a short name; empty for other backbones."""
    readout = dict(sentence_transformer_files.stored_readout(spec))
    if spec.get("pooling") == "mean-padded":
        readout.pop("max_length", None)  # texts would be padded to that length
    readout.update(backbones.backbone_of(spec).readout)
    return readout


def _is_single_row(spec: EncoderSpec, plugins: Plugins) -> bool:
    """Return whether a spec is an encoder system or names a method.

    Raises:
        UsageError: a name is unknown, or an encoder system has a method.
    """
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
    """Raise a ``UsageError`` if a bare backbone has a key that does not belong to its readout."""
    _, post = split_post(spec)
    for key, _ in spec.params:
        if key in (*POOLING_KEYS, *POST_KEYS) or (post and key in CORPUS_KEYS):
            continue
        if key in RECIPE_KEYS or key in OUTSIDE_KEYS or key in plugins.augmentations:
            raise UsageError(
                f"{spec}: {key} belongs to a tuning, and this spec names none",
                f"Write {spec.with_method('mirror')}",
            )
        name = spec.backbone
        if name not in backbones.BACKBONES and not spec.is_path and "/" not in name:
            raise UnknownNameError(
                f"no encoder {name!r} is installed, and a model of the hub has no key {key!r}",
                "An encoder of a package comes with it: pip install mirrorbench-NAME; those that are installed: "
                "mirrorbench list encoders",
            )
        names = [*POOLING_KEYS, *POST_KEYS, *RECIPE_KEYS, *plugins.augmentations.names()]
        raise unknown_name("encoder spec key", key, list(dict.fromkeys(names)))


def _rows(spec: EncoderSpec, level: str, protocol: str, is_causal: bool) -> Iterator[EncoderSpec]:
    """Yield the rows of a bare backbone's ladder, perhaps with repeats."""
    backbone = backbones.backbone_of(spec)
    mirror_layers = backbone.preset("mirror", "sentence").get("layers")
    for method, keys in LADDERS[level]:
        params = dict(keys)
        pooling = str(params.get("pooling", ""))
        if backbone.pooling and pooling in ("cls", "mean"):
            pooling = backbone.pooling
        elif is_causal and pooling == "cls":
            pooling = "last"
        if pooling:
            params["pooling"] = padded(pooling, protocol)
        row = spec.with_method(method).with_params(**params)
        yield row
        if pooling == "mean" and mirror_layers and spec.get("layers") is None:
            yield row.with_params(layers=mirror_layers)


def padded(pooling: str, protocol: str) -> str:
    """Return a pooling under a protocol: under ``released``, ``mean`` is ``mean-padded``, over padding too."""
    if pooling == "mean" and protocol == "released":
        return "mean-padded"
    return pooling


def untuned_row(spec: EncoderSpec, plugins: Plugins, files: BackboneFiles) -> EncoderSpec:
    """Return the row that an encoder argument stands for on the user's own data, on which nothing is tuned by default.

    A spec without a method stands for the untuned backbone, read as its files state; they are fetched if they are
    missing. If the spec has no keys either, and the files hold prompts for queries or documents, sentence-transformers
    reads the model (``sbert``). Any other spec stands for itself.
    """
    ladder = expand_ladder(spec, "sentence", plugins, files=files)
    row = ladder[0]
    if spec.method or row.backbone in plugins.encoders:
        return row
    try:
        folder = files.locate(spec)
    except MirrorbenchError:  # planning the row reports it
        return row
    if not spec.params:
        prompts = stored_prompts(folder)
        if any(prompts.get(role) for role in ROLES):
            return sentence_transformer_files.as_sbert_spec(spec)
    # A single row already has the pooling of the spec, or what the files of a directory or hub id state.
    if len(ladder) == 1:
        return row
    # Several rows: a backbone whose files state no readout, so that there are no keys, or a short name, whose files the
    # ladder does not read, since they count only on a user's own data.
    keys = sentence_transformer_files.keys_of_files(spec, folder)
    return spec.with_method("base").with_params(**{**keys, **dict(spec.params)})


def with_baselines(
    spec: EncoderSpec,
    ladder: Sequence[EncoderSpec],
    level: str,
    plugins: Plugins,
    dimensions: int = 0,
) -> tuple[EncoderSpec, ...]:
    """Return a backbone's ladder with further rows that need no labels, in the order of ``row_sort_key``.

    Added are the untuned mean row (at level ``wic`` the target row) whitened, without its top components, and z-scored;
    each tuned row whitened; and a row for each method that is registered as a baseline, such as ``static``, which reads
    the same layers as the mean row.

    ``dimensions``: number of dimensions of the backbone's vectors; 0 if it is not known.
    """
    untuned = [row for row in ladder if not plugins.methods[row.method].tunes]
    tuned = [row for row in ladder if plugins.methods[row.method].tunes]
    rows = list(ladder)

    # Whiten to _WHITENED dimensions, or to all that vary if the vectors have no more.
    whitening: dict[str, Value] = {"post": "whiten"}
    if not 0 < dimensions <= _WHITENED:
        whitening["whiten"] = _WHITENED
    mean_row = untuned[-1]  # the last one, perhaps of other layers
    transformed_row = untuned[0] if level == "wic" else mean_row
    rows.append(transformed_row.with_params(**whitening))
    rows.append(transformed_row.with_params(post="abtt", abtt=3))
    rows.append(transformed_row.with_params(post="zscore"))
    rows += [row.with_params(**whitening) for row in tuned]

    layers = mean_row.get("layers")
    for entry in plugins.methods:
        method = entry.value
        if not method.baseline:
            continue
        row = spec.with_method(method.name)
        if method.create:
            # The method has keys of its own, so those of the spec do not apply, but it may read the same layers.
            row = replace(row, params=())
            if layers is not None:
                row = row.with_params(layers=layers)
        rows.append(row)
    return tuple(sorted(rows, key=lambda row: row_sort_key(row, level, plugins)))


def with_pairs(rows: Sequence[EncoderSpec], plugins: Plugins) -> tuple[EncoderSpec, ...]:
    """Return the rows of a ladder for a corpus of pairs: tuned rows get the method ``pairs``, equal rows are one."""
    rows_on_pairs = []
    for row in rows:
        if plugins.methods[row.method].tunes:
            row = row.with_method(PAIRS_METHOD)
        rows_on_pairs.append(row)
    return tuple(dict.fromkeys(rows_on_pairs))


def row_sort_key(spec: EncoderSpec, level: str, plugins: Plugins) -> tuple[int, ...]:
    """Return the key by which the rows of a backbone are sorted on tasks of a level.

    Rows are sorted by method, those that tune nothing first; then by transformation, those without one first; then by
    pooling, as in the ladder; then by the number of keys.
    """
    methods = [entry.name for entry in sorted(plugins.methods, key=lambda entry: entry.value.tunes)]
    pooling = str(spec.get("pooling")).removesuffix("-padded")
    if pooling == "last":  # stands for [CLS] in the ladders of causal models
        pooling = "cls"
    poolings = [params.get("pooling") for _, params in LADDERS.get(level, ())]
    return (
        _index(spec.method, methods),
        _index(spec.get("post"), _POSTS),
        _index(pooling, poolings),
        len(spec.params),
    )


def _index(name: Value | None, names: Sequence[Value | None]) -> int:
    """Return the place of a name among names; those that are not among them come last."""
    return names.index(name) if name in names else len(names)
