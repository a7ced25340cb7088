"""NVML's Python binding as hosts answered it: 8 x H100 with NVLink, MIG mixed, 4 x A100.

PYSLURM_RECORDED_GPUS names a folder. `host` says which of SHAPES it is; `processes.json` lists what
runs on the GPUs, and a test may change it at any time: gpu, slice (of a cut GPU, else -1), pid,
percent and mib. A file `hang` makes every call wait until it is gone, as a broken driver does; a
call with a file `refuse` ends with NVMLError. `lost` has the number of a GPU that answers no more.
"""

from __future__ import annotations

import json
import os
import time
from types import SimpleNamespace
from typing import Any

NVML_FEATURE_ENABLED = 1
NVML_CLOCK_MEM = 2
NVML_CLOCK_SM = 1


class NVMLError(Exception):
    """As the binding has it."""


class NVMLError_GpuIsLost(NVMLError):  # noqa: N801 - as the binding spells it
    """It has fallen off the bus."""

    value = 15


class NVMLError_NotFound(NVMLError):  # noqa: N801 - as the binding spells it
    """No sample since the time asked about."""


class NVMLError_NotSupported(NVMLError):  # noqa: N801 - as the binding spells it
    """A GPU in MIG mode tells no utilisation."""


H100 = {"name": "NVIDIA H100 80GB HBM3", "mib": 81559, "links": 18, "watts": 119, "top": 1980}
A100 = {"name": "NVIDIA A100-SXM4-40GB", "mib": 40960, "links": 12, "watts": 53, "top": 1410}
SHAPES: dict[str, dict[str, Any]] = {
    "h100x8": {"card": H100, "cards": 8, "slices": {}},
    # The first GPU in 1g.5gb, 2g.10gb and 3g.20gb; the second one whole.
    "mig": {"card": A100, "cards": 2, "slices": {0: [(1, 4864), (2, 9856), (3, 19968)]}},
    "a100x4": {"card": A100, "cards": 4, "slices": {}},
}
_Slice = tuple[int, int]


def _folder() -> str:
    folder = os.environ["PYSLURM_RECORDED_GPUS"]
    while os.path.exists(f"{folder}/hang"):
        time.sleep(0.02)
    if os.path.exists(f"{folder}/refuse"):
        raise NVMLError("GPU is lost")
    return folder


def _shape() -> dict[str, Any]:
    with open(f"{_folder()}/host", encoding="ascii") as file:
        return SHAPES[file.read().strip()]


def _processes(gpu: int, part: int) -> list[SimpleNamespace]:
    try:
        with open(f"{_folder()}/processes.json", encoding="ascii") as file:
            rows = json.load(file)
    except (FileNotFoundError, ValueError):
        rows = []
    return [
        SimpleNamespace(**row) for row in rows if row["gpu"] == gpu and row.get("slice", -1) == part
    ]


def _note(text: str) -> None:
    with open(f"{_folder()}/calls", "a", encoding="ascii") as file:
        file.write(f"{text}\n")


def nvmlInit() -> None:
    _folder()


def nvmlShutdown() -> None: ...


def nvmlDeviceGetCount() -> int:
    return int(_shape()["cards"])


def nvmlDeviceGetHandleByIndex(index: int) -> int:
    path = f"{_folder()}/lost"
    if os.path.exists(path):
        with open(path, encoding="ascii") as file:
            if int(file.read()) == index:
                raise NVMLError_GpuIsLost("GPU is lost")
    return index


def nvmlDeviceGetMinorNumber(gpu: int) -> int:
    return gpu


def nvmlDeviceGetName(gpu: int) -> str:
    return str(_shape()["card"]["name"])


def nvmlDeviceGetUUID(handle: int | _Slice) -> str:
    return f"MIG-{handle[0]}-{handle[1]}" if isinstance(handle, tuple) else f"GPU-{handle}"


def nvmlDeviceGetMemoryInfo(gpu: int) -> SimpleNamespace:
    return SimpleNamespace(total=_shape()["card"]["mib"] << 20)


def nvmlDeviceGetCpuAffinity(gpu: int, words: int) -> list[int]:
    return [1] + [0] * (words - 1)


def nvmlDeviceGetPciInfo(gpu: int) -> SimpleNamespace:
    return SimpleNamespace(busId=f"00000000:{gpu + 0x1A:02X}:00.0")


def nvmlDeviceGetNvLinkState(gpu: int, link: int) -> int:
    if link >= _shape()["card"]["links"]:
        raise NVMLError_NotSupported("Not Supported")
    return NVML_FEATURE_ENABLED


def nvmlDeviceGetNvLinkRemotePciInfo(gpu: int, link: int) -> SimpleNamespace:
    return SimpleNamespace(busId="00000000:05:00.0")  # a switch between all of them


def nvmlDeviceGetMigMode(gpu: int) -> tuple[int, int]:
    is_cut = int(gpu in _shape()["slices"])
    return is_cut, is_cut


def nvmlDeviceGetMaxMigDeviceCount(gpu: int) -> int:
    return 7


def nvmlDeviceGetMigDeviceHandleByIndex(gpu: int, index: int) -> _Slice:
    if index >= len(_shape()["slices"].get(gpu, ())):
        raise NVMLError_NotFound("Not Found")
    return gpu, index


def nvmlDeviceGetAttributes(handle: _Slice) -> SimpleNamespace:
    parts, mib = _shape()["slices"][handle[0]][handle[1]]
    return SimpleNamespace(memorySizeMB=mib, gpuInstanceSliceCount=parts)


def nvmlDeviceGetGpuInstanceId(handle: _Slice) -> int:
    return handle[1] + 1


def nvmlDeviceGetComputeInstanceId(handle: _Slice) -> int:
    return 0


def nvmlDeviceGetComputeRunningProcesses(handle: int | _Slice) -> list[SimpleNamespace]:
    gpu, part = handle if isinstance(handle, tuple) else (handle, -1)
    return [
        SimpleNamespace(pid=row.pid, usedGpuMemory=row.mib << 20) for row in _processes(gpu, part)
    ]


def nvmlDeviceGetGraphicsRunningProcesses(handle: int | _Slice) -> list[SimpleNamespace]:
    return []


def nvmlDeviceGetProcessUtilization(gpu: int, newest_us: int) -> list[SimpleNamespace]:
    if gpu in _shape()["slices"]:
        raise NVMLError_NotSupported("Not Supported")
    busy = [row for row in _processes(gpu, -1) if row.percent]
    if not busy:
        raise NVMLError_NotFound("Not Found")
    now_us = time.time_ns() // 1000
    return [SimpleNamespace(pid=row.pid, timeStamp=now_us, smUtil=row.percent) for row in busy]


def nvmlDeviceGetUtilizationRates(gpu: int) -> SimpleNamespace:
    if gpu in _shape()["slices"]:
        raise NVMLError_NotSupported("Not Supported")
    return SimpleNamespace(gpu=min(100, sum(row.percent for row in _processes(gpu, -1))))


def nvmlDeviceGetPowerUsage(gpu: int) -> int:
    return int(_shape()["card"]["watts"]) * 1000


def nvmlDeviceGetTotalEnergyConsumption(gpu: int) -> int:
    """Return millijoules; the GPUs draw the same all the time."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000 * int(_shape()["card"]["watts"])


def nvmlDeviceGetSupportedMemoryClocks(gpu: int) -> list[int]:
    return [2619, 1593] if _shape()["card"] is H100 else [1215]


def nvmlDeviceGetSupportedGraphicsClocks(gpu: int, memory_mhz: int) -> list[int]:
    return list(range(int(_shape()["card"]["top"]), 200, -15))


def nvmlDeviceSetGpuLockedClocks(gpu: int, low: int, high: int) -> None:
    _note(f"gpu {gpu} {low}-{high}")


def nvmlDeviceSetMemoryLockedClocks(gpu: int, low: int, high: int) -> None:
    if _shape()["card"] is A100:
        raise NVMLError_NotSupported("Not Supported")
    _note(f"memory {gpu} {low}-{high}")


def nvmlDeviceResetGpuLockedClocks(gpu: int) -> None:
    _note(f"gpu {gpu} reset")


def nvmlDeviceResetMemoryLockedClocks(gpu: int) -> None:
    if _shape()["card"] is A100:
        raise NVMLError_NotSupported("Not Supported")
    _note(f"memory {gpu} reset")
