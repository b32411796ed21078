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
from mirrorbench.models.families import BERT_LIKE, Family, can_checkpoint, positions_of
from mirrorbench.models.pooling import (
    DEFAULT_MAX_LENGTH,
    PROMPT_DEFAULTS,
    STATED,
    Pooling,
    parse_layers,
    template,
)
from mirrorbench.models.transformations import POST_KEYS, split_post
from mirrorbench.runs.backbone_files import BackboneFiles
from mirrorbench.runs.ladder import (
    CONTEXT_METHOD,
    PAIRS_METHOD,
    POOLING_KEYS,
    TEXTS_METHOD,
    expand_ladder,
    padded,
)
from mirrorbench.training.methods import Method
from mirrorbench.training.recipes import Recipe, override

WHOLE_TEXTS = ("cls", "mean", "mean-padded")
"""Poolings of presets that the pooling stated by a text encoder's files replaces."""


def recipe_and_readout(
    spec: EncoderSpec,
    level: str,
    protocol: str,
    plugins: Plugins,
    files: BackboneFiles,
    path: Path,
    max_length: int = 0,
) -> tuple[Recipe, Pooling]:
    """Return the recipe by which a method tunes a backbone, and the pooling of its vectors.

    Args:
        spec: the encoder, with its method.
        level: level of the task.
        protocol: ``paper`` or ``released``.
        plugins: the registered methods and augmentations.
        files: what the files of backbones state.
        path: directory of the backbone.
        max_length: number of tokens that the task reads; 0 for the default; ``STATED`` on a user's own data, where the
            files of the backbone state the pooling and the number.

    Raises:
        UsageError: a key of the spec is unknown, or wrong for this model.
        TuningError: the method does not suit this model.
    """
    method: Method = plugins.methods[spec.method]
    configuration = backbones.configuration(path)
    family = files.family(path)
    architecture = str(configuration.get("model_type", ""))
    # Some methods use the recipe of another level: Mirror that of sentences for ``wic``.
    level = method.levels.get(level, level)
    stated_keys = files.stated_keys(spec)
    recipe = resolve_recipe(spec, level, architecture, protocol, plugins, family, stated_keys)
    check_can_run(spec, recipe, family, method.tunes, configuration)
    positions = positions_of(path)
    if positions and spec.get("train_max_length") is None:
        # The preset of a method may be longer than what the model can take.
        recipe = replace(recipe, train_max_length=min(recipe.train_max_length, positions))
    if recipe.prompt:
        # Replace the name of a prompt by its text, which may be in the files of the model.
        recipe = replace(recipe, prompt=template(recipe.prompt, path))
    params = dict(spec.params)
    if max_length == STATED:
        # On a user's own data, the files of models with short names count too.
        keys_of_all_files = files.stated_keys(spec, include_short_names=True)
        # They are left out where they do not replace the preset's readout.
        if not is_read_as_stated(method.preset(level, architecture, protocol), keys_of_all_files):
            keys_of_all_files = {}
        return recipe, _stated_readout(params, recipe, keys_of_all_files, path)
    # The length is the spec's, else the one that the files state, else the task's. At target words and in the papers'
    # padded means the files do not count.
    length_keys = params
    if not recipe.pooling.startswith("target") and recipe.pooling != "mean-padded":
        length_keys = {**stated_keys, **params}
    length = sentence_transformer_files.max_length(length_keys, path, max_length)
    return recipe, recipe.readout(length)


def is_read_as_stated(preset: Recipe, stated: Mapping[str, Value]) -> bool:
    """Return whether the readout that a backbone's files state replaces the preset's.

    It does if both read whole texts, or both target words; ``stated`` is empty if the files state none.
    """
    if str(stated.get("pooling", "")).startswith("target"):
        return preset.pooling.startswith("target")
    return bool(stated) and preset.pooling in WHOLE_TEXTS


def _stated_readout(
    params: Mapping[str, Value], recipe: Recipe, stated: Mapping[str, Value], path: Path
) -> Pooling:
    """Return the pooling of a recipe with the window, the prompt and the normalisation that a backbone's files state.

    ``params``: keys of the spec, which replace the stated ones.
    """
    keys = {**stated, **params}
    if recipe.pooling == "mean-padded" and "max_length" not in params:
        # Texts are padded to this length, as in the papers.
        keys["max_length"] = min(DEFAULT_MAX_LENGTH, positions_of(path) or DEFAULT_MAX_LENGTH)
    length = sentence_transformer_files.max_length(keys, path, STATED)
    prompt = recipe.prompt
    if stated.get("prompt") and "prompt" not in params:
        prompt = str(stated["prompt"])
    normalize = bool(keys.get("normalize", recipe.normalize))
    return replace(recipe, prompt=prompt, normalize=normalize).readout(length)


def resolve_recipe(
    spec: EncoderSpec,
    level: str,
    architecture: str,
    protocol: str,
    plugins: Plugins,
    family: Family = BERT_LIKE,
    stated: Mapping[str, Value] = MappingProxyType({}),
) -> Recipe:
    """Return the recipe of a spec with a method: the paper's preset, then the backbone's values, then the user's keys.

    A backbone whose files state a readout (``stated``: its keys) is read that way if the preset reads inputs of the
    same kind, whole texts or target words. A backbone without [CLS] (causal models, T5) is read by mean pooling. A
    backbone without a mask token is tuned without masks.

    Raises:
        UsageError: a key or a value of the spec is wrong or unknown.
    """
    method: Method = plugins.methods[spec.method]
    if not method.tunes:
        for key, _ in spec.params:
            if key not in POOLING_KEYS:
                raise unknown_name(f"key of +{method.name}", key, [*POOLING_KEYS, *POST_KEYS])
    backbone = backbones.backbone_of(spec)
    # From weak to strong: the backbone's values, the defaults of the prompt, the user's keys.
    prompt_defaults = PROMPT_DEFAULTS.get(str(spec.get("prompt")), {})
    params = {**backbone.preset(method.name, level), **prompt_defaults, **dict(spec.params)}
    preset = method.preset(level, architecture, protocol)
    # Read the backbone as its files state, else by the pooling of its short name, else without [CLS] if it has none.
    if is_read_as_stated(preset, stated):
        params = {**stated, **params}
    elif preset.pooling in WHOLE_TEXTS and backbone.pooling:
        preset = replace(preset, pooling=padded(backbone.pooling, protocol))
    elif preset.pooling == "cls" and not family.has_cls:
        preset = replace(preset, pooling=padded("mean", protocol))
    # Set the rates of masks to 0 without a mask token.
    if not family.has_mask_token:
        rates = {name: 0.0 if "mask" in name else rate for name, rate in preset.augment}
        preset = replace(preset, augment=tuple(rates.items()))
    recipe = override(preset, params, plugins.augmentations.by_name())
    # Raise an error if no such pooling or loss is registered.
    plugins.poolings.entry(recipe.pooling)
    plugins.losses.entry(recipe.loss)
    if protocol == "released" and recipe.pooling == "target":
        # The released code finds targets only by markers.
        return replace(recipe, pooling="target-marked")
    return recipe


Problem = tuple[str, dict[str, Value]]
"""A reason why a spec cannot run, and the keys to change so that it can; an empty value removes the key."""


def check_can_run(
    spec: EncoderSpec,
    recipe: Recipe,
    family: Family,
    tunes: bool,
    configuration: Mapping[str, Any],
) -> None:
    """Check that a spec can run on a backbone; an error suggests a spec that can.

    ``configuration``: the ``config.json`` of the backbone.

    Raises:
        UsageError: a key of the spec is wrong for this model.
        TuningError: the method does not suit this model.
    """
    if tunes and not family.traits.trains:
        untuned = replace(spec, method="base", params=())
        raise TuningError(
            f"{spec} cannot run: in training mode transformers cannot read texts of all lengths with models of type "
            f"{configuration.get('model_type')}",
            f"Write {untuned}",
        )
    problems = list(_readout_problems(recipe, family, configuration))
    if tunes:
        problems += _tuning_problems(recipe, family, configuration)
    if not problems:
        return
    # Suggest the spec with the keys that solve each problem; an empty value removes a key.
    changes: dict[str, Value] = {}
    for _, keys in problems:
        changes.update(keys)
    params = dict(spec.params)
    is_users_mistake = any(key in params for key in changes)
    params.update(changes)
    remaining_params = [(key, value) for key, value in params.items() if value != ""]
    suggestion = replace(spec, params=tuple(remaining_params))
    reasons = "; ".join(reason for reason, _ in problems)
    error = UsageError if is_users_mistake else TuningError
    raise error(f"{spec} cannot run: {reasons}", f"Write {suggestion}")


def _readout_problems(
    recipe: Recipe, family: Family, configuration: Mapping[str, Any]
) -> Iterator[Problem]:
    """Yield each problem with the readout of a recipe, with the keys that solve it."""
    traits = family.traits
    has_causal_attention = traits.causal and family.has_attention
    reads_both_directions = recipe.attention and has_causal_attention
    if traits.causal and recipe.pooling == "cls" and not reads_both_directions:
        reason = "pooling=cls reads the first token, which has the same vector in every text of a causal model"
        yield reason, {"pooling": "last"}
    if recipe.attention and not has_causal_attention:
        model = (
            "a model that is not causal" if family.has_attention else "a model without attention"
        )
        yield f"attention={recipe.attention} changes nothing in {model}", {"attention": ""}
    n_layers = configuration.get("num_hidden_layers")
    selects_none = False
    if n_layers is not None:
        # Layer 0 are the embeddings.
        all_layers = range(n_layers + 1)
        selects_none = not all_layers[parse_layers(recipe.layers)]
    if selects_none:
        yield (
            f"layers={recipe.layers} selects none of the layers 0 to {n_layers}",
            {"layers": "-1:"},
        )
    elif recipe.layers != "-1:" and not traits.layered:
        yield (
            f"layers={recipe.layers} cannot be averaged, since their states differ in shape",
            {"layers": "-1:"},
        )


def _tuning_problems(
    recipe: Recipe, family: Family, configuration: Mapping[str, Any]
) -> Iterator[Problem]:
    """Yield each problem with the tuning of a recipe, with the keys that solve it."""
    traits = family.traits
    augmentations = [name for name, rate in recipe.augment if rate]
    for name in augmentations:
        if "mask" in name and not family.has_mask_token:
            yield f"{name} needs a mask token, and the tokenizer has none", {name: 0}
        if name == "controlled_dropout" and (traits.causal or traits.pads):
            yield (
                "controlled_dropout needs a model that is not causal and reads no padding",
                {name: 0, "dropout": 0.1},
            )
    has_controlled_dropout = bool(recipe.rate("controlled_dropout"))
    if not traits.drops and (recipe.rate("dropout") or has_controlled_dropout):
        changes: dict[str, Value] = {"dropout": 0, "word_shuffle": 3}
        if has_controlled_dropout:
            changes["controlled_dropout"] = 0
        yield "the model has no dropout", changes
    if recipe.gradient_checkpointing and not can_checkpoint(configuration):
        reason = f"transformers has no gradient checkpointing for models of type {configuration['model_type']}"
        yield reason, {"gradient_checkpointing": ""}


def check_lines(spec: EncoderSpec, corpus: str | GeneratedCorpus, lines: Sequence[str]) -> None:
    """Raise a ``UsageError`` if a method for pairs is to tune on texts, or a method for texts on pairs."""
    pairs = pairs_of(lines, corpus_name(corpus), raw=spec.method != PAIRS_METHOD)
    if spec.method == PAIRS_METHOD and not pairs:
        problem = f"{spec} tunes on pairs, but the lines are not pairs"
        raise UsageError(problem, "Write text1||text2, or name two columns.")
    if spec.method in (TEXTS_METHOD, CONTEXT_METHOD) and pairs:
        raise UsageError(
            f"{spec} tunes on single texts, but these are pairs",
            f"Write {spec.with_method(PAIRS_METHOD)}",
        )


def check_spec(spec: EncoderSpec, protocol: str, plugins: Plugins) -> None:
    """Check a spec as far as possible without its backbone: names, keys, ranges of values.

    Raises:
        UsageError: a name, key or value is wrong.
    """
    # Names and keys are the same at every level.
    for row in expand_ladder(spec, "sentence", plugins, protocol):
        if not row.method:
            continue
        method = plugins.methods[row.method]
        if method.create:  # it checks its keys when it is planned
            continue
        level = method.levels.get("sentence", "sentence")
        spec_without_post, _ = split_post(row, method.tunes)
        resolve_recipe(spec_without_post, level, "", protocol, plugins)
