"""Loaders of configurations, tokenizers, weights and adapters from local files, which never run code beside a model.

No other module calls the loaders of transformers: without ``trust_remote_code=False`` they ask on standard input
whether to run such code, and take a line of the user's texts for the answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mirrorbench.core.errors import ModelUnavailableError
from mirrorbench.models.backbones import base_folder, configuration, tokenizer_folder

_SAFE = {"local_files_only": True, "trust_remote_code": False}


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Silence transformers' reports and progress bars, e.g. about unused heads at each load."""
    from transformers.utils import logging

    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()


def read_config(path: Path) -> Any:
    """Read the configuration of the model in a directory, or of an adapter's backbone."""
    from transformers import AutoConfig

    with quiet_transformers():
        return AutoConfig.from_pretrained(base_folder(path), **_SAFE)


def read_tokenizer(path: Path, **options: Any) -> Any:
    """Read the tokenizer in a directory, or the backbone's for an adapter without one."""
    from transformers import AutoTokenizer

    path = tokenizer_folder(path)
    with quiet_transformers():
        return AutoTokenizer.from_pretrained(path, **_SAFE, **options)


def read_weights(path: Path, class_name: str = "AutoModel", **options: Any) -> Any:
    """Open weights by ``from_pretrained`` of a class of transformers, with its options."""
    import transformers

    _check_quantized(path, configuration(path))
    with quiet_transformers():
        opened = getattr(transformers, class_name).from_pretrained(path, **_SAFE, **options)
    _check_floating(path, opened[0] if isinstance(opened, tuple) else opened)
    return opened


def read_adapter(model: Any, folder: Path) -> Any:
    """Add the adapter in a folder to a model, and return the report of ``load_adapter`` on its weights."""
    with quiet_transformers():
        return model.load_adapter(str(folder), adapter_kwargs={"local_files_only": True})


def read_sentence_transformer(path: Path, device: str, precision: str = "fp32") -> Any:
    """Open the sentence-transformers model in a directory: in float32 for ``fp32``, else in its files' precision."""
    from sentence_transformers import SentenceTransformer

    folders = [file.parent for file in path.rglob("config.json")]
    for folder in folders:
        settings = configuration(folder)
        _check_quantized(folder, settings)
        _check_activation(folder, settings)
    options: dict[str, Any] = {"model_kwargs": {"dtype": "float32"}} if precision == "fp32" else {}
    with quiet_transformers():
        model = SentenceTransformer(str(path), device=device, **options, **_SAFE)
    if precision == "fp32":
        model.float()  # modules beside the transformer, too
    for folder in folders:
        _check_floating(folder, model)
    return model


def _check_quantized(path: Path, settings: Mapping[str, Any]) -> None:
    if quantized := settings.get("quantization_config"):
        method = quantized.get("quant_method") if isinstance(quantized, Mapping) else quantized
        raise _quantized(f"config.json in {path} says that its weights are quantised ({method})")


def _check_floating(path: Path, model: Any) -> None:
    """Raise for weights stored as integers, which transformers converts without their scales."""
    from safetensors import safe_open

    parameters = {name for name, _ in model.named_parameters()}
    tails = {name.split(".", n)[-1] for name in parameters for n in range(name.count(".") + 1)}
    for file in sorted(path.glob("model*.safetensors")):
        with safe_open(file, "numpy") as tensors:
            types = {name: tensors.get_slice(name).get_dtype() for name in tensors.keys()}  # noqa: SIM118
        for name, dtype in types.items():
            scaled = dtype.startswith("F8") and not types.keys().isdisjoint(
                (f"{name}_scale", f"{name}_scale_inv")
            )
            if not scaled and dtype[0] not in "IU":
                continue
            if name in tails or any(name.endswith(f".{parameter}") for parameter in parameters):
                raise _quantized(f"{file} holds {name} as {dtype}")


def _quantized(problem: str) -> ModelUnavailableError:
    return ModelUnavailableError(
        f"{problem}; only weights in floating-point numbers are read",
        "Name the model that it was made from, or convert it with the library that quantised it.",
    )


def _check_activation(path: Path, settings: Mapping[str, Any]) -> None:
    """Raise for a ``Dense`` with an activation that sentence-transformers would replace by another one."""
    name = settings.get("activation_function", "torch.")
    if "in_features" in settings and not str(name).startswith("torch."):
        raise ModelUnavailableError(
            f"config.json in {path} names the activation {name}, which is not among torch's, and is not run",
            "If one of torch's computes the same, write it there: torch.nn.modules.activation.GELU.",
        )
