"""What events of a journal are read with: the cluster's nodes, partitions, TRES and options.

They are kept from message to message. Only messages of the journal change nodes and partitions, and
only a registration what is counted, so they are right as long as the position is the one that the
last message left (`Position.version`). A transaction that fails leaves none behind.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

import sqlalchemy as sa

from pyslurm_ng.dbd import schema
from pyslurm_ng.dbd.database import Database
from pyslurm_ng.model.partition import Partition


@dataclass(slots=True)
class ClusterFacts:
    """A cluster as its journal has described it so far.

    Attributes:
        tracked: generic resources and others that have a number of their own.
        most_steps: of one job are stored.
    """

    store_flags: frozenset[str]
    most_steps: int
    node_names: dict[int, str] = field(default_factory=dict)
    node_tres: dict[int, str] = field(default_factory=dict)
    node_threads: dict[int, int] = field(default_factory=dict)
    gone_nodes: set[int] = field(default_factory=set)
    partitions: dict[str, Partition] = field(default_factory=dict)
    tracked: list[str] = field(default_factory=list)


Version = tuple[Any, ...]

_kept: WeakKeyDictionary[Database, dict[int, tuple[Version, ClusterFacts]]] = WeakKeyDictionary()


def take_facts(database: Database, cluster_id: int, version: Version) -> ClusterFacts | None:
    """Return what is known of a cluster at a position; it is kept no longer."""
    known_version, facts = _kept.get(database, {}).pop(cluster_id, (None, None))
    return facts if known_version == version else None


def keep_facts(database: Database, cluster_id: int, version: Version, facts: ClusterFacts) -> None:
    """Keep what is known of a cluster at the position that a transaction has left."""
    _kept.setdefault(database, {})[cluster_id] = version, facts


def read_facts(connection: sa.Connection, cluster_id: int, store_flags: str) -> ClusterFacts:
    """Return what the tables say of a cluster."""
    flags = frozenset(store_flags.lower().split(","))
    facts = ClusterFacts(flags, _most_steps(flags))
    nodes = schema.cluster_nodes
    for row in connection.execute(sa.select(nodes).where(nodes.c.cluster_id == cluster_id)):
        facts.node_names[row.node_id] = row.name
        facts.node_tres[row.node_id] = row.tres or ""
        facts.node_threads[row.node_id] = row.threads
        if row.is_gone:
            facts.gone_nodes.add(row.node_id)
    parts = schema.cluster_partitions
    for row in connection.execute(sa.select(parts).where(parts.c.cluster_id == cluster_id)):
        facts.partitions[row.name] = Partition(
            row.name,
            tres_billing_weights=row.billing_weights,
            def_mem_per_cpu_mib=row.def_mem_per_cpu_mib,
            def_mem_per_node_mib=row.def_mem_per_node_mib,
            def_mem_per_gpu_mib=row.def_mem_per_gpu_mib,
        )
    tracked = sa.select(schema.tres.c.type, schema.tres.c.name).where(
        schema.tres.c.id >= schema.FIRST_DYNAMIC_TRES_ID
    )
    facts.tracked = [f"{kind}/{name}" for kind, name in connection.execute(tracked)]
    return facts


def _most_steps(flags: frozenset[str]) -> int:
    most = schema.STEP_ID_OFFSET
    for flag in flags:
        word, _, number = flag.partition("=")
        if word == "max_step_records" and number.isdecimal():
            most = int(number)
    return most
