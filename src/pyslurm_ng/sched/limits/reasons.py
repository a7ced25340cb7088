"""Which of Slurm's reasons says that a limit on some TRES is in the way.

Slurm has one code per limit and sort of TRES, named by a handful of patterns.
"""

from __future__ import annotations

from functools import lru_cache

from pyslurm_ng.model.states import Reason

_WORDS = {
    "cpu": ("Cpu", "CPU"),
    "mem": ("Mem", "Memory"),
    "node": ("Node",),
    "energy": ("Energy",),
    "billing": ("Billing",),
    "gres": ("GRES",),
    "license": ("License",),
    "bb": ("BB",),
}
_UNKNOWN = ("Unknown",)
# By kind of limit; the first name there is counts.
_PATTERNS = {
    "group": ("{owner_kind}Grp{tres}Limit", "{owner_kind}Grp{tres}"),
    "group minutes": ("{owner_kind}Grp{tres}MinutesLimit", "{owner_kind}Grp{tres}Minutes"),
    "group run minutes": (
        "{owner_kind}Grp{tres}RunMinutesLimit",
        "{owner_kind}Grp{tres}RunMinutes",
    ),
    "job": ("{owner_kind}Max{tres}PerJobLimit", "{owner_kind}Max{tres}PerJob"),
    "job minutes": (
        "{owner_kind}Max{tres}MinutesPerJobLimit",
        "{owner_kind}Max{tres}MinutesPerJob",
    ),
    "node": ("{owner_kind}Max{tres}PerNode",),
    "user": ("{owner_kind}Max{tres}PerUserLimit", "{owner_kind}Max{tres}PerUser"),
    "user run minutes": ("Max{tres}RunMinsPerUser",),
    "account": ("Max{tres}PerAccount",),
    "account run minutes": ("Max{tres}RunMinsPerAccount",),
    "least": ("{owner_kind}Min{tres}NotSatisfied", "{owner_kind}Min{tres}"),
}


@lru_cache(1024)
def tres_reason(kind: str, owner_kind: str, tres: str) -> Reason:
    """Return the reason of a limit on a TRES.

    Args:
        kind: a key of the patterns above.
        owner_kind: Assoc or QOS.
        tres: a name such as cpu or gres/gpu.
    """
    for words in (_WORDS.get(tres.partition("/")[0], _UNKNOWN), _UNKNOWN):
        for pattern in _PATTERNS[kind]:
            for word in words:
                reason = Reason.__members__.get(pattern.format(owner_kind=owner_kind, tres=word))
                if reason is not None:
                    return reason
    return Reason.AccountingPolicy
