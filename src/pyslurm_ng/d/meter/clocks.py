"""A process that sets the clocks of a step's GPUs by NVML, or lets the driver choose them again.

`clocks set GPUS GRAPHICS MEMORY` and `clocks reset GPUS`: GPUS are numbers of device files joined
by commas, GRAPHICS and MEMORY are low, medium, high, highm1, MHz or "". It prints a line for each
GPU, `gpu=0 graphics=1980 memory=2619`, or `problem: ...`. NVML may hang, so who starts this has a
deadline.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any


def nearest_mhz(word: str, supported: Sequence[int]) -> int:
    """Return which of a GPU's clocks a word means; 0 if it has none.

    Args:
        word: as --gpu-freq has it; a number means the nearest clock, of two the higher one.
    """
    steps = sorted(set(supported))
    if not steps:
        return 0
    if word.isdecimal():
        return min(steps, key=lambda step: (abs(step - int(word)), -step))
    position = {"low": 0, "medium": (len(steps) - 1) // 2, "highm1": max(0, len(steps) - 2)}
    return steps[position.get(word, len(steps) - 1)]


def set_clocks(nvml: Any, gpu: int, graphics: str, memory: str) -> tuple[int, int]:
    """Set a GPU's clocks; return them in MHz, 0 for one that is left as it is.

    Raises:
        nvml.NVMLError: the GPU's clocks cannot be set.
    """
    handle = _handle(nvml, gpu)
    memories = nvml.nvmlDeviceGetSupportedMemoryClocks(handle)
    memory_mhz = nearest_mhz(memory, memories) if memory else 0
    if memory_mhz:
        nvml.nvmlDeviceSetMemoryLockedClocks(handle, memory_mhz, memory_mhz)
    graphics_mhz = 0
    if graphics:
        beside_mhz = memory_mhz or max(memories)
        clocks = nvml.nvmlDeviceGetSupportedGraphicsClocks(handle, beside_mhz)
        graphics_mhz = nearest_mhz(graphics, clocks)
        nvml.nvmlDeviceSetGpuLockedClocks(handle, graphics_mhz, graphics_mhz)
    return graphics_mhz, memory_mhz


def reset_clocks(nvml: Any, gpu: int) -> None:
    """Let the driver choose a GPU's clocks."""
    handle = _handle(nvml, gpu)
    for reset in (nvml.nvmlDeviceResetGpuLockedClocks, nvml.nvmlDeviceResetMemoryLockedClocks):
        try:
            reset(handle)
        except nvml.NVMLError:
            continue  # a GPU whose memory has one clock knows no such call


def _handle(nvml: Any, gpu: int) -> Any:
    """Return the GPU of a device file's number."""
    for index in range(nvml.nvmlDeviceGetCount()):
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
        if nvml.nvmlDeviceGetMinorNumber(handle) == gpu:
            return handle
    raise nvml.NVMLError(nvml.NVML_ERROR_NOT_FOUND)


def main(argv: Sequence[str]) -> int:
    """Set or reset; return the exit code."""
    try:
        import pynvml
    except ImportError:
        print("problem: the Python package nvidia-ml-py is not installed")
        return 1
    gpus = [int(word) for word in argv[1].split(",")]
    try:
        pynvml.nvmlInit()
        for gpu in gpus:
            if argv[0] == "reset":
                reset_clocks(pynvml, gpu)
            else:
                graphics_mhz, memory_mhz = set_clocks(pynvml, gpu, argv[2], argv[3])
                print(f"gpu={gpu} graphics={graphics_mhz} memory={memory_mhz}")
    except pynvml.NVMLError as error:
        print(f"problem: NVML: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
