"""The account, association and QOS of a job: AccountingStorageEnforce, DefaultQOS."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

from msgspec import Struct
from msgspec.structs import replace

from pyslurm_ng.base.errors import Errno, Reject
from pyslurm_ng.base.numbers import NO_VAL
from pyslurm_ng.base.request_words import NO_NAME
from pyslurm_ng.conf.slurm_conf import SlurmConf
from pyslurm_ng.ctld.rules.context import Caller, Context
from pyslurm_ng.model.assoc import DEFAULT_WCKEY, Association, Qos
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import JobRequest
from pyslurm_ng.model.partition import Partition
from pyslurm_ng.sched.limits.relative import owner_of

# What else each word of AccountingStorageEnforce stands for.
_IMPLIED = {
    "associations": ("associations",),
    "limits": ("limits", "associations"),
    "qos": ("qos", "associations"),
    "safe": ("safe", "limits", "associations"),
    "wckeys": ("wckeys", "associations"),
    "all": ("associations", "limits", "qos", "safe", "wckeys"),
}
_DEFAULT_QOS = "normal"


class Standing(Struct, frozen=True):
    """What accounting says of one request; without accounting `assoc` and `qos_record` are None."""

    account: str
    qos: str
    assoc: Association | None
    qos_record: Qos | None

    @property
    def assoc_id(self) -> int:
        """The association's id, 0 for none."""
        return self.assoc.assoc_id if self.assoc is not None else 0


def enforced(conf: SlurmConf) -> frozenset[str]:
    """Return which of associations, limits, qos, safe and wckeys are enforced."""
    return _implied(conf.accounting_storage_enforce)


@lru_cache(maxsize=8)  # each submission asks, and few configurations are about
def _implied(words: tuple[str, ...]) -> frozenset[str]:
    return frozenset(implied for word in words for implied in _IMPLIED.get(word.lower(), ()))


def standing_of(
    cluster: Cluster, request: JobRequest, partitions: Sequence[Partition], context: Context
) -> Standing | Reject:
    """Find account, association and QOS of a request, with the user's defaults."""
    enforce = enforced(context.conf)
    user = cluster.users.get(context.caller.user_name)
    account = request.account.lower()
    if account == NO_NAME and "associations" not in enforce:
        account = ""
    if not account and user is not None:
        account = user.default_account
    assoc = _association(cluster, account, context.caller.user_name, partitions)
    if assoc is None and "associations" in enforce:
        return Reject(Errno.ESLURM_INVALID_ACCOUNT)
    wckey = wckey_of(cluster, request, context)
    if not may_use_wckey(cluster, context.caller.user_name, wckey, context.conf):
        return Reject(Errno.ESLURM_INVALID_WCKEY)
    return _with_qos(cluster, request, account, assoc, enforce)


def may_use_wckey(cluster: Cluster, user_name: str, wckey: str, conf: SlurmConf) -> bool:
    """Return whether a user has a key, or there is none: the job names none, nor has a default."""
    name = wckey.removeprefix(DEFAULT_WCKEY)
    if not name or "wckeys" not in enforced(conf):
        return True
    user = cluster.users.get(user_name)
    return user is not None and name in user.wckeys


def wckey_of(cluster: Cluster, request: JobRequest, context: Context) -> str:
    """Return the wckey of a request; one that names none has its user's default, marked so.

    The mark alone, as in Slurm, says that its user has no default.
    """
    if request.wckey or not tracks_wckeys(context.conf):
        return request.wckey
    return f"{DEFAULT_WCKEY}{default_wckey(cluster, context.caller.user_name)}"


def tracks_wckeys(conf: SlurmConf) -> bool:
    """Return whether jobs that name no wckey have their user's default."""
    return conf.track_wckey or "wckeys" in enforced(conf)


def default_wckey(cluster: Cluster, user_name: str) -> str:
    """Return the wckey of a user's jobs that name none; empty for none."""
    user = cluster.users.get(user_name)
    return user.default_wckey if user is not None else ""


def _association(
    cluster: Cluster, account: str, user_name: str, partitions: Sequence[Partition]
) -> Association | None:
    """Return the association for the first partition, else the one for all partitions."""
    for name in (partitions[0].name, ""):
        assoc_id = cluster.assoc_index.by_key.get((account, user_name, name))
        if assoc_id is not None:
            return cluster.assocs[assoc_id]
    return None


def _with_qos(
    cluster: Cluster,
    request: JobRequest,
    account: str,
    assoc: Association | None,
    enforce: frozenset[str],
) -> Standing | Reject:
    name = request.qos or default_qos(cluster, assoc)
    record = cluster.qos.get(name)
    if record is None and name and "qos" in enforce:
        return Reject(Errno.ESLURM_INVALID_QOS)
    if record is None and cluster.qos:
        name = ""  # as in Slurm: a name that means nothing is dropped where QOS are not enforced
    if "qos" in enforce and assoc is not None and assoc.qos and name not in assoc.qos:
        return Reject(Errno.ESLURM_INVALID_QOS)
    if record is not None and "Relative" in record.flags and owner_of(cluster, name) is not None:
        return Reject(Errno.ESLURM_INVALID_QOS, f"QOS {name} is only a partition's own")
    if record is not None and "RequiresReservation" in record.flags and not request.reservation:
        return Reject(Errno.ESLURM_INVALID_QOS)
    return Standing(account, name, assoc, record)


def qos_choices(cluster: Cluster, text: str) -> list[str] | Reject:
    """Return the names of a list of QOS, the one of highest priority first; refuse unknown ones."""
    names = list(dict.fromkeys(text.split(",")))
    for name in names:
        if name not in cluster.qos:
            return Reject(Errno.ESLURM_INVALID_QOS)
    return in_order(cluster, names)


def in_order(cluster: Cluster, names: Iterable[str]) -> list[str]:
    """Return those of some QOS that exist, the one of highest priority first."""
    known = [name for name in names if name in cluster.qos]
    return sorted(known, key=lambda name: -cluster.qos[name].priority)


def default_qos(cluster: Cluster, assoc: Association | None) -> str:
    """Return the QOS of a job that names none: the default, the only one, or `normal`.

    Of several without `normal` none is chosen: Slurm 22.05 refuses such a job.
    """
    if assoc is not None and assoc.default_qos:
        return assoc.default_qos
    if assoc is not None and len(assoc.qos) == 1:
        return assoc.qos[0]
    return _DEFAULT_QOS if _DEFAULT_QOS in cluster.qos else ""


def lineage(cluster: Cluster, assoc: Association | None) -> list[Association]:
    """Return an association and all above it, lowest first."""
    chain: list[Association] = []
    while assoc is not None and len(chain) <= len(cluster.assocs):
        chain.append(assoc)
        assoc = cluster.assocs.get(assoc.parent_id)
    return chain


def with_own_priority(request: JobRequest, caller: Caller) -> JobRequest:
    """Return a request without a --priority that only operators may give.

    As in Slurm it counts for nothing: scripts written for operators run for all users.
    """
    if caller.is_operator or request.priority in (NO_VAL, 0):
        return request
    return replace(request, priority=NO_VAL)
