"""Devices and numeric precision of torch, and errors of GPUs."""

from __future__ import annotations

import ctypes
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from mirrorbench.core.errors import DeviceError, DeviceMemoryError, UsageError

if TYPE_CHECKING:
    import torch
    from numpy.typing import NDArray

    from mirrorbench.core.specs import Value

PRECISIONS = ("auto", "fp32", "bf16", "fp16")
GPUS = ("cuda",)
"""Device types that are treated as GPUs; tests add ``meta``."""
_BF16_CAPABILITY = (8, 0)
"""The lowest compute capability with bf16 (Ampere)."""
_memory_share = 1.0
"""Share of the GPU's memory for this process, from 0 to 1: see ``enter_gpu``."""

_OUT_OF_MEMORY = re.compile(
    r"(MPS backend|CUDA|HIP)[a-z ]*:? out of memory|(CU|HIP)[A-Z]+_STATUS_\w*ALLOC\w*_FAILED|"
    r"DefaultCPUAllocator: (can't allocate|not enough) memory"
)
_GPU_LOST = re.compile(
    r"(CUDA|HIP)[a-z ]*: .*(illegal|device-side assert|launch failure|launch timed out|misaligned address|"
    r"uncorrectable|hardware stack|address space|program counter|context is destroyed|"
    r"busy or unavailable|no CUDA-capable device|initialization error|unknown error)"
)
"""Errors after which only a new process can use the GPU, if any (cudaError_t 214, 700 to 719; 3, 46, 100, 999)."""


def device_type(device: torch.device) -> str:
    """Return ``cpu``, ``mps``, or ``cuda`` for a GPU: the key of tables of sizes."""
    return "cuda" if device.type in GPUS else device.type


def on_gpu(device: torch.device) -> bool:
    """Return whether a device is a GPU of CUDA (or ROCm, which has the same name in torch)."""
    return device_type(device) == "cuda"


def gpu_count() -> int:
    """Return the number of GPUs that torch sees on this machine."""
    import torch

    return torch.cuda.device_count()


def capability(device: torch.device) -> tuple[int, int]:
    """Return the compute capability of a GPU (8.0: Ampere, 9.0: Hopper), ``(0, 0)`` for any other device."""
    import torch

    return torch.cuda.get_device_capability(device) if on_gpu(device) else (0, 0)


def enter_gpu(device: torch.device, share: float = 1.0) -> None:
    """Let plain ``cuda`` mean this GPU, and limit torch's memory on it to ``share``.

    Without a limit, chance decides which of several processes on the GPU runs out of memory.
    """
    import torch

    global _memory_share
    if on_gpu(device):
        torch.cuda.set_device(device.index or 0)
        if share < 1:
            torch.cuda.set_per_process_memory_fraction(share)
            _memory_share = share


def gpu_memory(device: torch.device) -> tuple[int, int]:
    """Return the bytes of a GPU that this process may use in total, and those that are free for it now."""
    import torch

    free, total = torch.cuda.mem_get_info(device)
    limit = int(total * _memory_share)
    # Memory that torch has reserved but not allocated is in use on the GPU, yet free for this process.
    reachable = min(free + torch.cuda.memory_reserved(device), limit)
    return limit, reachable - torch.cuda.memory_allocated(device)


def pick_device(name: str = "auto") -> torch.device:
    """Return the device with a name: ``auto`` (CUDA, else Apple's MPS, else the CPU), ``cpu``, ``cuda[:N]`` or ``mps``.

    For a GPU, also set torch's options for all GPUs of this process.

    Raises:
        UsageError: the name is another one, or this machine does not have the device.
    """
    import torch

    if not re.fullmatch(r"auto|cpu|mps|cuda(:\d+)?", name):
        raise UsageError(f"unknown device {name!r}", "Devices: auto, cpu, cuda, cuda:N, mps")
    if name == "auto":
        if gpu_count():
            name = "cuda"
        elif torch.backends.mps.is_available():
            name = "mps"
        else:
            name = "cpu"
    device = torch.device(name)
    if on_gpu(device):
        _check_gpu_exists(name, device.index or 0)
        _set_up_gpus()
    if device.type == "mps" and not torch.backends.mps.is_available():
        raise UsageError(
            "--device mps: this machine has no Apple GPU that torch can use", "Use --device cpu."
        )
    return device


def worker_device(requested: str, gpus: Value | None, here: bool = False) -> str:
    """Return the device, ``cpu`` or ``cuda``, of an executor's workers, which see only the GPUs assigned to them.

    An executor whose workers are on other machines calls it in the function that it registers as ``device`` (hook
    ``register_executors``). mirrorbench plans precisions for this device, and it becomes
    ``job.context.settings.device``.

    Args:
        requested: the option ``--device``: ``auto``, ``cpu``, ``cuda`` or ``cuda:0``. ``auto`` means ``cuda`` if
            ``gpus`` is not 0, and the CPU if ``gpus`` is 0 or not given.
        gpus: the executor's option ``gpus``, the number of GPUs of a worker, perhaps a fraction; ``None`` if it is not
            given.
        here: whether the workers run on this machine (default false): without ``gpus``, ``auto`` then means its GPU if
            it has one, and a device that it does not have is an error.

    Raises:
        UsageError: the device contradicts the number of GPUs, workers cannot have it, or ``gpus`` is not a number.

    Example:
        >>> from mirrorbench import hookimpl
        >>> from mirrorbench.plugin import worker_device
        >>> def device(asked, options):
        ...     return worker_device(asked, options.get("gpus"))
        >>> device("auto", {"gpus": 1}), device("auto", {}), device("cuda:0", {})
        ('cuda', 'cpu', 'cuda')

        A plugin registers it with its executor:

        >>> def execute(job):
        ...     yield from job.plugins.executors["local"].execute(job)  # in place of a cluster
        >>> @hookimpl
        ... def register_executors(register):
        ...     register("cluster", execute, "a cluster of machines", device)
    """
    if requested not in ("auto", "cpu", "cuda", "cuda:0"):
        problem = (
            f"--device {requested}: a worker of this executor sees only the GPUs that it is given, "
            "counted from 0"
        )
        raise UsageError(
            problem, "Use --device cuda, and gpus=1 among the options of the executor."
        )
    if gpus is not None and not isinstance(gpus, int | float):
        raise UsageError(f"executor option gpus={gpus} is not a number")
    # ``auto`` follows the option ``gpus``; if it is not given, this machine if the workers run on it; else the CPU.
    if requested != "auto":
        device = requested
    elif gpus is not None:
        device = "cuda" if gpus else "cpu"
    else:
        device = "cuda" if here and gpu_count() else "cpu"
    contradicts_gpus = gpus is not None and bool(gpus) != device.startswith("cuda")
    if contradicts_gpus:
        raise UsageError(
            f"--device {device}, but gpus={gpus} of the executor", "Leave out --device or gpus."
        )
    if here:
        # Raises the error for a device that this machine does not have.
        return pick_device(device).type
    return device.partition(":")[0]


def _check_gpu_exists(name: str, index: int) -> None:
    """Raise a ``UsageError`` unless torch sees a GPU with this index; ``name`` is the device in its message."""
    import torch

    count = gpu_count()
    if not count:
        if torch.version.cuda:
            reason = "no CUDA device is visible"
        else:
            reason = "this torch was built without CUDA"
        hint = "Use --device cpu, or install a CUDA build of torch."
        raise UsageError(f"--device {name}: {reason}", hint)
    if index >= count:
        raise UsageError(f"--device {name}: this machine has {count} CUDA devices")


def _set_up_gpus() -> None:
    """Set options of torch for all GPUs of this process, before the first matrix product."""
    import torch

    # A fixed workspace makes cuBLAS give the same sums in the same order.
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    # Compute fp32 in fp32, not in TF32 with its 10 bits. These flags are used rather than fp32_precision, since torch
    # 2.13 raises an error when allow_tf32 is read after fp32_precision was set.
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    # On Hopper and Blackwell torch prefers cuDNN's attention, which plans each new shape for up to a second.
    torch.backends.cuda.enable_cudnn_sdp(False)


def pick_precision(name: str, auto: str) -> str:
    """Return the precision called ``name``; for ``"auto"`` the precision ``auto``."""
    if name not in PRECISIONS:
        raise UsageError(f"unknown precision {name!r}", f"Precisions: {', '.join(PRECISIONS)}")
    return auto if name == "auto" else name


def tuning_precision(device: torch.device, here: bool = True) -> str:
    """Return the default precision of tuning: fp32 on a CPU, bf16 on a GPU, fp16 on a GPU older than Ampere.

    The authors' code used fp16. ``here``: whether the device is one of this machine.
    """
    if not on_gpu(device):
        return "fp32"
    # A GPU of another machine is assumed to have bf16.
    if not here:
        return "bf16"
    # Older GPUs emulate bf16, slower than fp32, although torch's is_bf16_supported is true.
    return "bf16" if capability(device) >= _BF16_CAPABILITY else "fp16"


def check_bf16(device: torch.device, precisions: Iterable[str]) -> None:
    """Raise a ``UsageError`` if bf16 is among the precisions and the device is a GPU that only emulates it."""
    if on_gpu(device) and "bf16" in precisions and capability(device) < _BF16_CAPABILITY:
        version = "{}.{}".format(*capability(device))
        problem = f"{describe(device)} has no bf16: its compute capability is {version}, and bf16 begins with 8.0"
        raise UsageError(
            problem,
            "Use fp16 or fp32: --precision of the tuning, --eval-precision of the evaluation.",
        )


def has_amx() -> bool:
    """Return whether torch reports that this processor multiplies matrices of bf16 in tiles (Intel's AMX).

    False for versions of torch that do not report it.
    """
    import torch

    if not hasattr(torch.cpu, "get_capabilities"):
        return False
    return bool(torch.cpu.get_capabilities().get("amx_bf16", False))


def use_deterministic_algorithms() -> None:
    """Let torch use only algorithms that repeat bit for bit on the same model of GPU, torch and CUDA."""
    import torch

    torch.use_deterministic_algorithms(True)
    torch.backends.cudnn.benchmark = False


def describe(device: torch.device) -> str:
    """Return a device's name for results: a GPU's product name, or the type and thread count of the CPU."""
    import platform

    import torch

    if on_gpu(device):
        return str(torch.cuda.get_device_name(device))
    if device.type == "cpu":
        return f"{platform.machine()} ({torch.get_num_threads()} threads)"
    return "Apple GPU"


def moved(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """Copy a tensor to a device; to a GPU from pinned memory, so that the host does not wait for the copy.

    A loss uses it for the labels of a batch, which are on the CPU while the vectors may be on a GPU.

    Args:
        tensor: a tensor on the CPU.
        device: the device, such as ``vectors.device`` or ``transformer.device``; a ``torch.device``, not its name.

    Returns:
        The tensor on the device; ``tensor`` itself if ``device`` is the CPU.

    Example:
        >>> import torch
        >>> from mirrorbench.plugin import moved
        >>> vectors = torch.zeros(2, 3)  # perhaps on a GPU
        >>> moved(torch.tensor([0, 1]), vectors.device).device == vectors.device
        True
    """
    if on_gpu(device):
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)


def fetched(tensor: torch.Tensor) -> Callable[[], NDArray[Any]]:
    """Start to copy a tensor to the host, and return a function that waits for the copy and returns it.

    The function does not wait for computation that was started later.
    """
    import torch

    if not tensor.is_cuda:
        array = tensor.cpu().numpy()
        return lambda: array
    # Only a copy to pinned memory runs while Python goes on.
    host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
    host.copy_(tensor, non_blocking=True)
    copy_end = torch.cuda.current_stream(tensor.device).record_event()

    def wait() -> NDArray[Any]:
        copy_end.synchronize()
        return host.numpy()

    return wait


def describe_gpu(device: torch.device) -> dict[str, Any]:
    """Return the settings that numbers of a GPU depend on: CUDA, cuDNN and flags of torch. Empty for other devices."""
    import torch

    if not on_gpu(device):
        return {}
    major, minor = capability(device)
    cudnn = torch.backends.cudnn
    return {
        "capability": f"{major}.{minor}",
        "cuda": torch.version.cuda,
        "cudnn": cudnn.version(),  # type: ignore[no-untyped-call]
        "tf32": torch.backends.cuda.matmul.allow_tf32 or cudnn.allow_tf32,
        "deterministic": torch.are_deterministic_algorithms_enabled(),
    }


def autocast(device: torch.device, precision: str) -> AbstractContextManager[object]:
    """Return the context in which a model with float32 weights computes in ``fp32``, ``bf16`` or ``fp16``."""
    import torch

    half_types = {"bf16": torch.bfloat16, "fp16": torch.float16}
    if precision not in half_types:
        return nullcontext()
    return torch.autocast(device.type, dtype=half_types[precision])


def own_weights(model: Any) -> None:
    """Replace a model's weights on the CPU by copies in memory, since they may be mapped from files.

    Mapped weights would change with the files, and the process would be killed if the files became shorter.
    """
    for tensor in (*model.parameters(), *model.buffers()):
        if tensor.device.type == "cpu":
            tensor.data = tensor.data.clone()


def out_of_memory(error: BaseException) -> bool:
    """Return whether an error of torch, or of another library, means that a device has no memory left."""
    import torch

    if isinstance(error, torch.OutOfMemoryError):
        return True
    if isinstance(error, RuntimeError):
        return _OUT_OF_MEMORY.search(str(error)) is not None
    return isinstance(error, MemoryError | DeviceMemoryError)


def lost_device(error: BaseException) -> DeviceError | None:
    """Return the error to raise if an error, or one of its causes, means that this process lost its GPU.

    ``None`` for any other error.
    """
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, DeviceError):
            return cause
        if isinstance(cause, RuntimeError) and _means_lost_gpu(cause):
            reason = str(cause).strip().splitlines()[0]
            return DeviceError(
                f"this process can no longer use the GPU: {reason}",
                "Stored results are kept; run the same command again to continue. If it fails again, set "
                "CUDA_LAUNCH_BLOCKING=1 to see the operation, or use --device cpu.",
            )
        cause = cause.__cause__ or cause.__context__
    return None


def _means_lost_gpu(error: RuntimeError) -> bool:
    """Return whether an error says that the GPU is lost, or any other error came while the GPU no longer answers."""
    if out_of_memory(error):
        return False
    return _GPU_LOST.search(str(error)) is not None or _gpu_is_unresponsive()


def _gpu_is_unresponsive() -> bool:
    """Return whether the GPU in use no longer answers.

    The message of an error is not enough: other libraries report an illegal memory access as an error of their own.
    """
    import torch

    try:
        if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
            torch.cuda.synchronize()
    except RuntimeError:
        return True
    return False


@contextmanager
def cpu_threads(count: int) -> Iterator[None]:
    """Let torch use ``count`` threads on the CPU inside the block; 0 changes nothing."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(count or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def let_threads_sleep() -> None:
    """Let torch's threads sleep, not spin, while they wait for each other.

    On a busy machine a spinning thread may occupy the core that the thread it waits for needs. The number of threads,
    and with it the order of every sum, stays the same. Nothing happens if torch, which reads the setting at its import,
    has been imported already, or if the user has set ``OMP_WAIT_POLICY``, ``GOMP_SPINCOUNT`` or ``KMP_BLOCKTIME``.
    """
    user_settings = os.environ.keys() & {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME"}
    if "torch" not in sys.modules and not user_settings:
        os.environ["OMP_WAIT_POLICY"] = "PASSIVE"


def release_memory(device: torch.device) -> None:
    """Release memory that torch keeps on a GPU, or glibc on a CPU (in an arena for each thread), for later use."""
    import torch

    if device_type(device) in ("cuda", "mps"):
        torch.get_device_module(device).empty_cache()
    elif sys.platform == "linux":
        # musl has no malloc_trim.
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)
