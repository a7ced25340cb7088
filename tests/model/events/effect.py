"""What an event does to a small cluster: everything that is stored, before and after it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from pyslurm_ng.model import events as ev
from pyslurm_ng.model.apply import apply, apply_all
from pyslurm_ng.model.cluster import Cluster, ClusterImage
from pyslurm_ng.model.job import Job, JobRequest, NodeAlloc
from pyslurm_ng.model.node import NodeFacts, NodeSpec
from pyslurm_ng.model.partition import Partition
from pyslurm_ng.model.states import NodeState

GONE = "gone"


def at(seconds: int) -> int:
    """Return a moment in microseconds; all happens in the first minutes of the same day."""
    return (1_000_000_000 + seconds) * 1_000_000


@dataclass(frozen=True)
class Case:
    """An event, what has happened before it, and all that it changes.

    `changes` maps what is stored to its new value: `jobs.1.state`, `nodes.n1.reason`, or a whole
    record that is new (`jobs.2`) or GONE. Whatever it does not name has to stay as it was.
    """

    says: str
    before: tuple[ev.AnyEvent, ...]
    event: ev.AnyEvent
    changes: dict[str, object]


# A cluster to begin with ------------------------------------------------------------------------

NODES = tuple(
    NodeSpec(name, cpus=4, cores_per_socket=4, real_memory_mib=1000) for name in ("n1", "n2")
)
MAIN = Partition("main", node_ids=(0, 1), nodes_text="n[1-2]", is_default=True)
OTHER = Partition("other", node_ids=(1,), nodes_text="n2")
CONFIGURED = ev.ConfigLoaded(at(0), "demo", NODES, (MAIN, OTHER), licenses=(("matlab", 4),))
SITE: tuple[ev.AnyEvent, ...] = (
    CONFIGURED,
    ev.NodeRegistered(at(1), 0, NodeFacts(), NodeState.IDLE),
    ev.NodeRegistered(at(1), 1, NodeFacts(), NodeState.IDLE),
)


_SUBMITTED: dict[str, Any] = {
    "request": JobRequest(name="work"),
    "uid": 1001,
    "gid": 1001,
    "user_name": "alice",
    "group_name": "users",
    "account": "physics",
    "qos": "normal",
    "assoc_id": 3,
    "partition": "main",
    "time_limit_min": 60,
    "eligible_us": at(10),
}


def submitted(job_id: int = 1, **fields: Any) -> ev.JobSubmitted:
    """Return a job of user 1001 that may start."""
    return ev.JobSubmitted(at(10), job_id, **{**_SUBMITTED, **fields})


def recorded(job_id: int, **fields: Any) -> Job:
    """Return the record of a job that `submitted` describes."""
    plain = {**_SUBMITTED, "submit_us": at(10), "accrue_us": at(10)}
    return Job(job_id, **{**plain, **fields})


def part(node_id: int, cores: int = 0b11, mem_mib: int = 100) -> NodeAlloc:
    """Return what a job holds of a node: the cores of a mask, and memory."""
    return NodeAlloc(node_id, cores.bit_count(), bytes([cores]), mem_mib, tasks=1)


def allocated(job_id: int = 1, *nodes: NodeAlloc, **fields: Any) -> ev.JobAllocated:
    """Return the start of a job, on two cores of either node if none are named."""
    allocs = nodes or (part(0), part(1))
    plain: dict[str, Any] = {"total_tasks": len(allocs), "first_duty_id": 1}
    return ev.JobAllocated(at(20), job_id, "main", allocs, allocs[0].node_id, **{**plain, **fields})


WAITING = (*SITE, submitted())
RUNNING = (*WAITING, allocated(), ev.DutiesDone(at(21), ((0, 1),)), ev.JobStarted(at(21), 1, 0))


# What is stored ---------------------------------------------------------------------------------


def _named(image: ClusterImage) -> dict[str, object]:
    """Return all that an image holds, records by their names."""
    jobs = [msgspec.msgpack.decode(raw, type=Job) for raw in image.jobs]
    stored = {name: getattr(image, name) for name in image.__struct_fields__}
    for name in ("time_us", "format", "jobs", "nodes", "partitions", "assocs", "qos", "users",
                 "duties", "reservations", "licenses", "replies", "usage",
                 "license_servers", "triggers", "crontabs"):  # fmt: skip
        del stored[name]
    stored |= {f"jobs.{job.job_id}": job for job in jobs}
    stored |= {f"nodes.{node.spec.name}": node for node in image.nodes if node is not None}
    stored |= {f"partitions.{partition.name}": partition for partition in image.partitions}
    stored |= {f"assocs.{association.assoc_id}": association for association in image.assocs}
    stored |= {f"qos.{qos.name}": qos for qos in image.qos}
    stored |= {f"users.{user.name}": user for user in image.users}
    stored |= {f"duties.{duty.duty_id}": duty for duty in image.duties}
    stored |= {
        f"reservations.{reservation.name}": reservation for reservation in image.reservations
    }
    stored |= {f"licenses.{name}": count for name, count in image.licenses}
    stored |= {f"usage.{usage.kind}.{usage.owner}": usage for usage in image.usage}
    stored |= {f"license_servers.{server.name}": server for server in image.license_servers}
    stored |= {f"triggers.{trigger.trigger_id}": trigger for trigger in image.triggers}
    stored |= {f"crontabs.{crontab.uid}": crontab for crontab in image.crontabs}
    stored |= {f"replies.{uid}.{key.hex()}": body for uid, key, _, body in image.replies}
    return stored


def stored(cluster: Cluster) -> dict[str, object]:
    """Return everything in a cluster that is stored but its time, and what is in use of nodes."""
    image = msgspec.msgpack.decode(cluster.to_bytes(), type=ClusterImage)
    everything = _named(image)
    for node in cluster.living_nodes():
        use = cluster.node_index.use[node.node_id]
        everything[f"used.{node.spec.name}.cpus"] = use.cpus
        everything[f"used.{node.spec.name}.mem_mib"] = use.mem_mib
    for name, count in cluster.job_counts.licenses_used.items():
        everything[f"used.{name}"] = count
    return everything


def changes(before: dict[str, object], after: dict[str, object]) -> dict[str, object]:
    """Return what differs: new values, whole records that are new, and what is GONE."""
    changed: dict[str, object] = dict.fromkeys(before.keys() - after.keys(), GONE)
    for key, value in after.items():
        old = before.get(key, GONE)
        if isinstance(old, msgspec.Struct) and isinstance(value, msgspec.Struct):
            for name in value.__struct_fields__:
                if getattr(old, name) != getattr(value, name):
                    changed[f"{key}.{name}"] = getattr(value, name)
        elif old != value:
            changed[key] = value
    return changed


def after(*events: ev.AnyEvent) -> Cluster:
    """Return the cluster that events lead to."""
    cluster = Cluster()
    apply_all(cluster, events)
    return cluster


def effect(case: Case) -> tuple[Cluster, dict[str, object]]:
    """Apply a case's event; return the cluster then, and what has changed in it."""
    cluster = after(*case.before)
    before = stored(cluster)
    apply(cluster, case.event)
    return cluster, changes(before, stored(cluster))
