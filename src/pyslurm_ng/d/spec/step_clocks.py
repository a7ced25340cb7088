"""What a supervisor is told for --gpu-freq."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

from pyslurm_ng.d.host import gres as host_gres
from pyslurm_ng.d.spec.node_setup import NodeSetup, alloc_of
from pyslurm_ng.d.spec.step_meter import gpu_numbers

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyslurm_ng.d.spool import step_contract as sc
    from pyslurm_ng.wire import node_messages as nm

_STEP = re.compile(r"low|medium|highm1|high|[0-9]{1,6}")
_START = (
    "import sys; sys.path[:] = sys.argv.pop(1).split(':'); "
    "from pyslurm_ng.d.meter.clocks import main; sys.exit(main(sys.argv[1:]))"
)


def words_of(text: str) -> tuple[str, str, bool] | None:
    """Return graphics clock, memory clock and `verbose` of `gpu:high,memory=low`; None if wrong."""
    graphics = memory = ""
    is_verbose = False
    for word in text.lower().removeprefix("gpu:").split(","):
        kind, _, step = word.rpartition("=")
        if word == "verbose":
            is_verbose = True
        elif not _STEP.fullmatch(step) or kind not in ("", "memory"):
            return None
        elif kind:
            memory = step
        else:
            graphics = step
    return graphics, memory, is_verbose


def clocks_spec(
    setup: NodeSetup, credential: nm.JobCredential, variables: Mapping[str, str]
) -> sc.ClocksSpec | None:
    """Return the clocks that a step's GPUs get; None if the driver goes on choosing them.

    srun says what it was asked for in SLURMD_TRES_FREQ, a job in its request; GpuFreqDef is for
    steps without either. A GPU that others may use at the same time keeps its clocks.
    """
    text = variables.get("SLURMD_TRES_FREQ", "") or credential.request.tres_freq
    words = words_of(text or setup.conf.gpu_freq_def)
    alloc = alloc_of(credential.step_nodes, credential.step_allocs, setup.node_name)
    if words is None or alloc is None or not (words[0] or words[1]):
        return None
    indexes = set(host_gres.indexes(alloc.gres))
    files = [
        path
        for gres in setup.devices
        if gres.name == "gpu"
        for number, path in enumerate(gres.files, gres.first_index)
        if number in indexes and "," not in path  # slices have files of their own beside the GPU's
    ]
    gpus = sorted(set(gpu_numbers(files)))
    if not gpus:
        return None
    return {
        "command": [sys.executable, "-I", "-c", _START, ":".join(sys.path)],
        "gpus": gpus,
        "graphics": words[0],
        "memory": words[1],
        "is_verbose": words[2],
        "is_asked": bool(text),
    }
