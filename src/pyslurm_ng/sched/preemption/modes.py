"""What PreemptMode, GraceTime and PreemptExemptTime say of a victim: QOS, partition, cluster."""

from __future__ import annotations

from collections.abc import Mapping

from pyslurm_ng.base.numbers import INFINITE
from pyslurm_ng.model.assoc import Qos
from pyslurm_ng.model.partition import Partition
from pyslurm_ng.sched.frame.job_records import Victim
from pyslurm_ng.sched.frame.policy import Policy

_ACTING = ("CANCEL", "REQUEUE", "SUSPEND")


def words_of(mode: str) -> frozenset[str]:
    """Return the words of a PreemptMode; none where it stands for the cluster's."""
    words = frozenset(word.upper() for word in mode.split(",") if word)
    return frozenset() if words <= {"CLUSTER"} else words


def mode_words(
    policy: Policy, qos: Mapping[str, Qos], partitions: Mapping[str, Partition], victim: Victim
) -> frozenset[str]:
    """Return the words of the PreemptMode that holds for a victim: QOS, partition, cluster."""
    own = qos.get(victim.job.qos)
    if policy.preempt_by == "qos" and own is not None:
        words = words_of(own.preempt_mode)
        if words:
            return words
    partition = partitions.get(victim.partition)
    return words_of(partition.preempt_mode if partition is not None else "") or policy.preempt_mode


def mode_of(words: frozenset[str], policy: Policy) -> str:
    """Return the action on a victim, "" if it is left alone.

    A mode that only says WITHIN or GANG leaves the rest to the cluster's.
    """
    if "OFF" in words:
        return ""
    for acting in (words, policy.preempt_mode):
        for mode in _ACTING:
            if mode in acting:
                return mode
    return ""


def exempt_s(
    usual_s: int, qos: Mapping[str, Qos], partition: Partition | None, qos_name: str
) -> int:
    """Return how long a job runs before it may be preempted: QOS, partition's QOS, cluster."""
    for name in (qos_name, partition.qos if partition is not None else ""):
        own = qos.get(name)
        if own is not None and own.preempt_exempt_s != INFINITE:
            return own.preempt_exempt_s
    return usual_s


def grace_s(qos: Mapping[str, Qos], partition: Partition | None, name: str) -> int:
    """Return how long a victim goes on after it was told: its QOS's or its partition's."""
    own = qos.get(name)
    if own is not None and own.grace_time_s:
        return own.grace_time_s
    return partition.grace_time_s if partition is not None else 0


def qos_ranks(qos: Mapping[str, Qos]) -> dict[str, int]:
    """Return the rank of each QOS: 0 if it can preempt none, else one above the highest of those.

    Jobs of QOS with a rank are considered before all others, the highest rank first.
    """
    ranks: dict[str, int] = {}

    def rank(name: str, above: tuple[str, ...]) -> int:
        if name not in ranks:
            own = qos.get(name)
            lower = own.preempt if own is not None else ()
            below = [
                rank(lower_name, (*above, name))
                for lower_name in lower
                if lower_name not in above and lower_name != name
            ]
            ranks[name] = 1 + max(below) if below else 0
        return ranks[name]

    for name in qos:
        rank(name, ())
    return ranks
