"""How configuration and node events change rows: node names, outages, the cluster's TRES."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import sqlalchemy as sa

from pyslurm_ng.base.hostlist import fold_sorted
from pyslurm_ng.dbd import schema
from pyslurm_ng.dbd.ingest import instance_rows
from pyslurm_ng.dbd.ingest.session import Session
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.amounts import billing_of_node, tres_text
from pyslurm_ng.model.node import NodeSpec
from pyslurm_ng.model.partition import Partition
from pyslurm_ng.model.states import NodeFlag, NodeState


def apply(session: Session, event: ev.AnyEvent) -> bool:
    """Apply a node or configuration event; return whether it was one that accounting keeps."""
    handler = _HANDLERS.get(type(event))
    if handler is None:
        return False
    handler(session, event)
    return True


def _config_loaded(session: Session, event: ev.ConfigLoaded) -> None:
    ids = {
        name: node_id
        for node_id, name in session.node_names.items()
        if node_id not in session.gone_nodes
    }
    # The model keeps ids by name, numbers new nodes upwards and never uses a number twice. This
    # must do the same, or allocations would show the wrong names.
    next_id = max(session.node_names, default=-1) + 1
    named = {spec.name for spec in event.nodes}
    rows = [(node_id, name, 1) for name, node_id in ids.items() if name not in named]
    session.gone_nodes.update(node_id for node_id, _, _ in rows)
    for _, name, _ in rows:
        _end(session, name, event.time_us)
        instance_rows.ended(session, name, event.time_us)
    terms = _terms_by_node(event.partitions)
    total: dict[str, int] = {}
    for spec in event.nodes:
        node_id = ids.get(spec.name, next_id)
        has = _node_tres(spec, session.tracked)
        has["billing"] = billing_of_node(has | {"node": 0}, terms.get(node_id, ()))
        for name, amount in has.items():
            total[name] = total.get(name, 0) + amount
        tres = tres_text(has)
        if node_id == next_id:
            session.node_names[next_id] = spec.name
            next_id += 1
        elif (session.node_tres.get(node_id), session.node_threads.get(node_id)) == (
            tres, spec.threads_per_core
        ):  # fmt: skip
            continue
        session.node_tres[node_id] = tres
        session.node_threads[node_id] = spec.threads_per_core
        rows.append((node_id, spec.name, 0))
    _store_nodes(session, rows)
    for partition in event.partitions:
        _set_partition(session, partition)
    names = fold_sorted([spec.name for spec in event.nodes])
    _cluster_tres(session, event.time_us, tres_text(total), names)


def _terms_by_node(partitions: Iterable[Partition]) -> dict[int, list[str]]:
    """Return how the partitions of each node bill."""
    terms: dict[int, list[str]] = {}
    for partition in partitions:
        if partition.billing_terms:
            for node_id in partition.node_ids:
                terms.setdefault(node_id, []).append(partition.billing_terms)
    return terms


def _nodes_created(session: Session, event: ev.NodesCreated) -> None:
    """Enter new dynamic nodes, and what the cluster has with them."""
    rows = []
    for node_id, spec in enumerate(event.specs, event.first_node_id):
        session.node_names[node_id] = spec.name
        session.node_tres[node_id] = tres_text(_node_tres(spec, session.tracked))
        session.node_threads[node_id] = spec.threads_per_core
        rows.append((node_id, spec.name, 0))
    _store_nodes(session, rows)
    _count_again(session, event.time_us)


def _nodes_deleted(session: Session, event: ev.NodesDeleted) -> None:
    """Close the outages of dynamic nodes that are gone, and count the cluster without them."""
    rows = [(node_id, session.node_names.get(node_id, ""), 1) for node_id in event.node_ids]
    session.gone_nodes.update(event.node_ids)
    for _, name, _ in rows:
        _end(session, name, event.time_us)
    _store_nodes(session, rows)
    _count_again(session, event.time_us)


def _count_again(session: Session, time_us: int) -> None:
    """Record what all nodes have together."""
    total: dict[str, int] = {}
    names = []
    for node_id, name in session.node_names.items():
        if node_id in session.gone_nodes:
            continue
        names.append(name)
        words = session.node_tres.get(node_id, "").split(",")
        for tres, _, amount in (word.partition("=") for word in words if word):
            total[tres] = total.get(tres, 0) + int(amount)
    _cluster_tres(session, time_us, tres_text(total), fold_sorted(names))


def _store_nodes(session: Session, rows: list[tuple[int, str, int]]) -> None:
    """Write rows of node id, name and whether it is gone."""
    session.upsert(
        schema.cluster_nodes,
        ("cluster_id", "node_id"),
        [
            {
                "cluster_id": session.cluster_id,
                "node_id": node_id,
                "name": name,
                "is_gone": gone,
                "tres": session.node_tres.get(node_id, ""),
                "threads": session.node_threads.get(node_id, 0),
            }
            for node_id, name, gone in rows
        ],
    )


def _node_tres(spec: NodeSpec, tracked: Iterable[str]) -> dict[str, int]:
    """Return what a node has; of generic resources what accounting counts."""
    has = {"cpu": spec.cpus, "mem": spec.real_memory_mib, "node": 1, "billing": spec.cpus}
    for gres in spec.gres:
        for name in {f"gres/{gres.name}", f"gres/{gres.name}:{gres.type}"}:
            if name in tracked:
                has[name] = has.get(name, 0) + gres.count
    return has


def _cluster_tres(session: Session, time_us: int, tres: str, nodes: str) -> None:
    """If a node's TRES have changed, close their period and begin a new one."""
    table = schema.node_events
    open_period = sa.and_(
        table.c.cluster_id == session.cluster_id, table.c.node_name == "", table.c.end_us == 0
    )
    open_row = session.connection.execute(sa.select(table).where(open_period)).first()
    if open_row is not None and (open_row.tres, open_row.cluster_nodes) == (tres, nodes):
        return
    session.connection.execute(
        table.update()
        .where(open_period)
        .values(end_us=sa.case((table.c.start_us > time_us, table.c.start_us), else_=time_us))
    )
    _begin(session, "", time_us, "", "Cluster Registered TRES", -1, tres, nodes)


def _begin(
    session: Session,
    node_name: str,
    time_us: int,
    state: str,
    reason: str,
    uid: int,
    tres: str = "",
    cluster_nodes: str = "",
) -> None:
    row: dict[str, Any] = {
        "cluster_id": session.cluster_id,
        "node_name": node_name,
        "start_us": time_us,
        "end_us": 0,
        "state": state,
        "reason": reason,
        "reason_uid": uid,
        "tres": tres,
        "cluster_nodes": cluster_nodes,
    }
    keys = ("cluster_id", "node_name", "start_us")
    session.upsert(schema.node_events, keys, [row])


def _end(session: Session, node_name: str, time_us: int) -> None:
    """End a node's outage; one that begins now has been none."""
    table = schema.node_events
    session.connection.execute(
        table.delete().where(
            table.c.cluster_id == session.cluster_id,
            table.c.node_name == node_name,
            table.c.start_us == time_us,
            table.c.end_us == 0,
        )
    )
    session.connection.execute(
        table.update()
        .where(
            table.c.cluster_id == session.cluster_id,
            table.c.node_name == node_name,
            table.c.end_us == 0,
        )
        .values(end_us=sa.case((table.c.start_us > time_us, table.c.start_us), else_=time_us))
    )


def _tres(session: Session, node_id: int) -> str:
    return session.node_tres.get(node_id, "")


def _partition_updated(session: Session, event: ev.PartitionUpdated) -> None:
    _set_partition(session, event.partition)


def _set_partition(session: Session, partition: Partition) -> None:
    session.partitions[partition.name] = partition
    row = {
        "cluster_id": session.cluster_id,
        "name": partition.name,
        "billing_weights": partition.billing_terms,
        "def_mem_per_cpu_mib": partition.def_mem_per_cpu_mib,
        "def_mem_per_node_mib": partition.def_mem_per_node_mib,
        "def_mem_per_gpu_mib": partition.def_mem_per_gpu_mib,
    }
    keys = ("cluster_id", "name")
    session.upsert(schema.cluster_partitions, keys, [row])


def _nodes_down(session: Session, event: ev.NodesDown) -> None:
    for node_id in event.node_ids:
        name = session.node_names.get(node_id, f"node-id-{node_id}")
        drained = _kept_out(_open(session, name)[0])
        _end(session, name, event.time_us)
        state = "DOWN*" if event.for_silence and not drained else _state_word(True, drained)
        _begin(
            session, name, event.time_us, state, event.reason, event.uid, _tres(session, node_id)
        )


def _nodes_returned(session: Session, event: ev.NodesReturned) -> None:
    for node_id in event.node_ids:
        _end(session, session.node_names.get(node_id, ""), event.time_us)


def _node_updated(session: Session, event: ev.NodeUpdated) -> None:
    instance_rows.updated(session, event)
    flags, state = event.fields.get("flags"), event.fields.get("state")
    if not isinstance(flags, int) and not isinstance(state, int):
        return
    bits = flags if isinstance(flags, int) else 0
    reason = event.fields.get("reason")
    uid = event.fields.get("reason_uid")
    for node_id in event.node_ids:
        name = session.node_names.get(node_id, f"node-id-{node_id}")
        before, _ = _open(session, name)
        is_down = before.startswith("DOWN") if state is None else state == NodeState.DOWN
        word = _state_word(is_down, bits)
        if word and word == before.replace("*", "") and not reason:
            continue  # it goes on
        _end(session, name, event.time_us)
        if word:
            _begin(
                session,
                name,
                event.time_us,
                word,
                reason if isinstance(reason, str) else "",
                uid if isinstance(uid, int) else 0,
                _tres(session, node_id),
            )


def _node_registered(session: Session, event: ev.NodeRegistered) -> None:
    """Record an event if a registration takes a node out of service or brings one back."""
    instance_rows.registered(session, event)
    name = session.node_names.get(event.node_id, f"node-id-{event.node_id}")
    out = NodeFlag.DRAIN | NodeFlag.FAIL | NodeFlag.INVALID_REG
    is_out = event.state == NodeState.DOWN or bool(event.flags & out)
    if is_out and _open(session, name)[1] == event.reason:
        return  # it goes on: a node that is out of service registers, too
    _end(session, name, event.time_us)
    if is_out:
        word = _state_word(event.state == NodeState.DOWN, event.flags) or "DRAIN"
        tres = _tres(session, event.node_id)
        _begin(session, name, event.time_us, word, event.reason, 0, tres)


def _open(session: Session, node_name: str) -> tuple[str, str | None]:
    """Return the state and the reason of the outage that a node has now; "" and None without."""
    table = schema.node_events
    query = sa.select(table.c.state, table.c.reason).where(
        table.c.cluster_id == session.cluster_id,
        table.c.node_name == node_name,
        table.c.end_us == 0,
    )
    row = session.connection.execute(query).first()
    return (row.state, row.reason) if row is not None else ("", None)


def _kept_out(state: str) -> int:
    """Return the flag that keeps a node out of service in what is stored of an outage."""
    return next((flag for flag in _KEPT_OUT if str(flag.name) in state), 0)


_KEPT_OUT = (NodeFlag.FAIL, NodeFlag.DRAIN)


def _state_word(is_down: bool, flags: int) -> str:
    """Return the state of an outage, such as DRAIN or DOWN+DRAIN; "" if there is none."""
    words = [str(flag.name) for flag in _KEPT_OUT if flags & flag][:1]
    return "+".join(["DOWN", *words] if is_down else words)


_HANDLERS: dict[type, Any] = {
    ev.ConfigLoaded: _config_loaded,
    ev.NodesCreated: _nodes_created,
    ev.NodesDeleted: _nodes_deleted,
    ev.PartitionUpdated: _partition_updated,
    ev.NodesDown: _nodes_down,
    ev.NodesReturned: _nodes_returned,
    ev.NodeUpdated: _node_updated,
    ev.NodeRegistered: _node_registered,
}
