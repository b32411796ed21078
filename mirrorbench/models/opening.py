"""Loaders of configurations, tokenizers and weights from local files, which never run code beside a model.

No other module calls the loaders of transformers: without ``trust_remote_code=False`` they ask on standard input
whether to run such code, and would take a line of the user's texts for the answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mirrorbench.core.errors import ModelUnavailableError
from mirrorbench.models.backbones import (
    backbone_folder,
    configuration,
    tokenizer_folder,
)
from mirrorbench.models.model_files import modules
from mirrorbench.models.module_state import restore_state_after_each_pass
from mirrorbench.models.positions import positions_of_model
from mirrorbench.models.tokenizer_files import (
    PROBES,
    TOKENIZER,
    comparison_key,
    described_tokenizer,
    remembered_comparison,
    same_tokens,
)

_opened_by_comparison: dict[str, Any] = {}
"""The tokenizer that the last comparison opened, until ``read_tokenizer`` takes it; by ``comparison_key``."""
_SAFE_OPTIONS = {"local_files_only": True, "trust_remote_code": False}


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Silence transformers' reports and progress bars, e.g. about unused heads at each load."""
    from transformers.utils import logging

    verbosity = logging.get_verbosity()
    shows_bars = logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if shows_bars:
            logging.enable_progress_bar()


def read_config(path: Path) -> Any:
    """Read the configuration of the model in a directory, or of an adapter's backbone."""
    from transformers import AutoConfig

    with quiet_transformers():
        return AutoConfig.from_pretrained(backbone_folder(path), **_SAFE_OPTIONS)


def read_tokenizer(path: Path, **options: Any) -> Any:
    """Read the tokenizer in a directory, or the backbone's for an adapter without one.

    Where ``tokenizer.json`` exists, texts get the tokens that the files describe (``models.tokenizer_files``), and
    ``options`` are ignored.
    """
    folder = tokenizer_folder(path)
    if not (folder / TOKENIZER).is_file():
        return _tokenizer_of_class(folder, **options)
    is_read_from_file = reads_tokenizer_file(path)
    # The comparison may just have opened the tokenizer, and large ones take seconds to open.
    opened_tokenizer = _opened_by_comparison.pop(comparison_key(folder), None)
    if opened_tokenizer is not None:
        return opened_tokenizer
    if is_read_from_file:
        return _tokenizer_of_file(described_tokenizer(folder), folder)
    return _tokenizer_of_class(folder)


def _tokenizer_of_class(folder: Path, **options: Any) -> Any:
    """Read a tokenizer by the class that transformers chooses."""
    from transformers import AutoTokenizer

    with quiet_transformers():
        return AutoTokenizer.from_pretrained(folder, **_SAFE_OPTIONS, **options)


def reads_tokenizer_file(path: Path) -> bool:
    """Return whether a model's tokenizer is read from its ``tokenizer.json``, since transformers opens another one.

    The comparison is made once for each set of files and versions of the libraries, and remembered in the cache. The
    result is false without ``tokenizer.json``, and for damaged files, which are reported when the tokenizer is opened.
    """
    folder = tokenizer_folder(path)
    if not (folder / TOKENIZER).is_file():
        return False
    return remembered_comparison(folder, lambda: _class_differs(folder))


def _class_differs(folder: Path) -> bool:
    """Return whether the class that transformers chooses gives other token ids than the files describe.

    False for files that cannot be read. Keep the tokenizer that is to be used in ``_opened_by_comparison``.
    """
    try:
        described = described_tokenizer(folder)
        described.encode_batch(PROBES)
    except Exception:  # tokenizers raises bare exceptions for damaged files
        return False
    tokenizer = _equal_tokenizer_of_class(folder, described)
    differs = tokenizer is None
    if differs:
        try:
            tokenizer = _tokenizer_of_file(described, folder)
        except Exception:  # transformers cannot read it without the class either
            return False
    _opened_by_comparison.clear()
    _opened_by_comparison[comparison_key(folder)] = tokenizer
    return differs


def _equal_tokenizer_of_class(folder: Path, described: Any) -> Any:
    """Return the tokenizer of the class that transformers chooses; ``None`` if it fails or is not as described."""
    try:
        tokenizer = _tokenizer_of_class(folder)
        backend = tokenizer.backend_tokenizer
        backend.no_padding()
        backend.no_truncation()
        return tokenizer if same_tokens(backend, described) else None
    except Exception:  # a class may want files or tokens that are not there
        return None


def _tokenizer_of_file(described: Any, folder: Path) -> Any:
    """Return a described tokenizer with the special tokens of its folder, whatever class the configuration names."""
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast

    # An empty tokenizer, which is replaced, spares reading a large file again.
    empty = Tokenizer(models.WordLevel({}, unk_token=""))
    with quiet_transformers():
        tokenizer = PreTrainedTokenizerFast.from_pretrained(
            folder, tokenizer_object=empty, **_SAFE_OPTIONS
        )
    tokenizer._tokenizer = described
    return tokenizer


def read_weights(path: Path, class_name: str = "AutoModel", **options: Any) -> Any:
    """Open a model in a directory by ``from_pretrained`` of a class of transformers, and return it.

    A loss reads a second model by it, such as the backbone with a head that ``Transformer.model`` lacks. Only local
    files are read, no code in the directory is run, and transformers prints no report. The model is on the CPU, in
    evaluation mode and in the precision that transformers chooses: a loss calls ``.float().to(transformer.device)``.

    Args:
        path: directory of a model, such as ``Transformer.path``.
        class_name: name of the class in ``transformers``, such as ``AutoModelForMaskedLM``.
        **options: further keyword arguments of its ``from_pretrained``. ``output_loading_info=True`` returns the model
            and a report, in which ``missing_keys`` names the weights that are not stored, and are random.

    Raises:
        ModelUnavailableError: the directory has no ``config.json``, or the weights are quantised.

    Example:
        >>> import mirrorbench
        >>> from mirrorbench.plugin import read_weights
        >>> transformer = mirrorbench.load("tiny", device="cpu").encoder.transformer
        >>> model, report = read_weights(transformer.path, "AutoModelForMaskedLM", output_loading_info=True)
        >>> sorted(report["missing_keys"])
        []
        >>> model.cls.predictions.decoder.out_features == transformer.vocabulary
        True
    """
    import transformers

    _check_quantized(path, configuration(path))
    with quiet_transformers():
        opened = getattr(transformers, class_name).from_pretrained(path, **_SAFE_OPTIONS, **options)
    # With output_loading_info=True, `opened` is the model and a report.
    model = opened[0] if isinstance(opened, tuple) else opened
    _check_floating(path, model)
    return opened


def empty_model(path: Path) -> Any:
    """Return the model that the configuration in a directory describes, without weights and their memory."""
    import torch
    from transformers import AutoModel

    config = read_config(path)
    with quiet_transformers(), torch.device("meta"):
        return AutoModel.from_config(config, trust_remote_code=False)


def text_folder(path: Path) -> Path:
    """Return the folder of a sentence-transformers model's first module, with its tokenizer; else the path itself."""
    listed_modules = modules(path)
    if listed_modules:
        return path / listed_modules[0].path
    return path


def _loader_options(precision: str) -> dict[str, Any]:
    """Return options of sentence-transformers' loaders: float32 for ``fp32``, else none, to keep the files' own."""
    if precision == "fp32":
        return {"model_kwargs": {"dtype": "float32"}}
    return {}


def read_sentence_transformer(path: Path, device: str, precision: str = "fp32") -> Any:
    """Open the sentence-transformers model in a directory.

    It is in float32 for the precision ``fp32``, else in the precision of its files. Its tokenizer is that of
    ``tokenizer.json`` (``reads_tokenizer_file``), texts are cut within the model's positions, and no pass changes the
    state of a module. Quantised weights, or an activation that would not be run, raise a ``ModelUnavailableError``.
    """
    from sentence_transformers import SentenceTransformer

    # Each module with weights or an activation has a folder with a config.json.
    folders = [file.parent for file in path.rglob("config.json")]
    for folder in folders:
        settings = configuration(folder)
        _check_quantized(folder, settings)
        _check_activation(folder, settings)
    with quiet_transformers():
        model = SentenceTransformer(
            str(path), device=device, **_loader_options(precision), **_SAFE_OPTIONS
        )
    if precision == "fp32":
        # The loader's options do not reach modules after the transformer.
        model.float()
    transformer_folder = text_folder(path)
    if reads_tokenizer_file(transformer_folder):
        _replace_tokenizer(model[0], read_tokenizer(transformer_folder))
    # The files may hold integers that are no weights, so this check needs the names of the model's weights.
    for folder in folders:
        _check_floating(folder, model)
    for module in model:
        restore_state_after_each_pass(module)
    for module in model.modules():
        if hasattr(module, "auto_model"):
            _keep_within_positions(module)
    return model


def read_cross_encoder(path: Path, device: str, precision: str = "fp32") -> Any:
    """Open the cross-encoder in a directory: in float32 for ``fp32``, else in its files' precision.

    Quantised weights, or a head without stored weights, raise a ``ModelUnavailableError``.
    """
    from sentence_transformers import CrossEncoder

    folder = text_folder(path)
    _check_quantized(folder, configuration(folder))
    with quiet_transformers():
        model = CrossEncoder(
            str(path), device=device, **_loader_options(precision), **_SAFE_OPTIONS
        )
    if reads_tokenizer_file(folder):
        _replace_tokenizer(model[0], read_tokenizer(folder))
    _check_floating(folder, model)
    _check_head(folder, model[0].auto_model)
    _keep_within_positions(model[0])
    return model


def _keep_within_positions(module: Any) -> None:
    """Lower the maximum length of a sentence-transformers transformer to its positions, if it is greater."""
    positions = positions_of_model(module.auto_model)
    max_length = module.max_seq_length
    if positions and max_length and max_length > positions:
        module.max_seq_length = positions


def _replace_tokenizer(module: Any, tokenizer: Any) -> None:
    """Give a sentence-transformers transformer another tokenizer, with the settings of the former one.

    Nothing changes in a model with a processor of images, which has a tokenizer inside.
    """
    former = module.tokenizer
    if module.processor is not former:
        return
    tokenizer.model_max_length = former.model_max_length
    tokenizer.padding_side = former.padding_side
    if getattr(module, "do_lower_case", False):
        from tokenizers import normalizers

        backend = tokenizer.backend_tokenizer
        steps: list[Any] = [normalizers.Lowercase()]
        if backend.normalizer is not None:
            steps.append(backend.normalizer)
        backend.normalizer = normalizers.Sequence(steps)
    module.processor = tokenizer
    module.input_formatter.processor = tokenizer


def _check_quantized(path: Path, settings: Mapping[str, Any]) -> None:
    """Raise a ``ModelUnavailableError`` for a configuration of quantised weights."""
    quantization = settings.get("quantization_config")
    if quantization:
        method = quantization
        if isinstance(quantization, Mapping):
            method = quantization.get("quant_method")
        raise _quantized(f"config.json in {path} says that its weights are quantised ({method})")


def _check_floating(path: Path, model: Any) -> None:
    """Raise a ``ModelUnavailableError`` for weights stored as integers, or as 8-bit floats with scales.

    transformers would drop the scales. Integers and scaled floats of other names (position ids) are no weights.
    """
    from safetensors import safe_open

    parameter_names = {name for name, _ in model.named_parameters()}
    for file in sorted(path.glob("model*.safetensors")):
        with safe_open(file, "numpy") as tensors:
            types = {name: tensors.get_slice(name).get_dtype() for name in tensors.keys()}  # noqa: SIM118
        for name, dtype in types.items():
            has_scale = f"{name}_scale" in types or f"{name}_scale_inv" in types
            # Types are written like I8, U8 or F8_E4M3.
            is_integer = dtype[0] in "IU"
            is_scaled = dtype.startswith("F8") and has_scale
            if (is_integer or is_scaled) and _is_stored_parameter(name, parameter_names):
                raise _quantized(f"{file} holds {name} as {dtype}")


def _is_stored_parameter(stored_name: str, parameter_names: set[str]) -> bool:
    """Return whether a name in a file is that of a parameter.

    Files may leave out the first parts of a parameter's name (``encoder.``), or put further parts before it.
    """
    for name in parameter_names:
        if stored_name == name or name.endswith(f".{stored_name}"):
            return True
        if stored_name.endswith(f".{name}"):
            return True
    return False


def _check_head(path: Path, model: Any) -> None:
    """Raise a ``ModelUnavailableError`` if the files have no weight of a model's classifier, which would be random."""
    base_prefix = f"{model.base_model_prefix}."
    names = [name for name, _ in model.named_parameters()]
    head = {name for name in names if not name.startswith(base_prefix)}
    is_classifier = type(model).__name__.endswith("ForSequenceClassification")
    if is_classifier and head and head.isdisjoint(_stored_names(path)):
        raise ModelUnavailableError(
            f"{path} has no weights of its score ({', '.join(sorted(head))}), which would be random",
            "Train it, or take the directory of a trained cross-encoder.",
        )


def _stored_names(path: Path) -> set[str]:
    """Return the names of the weights in a model's files: in safetensors, or else in pickles."""
    import torch
    from safetensors import safe_open

    names: set[str] = set()
    for file in sorted(path.glob("model*.safetensors")):
        with safe_open(file, "numpy") as tensors:
            names.update(tensors.keys())
    if not names:
        for file in sorted(path.glob("pytorch_model*.bin")):
            names.update(torch.load(file, weights_only=True, mmap=True))
    return names


def _quantized(problem: str) -> ModelUnavailableError:
    """Return the error for weights that are not stored as floating-point numbers."""
    return ModelUnavailableError(
        f"{problem}; only weights in floating-point numbers are read",
        "Name the model that it was made from, or convert it with the library that quantised it.",
    )


def _check_activation(path: Path, settings: Mapping[str, Any]) -> None:
    """Raise a ``ModelUnavailableError`` for a ``Dense`` whose activation sentence-transformers would replace."""
    name = settings.get("activation_function", "torch.")
    is_dense = "in_features" in settings
    if is_dense and not str(name).startswith("torch."):
        raise ModelUnavailableError(
            f"config.json in {path} names the activation {name}, which is not among torch's, and is not run",
            "If one of torch's computes the same, write it there: torch.nn.modules.activation.GELU.",
        )
