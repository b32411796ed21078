"""The recipe of a row: the paper's preset, the backbone's own values and the user's keys, checked against its model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from mirrorbench.core.errors import TuningError, UsageError, unknown_name
from mirrorbench.core.plugins import Plugins
from mirrorbench.core.specs import EncoderSpec, Value
from mirrorbench.data.corpora import GeneratedCorpus, corpus_name
from mirrorbench.data.readers.line_parts import pairs_of
from mirrorbench.models import backbones, sentence_transformer_files
from mirrorbench.models.families import PLAIN, Family, can_checkpoint, positions_of
from mirrorbench.models.pooling import (
    DEFAULT_MAX_LENGTH,
    READ,
    STATED,
    Pooling,
    parse_layers,
    template,
)
from mirrorbench.models.transformations import POST_KEYS, split_post
from mirrorbench.runs.backbone_files import BackboneFiles
from mirrorbench.runs.ladder import (
    IN_CONTEXT,
    PAIRS,
    POOLING_KEYS,
    SINGLE,
    expand_ladder,
    padded,
)
from mirrorbench.training.methods import Method
from mirrorbench.training.recipes import Recipe, override

WHOLE_TEXTS = ("cls", "mean", "mean-padded")
"""Poolings of presets that the own pooling of a text encoder replaces."""


def recipe_and_readout(
    spec: EncoderSpec,
    level: str,
    protocol: str,
    plugins: Plugins,
    files: BackboneFiles,
    path: Path,
    max_length: int = 0,
) -> tuple[Recipe, Pooling]:
    """Return the recipe of a spec with a method for the backbone in a directory, and the pooling of its vectors.

    ``max_length``: tokens that the task reads, 0 for the default, ``STATED`` for what the files state. Errors are
    those of ``check_runs``.
    """
    method: Method = plugins.methods[spec.method]
    settings, family = backbones.configuration(path), files.family(path)
    architecture = str(settings.get("model_type", ""))
    level = method.levels.get(level, level)
    stated = files.stated_keys(spec)
    recipe = resolve_recipe(spec, level, architecture, protocol, plugins, family, stated)
    check_runs(spec, recipe, family, method.tunes, settings)
    positions = positions_of(path)
    if (
        positions and spec.get("train_max_length") is None
    ):  # a method's preset, within what the model can take
        recipe = replace(recipe, train_max_length=min(recipe.train_max_length, positions))
    recipe = replace(recipe, prompt=recipe.prompt and template(recipe.prompt, path))
    given = dict(spec.params)
    if max_length == STATED:
        of_files = files.stated_keys(spec, of_short_names=True)
        if not is_read_as_stated(method.preset(level, architecture, protocol), of_files):
            of_files = {}
        return recipe, _stated_readout(given, recipe, of_files, path)
    of_task = recipe.pooling.startswith("target") or recipe.pooling == "mean-padded"
    keys = given if of_task else {**stated, **given}
    return recipe, recipe.readout(sentence_transformer_files.max_length(keys, path, max_length))


def is_read_as_stated(preset: Recipe, stated: Mapping[str, Value]) -> bool:
    """Return whether keys that a backbone's files state replace a preset's: both read whole texts, or words in them."""
    if str(stated.get("pooling", "")).startswith("target"):
        return preset.pooling.startswith("target")
    return bool(stated) and preset.pooling in WHOLE_TEXTS


def _stated_readout(
    given: Mapping[str, Value], recipe: Recipe, stated: Mapping[str, Value], path: Path
) -> Pooling:
    """Return the pooling of a recipe with the window, the prompt and the normalisation that a backbone's files state.

    ``given``: keys of the spec, which replace them. ``mean-padded`` pads to the papers' 64 tokens.
    """
    keys = {**stated, **given}
    if recipe.pooling == "mean-padded" and "max_length" not in given:
        keys["max_length"] = min(DEFAULT_MAX_LENGTH, positions_of(path) or DEFAULT_MAX_LENGTH)
    length = sentence_transformer_files.max_length(keys, path, STATED)
    prompt = recipe.prompt if "prompt" in given else str(stated.get("prompt") or recipe.prompt)
    normalize = bool(keys.get("normalize", recipe.normalize))
    return replace(recipe, prompt=prompt, normalize=normalize).readout(length)


def resolve_recipe(
    spec: EncoderSpec,
    level: str,
    architecture: str,
    protocol: str,
    plugins: Plugins,
    family: Family = PLAIN,
    stated: Mapping[str, Value] = MappingProxyType({}),
) -> Recipe:
    """Return the recipe of a spec with a method: the paper's preset, then the backbone's values, then the user's keys.

    A backbone that is an encoder of texts, or of words, is read its own way (``stated``: keys that its files state) where
    the preset reads such, and one without [CLS] (causal models, T5) by mean pooling; one without a mask token
    is tuned without masks.
    """
    method: Method = plugins.methods[spec.method]
    if not method.tunes:
        for key, _ in spec.params:
            if key not in POOLING_KEYS:
                raise unknown_name(f"key of +{method.name}", key, [*POOLING_KEYS, *POST_KEYS])
    of_prompt = READ.get(str(spec.get("prompt")), {})
    params = {
        **backbones.backbone_of(spec).preset(method.name, level),
        **of_prompt,
        **dict(spec.params),
    }
    preset = method.preset(level, architecture, protocol)
    if is_read_as_stated(preset, stated):
        params = {key: value for key, value in stated.items() if key != "max_length"} | params
    elif preset.pooling in WHOLE_TEXTS and (pooling := backbones.backbone_of(spec).pooling):
        preset = replace(preset, pooling=padded(pooling, protocol))
    elif preset.pooling == "cls" and not family.has_cls:
        preset = replace(preset, pooling=padded("mean", protocol))
    if not family.masks:
        rates = {name: 0.0 if "mask" in name else rate for name, rate in preset.augment}
        preset = replace(preset, augment=tuple(rates.items()))
    recipe = override(preset, params, plugins.augmentations.by_name())
    plugins.poolings.entry(recipe.pooling)
    plugins.losses.entry(recipe.loss)
    if protocol == "released" and recipe.pooling == "target":
        return replace(
            recipe, pooling="target-marked"
        )  # the released code has no other way to a target
    return recipe


Problem = tuple[str, dict[str, Value]]
"""A reason that a spec cannot run, and keys (empty: without it) under which it could."""


def check_runs(
    spec: EncoderSpec, recipe: Recipe, family: Family, tunes: bool, settings: Mapping[str, Any]
) -> None:
    """Check that a spec can run on a backbone of such a family and ``config.json``; an error names a spec that can.

    Raises:
        UsageError: a key of the spec is wrong for this model.
        TuningError: the method does not suit this model.
    """
    if tunes and not family.traits.trains:
        problem = (
            "in training mode transformers cannot read texts of all lengths with models of type"
        )
        untuned = replace(spec, method="base", params=())
        raise TuningError(
            f"{spec} cannot run: {problem} {settings.get('model_type')}", f"Write {untuned}"
        )
    problems = [*_readout_problems(recipe, family, settings)]
    problems += _tuning_problems(recipe, family, settings) if tunes else ()
    if problems:
        changes = {key: value for _, keys in problems for key, value in keys.items()}
        params = {
            key: value for key, value in {**dict(spec.params), **changes}.items() if value != ""
        }
        error = UsageError if changes.keys() & dict(spec.params).keys() else TuningError
        reasons = "; ".join(reason for reason, _ in problems)
        raise error(
            f"{spec} cannot run: {reasons}", f"Write {replace(spec, params=tuple(params.items()))}"
        )


def _readout_problems(
    recipe: Recipe, family: Family, settings: Mapping[str, Any]
) -> Iterator[Problem]:
    traits, layers = family.traits, settings.get("num_hidden_layers")
    heeds = traits.causal and family.attends
    if traits.causal and recipe.pooling == "cls" and not (recipe.attention and heeds):
        reason = "pooling=cls reads the first token, which has the same vector in every text of a causal model"
        yield reason, {"pooling": "last"}
    if recipe.attention and not heeds:
        model = "a model that is not causal" if family.attends else "a model without attention"
        yield f"attention={recipe.attention} changes nothing in {model}", {"attention": ""}
    if layers is not None and not range(layers + 1)[parse_layers(recipe.layers)]:
        yield f"layers={recipe.layers} selects none of the layers 0 to {layers}", {"layers": "-1:"}
    elif recipe.layers != "-1:" and not traits.layered:
        yield (
            f"layers={recipe.layers} cannot be averaged, since their states differ in shape",
            {"layers": "-1:"},
        )


def _tuning_problems(
    recipe: Recipe, family: Family, settings: Mapping[str, Any]
) -> Iterator[Problem]:
    traits = family.traits
    for name in (name for name, rate in recipe.augment if rate):
        if "mask" in name and not family.masks:
            yield f"{name} needs a mask token, and the tokenizer has none", {name: 0}
        if name == "controlled_dropout" and (traits.causal or traits.pads):
            yield (
                "controlled_dropout needs a model that is not causal and reads no padding",
                {name: 0, "dropout": 0.1},
            )
    if any(recipe.rate(name) for name in ("dropout", "controlled_dropout")) and not traits.drops:
        controlled = {"controlled_dropout": 0} if recipe.rate("controlled_dropout") else {}
        yield "the model has no dropout", {**controlled, "dropout": 0, "word_shuffle": 3}
    if recipe.gradient_checkpointing and not can_checkpoint(settings):
        reason = f"transformers has no gradient checkpointing for models of type {settings['model_type']}"
        yield reason, {"gradient_checkpointing": ""}


def check_lines(spec: EncoderSpec, corpus: str | GeneratedCorpus, lines: Sequence[str]) -> None:
    """Raise a ``UsageError`` where a method of pairs is to tune on texts, or one of texts on pairs."""
    pairs = pairs_of(lines, corpus_name(corpus), raw=spec.method != PAIRS)
    if spec.method == PAIRS and not pairs:
        problem = f"{spec} tunes on pairs, but the lines are no pairs"
        raise UsageError(problem, "Write text1||text2, or name two columns.")
    if spec.method in (SINGLE, IN_CONTEXT) and pairs:
        raise UsageError(
            f"{spec} tunes on single texts, but these are pairs", f"Write {spec.with_method(PAIRS)}"
        )


def check_spec(spec: EncoderSpec, protocol: str, plugins: Plugins) -> None:
    """Check what can be checked of a spec without its backbone: names, keys, ranges of values."""
    for row in expand_ladder(spec, "sentence", plugins, protocol):
        if (
            row.method and not plugins.methods[row.method].create
        ):  # which checks its keys when it is planned
            level = plugins.methods[row.method].levels.get("sentence", "sentence")
            plain, _ = split_post(row, plugins.methods[row.method].tunes)
            resolve_recipe(plain, level, "", protocol, plugins)
