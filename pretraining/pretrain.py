"""Train a masked language model from scratch, on a CPU or a GPU: a plain loop that knows nothing of similarity.

    python -m pretraining.pretrain --packed FOLDER --static FOLDER --output FOLDER --tokens 500e6
        [--layers 6] [--feed-forward 1024] [--tokens-per-step 32768] [--device cuda]

Started again with the same options it goes on from the last checkpoint in its output folder. The learning rate is a
function of the tokens seen: warm-up, plateau, linear decay to zero over the last part of the budget. So a run that is
still on the plateau may go on with another `--tokens`. What is masked, and in which order rows come, depends on the
seed and the step only: on a CPU, a run that was killed ends with the same weights, bit for bit, as one that was not.

On a CPU with several cores, one process of one thread per core is best, `torchrun --standalone --nproc-per-node 2 -m
pretraining.pretrain ...`: the processes meet once a step to average their gradients. Two threads in one process meet at
every operation instead, and fall to a tenth of the speed as soon as another program wants a core.
"""

from __future__ import annotations

import csv
import os
import time
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from transformers import BertConfig, BertForMaskedLM

from mirrorbench.core.devices import autocast, on_gpu, pick_device
from mirrorbench.core.errors import UsageError
from pretraining.corpus import Rows
from pretraining.tokenizer import FIRST_ORDINARY_ID, MASK, MAX_LENGTH, PAD, VOCABULARY_SIZE

LARGEST = 20_000_000
"""Bytes of all files of the model in the wheel."""
BESIDE_WEIGHTS = 300_000
"""Bytes of the tokenizer and the rest; weights are stored in half precision."""


@dataclass(frozen=True)
class Settings:
    """Everything that shapes the model, apart from the data; the width is that of the skip-gram vectors."""

    tokens: float = 60e6  # budget
    tokens_per_step: int = 2_048  # small steps, so that there are enough of them in a small budget
    layers: int = 2
    feed_forward: int = 1_024
    learning_rate: float = 1e-3
    warmup_tokens: float = 1e6
    decay_fraction: float = 0.5  # of the budget, linear to zero
    weight_decay: float = 0.01  # matrices only: not biases, not LayerNorm
    betas: tuple[float, float] = (0.9, 0.98)
    clip_norm: float = 1.0
    mask_rate: float = 0.15  # of which 80 % [MASK], 10 % a random piece, 10 % left as they are
    embedding_std: float = (
        0.05  # to which the skip-gram vectors are scaled; positions start at BERT's 0.02
    )
    precision: str = (
        "bf16"  # 1.4 times faster where the CPU has AVX512-BF16, slower where it has not
    )
    seed: int = 0


@dataclass(frozen=True)
class Intervals:
    """How often a run says where it is. Changes nothing in the model."""

    log_steps: int = 100  # a checkpoint may follow each
    valid_steps: int = 2_000
    checkpoint_seconds: float = 300.0


def model_config(width: int, layers: int, feed_forward: int, dropout: float) -> BertConfig:
    """The architecture: a BERT with heads of 64 dimensions."""
    return BertConfig(
        vocab_size=VOCABULARY_SIZE,
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=max(1, width // 64),
        intermediate_size=feed_forward,
        max_position_embeddings=MAX_LENGTH,
        pad_token_id=PAD,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
    )


def build_model(static_vectors: NDArray[np.float32], settings: Settings) -> BertForMaskedLM:
    """A new model whose (tied) token embeddings start from the skip-gram vectors.

    Raises:
        ValueError: it would not fit into the wheel.
    """
    torch.manual_seed(settings.seed)
    width = static_vectors.shape[1]
    # No dropout: a model this small underfits, so there is nothing to regularise.
    model = BertForMaskedLM(
        model_config(width, settings.layers, settings.feed_forward, dropout=0.0)
    )
    files = 2 * model.num_parameters() + BESIDE_WEIGHTS
    if files > LARGEST:
        size = (
            f"{settings.layers} layers of {width} dimensions, feed-forward {settings.feed_forward}"
        )
        told = f"{size}, take {files / 1e6:.1f} MB, and {LARGEST / 1e6:.0f} MB fit"
        raise ValueError(f"{told}: fewer --layers or --feed-forward, or narrower vectors")
    vectors = torch.from_numpy(static_vectors)
    known = vectors.abs().sum(1) > 0
    centred = vectors[known] - vectors[known].mean(0)
    with torch.no_grad():
        model.bert.embeddings.word_embeddings.weight[known] = centred * (
            settings.embedding_std / centred.std()
        )
    return model


def build_optimizer(model: nn.Module, settings: Settings) -> torch.optim.AdamW:
    """AdamW with weight decay on matrices only."""
    parameters = list(model.parameters())
    groups = [
        {"params": [p for p in parameters if p.ndim >= 2], "weight_decay": settings.weight_decay},
        {"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(
        groups, lr=settings.learning_rate, betas=settings.betas, eps=1e-6, fused=True
    )


def learning_rate(tokens: float, settings: Settings) -> float:
    """Warm-up, plateau, linear decay, as a function of the tokens seen so far."""
    warmup = min(1.0, (tokens + 1) / settings.warmup_tokens)
    decay = (settings.tokens - tokens) / (settings.decay_fraction * settings.tokens)
    return settings.learning_rate * min(warmup, max(decay, 0.0), 1.0)


@dataclass(frozen=True)
class Batch:
    """Corrupted rows, and what has to be guessed where."""

    ids: Tensor
    masked: Tensor  # indices into the flattened rows
    targets: Tensor

    def to(self, device: torch.device) -> Batch:
        """On a device; copied to a GPU while it computes."""
        tensors = (self.ids, self.masked, self.targets)
        if on_gpu(device):
            tensors = tuple(tensor.pin_memory() for tensor in tensors)
        return Batch(*(tensor.to(device, non_blocking=True) for tensor in tensors))


def make_batch(rows: Rows, rng: np.random.Generator, mask_rate: float) -> Batch:
    """Mask a share of the ordinary pieces, as BERT does."""
    ids = rows.astype(np.int64)
    chosen = (rng.random(ids.shape) < mask_rate) & (ids >= FIRST_ORDINARY_ID)
    targets = ids[chosen]
    fate = rng.random(len(targets))
    random_ids = rng.integers(FIRST_ORDINARY_ID, VOCABULARY_SIZE, len(targets))
    ids[chosen] = np.where(fate < 0.8, MASK, np.where(fate < 0.9, random_ids, targets))
    return Batch(*map(torch.from_numpy, (ids, np.flatnonzero(chosen), targets)))


def masked_loss(model: BertForMaskedLM, batch: Batch, precision: str) -> Tensor:
    """Mean cross-entropy and accuracy at the masked places, shape (2,); the output layer runs on those alone."""
    with autocast(batch.ids.device, precision):
        hidden = model.bert(input_ids=batch.ids).last_hidden_state
        logits = model.cls(hidden.flatten(0, 1).index_select(0, batch.masked))
    logits = logits.float()
    hits = logits.detach().argmax(1) == batch.targets
    return torch.stack([cross_entropy(logits, batch.targets), hits.float().mean()])


def world() -> tuple[int, int]:
    """The number of this process and how many there are."""
    return (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)


def average_gradients(model: nn.Module) -> None:
    """Make the gradients of all processes their mean, in one message."""
    _, processes = world()
    if processes == 1:
        return
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    flat = torch.cat([gradient.flatten() for gradient in gradients])
    dist.all_reduce(flat)
    flat /= processes
    for gradient, part in zip(gradients, flat.split([g.numel() for g in gradients]), strict=True):
        gradient.copy_(part.view_as(gradient))


def train_step(
    model: BertForMaskedLM, optimizer: torch.optim.Optimizer, batch: Batch, settings: Settings
) -> Tensor:
    """One step; loss and accuracy, shape (2,). Does not wait for the device."""
    figures = masked_loss(model, batch, settings.precision)
    figures[0].backward()
    average_gradients(model)
    nn.utils.clip_grad_norm_(model.parameters(), settings.clip_norm)
    optimizer.step()
    optimizer.zero_grad()
    return figures.detach()


class RowOrder:
    """Rows in a new seeded order every epoch, addressed by step; each process gets its share of a step."""

    def __init__(self, rows: Rows, settings: Settings) -> None:
        self._rows, self._settings = rows, settings
        self._rows_per_step = settings.tokens_per_step // rows.shape[1]
        self.steps_per_epoch = len(rows) // self._rows_per_step
        self._epoch, self._order = -1, np.empty(0, dtype=np.int64)

    def batch(self, step: int) -> Batch:
        """This process's part of one step: a pure function of seed, step and process."""
        epoch, index = divmod(step, self.steps_per_epoch)
        seed, size = self._settings.seed, self._rows_per_step
        if epoch != self._epoch:
            self._epoch = epoch
            self._order = np.random.default_rng([seed, 0, epoch]).permutation(len(self._rows))
        rank, processes = world()
        rows = self._rows[np.sort(self._order[index * size : (index + 1) * size][rank::processes])]
        return make_batch(
            rows, np.random.default_rng([seed, 1, step, rank]), self._settings.mask_rate
        )


@torch.no_grad()
def validate(
    model: BertForMaskedLM, rows: Rows, settings: Settings, device: torch.device
) -> list[float]:
    """Loss and masked accuracy on the held-out rows, with the same masks every time."""
    rng = np.random.default_rng([settings.seed, 2])
    totals = np.zeros(3)
    size = settings.tokens_per_step // rows.shape[1]
    for start in range(0, len(rows), size):
        batch = make_batch(rows[start : start + size], rng, settings.mask_rate).to(device)
        totals += np.array([*masked_loss(model, batch, settings.precision).tolist(), 1.0]) * len(
            batch.targets
        )
    return (totals[:2] / totals[2]).tolist()


class Run:
    """A model, its optimiser and its log, in a folder: `checkpoint.pt`, and `training_log.csv` with a row an interval.

    Raises:
        ValueError: the folder's checkpoint is of other settings.
    """

    def __init__(
        self, folder: Path, model: BertForMaskedLM, settings: Settings, device: torch.device
    ) -> None:
        self.folder, self.settings, self.device = folder, settings, device
        self.model = model.to(device).train()
        self.optimizer = build_optimizer(model, settings)
        self.step = 0
        self.log: list[dict[str, str]] = []
        self.saved_at = time.monotonic()
        folder.mkdir(parents=True, exist_ok=True)
        if (folder / "checkpoint.pt").exists():
            self._load(torch.load(folder / "checkpoint.pt", map_location=device, weights_only=True))

    def _load(self, state: dict[str, Any]) -> None:
        then, now = state["settings"], plain(self.settings)
        other = {
            key: f"{key} was {then[key]} and is {now[key]}" for key in now if then[key] != now[key]
        }
        plateau = (1 - self.settings.decay_fraction) * min(then["tokens"], now["tokens"])
        if state["step"] * self.settings.tokens_per_step <= plateau:
            other.pop("tokens", None)  # the budget decides when the decay begins, and no more
        if other:
            raise ValueError(
                f"the run in {self.folder} cannot go on like this: {', '.join(other.values())}"
            )
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.step, self.log = state["step"], state["log"]

    def save(self) -> None:
        """Write to a temporary file and rename it: a killed run leaves the last whole checkpoint."""
        state = {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}
        state |= {"settings": plain(self.settings), "step": self.step, "log": self.log}
        partial = self.folder / "checkpoint.partial"
        torch.save(state, partial)
        os.replace(partial, self.folder / "checkpoint.pt")
        self.saved_at = time.monotonic()

    def write(self, figures: list[Tensor], seconds: float, valid: list[float]) -> None:
        """A row of the log: means since the last one."""
        tokens, steps = self.settings.tokens_per_step, len(figures)
        loss, accuracy = torch.stack(figures).double().mean(0).tolist()
        lr = learning_rate((self.step - 1) * tokens, self.settings)
        row = {"step": f"{self.step}", "tokens": f"{self.step * tokens}", "loss": f"{loss:.4f}"}
        row |= {
            "accuracy": f"{accuracy:.4f}",
            "lr": f"{lr:.3e}",
            "tokens_per_s": f"{steps * tokens / seconds:.0f}",
        }
        names = ("valid_loss", "valid_accuracy")
        row |= dict(zip(names, [f"{value:.4f}" for value in valid] or ["", ""], strict=True))
        self.log.append(row)
        with (self.folder / "training_log.csv").open("w", newline="") as file:
            writer = csv.DictWriter(file, list(row), lineterminator="\n")
            writer.writeheader()
            writer.writerows(self.log)


def plain(settings: Settings) -> dict[str, Any]:
    """As stored in a checkpoint."""
    return {
        key: list(value) if isinstance(value, tuple) else value
        for key, value in asdict(settings).items()
    }


def train(packed: Path, run: Run, every: Intervals) -> None:
    """Train until the token budget is spent."""
    settings, device = run.settings, run.device
    valid_rows: Rows = np.load(packed / "valid.npy")
    order = RowOrder(np.load(packed / "train.npy", mmap_mode="r"), settings)
    last_step = int(settings.tokens // settings.tokens_per_step)
    figures: list[Tensor] = []
    started = time.perf_counter()
    while run.step < last_step:
        lr = learning_rate(run.step * settings.tokens_per_step, settings)
        for group in run.optimizer.param_groups:
            group["lr"] = lr
        found = train_step(run.model, run.optimizer, order.batch(run.step).to(device), settings)
        run.step += 1
        if world()[0]:
            continue
        figures.append(found)
        if run.step % every.log_steps and run.step != last_step:
            continue
        validated = run.step % every.valid_steps == 0 or run.step == last_step
        valid = validate(run.model, valid_rows, settings, device) if validated else []
        run.write(figures, time.perf_counter() - started, valid)
        figures, started = [], time.perf_counter()
        if run.step == last_step or time.monotonic() - run.saved_at > every.checkpoint_seconds:
            run.save()


def main() -> None:
    """Read the command line and train."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("--packed", type=Path, required=True)
    parser.add_argument(
        "--static", type=Path, required=True, help="folder of the skip-gram vectors"
    )
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument(
        "--device", default="cuda" if torch.cuda.is_available() else "cpu", help="cpu, cuda, cuda:N"
    )
    parser.add_argument("--threads", type=int, default=1, help="of each process")
    parser.add_argument("--precision", choices=("fp32", "bf16"), default=Settings.precision)
    for group, name, told in (
        (Settings, "tokens", "token budget, decay included"),
        (Settings, "tokens_per_step", "tokens of a step"),
        (Settings, "learning_rate", "on the plateau"),
        (Settings, "layers", "of the model; its width is that of the vectors"),
        (Settings, "feed_forward", "width between the two matrices of a layer"),
        (Intervals, "log_steps", "steps between two rows of the log"),
        (Intervals, "checkpoint_seconds", "seconds between two checkpoints, at least"),
    ):
        default = getattr(group, name)
        help_text = f"{told} ({default:g})"
        parser.add_argument(
            f"--{name.replace('_', '-')}", type=type(default), default=default, help=help_text
        )
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    if "WORLD_SIZE" in os.environ:  # started by torchrun
        dist.init_process_group("gloo")
    given = vars(args)
    settings, every = (
        replace(
            group,
            **{field.name: given[field.name] for field in fields(group) if field.name in given},
        )
        for group in (Settings(), Intervals())
    )
    try:
        device, model = (
            pick_device(args.device),
            build_model(np.load(args.static / "vectors.npy"), settings),
        )
        run = Run(args.output, model, settings, device)
    except (UsageError, ValueError) as error:
        parser.error(str(error))
    train(args.packed, run, every)


if __name__ == "__main__":
    main()
