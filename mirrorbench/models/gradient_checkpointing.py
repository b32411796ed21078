"""Gradient checkpointing: the forward pass keeps only inputs of layers, the backward pass recomputes each layer.

Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost", section 4.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import partial
from typing import Any

import torch
from torch.overrides import _get_current_function_mode_stack

from mirrorbench.models.batching import ReplacedFunctions
from mirrorbench.models.families import parts
from mirrorbench.models.module_state import ModuleState, in_state


@contextmanager
def checkpointed(model: Any, own_draws: bool = False) -> Iterator[None]:
    """Switch gradient checkpointing on inside the ``with`` block; results stay identical.

    ``own_draws``: dropout draws from generators of ``ReplacedFunctions`` alone, so torch's state is not restored.
    """
    caching = [part for part in parts(model.config) if getattr(part, "use_cache", False)]
    new = hasattr(model, "activation_checkpointing_enable")  # transformers 6 has no other name
    name = "activation_checkpointing" if new else "gradient_checkpointing"
    options = {
        "use_reentrant": False,
        "context_fn": partial(_pass_contexts, model),
        "preserve_rng_state": not own_draws,
    }
    for part in caching:  # of keys and values, which would grow when a layer is computed again
        part.use_cache = False
    try:
        getattr(model, f"{name}_enable")(options)
        model.disable_input_require_grads()  # which reentrant checkpointing alone needs
        yield
    finally:
        getattr(model, f"{name}_disable")()
        for part in caching:
            part.use_cache = True


def _pass_contexts(
    model: Any,
) -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
    """Return the contexts of a layer's first and second pass, which have equal modules, functions and random numbers."""
    modes = _active_modes()
    states = [mode.generator.get_state() if mode.generator else None for mode in modes]
    return nullcontext(), _recomputing(model, ModuleState(model), modes, states)


@contextmanager
def _recomputing(
    model: Any,
    modules: ModuleState,
    modes: Sequence[ReplacedFunctions],
    states: Sequence[torch.Tensor | None],
) -> Iterator[None]:
    active = _active_modes()  # on a CPU the backward pass may run in this thread
    with ExitStack() as stack:
        stack.enter_context(in_state(model, modules))
        for mode, state in zip(modes, states, strict=True):
            if mode not in active:
                stack.enter_context(mode)
            if mode.generator and state is not None:
                mode.generator.set_state(state)
        yield


def _active_modes() -> list[ReplacedFunctions]:
    stack = _get_current_function_mode_stack()  # type: ignore[no-untyped-call]
    return [mode for mode in stack if isinstance(mode, ReplacedFunctions)]
