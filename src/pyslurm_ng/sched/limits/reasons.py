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
    "group": ("{who}Grp{tres}Limit", "{who}Grp{tres}"),
    "group minutes": ("{who}Grp{tres}MinutesLimit", "{who}Grp{tres}Minutes"),
    "group run minutes": ("{who}Grp{tres}RunMinutesLimit", "{who}Grp{tres}RunMinutes"),
    "job": ("{who}Max{tres}PerJobLimit", "{who}Max{tres}PerJob"),
    "job minutes": ("{who}Max{tres}MinutesPerJobLimit", "{who}Max{tres}MinutesPerJob"),
    "node": ("{who}Max{tres}PerNode",),
    "user": ("{who}Max{tres}PerUserLimit", "{who}Max{tres}PerUser"),
    "user run minutes": ("Max{tres}RunMinsPerUser",),
    "account": ("Max{tres}PerAccount",),
    "account run minutes": ("Max{tres}RunMinsPerAccount",),
    "least": ("{who}Min{tres}NotSatisfied", "{who}Min{tres}"),
}


@lru_cache(1024)
def tres_reason(kind: str, who: str, tres: str) -> Reason:
    """Return the reason of a limit on a TRES.

    Args:
        kind: a key of the patterns above.
        who: Assoc or QOS.
        tres: a name such as cpu or gres/gpu.
    """
    for words in (_WORDS.get(tres.partition("/")[0], _UNKNOWN), _UNKNOWN):
        for pattern in _PATTERNS[kind]:
            for word in words:
                found = Reason.__members__.get(pattern.format(who=who, tres=word))
                if found is not None:
                    return found
    return Reason.AccountingPolicy
