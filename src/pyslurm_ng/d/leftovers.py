"""Processes of a step whose supervisor was killed: found by group, by descent, by environment.

Tasks themselves die with their supervisor (parent-death signal). What they had started is adopted
by another reaper; it is found in the step's control groups, and by SLURM_JOB_ID and SLURM_STEP_ID
in the environment, which daemons inherit unless they clear it.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from typing import Any

from pyslurm_ng.base.process_tree import descendants, signal_all
from pyslurm_ng.d.stepd.step_cgroup import StepCgroup
from pyslurm_ng.model.ids import STEP_BATCH

_ROUNDS = 10


def kill_leftovers(job_id: int, step_id: int, records: Mapping[str, Any]) -> int:
    """End what is left of a step; return how many processes were found."""
    found = 0
    spec = records.get("spec")
    group = StepCgroup(spec["cgroup"]) if spec is not None and spec["cgroup"] else None
    for _ in range(_ROUNDS):
        pids = marked(job_id, step_id, spec) if spec is not None else []
        if group is not None:
            pids += [pid for pid in group.pids() if pid not in pids]
        pids += [below for pid in pids for below in descendants(pid)]
        if not pids:
            break
        found += signal_all(list(dict.fromkeys(pids)), signal.SIGKILL)
    if group is not None:
        group.leave()
    return found


def marked(job_id: int, step_id: int, spec: Mapping[str, Any]) -> list[int]:
    """Return processes of a user whose environment says that they belong to a step here."""
    step = b"-5" if step_id == STEP_BATCH else b"%d" % step_id
    wanted = {b"SLURM_JOB_ID=%d" % job_id, b"SLURM_STEP_ID=%b" % step}
    # Another cluster on this host, or another node of this one, may have the same job id.
    names = (b"SLURMD_NODENAME=", b"SLURM_CONF=")
    wanted |= {entry for entry in spec["env"] if entry.startswith(names)}
    own = os.getpid()
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == own:
            continue
        try:
            if os.stat(f"/proc/{name}").st_uid != spec["uid"]:
                continue
            with open(f"/proc/{name}/environ", "rb") as file:
                if wanted <= set(file.read().split(b"\0")):
                    found.append(int(name))
        except OSError:
            continue
    return found
