"""How cgroup.conf limits the memory of a job or step on one node."""

from __future__ import annotations

from pyslurm_ng.base.numbers import NO_VAL
from pyslurm_ng.conf.tables.records import CgroupParameters
from pyslurm_ng.d.spool.step_contract import GroupLimits


def memory_limits(conf: CgroupParameters, alloc_mib: int, node_mib: int) -> GroupLimits:
    """Return the limits of what has been given `alloc_mib` of a node with `node_mib`.

    What was given no memory (0), because SelectTypeParameters does not share memory out, may use
    what MaxRAMPercent and MaxSwapPercent allow. As in Slurm, the bound of RAM and swap together is
    MaxSwapPercent of the node's RAM on top of MaxRAMPercent of it. Without ConstrainRAMSpace,
    ConstrainSwapSpace limits RAM to the amount of RAM and swap.
    """
    most = int(node_mib * conf.max_ram_percent / 100)
    percent = conf.allowed_ram_space if conf.constrain_ram_space else 100
    ram = max(min(int(alloc_mib * percent / 100), most) if alloc_mib else most, conf.min_ram_space)
    if not conf.constrain_swap_space:
        return {"mem_mib": ram}
    most_with_swap = most + int(node_mib * conf.max_swap_percent / 100)
    both = ram + int(alloc_mib * conf.allowed_swap_space / 100) if alloc_mib else most_with_swap
    both = max(min(both, most_with_swap), ram)
    if not conf.constrain_ram_space:
        ram = both
    limits: GroupLimits = {"mem_mib": ram, "swap_mib": both - ram}
    if conf.memory_swappiness != NO_VAL:
        limits["swappiness"] = conf.memory_swappiness
    return limits
