"""The numbers that scripts know by name: `slurm.SUCCESS`, `slurm.ESLURM_ACCESS_DENIED` and so on.

Source: what the table `slurm` of a job_submit.lua holds under Slurm 22.05.
"""

from __future__ import annotations

from pyslurm_ng.base.error_numbers import Errno
from pyslurm_ng.base.numbers import INFINITE, NO_VAL, NO_VAL16
from pyslurm_ng.base.request_words import MAIL_BITS

NO_VAL64 = 2**64 - 2
INFINITE64 = 2**64 - 1
MEM_PER_CPU = 2**63
NICE_OFFSET = 2**31

# What the field `shared` says.
SHARED_NONE, SHARED_OK, SHARED_USER, SHARED_MCS, SHARED_TOPO = range(5)

# Bits of the field `bitflags`.
KILL_INV_DEP = 1 << 0
NO_KILL_INV_DEP = 1 << 1
GRES_ENFORCE_BIND = 1 << 4
SPREAD_JOB = 1 << 8
USE_MIN_NODES = 1 << 9
GRES_DISABLE_BIND = 1 << 19

NUMBERS: dict[str, int] = {
    **{
        name: number
        for name, number in vars(Errno).items()
        if name.startswith("ESLURM") and isinstance(number, int)
    },
    "SUCCESS": 0,
    "ERROR": -1,
    "FAILURE": -1,
    "NO_VAL": NO_VAL,
    "NO_VAL8": 254,
    "NO_VAL16": NO_VAL16,
    "NO_VAL64": NO_VAL64,
    "INFINITE": INFINITE,
    "INFINITE64": INFINITE64,
    "MEM_PER_CPU": MEM_PER_CPU,
    "NICE_OFFSET": NICE_OFFSET,
    "ALLOC_SID_ADMIN_HOLD": 1,
    "ALLOC_SID_USER_HOLD": 2,
    "JOB_SHARED_NONE": SHARED_NONE,
    "JOB_SHARED_OK": SHARED_OK,
    "JOB_SHARED_USER": SHARED_USER,
    "JOB_SHARED_MCS": SHARED_MCS,
    "JOB_SHARED_TOPO": SHARED_TOPO,
    "SHARED_FORCE": 0x8000,
    "KILL_INV_DEP": KILL_INV_DEP,
    "NO_KILL_INV_DEP": NO_KILL_INV_DEP,
    "GRES_ENFORCE_BIND": GRES_ENFORCE_BIND,
    "SPREAD_JOB": SPREAD_JOB,
    "USE_MIN_NODES": USE_MIN_NODES,
    "GRES_DISABLE_BIND": GRES_DISABLE_BIND,
    **{
        f"MAIL_JOB_{word}": MAIL_BITS[word]
        for word in ("BEGIN", "END", "FAIL", "REQUEUE", "STAGE_OUT")
    },
    **{f"MAIL_JOB_TIME{part}": MAIL_BITS[f"TIME_LIMIT_{part}"] for part in (90, 80, 50)},
    "MAIL_JOB_TIME890": MAIL_BITS["TIME_LIMIT_90"],  # Slurm's own spelling
    "MAIL_JOB_TIME100": MAIL_BITS["TIME_LIMIT"],
    "MAIL_INVALID_DEPEND": MAIL_BITS["INVALID_DEPEND"],
}
