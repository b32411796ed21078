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
from mirrorbench.models.families import nested_configs
from mirrorbench.models.module_state import ModuleState, in_state


@contextmanager
def checkpointed(model: Any, draws_from_generators: bool = False) -> Iterator[None]:
    """Switch gradient checkpointing on inside the ``with`` block; results stay identical.

    ``draws_from_generators``: whether dropout draws only from generators of ``ReplacedFunctions``. Then torch's own
    random state need not be restored.
    """
    # transformers 6 has only the name "activation".
    if hasattr(model, "activation_checkpointing_enable"):
        enable = model.activation_checkpointing_enable
        disable = model.activation_checkpointing_disable
    else:
        enable = model.gradient_checkpointing_enable
        disable = model.gradient_checkpointing_disable
    options = {
        "use_reentrant": False,
        # The second pass of a layer must find the modules, functions and random numbers of the first one.
        "context_fn": partial(_pass_contexts, model),
        "preserve_rng_state": not draws_from_generators,
    }
    # A cache of keys and values would grow when a layer is computed again.
    caching_parts = [
        part for part in nested_configs(model.config) if getattr(part, "use_cache", False)
    ]
    for part in caching_parts:
        part.use_cache = False
    try:
        enable(options)
        # With an adapter, `enable` lets inputs require gradients, which only reentrant checkpointing needs.
        model.disable_input_require_grads()
        yield
    finally:
        disable()
        for part in caching_parts:
            part.use_cache = True


def _pass_contexts(
    model: Any,
) -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
    """Return the contexts of a layer's first and second pass, which have equal modules, functions and random numbers."""
    modes = _active_modes()
    random_states = [mode.generator.get_state() if mode.generator else None for mode in modes]
    return nullcontext(), _recomputing(model, ModuleState(model), modes, random_states)


@contextmanager
def _recomputing(
    model: Any,
    module_state: ModuleState,
    modes: Sequence[ReplacedFunctions],
    random_states: Sequence[torch.Tensor | None],
) -> Iterator[None]:
    """Give modules, replaced functions and random numbers the states of the first pass inside the ``with`` block."""
    # On a CPU the backward pass may run in the thread of the first pass, where modes are active.
    active_modes = _active_modes()
    with ExitStack() as stack:
        stack.enter_context(in_state(model, module_state))
        for mode, random_state in zip(modes, random_states, strict=True):
            if mode not in active_modes:
                stack.enter_context(mode)
            if mode.generator and random_state is not None:
                mode.generator.set_state(random_state)
        yield


def _active_modes() -> list[ReplacedFunctions]:
    """Return the contexts of replaced functions that are active in this thread."""
    stack = _get_current_function_mode_stack()  # type: ignore[no-untyped-call]
    return [mode for mode in stack if isinstance(mode, ReplacedFunctions)]
