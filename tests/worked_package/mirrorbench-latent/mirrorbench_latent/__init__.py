"""An encoder, a kind of task, an augmentation and an executor for mirrorbench."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from mirrorbench.plugin import EncoderContext, EncoderSpec, Register, UsageError, hookimpl
from mirrorbench_latent.letters import swap_letters
from mirrorbench_latent.oddity import OddOneOut, found, parse_odd
from mirrorbench_latent.threads import run_in_threads

if TYPE_CHECKING:
    from mirrorbench_latent.encoder import Latent


def open_latent(spec: EncoderSpec, context: EncoderContext) -> Latent:
    """Open the encoder that a spec such as ``latent:rank=8`` names.

    Raises:
        UsageError: ``rank`` is not possible, or the spec has a method or a revision.
    """
    from mirrorbench_latent.encoder import DEFAULT_RANK, Latent  # scikit-learn takes time to load

    if spec.method or spec.revision:
        raise UsageError(f"{spec}: latent has neither a method nor a revision", "Write latent.")
    return Latent(spec.get("rank", DEFAULT_RANK))


@hookimpl
def register_encoders(register: Register) -> None:
    """Register ``latent``.

    The key is not called ``dims``: mirrorbench keeps that key for itself, to cut vectors off.
    """
    register("latent", open_latent, "TF-IDF of letter n-grams and an SVD", keys={"rank": int})


@hookimpl
def register_parsers(register: Register) -> None:
    """Register the format of the words: four words and the odd one, with tabs between them."""
    register("odd-one-out", parse_odd, "four words and the odd one of them, with tabs")


@hookimpl
def register_task_kinds(register: Register) -> None:
    """Register the kind of task."""
    register("odd-one-out", OddOneOut, "which of four words does not belong?")


@hookimpl
def register_metrics(register: Register) -> None:
    """Register the metric of the task."""
    register("odd_found", found, "share of items whose odd word is the least similar")


@hookimpl
def register_tasks(register: Register) -> None:
    """Register the task of the card beside this file."""
    register(Path(__file__).with_name("odd.yaml"))


@hookimpl
def register_augmentations(register: Register) -> None:
    """Register the key of encoder specs: ``tiny+mirror:letter_swap=0.1``."""
    register(
        "letter_swap",
        swap_letters,
        on="text",
        description="probability that two neighbouring letters change places",
        probability=True,
    )


@hookimpl
def register_executors(register: Register) -> None:
    """Register ``threads``."""
    register("threads", run_in_threads, "Threads of this process: --executor threads:workers=2.")
