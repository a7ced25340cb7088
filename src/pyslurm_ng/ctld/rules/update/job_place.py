"""Where a job runs and which account pays: partition, QOS, nodes, reservation, licences."""

from __future__ import annotations

from pyslurm_ng.base import hostlist, units
from pyslurm_ng.base.errors import Errno, Reject
from pyslurm_ng.base.numbers import NO_VAL
from pyslurm_ng.ctld.rules.reservation.reservations import check_requested
from pyslurm_ng.ctld.rules.submission.account import default_qos, enforced, qos_choices
from pyslurm_ng.ctld.rules.submission.place import (
    by_tier,
    full_license_names,
    in_use,
    license_refusal,
    switches_wait_s,
)
from pyslurm_ng.ctld.rules.update.job_change import Change, Setter, while_pending
from pyslurm_ng.ctld.rules.update.running_job import kept_of_names, traded_licenses
from pyslurm_ng.model.partition import Partition


def partition(change: Change, value: str) -> int:
    """Set the partitions, which must exist; a job that runs keeps its own."""
    if not change.is_pending:
        return 0 if value == change.job.partition else Errno.ESLURM_JOB_NOT_PENDING
    named: dict[str, Partition] = {}
    for name in value.split(","):
        known = change.cluster.partitions.get(name)
        if known is None:
            return Errno.ESLURM_INVALID_PARTITION_NAME
        new = in_use(change.cluster, known)
        named[new.name] = new
    ordered = by_tier(named.values())
    names = ",".join(partition.name for partition in ordered)
    change.fields["partition"] = change.request["partition"] = names
    _keep_within(change, ordered[0].max_time_min)
    return 0


def _keep_within(change: Change, most_min: int) -> None:
    """Give a job whose user named no time limit the most of its new partition, as in Slurm."""
    asked = change.job.request
    is_free = asked.time_limit_min == NO_VAL and not asked.deadline_us
    if is_free and NO_VAL != change.job.time_limit_min > most_min:
        change.fields.setdefault("time_limit_min", most_min)


@while_pending
def account(change: Change, value: str) -> int:
    """Set the account; with no word the user's default one."""
    user = change.cluster.users.get(change.job.user_name)
    name = value.lower() or (user.default_account if user is not None else "")
    assoc_id = change.cluster.assoc_index.by_key.get((name, change.job.user_name, ""))
    if assoc_id is None:
        if "associations" in enforced(change.context.conf):
            return Errno.ESLURM_INVALID_ACCOUNT
        assoc_id = 0
    change.fields.update(account=name, assoc_id=assoc_id)
    change.request["account"] = name
    return 0


def qos(change: Change, value: str) -> int:
    """Set the QOS; with no word the default one."""
    # Whose job runs could leave the limits that let it start.
    if not change.is_pending and not (change.is_running and change.context.caller.is_operator):
        return Errno.ESLURM_JOB_NOT_PENDING
    assoc_id = change.fields.get("assoc_id", change.job.assoc_id)
    assert isinstance(assoc_id, int)
    assoc = change.cluster.assocs.get(assoc_id)
    name = listed = value or default_qos(change.cluster, assoc)
    if "," in name:
        choices = qos_choices(change.cluster, name)
        if isinstance(choices, Reject):
            return choices.code
        listed = ",".join(choices)
        allowed = assoc.qos if assoc is not None else ()
        name = next((qos for qos in choices if not allowed or qos in allowed), choices[0])
    if name not in change.cluster.qos and (name or change.cluster.qos):
        return Errno.ESLURM_INVALID_QOS
    # As in Slurm, operators may give a job a QOS that its user has not got.
    is_barred = assoc is not None and bool(assoc.qos) and name not in assoc.qos
    if is_barred and not change.context.caller.is_operator:
        return Errno.ESLURM_INVALID_QOS
    change.fields["qos"] = name
    change.request["qos"] = listed
    return 0


def node_names(name: str) -> Setter:
    """Return the setter of a list of nodes that exist."""

    @while_pending
    def set_names(change: Change, value: str) -> int:
        try:
            names = hostlist.expand_of_user(value, len(change.cluster.node_index.by_name))
        except hostlist.HostlistError:
            return Errno.ESLURM_INVALID_NODE_NAME
        if not change.cluster.node_index.by_name.keys() >= set(names):
            return Errno.ESLURM_INVALID_NODE_NAME
        change.request[name] = hostlist.fold(names)
        return 0

    return set_names


def node_list(change: Change, value: str) -> int:
    """Set the nodes a waiting job must have, or those a running one keeps."""
    if change.is_running:
        job, conf = change.job, change.context.conf
        return change.keep(kept_of_names(change.cluster, job, value, conf))
    return node_names("node_list")(change, value)


@while_pending
def reservation(change: Change, value: str) -> int:
    """Set the reservations, which the job must be let into."""
    job = change.job
    refusal = check_requested(
        change.cluster,
        value,
        change.context.caller,
        job.account,
        job.qos,
        job.partition.split(","),
        job.user_name,
    )
    if refusal is not None:
        return refusal.code
    change.request["reservation"] = value
    return 0


def licenses(change: Change, value: str) -> int:
    """Set the licences; a running job trades its own."""
    if not change.is_pending and not change.is_running:
        return Errno.ESLURM_JOB_NOT_PENDING
    if change.is_running and not change.is_privileged:
        return Errno.ESLURM_ACCESS_DENIED
    value = full_license_names(change.cluster, value, change.context.conf)
    # allow_zero_lic is about submissions.
    refusal = license_refusal(change.cluster, value, may_wait=False)
    if refusal is not None:
        return refusal.code
    if change.is_running:
        traded = traded_licenses(change.cluster, change.job, value, change.licenses_taken)
        if traded is None:
            return Errno.ESLURM_INVALID_LICENSES
        change.fields["licenses_alloc"], more = traded
        for name, gained in more.items():
            change.licenses_taken[name] = change.licenses_taken.get(name, 0) + gained
    change.request["licenses"] = value
    return 0


def switches(change: Change, value: str) -> int:
    """Set the most leaf switches, and for how long to wait for them."""
    if not change.is_pending and not change.is_running:
        return Errno.ESLURM_JOB_NOT_PENDING
    count, at, wait = value.partition("@")
    try:
        change.request["switches"] = units.parse_count(count or "0")
        if at:
            wait_s = units.parse_time_limit_s(wait)
            change.request["switches_wait_s"] = switches_wait_s(change.context.conf, wait_s)
    except units.UnitError:
        return Errno.ESLURM_INVALID_NODE_COUNT
    return 0


@while_pending
def wait_for_switch(change: Change, value: str) -> int:
    """Set for how long to wait for few leaf switches, in seconds."""
    wait_s = units.whole_number(value)
    if wait_s is None:
        return Errno.ESLURM_INVALID_TIME_VALUE
    change.request["switches_wait_s"] = switches_wait_s(change.context.conf, wait_s)
    return 0
