from __future__ import annotations

import os
import sys

import pytest
import torch

from mirrorbench.core import devices
from mirrorbench.core.errors import EncodingError, UsageError

CPU, GPU = torch.device("cpu"), torch.device("cuda:1")


def test_unknown_or_absent_devices_are_rejected() -> None:
    unknown = {name: f"unknown device '{name}'" for name in ("gpu", "cuda:")}
    for name, message in {
        **unknown,
        "cuda": "device='cuda': ",
        "cuda:3": "device='cuda:3': ",
    }.items():
        with pytest.raises(UsageError, match=message):
            devices.pick_device(name)


def test_cpu_computes_in_fp32_by_default() -> None:
    assert devices.pick_device("cpu") == CPU
    assert [devices.on_gpu(device) for device in (CPU, torch.device("meta"), GPU)] == [
        False,
        False,
        True,
    ]
    auto = devices.tuning_precision(CPU)
    named = {name: devices.pick_precision(name, auto) for name in devices.PRECISIONS}
    assert named == {"auto": "fp32", "fp32": "fp32", "bf16": "bf16", "fp16": "fp16"}
    ones = torch.ones(2, 2)
    for precision, dtype in (
        ("fp32", torch.float32),
        ("bf16", torch.bfloat16),
        ("fp16", torch.float16),
    ):
        with devices.autocast(CPU, precision):
            assert (ones @ ones).dtype == dtype
    with pytest.raises(UsageError, match="unknown precision 'fp8'"):
        devices.pick_precision("fp8", auto)


def test_gpus_without_native_bf16_tune_in_fp16(monkeypatch: pytest.MonkeyPatch) -> None:
    """Turing, the papers' 2080 Ti among it, has no bf16 of its own; Ampere and later have."""
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "A GPU")
    for capability, precision in (((8, 0), "bf16"), ((10, 3), "bf16"), ((7, 5), "fp16")):
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device, has=capability: has)
        assert devices.tuning_precision(GPU) == precision
        devices.check_bf16(GPU, {"fp32", precision})
    assert (
        devices.tuning_precision(GPU, here=False) == "bf16"
    )  # of a GPU elsewhere nothing is known
    devices.check_bf16(CPU, {"bf16"})
    with pytest.raises(
        UsageError, match=r"A GPU has no bf16: its compute capability is 7\.5"
    ) as caught:
        devices.check_bf16(GPU, {"fp32", "bf16"})
    assert "--precision" in caught.value.hint


def test_gpu_disables_tf32_and_cudnn_attention(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also where a program has asked for it before; nobody's reading of the setting raises afterwards."""
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # not set for the tests that follow
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    before = torch.backends.cuda.cudnn_sdp_enabled()
    try:
        assert devices.pick_device("cuda:1") == GPU
        assert not torch.backends.cuda.cudnn_sdp_enabled()
        assert torch.backends.cuda.flash_sdp_enabled()
    finally:
        torch.backends.cuda.enable_cudnn_sdp(before)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
    monkeypatch.setattr(torch.version, "cuda", "12.8")
    monkeypatch.setattr(torch.backends.cudnn, "version", lambda: 91002)
    assert devices.describe_gpu(CPU) == {}  # results of a CPU say what they said before
    assert devices.describe_gpu(GPU) == {
        "capability": "9.0",
        "cuda": "12.8",
        "cudnn": 91002,
        "tf32": False,
        "deterministic": False,
    }


def test_worker_device_matches_requested_device_and_gpus(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """For workers on other machines, then on this one: first without a GPU, then with one."""
    for asked, device, *numbers in (
        ("auto", "cpu", None, 0),
        ("auto", "cuda", 1, 0.5),
        ("cuda", "cuda", None, 2),
        ("cuda:0", "cuda", 1),
        ("cpu", "cpu", None, 0),
    ):
        assert {devices.worker_device(asked, gpus) for gpus in numbers} == {device}
    given: list[tuple[str, float | str | None, str]] = [
        (
            "cuda:1",
            1,
            "device='cuda:1': a worker of this executor sees only the GPUs that.*\n.*device='cuda'",
        ),
        ("mps", None, "device='mps'.*\n.*device='cuda'"),
        ("cuda", 0, "device='cuda', but gpus=0 of the executor.*\nLeave out"),
        ("cpu", 1, "device='cpu', but gpus=1 of the executor.*\nLeave out"),
        ("auto", "two", "executor option gpus=two is not a number"),
    ]
    for asked, number, message in given:
        with pytest.raises(UsageError, match=message):
            devices.worker_device(asked, number)
    assert devices.worker_device("auto", None, here=True) == "cpu"
    with pytest.raises(UsageError, match="device='cuda': "):
        devices.worker_device("auto", 1, here=True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    assert devices.worker_device("auto", None, here=True) == "cuda"
    assert devices.worker_device("auto", 0, here=True) == "cpu"


def test_process_gpu_and_memory_share_are_set(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    monkeypatch.setattr(torch.cuda, "set_device", asked.append)
    monkeypatch.setattr(torch.cuda, "set_per_process_memory_fraction", asked.append)
    monkeypatch.setattr(devices, "_memory_share", 1.0)
    for name, share in (("cpu", 1.0), ("cuda", 1.0), ("cuda:2", 0.5)):
        devices.enter_gpu(torch.device(name), share)
    assert asked == [0, 2, 0.5]
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (70, 80))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: 9)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: 5)
    assert devices.gpu_memory(torch.device("cuda:2")) == (40, 40 - 5)


@pytest.mark.parametrize("given", [{}, {"OMP_WAIT_POLICY": "ACTIVE"}, {"GOMP_SPINCOUNT": "100"}])
def test_thread_wait_policy_defaults_to_passive(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, str]
) -> None:
    for name in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME"):
        monkeypatch.setenv(name, given.get(name, ""))
        if name not in given:
            monkeypatch.delenv(name)
    devices.let_threads_sleep()
    assert os.environ.get("OMP_WAIT_POLICY") == given.get(
        "OMP_WAIT_POLICY"
    )  # torch has read its settings
    monkeypatch.delitem(sys.modules, "torch")
    devices.let_threads_sleep()
    assert os.environ.get("OMP_WAIT_POLICY") == given.get(
        "OMP_WAIT_POLICY", None if given else "PASSIVE"
    )


def test_thread_count_is_restored() -> None:
    before = torch.get_num_threads()
    for count in (3, 0):
        with devices.cpu_threads(count):
            assert torch.get_num_threads() == (count or before)
        assert torch.get_num_threads() == before


NO_MEMORY = (
    "CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported",
    "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
    "cuDNN error: CUDNN_STATUS_ALLOC_FAILED",
    "cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED",
    "HIP out of memory. Tried to allocate 2.00 GiB.",
)
# cudaGetErrorString of what CUDA's manual says of: "the process must be terminated and relaunched".
LOST = (
    "an illegal memory access was encountered",
    "the launch timed out and was terminated",
    "device-side assert triggered",
    "hardware stack error",
    "an illegal instruction was encountered",
    "misaligned address",
    "operation not supported on global/shared address space",
    "invalid program counter",
    "unspecified launch failure",
    "uncorrectable ECC error encountered",
)


def test_gpu_memory_and_lost_device_errors_are_distinguished() -> None:
    for message in NO_MEMORY:
        for full in (RuntimeError(message), torch.AcceleratorError(message)):
            assert devices.out_of_memory(full)
            assert devices.lost_device(full) is None
    for message in LOST:
        error = torch.AcceleratorError(
            f"CUDA error: {message}\nCUDA kernel errors might be asynchronously reported"
        )
        assert not devices.out_of_memory(error)
        behind = EncodingError("the encoder x failed")
        behind.__cause__ = error
        for seen in (error, behind):
            lost = devices.lost_device(seen)
            assert lost is not None
            assert lost.message.endswith(f": CUDA error: {message}")
            assert devices.lost_device(lost) is lost


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("mat1 and mat2 shapes cannot be multiplied"),
        torch.AcceleratorError(
            "CUDA error: no kernel image is available for execution on the device"
        ),
        RuntimeError("CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasSgemm`"),
    ],
)
def test_failed_synchronisation_marks_the_gpu_as_lost(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent() -> None:
        raise torch.AcceleratorError("CUDA error: an illegal memory access was encountered")

    assert devices.lost_device(error) is None
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    for synchronize in (lambda: None, silent):
        monkeypatch.setattr(torch.cuda, "synchronize", synchronize)
        assert (devices.lost_device(error) is None) == (synchronize is not silent)
    assert devices.lost_device(ValueError("not of the GPU")) is None
