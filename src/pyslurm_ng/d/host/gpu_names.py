"""Variables that tell programs of their GPUs, and the names that GPUs have there. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from pyslurm_ng.model.node import NodeGres

CUDA, ROCR = "CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"
NVIDIA_FLAG = "nvidia_gpu_env"
_NONE_FLAG, _UUID_FLAG = "no_gpu_env", "env_uuid"
# Flags of gres.conf, and the variable of each maker.
_BY_FLAG: Mapping[str, str] = {
    NVIDIA_FLAG: CUDA,
    "opencl_env": "GPU_DEVICE_ORDINAL",
    "amd_gpu_env": ROCR,
    "intel_gpu_env": "ZE_AFFINITY_MASK",
}
# Without flags all are set; a variable is harmless where its maker's devices are absent.
GPU_VARIABLES = tuple(_BY_FLAG.values())
VARIABLE_FLAGS = frozenset((*_BY_FLAG, _NONE_FLAG))
_GPU_FILE = re.compile(r".*/nvidia(\d{1,5})")


def number_of_file(path: str) -> int:
    """Return the number of an NVIDIA GPU's device file, -1 of another file."""
    match = _GPU_FILE.fullmatch(path)
    return int(match[1]) if match is not None else -1


def variables_of(available: Sequence[NodeGres], numbers: Sequence[int]) -> tuple[str, ...]:
    """Return the variables that tell of these GPUs, as the flags of their lines say.

    Lines of one type share their flags.
    """
    types = {gres.type for gres, _ in _devices(available, numbers)}
    flags = {
        flag
        for gres in available
        if gres.name == "gpu" and gres.type in types
        for flag in gres.flags.split(",")
    }
    if not flags & VARIABLE_FLAGS:
        return GPU_VARIABLES
    return tuple(name for flag, name in _BY_FLAG.items() if flag in flags)


def names_of(available: Sequence[NodeGres], numbers: Sequence[int]) -> tuple[str, ...]:
    """Return the UUIDs of these GPUs, if they are told by UUID; else nothing.

    Flags=env_uuid asks for it. Slices of MIG have no number: the driver counts whole GPUs only.
    """
    chosen, is_asked = [], False
    for gres, index in _devices(available, numbers):
        chosen.append(gres.unique_ids[index] if index < len(gres.unique_ids) else "")
        is_asked = is_asked or _UUID_FLAG in gres.flags.split(",")
    is_asked = is_asked or any(name.startswith("MIG-") for name in chosen)
    return tuple(chosen) if is_asked and all(chosen) else ()


def _devices(
    available: Sequence[NodeGres], numbers: Sequence[int]
) -> Iterator[tuple[NodeGres, int]]:
    """Yield the line and the place in it of each GPU, in the order of the numbers."""
    for number in numbers:
        for gres in available:
            index = number - gres.first_index
            if gres.name == "gpu" and 0 <= index < gres.count:
                yield gres, index
