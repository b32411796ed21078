"""What a pass changes in the modules of a model, and how it is undone, so that no text changes the next one's vectors.

BigBird replaces its attention at the first short text, and rotary positions that are scaled to the length of a text keep
the angles of the longest one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

_OF_TORCH = "torch.nn.modules."
"""Start of the names of modules whose passes change nothing, e.g. ``Linear``."""
_GONE = object()


class ModuleState:
    """The attributes, buffers and submodules of a model's modules at one time, by reference.

    Tensors are not copied: a change inside of one is neither seen nor undone.
    """

    def __init__(self, model: Any) -> None:
        self._kept = [
            (own, dict(own))
            for module in model.modules()
            if not type(module).__module__.startswith(_OF_TORCH)
            for own in (vars(module), module._buffers, module._modules)
        ]

    def restore(self) -> None:
        """Give every module the attributes, buffers and submodules that it had; new ones, made once, are left."""
        for own, before in self._kept:
            if any(own.get(name, _GONE) is not value for name, value in before.items()):
                own.update(before)


def leave_unchanged(model: Any) -> None:
    """Let every pass of a model end in the state in which it began, after errors too.

    Passes in evaluation mode draw the same random numbers each (Reformer's hashes), and leave the generators as they were.
    """
    started: list[ExitStack] = []

    def before(module: Any, inputs: Any) -> None:
        with ExitStack() as stack:
            stack.callback(ModuleState(module).restore)
            if not module.training:
                stack.enter_context(_own_draws(module))
            started.append(stack.pop_all())

    def after(module: Any, inputs: Any, output: Any) -> None:
        started.pop().close()

    model.register_forward_pre_hook(before)
    model.register_forward_hook(after, always_call=True)


@contextmanager
def _own_draws(model: Any) -> Iterator[None]:
    """Let torch draw from a fixed seed inside the ``with`` block."""
    import torch

    weight = next(model.parameters(), None)
    devices = [weight.device] if weight is not None and weight.device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        torch.default_generator.manual_seed(0)
        for device in devices:
            torch.cuda.default_generators[device.index].manual_seed(0)
        yield


@contextmanager
def in_state(model: Any, state: ModuleState) -> Iterator[None]:
    """Give a model another state inside the ``with`` block: the one of a pass whose layers are computed again."""
    now = ModuleState(model)
    state.restore()
    try:
        yield
    finally:
        now.restore()
