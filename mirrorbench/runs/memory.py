"""How much memory a model takes, by arithmetic: from its configuration alone, without its weights.

torch's device ``meta`` gives shapes and no numbers: the weights are counted on it, and the activations are what a pass
in training saves there for back-propagation. It is the size in float32; autocast to half precision saves less.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mirrorbench.models.adapters import add_adapter
from mirrorbench.models.backbones import configuration, fingerprint
from mirrorbench.models.families import (
    can_checkpoint,
    checkpoint_precision,
    keeps_precision,
    reader,
    set_rates,
    text_part,
)
from mirrorbench.models.opening import empty_model, read_config
from mirrorbench.models.pooling import Pooling
from mirrorbench.training.recipes import Recipe

if TYPE_CHECKING:
    from mirrorbench.runs.cells import Cell

GB = 1e9
RANK = 16
"""Of the LoRA that is proposed where a full tuning does not fit."""
_HALVES = ("bf16", "fp16")


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes that a stage takes.

    Attributes:
        weights: of the model; matrices of a half-precision checkpoint count half where they stay as they are.
        gradients: of what learns.
        adam: the two averages of AdamW.
        copies: of the matrices in half precision, which autocast keeps during a pass.
        activations: the least that a pass needs: those of one pair of the longest strings in a tuning, of one text of
            the maximum length in encoding. Batches are cut to what is left beside the rest.
    """

    weights: int
    gradients: int
    adam: int
    copies: int
    activations: int

    @property
    def total(self) -> int:
        """The sum."""
        return self.weights + self.gradients + self.adam + self.copies + self.activations

    def __str__(self) -> str:
        parts = {"weights": self.weights, "gradients": self.gradients, "Adam": self.adam,
                 "half-precision copies": self.copies, "activations": self.activations}  # fmt: skip
        listed = ", ".join(f"{name} {_gb(size)}" for name, size in parts.items() if size)
        return f"{_gb(self.total)} GB ({listed})"


def tuning_memory(path: Path, recipe: Recipe, precision: str) -> Memory:
    """What a tuning of the backbone in a folder takes at least, on one device."""
    dropout = recipe.rate("dropout") or recipe.rate("controlled_dropout")
    size = _measured(
        path, fingerprint(path), recipe.lora, 2, recipe.train_max_length, dropout, recipe.gradient_checkpointing
    )
    held = bool(recipe.lora) and "fp32" not in (size.checkpoint, precision)
    copied = size.learning if held or precision not in _HALVES else size.learning_matrices
    return Memory(
        size.held if held else 4 * size.parameters, 4 * size.learning, 8 * size.learning,
        2 * copied if precision in _HALVES else 0, size.saved,
    )  # fmt: skip


def encoding_memory(path: Path, pooling: Pooling, precision: str, tuned: bool = False) -> Memory:
    """What encoding with the backbone in a folder takes at least; ``tuned`` in full, its weights are float32."""
    size = _measured(path, fingerprint(path), 0, 1, pooling.max_length, 0.0)
    held = not tuned and "fp32" not in (size.checkpoint, precision)
    copies = 2 * size.learning_matrices if precision in _HALVES and not held else 0
    states = 0 if pooling.last_layer_only else 4 * size.width * (size.layers + 1) * pooling.max_length
    return Memory(size.held if held else 4 * size.parameters, 0, 0, copies, size.saved // size.layers + states)


@dataclass(frozen=True, slots=True)
class _Size:
    """Counts of a model.

    ``held``: bytes of the weights where the matrices stay in half precision; ``saved``: bytes that a pass saves for
    back-propagation, and with gradient checkpointing those of one layer; ``checkpoint``: the precision of its file.
    """

    parameters: int
    learning: int
    learning_matrices: int
    held: int
    saved: int
    layers: int
    width: int
    checkpoint: str


@cache
def _measured(
    path: Path, fingerprint: str, rank: int, texts: int, length: int, dropout: float, twice: bool = False
) -> _Size:
    import torch

    from mirrorbench.models.checkpointing import checkpointed

    config = read_config(path)
    set_rates(config, dropout)
    checkpoint = checkpoint_precision(config)
    model = skeleton(config)
    if rank:
        add_adapter(model, path, rank, 0)
    learning = [weight for weight in model.parameters() if weight.requires_grad]
    matrices = {id(module.weight) for module in model.modules() if keeps_precision(module)}
    text = text_part(config)
    ids = torch.zeros(texts, min(length, getattr(text, "max_position_embeddings", length)), dtype=torch.int64)
    layers, ids = int(text.num_hidden_layers), ids.to("meta")
    saved = saved_bytes(model.train(), ids)
    if twice:
        with checkpointed(model):
            saved = saved_bytes(model, ids) + saved // layers
    return _Size(
        parameters=sum(weight.numel() for weight in model.parameters()),
        learning=sum(weight.numel() for weight in learning),
        learning_matrices=sum(weight.numel() for weight in learning if weight.dim() > 1),
        held=sum(weight.numel() * (2 if id(weight) in matrices else 4) for weight in model.parameters()),
        saved=saved,
        layers=layers,
        width=int(text.hidden_size),
        checkpoint=checkpoint,
    )


def skeleton(config: Any) -> Any:
    """The part of a model that reads texts, without numbers."""
    return reader(empty_model(config), config)


def saved_bytes(model: Any, ids: Any) -> int:
    """Bytes that a pass of a model over token ids saves for back-propagation, its weights apart."""
    import torch

    from mirrorbench.models.batching import ReplacedFunctions

    own = {tensor.untyped_storage()._cdata for tensor in (*model.parameters(), *model.buffers())}
    saved: dict[int, Any] = {}  # tensors that share their memory count once; kept, so that no address is used again

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage._cdata not in own:
            saved[storage._cdata] = storage
        return tensor

    # transformers asks whether a batch has a single text in each row, which takes numbers.
    alone = ReplacedFunctions({torch.Tensor.all: lambda *given, **named: True})
    with alone, torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        model(input_ids=ids)
    return sum(storage.nbytes() for storage in saved.values())


def own_memory(device: str) -> float | None:
    """Bytes of memory of a device; ``None`` where it is planned for and this machine has none."""
    import psutil
    import torch

    if not device.startswith("cuda"):
        return float(psutil.virtual_memory().total)
    try:
        return float(torch.cuda.get_device_properties(device).total_memory)
    except (AssertionError, RuntimeError):  # torch's, without CUDA and without a GPU
        return None


def memory_report(groups: Iterable[Sequence[Cell]], limit: float | None) -> Iterator[str]:
    """What the largest models of groups of cells take, and what does not fit into ``limit`` bytes with what does.

    Without a limit nothing is said of what fits. Models whose configuration gives no such pass (plugins' encoders,
    unknown architectures) are left out.
    """
    stages: list[tuple[Memory, str, Cell]] = []
    for cells in groups:
        for stage in ("tuning", "encoding"):
            with suppress(Exception):  # transformers' architectures may raise anything where there are no numbers
                if found := _needed(stage, cells[0], cells[0].model.precision, cells[0].precision):
                    stages.append((found, stage, cells[0]))
    shown: set[tuple[str, str]] = set()
    for found, stage, cell in sorted(stages, key=lambda entry: -entry[0].total):
        largest = stage not in {name for name, _ in shown}
        if (largest or (limit and found.total > limit)) and (stage, str(cell.spec)) not in shown:
            shown.add((stage, str(cell.spec)))
            said = f"memory: {stage} with {cell.spec} takes {found}"
            if limit:
                fits = "fits" if found.total <= limit else f"does not fit{_instead(stage, cell, limit)}"
                said += f"; {_gb(limit)} GB: {fits}"
            yield said


def _needed(stage: str, cell: Cell, tuning: str, encoding: str) -> Memory | None:
    model = cell.model
    if model.path is None or cell.pooling is None or (stage == "tuning" and model.recipe is None):
        return None
    if stage == "tuning" and model.recipe:
        return tuning_memory(model.path, model.recipe, tuning)
    return encoding_memory(model.path, cell.pooling, encoding, bool(model.recipe and not model.recipe.lora))


def _instead(stage: str, cell: Cell, limit: float) -> str:
    """A spec or options under which a stage fits, the least change first."""
    model, option = cell.model, "--precision" if stage == "tuning" else "--eval-precision"
    keys: dict[str, Any] = {}
    if model.recipe and model.path:
        more = not model.recipe.gradient_checkpointing and can_checkpoint(configuration(model.path))
        keys = ({"gradient_checkpointing": True} if more else {}) | ({} if model.recipe.lora else {"lora": RANK})
    planned = model.precision if stage == "tuning" else cell.precision
    for changed in (dict(some) for n in range(len(keys) + 1) for some in combinations(keys.items(), n)):
        other = replace(cell, model=replace(model, recipe=model.recipe and replace(model.recipe, **changed)))
        text = str(cell.spec.with_params(**changed)) if changed else ""
        for precision in dict.fromkeys((planned, "bf16")):
            found = _needed(stage, other, precision, precision)
            if found and found.total <= limit:
                words = " ".join(filter(None, (text, f"{option} {precision}" if precision != planned else "")))
                return f"; {words} fits: {found}"
    return "; nor does less"


def _gb(size: float) -> str:
    return f"{size / GB:.1f}" if size >= GB / 10 else f"{size / GB:.2f}"
