"""Undoing what a pass changes in the modules of a model, so that no text changes the vectors of the next one.

BigBird replaces its attention at the first short text, and rotary positions that are scaled to the length of a text keep
the angles of the longest one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

_TORCH_MODULES = "torch.nn.modules."
"""Package of classes whose passes change nothing, e.g. ``Linear``."""
_ABSENT = object()


class ModuleState:
    """The attributes, buffers and submodules of a model's modules at one time, by reference.

    Tensors are not copied: changes of their numbers are neither seen nor undone.
    """

    def __init__(self, model: Any) -> None:
        # Pairs of a module's dictionary, which later passes may change, and its copy.
        self._dictionaries: list[tuple[dict[str, Any], dict[str, Any]]] = []
        for module in model.modules():
            if type(module).__module__.startswith(_TORCH_MODULES):
                continue
            for dictionary in (vars(module), module._buffers, module._modules):
                self._dictionaries.append((dictionary, dict(dictionary)))

    def restore(self) -> None:
        """Give every module the attributes, buffers and submodules that it had; those that passes added remain."""
        for current, saved in self._dictionaries:
            if any(current.get(name, _ABSENT) is not value for name, value in saved.items()):
                current.update(saved)


def restore_state_after_each_pass(model: Any) -> None:
    """Register hooks that restore a model's ``ModuleState`` after each pass, even after an error.

    In evaluation mode, each pass draws the same random numbers (Reformer's hashes) and restores the generators.
    """
    # The contexts of the passes that have begun, the innermost last; closing one restores the state before the pass.
    running_passes: list[ExitStack] = []

    def before(module: Any, inputs: Any) -> None:
        with ExitStack() as stack:
            stack.callback(ModuleState(module).restore)
            if not module.training:
                stack.enter_context(_fixed_seed(module))
            running_passes.append(stack.pop_all())

    def after(module: Any, inputs: Any, output: Any) -> None:
        running_passes.pop().close()

    model.register_forward_pre_hook(before)
    model.register_forward_hook(after, always_call=True)


@contextmanager
def _fixed_seed(model: Any) -> Iterator[None]:
    """Let torch draw from a fixed seed inside the ``with`` block, on the CPU and on the model's device."""
    import torch

    weight = next(model.parameters(), None)
    devices = []
    if weight is not None and weight.device.type == "cuda":
        devices = [weight.device]
    with torch.random.fork_rng(devices=devices):
        torch.default_generator.manual_seed(0)
        for device in devices:
            torch.cuda.default_generators[device.index].manual_seed(0)
        yield


@contextmanager
def in_state(model: Any, state: ModuleState) -> Iterator[None]:
    """Give a model an earlier state inside the ``with`` block, in which layers of a pass are computed again."""
    state_before = ModuleState(model)
    state.restore()
    try:
        yield
    finally:
        state_before.restore()
