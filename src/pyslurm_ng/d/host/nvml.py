"""Find NVIDIA GPUs, and their MIG slices, by NVML.

The library may hang on a broken driver, so it runs in a thread with a deadline; a thread that
does not come back is left behind and said so.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from typing import Any

DEADLINE_S = 20.0
# NVML's link kinds by closeness; more links mean closer devices for the scheduler.
_MAX_LINKS = 18


class DetectionError(Exception):
    """Devices could not be asked for; the text is one line for the log."""


@dataclass(frozen=True, slots=True)
class DetectedGpu:
    """One GPU or MIG slice: its device file, type name, near CPUs and links to the others."""

    type_name: str
    file: str
    cpus: tuple[int, ...]
    links: tuple[int, ...]
    unique_id: str
    memory_mib: int
    extra_files: tuple[str, ...] = ()


def detect(deadline_s: float = DEADLINE_S) -> list[DetectedGpu]:
    """Return the GPUs of this host in order of their device files.

    Raises:
        DetectionError: the library is absent, refuses, or does not answer in time.
    """
    gpus: list[DetectedGpu] = []
    problem: list[str] = []

    def ask() -> None:
        try:
            gpus.extend(_ask())
        except DetectionError as error:
            problem.append(str(error))

    thread = threading.Thread(target=ask, name="nvml", daemon=True)
    thread.start()
    thread.join(deadline_s)
    if thread.is_alive():
        raise DetectionError(f"NVML did not answer within {deadline_s:.0f} s")
    if problem:
        raise DetectionError(problem[0])
    return gpus


def _ask() -> list[DetectedGpu]:
    try:
        import pynvml
    except ImportError as error:
        raise DetectionError("the Python package nvidia-ml-py is not installed") from error
    return ask(pynvml)


def ask(nvml: Any) -> list[DetectedGpu]:
    """Return the GPUs and MIG slices that NVML's Python binding tells of.

    Raises:
        DetectionError: it refuses.
    """
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        raise DetectionError(f"NVML: {error}") from error
    try:
        count = nvml.nvmlDeviceGetCount()
        handles = [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(count)]
        cards = sorted(
            (nvml.nvmlDeviceGetMinorNumber(handle), index) for index, handle in enumerate(handles)
        )
        gpus: list[DetectedGpu] = []
        homes: list[int] = []  # the card of each
        for _, device_index in cards:
            gpus_here = _slices(nvml, handles[device_index]) or [
                _whole(nvml, handles[device_index])
            ]
            gpus += gpus_here
            homes += [device_index] * len(gpus_here)
        joined = {
            (gpu, other): _links(nvml, handles[gpu], handles[other])
            for gpu in set(homes)
            for other in set(homes)
            if gpu != other
        }
        return [
            replace(
                gpu,
                links=tuple(
                    -1 if other == number else joined.get((homes[number], home), 0)
                    for other, home in enumerate(homes)
                ),
            )
            for number, gpu in enumerate(gpus)
        ]
    except nvml.NVMLError as error:
        raise DetectionError(f"NVML: {error}") from error
    finally:
        nvml.nvmlShutdown()


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


def type_name(product: str) -> str:
    """Return a product name as a GRES type: `NVIDIA A100-SXM4-40GB` is `nvidia_a100-sxm4-40gb`."""
    return "_".join(product.lower().split())


def _whole(nvml: Any, handle: Any) -> DetectedGpu:
    minor = nvml.nvmlDeviceGetMinorNumber(handle)
    return DetectedGpu(
        type_name=type_name(_text(nvml.nvmlDeviceGetName(handle))),
        file=f"/dev/nvidia{minor}",
        cpus=_near_cpus(nvml, handle),
        links=(),
        unique_id=_text(nvml.nvmlDeviceGetUUID(handle)),
        memory_mib=int(nvml.nvmlDeviceGetMemoryInfo(handle).total) >> 20,
    )


def _slices(nvml: Any, handle: Any) -> list[DetectedGpu]:
    """Return a GPU's MIG slices; none where MIG is off or unknown to the card."""
    try:
        current, _ = nvml.nvmlDeviceGetMigMode(handle)
        if not current:
            return []
        most_slices = nvml.nvmlDeviceGetMaxMigDeviceCount(handle)
    except nvml.NVMLError:
        return []
    minor = nvml.nvmlDeviceGetMinorNumber(handle)
    product = type_name(_text(nvml.nvmlDeviceGetName(handle)))
    slices = []
    for position in range(most_slices):
        try:
            slice_handle = nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, position)
        except nvml.NVMLError:
            continue
        attributes = nvml.nvmlDeviceGetAttributes(slice_handle)
        gpu = nvml.nvmlDeviceGetGpuInstanceId(slice_handle)
        compute = nvml.nvmlDeviceGetComputeInstanceId(slice_handle)
        gib = -(-int(attributes.memorySizeMB) // 1024)
        files = _capability_files(minor, gpu, compute)
        slices.append(
            DetectedGpu(
                type_name=f"{product}_{attributes.gpuInstanceSliceCount}g.{gib}gb",
                file=f"/dev/nvidia{minor}",
                cpus=_near_cpus(nvml, handle),
                links=(),
                unique_id=_text(nvml.nvmlDeviceGetUUID(slice_handle)),
                memory_mib=int(attributes.memorySizeMB),
                extra_files=files,
            )
        )
    return slices


def _capability_files(minor: int, gpu: int, compute: int) -> tuple[str, ...]:
    """Return the device files that open one MIG slice, as the driver lists them in /proc."""
    paths = (f"gpu{minor}/gi{gpu}/access", f"gpu{minor}/gi{gpu}/ci{compute}/access")
    try:
        with open("/proc/driver/nvidia-caps/mig-minors", encoding="ascii") as lines:
            minors = dict(line.split() for line in lines if len(line.split()) == 2)
    except OSError:
        return ()
    return tuple(f"/dev/nvidia-caps/nvidia-cap{minors[name]}" for name in paths if name in minors)


def _near_cpus(nvml: Any, handle: Any) -> tuple[int, ...]:
    words = 64
    try:
        mask = nvml.nvmlDeviceGetCpuAffinity(handle, words)
    except nvml.NVMLError:
        return ()
    return tuple(
        64 * index + bit for index, word in enumerate(mask) for bit in range(64) if word >> bit & 1
    )


def _links(nvml: Any, gpu: Any, other: Any) -> int:
    """Return how many NVLinks join two GPUs directly."""
    try:
        target = _text(nvml.nvmlDeviceGetPciInfo(other).busId).lower()
    except nvml.NVMLError:
        return 0
    count = 0
    for link in range(_MAX_LINKS):
        try:
            if nvml.nvmlDeviceGetNvLinkState(gpu, link) != nvml.NVML_FEATURE_ENABLED:
                continue
            remote = nvml.nvmlDeviceGetNvLinkRemotePciInfo(gpu, link)
        except nvml.NVMLError:
            continue
        if _text(remote.busId).lower() == target:
            count += 1
    return count
