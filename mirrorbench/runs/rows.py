"""Rows from specs: the rows of a table, and the recipe of each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from mirrorbench.core.errors import TuningError, UsageError, unknown_name
from mirrorbench.core.plugins import Plugins
from mirrorbench.core.specs import EncoderSpec, Value
from mirrorbench.data.cardfile import builtin_suites
from mirrorbench.data.formats.lines import pairs_of
from mirrorbench.models import backbones
from mirrorbench.models.families import PLAIN, Family, can_checkpoint
from mirrorbench.models.pooling import READ, parse_layers
from mirrorbench.models.transformations import CORPUS_KEYS, POST_KEYS, split_post
from mirrorbench.training.methods import Method
from mirrorbench.training.recipes import OUTSIDE_KEYS, RECIPE_KEYS, Recipe, override

WHOLE_TEXTS = ("cls", "mean", "mean-padded")
"""Poolings of presets in whose place an encoder of texts has its own."""
OF_SBERT = {"sbert", "sapbert"}
"""Backbones whose bare names are encoders of the plugin mirrorbench-sbert."""
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


def expand_tasks(names: Iterable[str], plugins: Plugins) -> tuple[str, ...]:
    """Task names with suites expanded, without repeats, in the order given."""
    suites = builtin_suites()
    tasks: dict[str, None] = {}
    for name in names:
        plugins.tasks.check_left_out(*suites.get(name, [name]))
        if name not in suites and name not in plugins.tasks:
            listing = "mirrorbench list tasks; suites by: mirrorbench list suites"
            raise unknown_name("task or suite", name, [*suites, *plugins.tasks.names()], listing)
        tasks.update(dict.fromkeys(suites.get(name, [name])))
    return tuple(tasks)


def expand_ladder(
    spec: EncoderSpec,
    level: str,
    plugins: Plugins,
    protocol: str = "paper",
    causal: bool = False,
    of_files: Mapping[str, Value] = MappingProxyType({}),
) -> tuple[EncoderSpec, ...]:
    """The rows that one encoder argument stands for on tasks of a level.

    A backbone without a method is the papers' ladder, or one row if it has a ``pooling`` or was written by
    ``mirrorbench tune`` (read as its files say, unless the spec says otherwise). Encoder systems and specs with a
    method are one row. A backbone that is an encoder of texts already has one untuned row, read as it was made to be.
    One whose preset of Mirror reads other layers has a mean row of these too, which differs from Mirror's in the tuning
    alone. A causal one has a row of the last token in place of [CLS], at which every text has the same vector. A
    transformation is that of every row.

    ``of_files``: the keys under which it is read as the files of sentence-transformers beside it say.

    Raises:
        UsageError: a bare backbone has a key of the tuning, or its name resembles a short name.
    """
    if spec.backbone not in backbones.BACKBONES.keys() - OF_SBERT and not (spec.is_path or "/" in spec.backbone):
        plugins.encoders.check_left_out(spec.backbone)
    if spec.backbone in plugins.encoders:
        if spec.method:
            raise UsageError(f"{spec}: {spec.backbone} is an encoder of its own and takes no method")
        split_post(spec)
        return (spec,)
    backbones.check_name(spec, plugins.encoders.names())
    if spec.method:
        plugins.methods.entry(spec.method)
        split_post(spec)
        return (spec,)
    _, post = split_post(spec)
    for key, _ in spec.params:
        if key in (*POOLING_KEYS, *POST_KEYS) or (post and key in CORPUS_KEYS):
            continue
        if key in RECIPE_KEYS or key in OUTSIDE_KEYS or key in plugins.augmentations:
            raise UsageError(
                f"{spec}: {key} belongs to a tuning, and this spec names none", f"Write {spec.with_method('mirror')}"
            )
        plugins.augmentations.check_left_out(key)
        known = [*POOLING_KEYS, *POST_KEYS, *RECIPE_KEYS, *plugins.augmentations.names()]
        raise unknown_name("encoder spec key", key, known)
    own = {**of_files, **backbones.backbone_of(spec).readout}
    if any(own.get(key) != value for key, value in spec.params if key not in POST_KEYS):
        own.pop("post", None)  # it is of vectors that are read as the directory says
    if own or spec.get("pooling") is not None:
        return (spec.with_method("base").with_params(**{**own, **dict(spec.params)}),)
    rows = []
    for method, params in _ladder(spec, level, causal):
        as_meant = {"pooling": _padded(str(params["pooling"]), protocol)} if "pooling" in params else {}
        rows.append(spec.with_method(method).with_params(**{**params, **as_meant}))
        preset = backbones.backbone_of(spec).preset("mirror", "sentence")
        layers = preset.get("layers") if params.get("pooling") == "mean" else None
        if layers and spec.get("layers") is None:
            rows.append(rows[-1].with_params(layers=layers))
    return tuple(dict.fromkeys(rows))


def with_baselines(
    spec: EncoderSpec, ladder: Sequence[EncoderSpec], level: str, plugins: Plugins, dimensions: int = 0
) -> tuple[EncoderSpec, ...]:
    """A backbone's ladder with what else needs no labels: without training, then tuned.

    Transformed are the untuned row that is read as the last tuned one (words in context: at the target word), and each
    tuned row, whitened. Static vectors are of the layers that Mirror reads; methods are those that declare themselves
    baselines. ``dimensions`` of the backbone's vectors: 0 if not known.
    """
    plain = [row for row in ladder if not plugins.methods[row.method].tunes]
    tuned, mean = ladder[len(plain) :], plain[-1]
    read = plain[0] if level == "wic" else mean
    methods = [entry.value for entry in plugins.methods if entry.value.baseline]
    layers = {"layers": mean.get("layers")} if mean.get("layers") is not None else {}
    static = [replace(spec, method=method.name, params=()).with_params(**layers) for method in methods if method.create]
    baselines = [spec.with_method(method.name) for method in methods if not method.create]
    whitened: dict[str, Value] = {"post": "whiten"} | ({} if 0 < dimensions <= _WHITENED else {"whiten": _WHITENED})
    posts: tuple[dict[str, Value], ...] = (whitened, {"post": "abtt", "abtt": 3}, {"post": "zscore"})
    transformed = [read.with_params(**post) for post in posts]
    rows = (*plain, *transformed, *static, *tuned, *(row.with_params(**whitened) for row in tuned), *baselines)
    return tuple(sorted(rows, key=lambda row: place_of_row(row, level, plugins)))


def with_pairs(rows: Sequence[EncoderSpec], plugins: Plugins) -> tuple[EncoderSpec, ...]:
    """The rows that a ladder has where its corpus holds pairs: what is tuned is tuned on them."""
    return tuple(dict.fromkeys(row.with_method(PAIRS) if plugins.methods[row.method].tunes else row for row in rows))


def check_lines(spec: EncoderSpec, corpus: str, lines: Sequence[str]) -> None:
    """Raise a ``UsageError`` where a method of pairs is to tune on texts, or one of texts on pairs."""
    pairs = pairs_of(lines, corpus, raw=spec.method != PAIRS)
    if spec.method == PAIRS and not pairs:
        problem = f"{spec} tunes on pairs, but the lines are no pairs"
        raise UsageError(problem, "Write text1||text2, or name two columns.")
    if spec.method in (SINGLE, IN_CONTEXT) and pairs:
        raise UsageError(f"{spec} tunes on single texts, but these are pairs", f"Write {spec.with_method(PAIRS)}")


def place_of_row(spec: EncoderSpec, level: str, plugins: Plugins) -> tuple[int, ...]:
    """The place of a row among those of its backbone on tasks of a level, as a key to sort by.

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
        place(spec.method, methods), place(spec.get("post"), posts), place(pooling, poolings),
        len(spec.params),
    )  # fmt: skip


def _ladder(spec: EncoderSpec, level: str, causal: bool) -> Iterator[tuple[str, dict[str, Value]]]:
    """The ladder of a level, read as the backbone was made to be; a causal one by the last token in place of [CLS]."""
    made = backbones.backbone_of(spec).pooling
    for method, params in LADDERS[level]:
        if made and params.get("pooling") in ("cls", "mean"):
            yield method, {"pooling": made}
        else:
            yield method, {"pooling": "last"} if causal and params.get("pooling") == "cls" else params


def _padded(pooling: str, protocol: str) -> str:
    """A pooling as a protocol means it: the released code's mean counts the padding."""
    return "mean-padded" if (pooling, protocol) == ("mean", "released") else pooling


def resolve_recipe(
    spec: EncoderSpec,
    level: str,
    architecture: str,
    protocol: str,
    plugins: Plugins,
    family: Family = PLAIN,
    of_files: Mapping[str, Value] = MappingProxyType({}),
) -> Recipe:
    """The recipe of a spec with a method: the paper's preset, then the backbone's own values, then the user's keys.

    A backbone that is an encoder of texts already is read its own way (``of_files``: the keys that its files say) where
    the preset reads [CLS] or the mean, and one without [CLS] (causal models, T5) by mean pooling; one without a mask
    token is tuned without masks.
    """
    method: Method = plugins.methods[spec.method]
    if not method.tunes:
        for key, _ in spec.params:
            if key not in POOLING_KEYS:
                raise unknown_name(f"key of +{method.name}", key, [*POOLING_KEYS, *POST_KEYS])
    of_prompt = READ.get(str(spec.get("prompt")), {})
    params = {**backbones.backbone_of(spec).preset(method.name, level), **of_prompt, **dict(spec.params)}
    preset = method.preset(level, architecture, protocol)
    if preset.pooling in WHOLE_TEXTS and of_files:
        params = {key: value for key, value in of_files.items() if key != "max_length"} | params
    elif preset.pooling in WHOLE_TEXTS and (pooling := backbones.backbone_of(spec).pooling):
        preset = replace(preset, pooling=_padded(pooling, protocol))
    elif preset.pooling == "cls" and not family.has_cls:
        preset = replace(preset, pooling=_padded("mean", protocol))
    if not family.masks:
        rates = {name: 0.0 if "mask" in name else rate for name, rate in preset.augment}
        preset = replace(preset, augment=tuple(rates.items()))
    plugins.augmentations.check_left_out(*(key for key in params if key not in (*RECIPE_KEYS, *OUTSIDE_KEYS)))
    recipe = override(preset, params, plugins.augmentations.by_name())
    plugins.poolings.entry(recipe.pooling)
    plugins.losses.entry(recipe.loss)
    if protocol == "released" and recipe.pooling == "target":
        return replace(recipe, pooling="target-marked")  # the released code has no other way to a target
    return recipe


def check_runs(spec: EncoderSpec, recipe: Recipe, family: Family, tunes: bool, settings: Mapping[str, Any]) -> None:
    """Raise an error with all that keeps a spec from running on such a model, and a spec that runs.

    Args:
        spec: a row.
        recipe: its recipe.
        family: of its backbone.
        tunes: whether its method tunes.
        settings: the backbone's ``config.json``.

    Raises:
        UsageError: a key of the spec is wrong for this model.
        TuningError: the method is.
    """
    traits = family.traits
    _check_trains(spec, traits.trains or not tunes, settings)
    problems: list[str] = []
    changes: dict[str, Value] = {}
    heeds = traits.causal and family.attends
    if traits.causal and recipe.pooling == "cls" and not (recipe.attention and heeds):
        problems.append("pooling=cls reads the first token, which has the same vector in every text of a causal model")
        changes["pooling"] = "last"
    if recipe.attention and not heeds:
        what = "that is not causal" if family.attends else "without attention"
        problems.append(f"attention={recipe.attention} changes nothing in a model {what}")
        changes["attention"] = ""
    layers = settings.get("num_hidden_layers")
    if layers is not None and not range(layers + 1)[parse_layers(recipe.layers)]:
        problems.append(f"layers={recipe.layers} selects none of the layers 0 to {layers}")
        changes["layers"] = "-1:"
    elif recipe.layers != "-1:" and not traits.layered:
        problems.append(f"layers={recipe.layers} cannot be averaged, since their states differ in shape")
        changes["layers"] = "-1:"
    if tunes:
        for name in (name for name, rate in recipe.augment if rate):
            if "mask" in name and not family.masks:
                problems.append(f"{name} needs a mask token, and the tokenizer has none")
                changes[name] = 0
            if name == "controlled_dropout" and (traits.causal or traits.pads):
                problems.append("controlled_dropout knows only encoders that read no padding")
                changes |= {name: 0, "dropout": 0.1}
        if any(recipe.rate(name) for name in ("dropout", "controlled_dropout")) and not traits.drops:
            problems.append("the model has no dropout")
            changes |= {"controlled_dropout": 0} if recipe.rate("controlled_dropout") else {}
            changes |= {"dropout": 0, "word_shuffle": 3}
        if recipe.gradient_checkpointing and not can_checkpoint(settings):
            problems.append(f"transformers has no gradient checkpointing for models of type {settings['model_type']}")
            changes["gradient_checkpointing"] = ""
    if problems:
        params = {key: value for key, value in {**dict(spec.params), **changes}.items() if value != ""}
        error = UsageError if changes.keys() & dict(spec.params).keys() else TuningError
        raise error(f"{spec} cannot run: {'; '.join(problems)}", f"Write {replace(spec, params=tuple(params.items()))}")


def _check_trains(spec: EncoderSpec, trains: bool, settings: Mapping[str, Any]) -> None:
    if not trains:
        problem = "in training mode transformers reads texts of some lengths only by models of type"
        untuned = replace(spec, method="base", params=())
        raise TuningError(f"{spec} cannot run: {problem} {settings.get('model_type')}", f"Write {untuned}")


def check_spec(spec: EncoderSpec, protocol: str, plugins: Plugins) -> None:
    """Check what can be checked of a spec without its backbone: names, keys, ranges of values."""
    for row in expand_ladder(spec, "sentence", plugins, protocol):
        if row.method and not plugins.methods[row.method].create:  # which checks its keys when it is planned
            level = plugins.methods[row.method].levels.get("sentence", "sentence")
            plain, _ = split_post(row, plugins.methods[row.method].tunes)
            resolve_recipe(plain, level, "", protocol, plugins)
