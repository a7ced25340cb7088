"""Burst buffers: what scontrol show burstbuffer prints."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyslurm_ng.base.dates import format_date
from pyslurm_ng.base.numbers import SECOND_US
from pyslurm_ng.ctld.rules.buffers.pools import Pool, free_room, used_room
from pyslurm_ng.model.buffer import Buffer
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.wire.buffer_messages import BuffersShown

if TYPE_CHECKING:
    from pyslurm_ng.conf.burst_buffer_conf import BurstBufferConf
    from pyslurm_ng.ctld.rules.context import Caller

_UNITS = tuple(
    sorted(
        [(1024**power, f"{letter}iB") for power, letter in enumerate("KMGTP", 1)]
        + [(1000**power, f"{letter}B") for power, letter in enumerate("KMGTP", 1)],
        reverse=True,
    )
)


def show_burst_buffers(
    cluster: Cluster, conf: BurstBufferConf, pools: Mapping[str, Pool], caller: Caller
) -> BuffersShown:
    """Return pools, settings and the burst buffers that there are, in Slurm's lines."""
    allocated = [buffer for buffer in cluster.buffers.values() if buffer.holds_room]
    free = free_room(allocated, pools)
    used = used_room(allocated)
    lines = ["Name=lua DefaultPool=(null) Granularity=1 TotalSpace=0 FreeSpace=0 UsedSpace=0"]
    lines += [
        f"  PoolName[{number}]={pool.name} Granularity={size_text(pool.granularity)}"
        f" TotalSpace={size_text(pool.total)} FreeSpace={size_text(free[pool.name])}"
        f" UsedSpace={size_text(used[pool.name])}"
        for number, pool in enumerate(pools.values())
    ]
    if conf.allow_users:
        lines.append(f"  AllowUsers={','.join(conf.allow_users)}")
    if conf.deny_users:
        lines.append(f"  DenyUsers={','.join(conf.deny_users)}")
    flags = [*conf.flags, *(["PrivateData"] if conf.private_data else [])]
    lines += [
        f"  Flags={','.join(dict.fromkeys(flags))}",
        f"  StageInTimeout={conf.stage_in_timeout} StageOutTimeout={conf.stage_out_timeout}"
        f" ValidateTimeout={conf.validate_timeout} OtherTimeout={conf.other_timeout}",
        f"  GetSysState={conf.get_sys_state or '(null)'}",
        f"  GetSysStatus={conf.get_sys_status or '(null)'}",
    ]
    shown = [
        buffer
        for buffer in allocated
        if not conf.hides_others or _is_shown(cluster, buffer, caller)
    ]
    return BuffersShown(lines=lines + _of_jobs(cluster, shown[::-1]))


def _is_shown(cluster: Cluster, buffer: Buffer, caller: Caller) -> bool:
    return caller.is_operator or cluster.jobs[buffer.job_id].uid == caller.uid


def _of_jobs(cluster: Cluster, buffers: list[Buffer]) -> list[str]:
    if not buffers:
        return []
    lines, used = ["  Allocated Buffers:"], Counter[str]()
    for buffer in buffers:
        job = cluster.jobs[buffer.job_id]
        user = f"UserID={job.user_name}({job.uid})"
        used[user] += buffer.size
        lines.append(
            f"    JobID={buffer.job_id} CreateTime={format_date(buffer.created_us // SECOND_US)}"
            f" Pool={buffer.pool or '(null)'} Size={size_text(buffer.size)} State=allocated {user}"
        )
    with_room = [(user, size) for user, size in used.items() if size]
    if with_room:
        lines.append("  Per User Buffer Use:")
        lines += [f"    {user} Used={size_text(size)}" for user, size in with_room]
    return lines


def size_text(size: int) -> str:
    """Return a size in the largest unit that holds it without a rest, as Slurm does."""
    for unit, name in _UNITS:
        if size and size % unit == 0:
            return f"{size // unit}{name}"
    return str(size)
