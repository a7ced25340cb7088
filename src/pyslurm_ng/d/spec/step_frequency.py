"""What a supervisor is told for --cpu-freq."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyslurm_ng.conf.cpu_frequency import FREQUENCY
from pyslurm_ng.conf.values import has_option
from pyslurm_ng.d.spec.node_setup import NodeSetup, SpecError
from pyslurm_ng.model.ids import STEP_BATCH, STEP_INTERACTIVE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyslurm_ng.d.spool import step_contract as sc

_NEEDS: dict[int, str] = {
    STEP_BATCH: "batch_step_set_cpu_freq",
    STEP_INTERACTIVE: "interactive_step_set_cpu_freq",
}


def frequency_spec(
    setup: NodeSetup, step_id: int, variables: Mapping[str, str], cpus: Sequence[int] | None
) -> sc.FrequencySpec | None:
    """Return the frequency that a step's CPUs get; None if they keep theirs.

    SLURM_CPU_FREQ_REQ says what was asked for, and CpuFreqDef what steps get without it. Scripts
    and interactive steps have their CPUs' frequency set only if LaunchParameters says so.

    Raises:
        SpecError: CpuFreqGovernors leaves the governor out.
    """
    need = _NEEDS.get(step_id)
    if need is not None and not has_option(setup.conf.launch_parameters, need):
        return None
    asked = variables.get("SLURM_CPU_FREQ_REQ", "")
    match = FREQUENCY.fullmatch((asked or setup.conf.cpu_freq_def).lower())
    if match is None or not cpus:
        return None
    governor = match["governor"] or match["only"] or ""
    allowed = [name.lower() for name in setup.conf.cpu_freq_governors]
    if asked and governor and governor not in allowed:
        raise SpecError(f"governor of {governor} is not allowed in slurm.conf")
    return {
        "cpus": list(cpus),
        "low": match["low"] or "",
        "high": match["high"] or "",
        "governor": governor,
        "is_asked": bool(asked),
    }
