"""Train `tiny` from scratch as a masked language model: a plain loop that knows nothing of similarity.

    torchrun --standalone --nproc-per-node 2 -m pretraining.pretrain --packed FOLDER --static FOLDER
        --output FOLDER --tokens 60e6 [--resume]

The learning rate is a function of the tokens seen: warm-up, plateau, linear decay to zero over the last
part of the budget. A checkpoint taken on the plateau fits any budget, so a run is extended or cut short
by stopping it and resuming with another `--tokens`. What is masked, and in which order rows come,
depends on the seed and the step only: a resumed run sees what an uninterrupted one would have seen.

One process of one thread per core, which meet once a step to average their gradients: two threads in one
process meet at every operation instead, and fall to a tenth of the speed as soon as another program wants
a core. Without `torchrun` it runs in a single process.
"""

from __future__ import annotations

import csv
import os
import time
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from transformers import BertConfig, BertForMaskedLM

from pretraining.corpus import Rows
from pretraining.static_vectors import DIMENSIONS
from pretraining.tokenizer import FIRST_ORDINARY_ID, MASK, MAX_LENGTH, PAD, VOCABULARY_SIZE


@dataclass(frozen=True)
class Settings:
    """Everything that shapes the model, apart from the data."""

    tokens: float = 60e6  # budget
    tokens_per_step: int = 2_048  # small steps, so that there are enough of them in a small budget
    learning_rate: float = 1e-3
    warmup_tokens: float = 1e6
    decay_fraction: float = 0.5  # of the budget, linear to zero
    weight_decay: float = 0.01  # matrices only: not biases, not LayerNorm
    betas: tuple[float, float] = (0.9, 0.98)
    clip_norm: float = 1.0
    mask_rate: float = 0.15  # of which 80 % [MASK], 10 % a random piece, 10 % left as they are
    embedding_std: float = 0.05  # to which the skip-gram vectors are scaled; positions start at BERT's 0.02
    bfloat16: bool = True  # autocast; 1.4 times faster where the CPU has AVX512-BF16, slower where it has not
    seed: int = 0


@dataclass(frozen=True)
class Intervals:
    """How often a run says where it is. Changes nothing in the model."""

    log_steps: int = 100
    valid_steps: int = 2_000
    checkpoint_seconds: float = 300.0


LOG_FIELDS = ["step", "tokens", "loss", "accuracy", "lr", "tokens_per_s", "valid_loss", "valid_accuracy"]


def model_config(dropout: float) -> BertConfig:
    """The architecture: 3.8M parameters, which is what fits in 8 MB in half precision."""
    return BertConfig(
        vocab_size=VOCABULARY_SIZE,
        hidden_size=DIMENSIONS,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=1024,
        max_position_embeddings=MAX_LENGTH,
        pad_token_id=PAD,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
    )


def build_model(static_vectors: NDArray[np.float32], settings: Settings) -> BertForMaskedLM:
    """A new model whose (tied) token embeddings start from the skip-gram vectors."""
    torch.manual_seed(settings.seed)
    model = BertForMaskedLM(model_config(dropout=0.0))  # a model this small underfits: nothing to regularise
    vectors = torch.from_numpy(static_vectors)
    known = vectors.abs().sum(1) > 0
    centred = vectors[known] - vectors[known].mean(0)
    scaled = centred * (settings.embedding_std / centred.std())
    with torch.no_grad():
        model.bert.embeddings.word_embeddings.weight[known] = scaled
    return model


def build_optimizer(model: nn.Module, settings: Settings) -> torch.optim.AdamW:
    """AdamW with weight decay on matrices only."""
    parameters = list(model.parameters())
    groups = [
        {"params": [p for p in parameters if p.ndim >= 2], "weight_decay": settings.weight_decay},
        {"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=settings.learning_rate, betas=settings.betas, eps=1e-6, fused=True)


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


def make_batch(rows: Rows, rng: np.random.Generator, mask_rate: float) -> Batch:
    """Mask a share of the ordinary pieces, as BERT does."""
    ids = rows.astype(np.int64)
    chosen = (rng.random(ids.shape) < mask_rate) & (ids >= FIRST_ORDINARY_ID)
    targets = ids[chosen]
    fate = rng.random(len(targets))
    random_ids = rng.integers(FIRST_ORDINARY_ID, VOCABULARY_SIZE, len(targets))
    ids[chosen] = np.where(fate < 0.8, MASK, np.where(fate < 0.9, random_ids, targets))
    return Batch(
        ids=torch.from_numpy(ids),
        masked=torch.from_numpy(np.flatnonzero(chosen)),
        targets=torch.from_numpy(targets),
    )


def masked_loss(model: BertForMaskedLM, batch: Batch, bfloat16: bool) -> tuple[Tensor, Tensor]:
    """Mean cross-entropy and accuracy at the masked places; the output layer runs on those alone."""
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=bfloat16):
        hidden = model.bert(input_ids=batch.ids).last_hidden_state
        logits = model.cls(hidden.flatten(0, 1)[batch.masked])
    logits = logits.float()
    return cross_entropy(logits, batch.targets), (logits.argmax(1) == batch.targets).float().mean()


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
        return make_batch(rows, np.random.default_rng([seed, 1, step, rank]), self._settings.mask_rate)


@torch.no_grad()
def validate(model: BertForMaskedLM, rows: Rows, settings: Settings) -> tuple[float, float]:
    """Loss and masked accuracy on the held-out rows, with the same masks every time."""
    rng = np.random.default_rng([settings.seed, 2])
    model.eval()
    totals = np.zeros(3)
    size = settings.tokens_per_step // rows.shape[1]
    for start in range(0, len(rows), size):
        batch = make_batch(rows[start : start + size], rng, settings.mask_rate)
        loss, accuracy = masked_loss(model, batch, settings.bfloat16)
        totals += np.array([loss.item(), accuracy.item(), 1.0]) * len(batch.targets)
    model.train()
    return totals[0] / totals[2], totals[1] / totals[2]


def save_checkpoint(folder: Path, model: nn.Module, optimizer: torch.optim.Optimizer, step: int) -> None:
    """Write to a temporary file and rename it: a killed run leaves the last whole checkpoint."""
    partial = folder / "checkpoint.partial"
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, partial)
    os.replace(partial, folder / "checkpoint.pt")


def load_checkpoint(folder: Path, model: nn.Module, optimizer: torch.optim.Optimizer) -> int:
    """Restore model and optimizer; return the number of steps done."""
    state = torch.load(folder / "checkpoint.pt", weights_only=True)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    return int(state["step"])


class TrainingLog:
    """A CSV with the first process's running means since its last row, one row an interval."""

    def __init__(self, path: Path, done_steps: int) -> None:
        rows = []
        if done_steps:  # a resumed run repeats the steps after its checkpoint: drop what was logged of them
            with path.open(newline="") as file:
                rows = [row for row in csv.DictReader(file) if int(row["step"]) <= done_steps]
        self._file = path.open("w", newline="", buffering=1)
        self._writer = csv.DictWriter(self._file, LOG_FIELDS, lineterminator="\n")
        self._writer.writeheader()
        self._writer.writerows(rows)
        self._reset()

    def _reset(self) -> None:
        self._sums, self._steps, self._start = np.zeros(2), 0, time.perf_counter()

    def add(self, loss: Tensor, accuracy: Tensor) -> None:
        """Take the figures of one step."""
        self._sums += (loss.item(), accuracy.item())
        self._steps += 1

    def write(self, step: int, step_tokens: int, lr: float, valid: tuple[float, float] | None) -> None:
        """Write the row that ends at `step`."""
        loss, accuracy = self._sums / self._steps
        speed = self._steps * step_tokens / (time.perf_counter() - self._start)
        values = [step, step * step_tokens, f"{loss:.4f}", f"{accuracy:.4f}", f"{lr:.3e}", f"{speed:.0f}"]
        values += [f"{value:.4f}" for value in valid] if valid else ["", ""]
        self._writer.writerow(dict(zip(LOG_FIELDS, values, strict=True)))
        self._reset()


def train(
    packed: Path, model: BertForMaskedLM, output: Path, settings: Settings, every: Intervals, resume: bool
) -> None:
    """Train until the token budget is spent."""
    output.mkdir(parents=True, exist_ok=True)
    valid_rows: Rows = np.load(packed / "valid.npy")
    order = RowOrder(np.load(packed / "train.npy", mmap_mode="r"), settings)
    optimizer = build_optimizer(model, settings)
    done = load_checkpoint(output, model, optimizer) if resume else 0
    log = TrainingLog(output / "training_log.csv", done) if world()[0] == 0 else None
    step_tokens = settings.tokens_per_step
    last_step = int(settings.tokens // step_tokens)
    saved_at = time.monotonic()
    model.train()
    for step in range(done + 1, last_step + 1):
        lr = learning_rate((step - 1) * step_tokens, settings)
        for group in optimizer.param_groups:
            group["lr"] = lr
        loss, accuracy = masked_loss(model, order.batch(step - 1), settings.bfloat16)
        loss.backward()
        average_gradients(model)
        nn.utils.clip_grad_norm_(model.parameters(), settings.clip_norm)
        optimizer.step()
        optimizer.zero_grad()
        if log is None:
            continue
        log.add(loss.detach(), accuracy)
        if step % every.log_steps == 0 or step == last_step:
            validated = step % every.valid_steps == 0 or step == last_step
            log.write(step, step_tokens, lr, validate(model, valid_rows, settings) if validated else None)
        if step == last_step or time.monotonic() - saved_at > every.checkpoint_seconds:
            save_checkpoint(output, model, optimizer, step)
            saved_at = time.monotonic()


def main() -> None:
    """Read the command line and train."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("--packed", type=Path, required=True)
    parser.add_argument("--static", type=Path, required=True, help="folder of the skip-gram vectors")
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--tokens", type=float, default=Settings.tokens, help="token budget, decay included")
    parser.add_argument("--threads", type=int, default=1, help="of each process")
    parser.add_argument("--float32", action="store_true", help="no bfloat16 autocast")
    parser.add_argument("--resume", action="store_true", help="continue from the checkpoint in --output")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    if "WORLD_SIZE" in os.environ:  # started by torchrun
        dist.init_process_group("gloo")
    settings = replace(Settings(), tokens=args.tokens, bfloat16=not args.float32)
    model = build_model(np.load(args.static / "vectors.npy"), settings)
    train(args.packed, model, args.output, settings, Intervals(), args.resume)


if __name__ == "__main__":
    main()
