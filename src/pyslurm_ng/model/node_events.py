"""Events of nodes; `events` has them among the others."""

from __future__ import annotations

from .event import Event
from .node import NodeFacts, NodeSpec


class NodeRegistered(Event, tag=20, frozen=True, array_like=True, gc=False):
    """A node daemon registered with its hardware."""

    node_id: int
    facts: NodeFacts
    state: int  # NodeState it now has
    flags: int = 0
    reason: str = ""
    addr: str = ""


class NodeUpdated(Event, tag=21, frozen=True, array_like=True, gc=False):
    """Named fields of some nodes took new values: drain, resume, weight, features, comment."""

    node_ids: tuple[int, ...]
    fields: dict[str, object]


class NodesDown(Event, tag=22, frozen=True, array_like=True, gc=False):
    """Nodes left service; separate events of their jobs follow this one."""

    node_ids: tuple[int, ...]
    reason: str
    uid: int = 0
    for_silence: bool = False


class NodesReturned(Event, tag=23, frozen=True, array_like=True, gc=False):
    """Nodes are back in service."""

    node_ids: tuple[int, ...]


class NodesSilent(Event, tag=24, frozen=True, array_like=True, gc=False):
    """Nodes missed a heartbeat (`*`), or answer again."""

    node_ids: tuple[int, ...]
    silent: bool


class NodeRebootIssued(Event, tag=73, frozen=True, array_like=True, gc=False):
    """A node that has left service owes a reboot; a NodesDown with its reason goes before."""

    node_id: int
    first_duty_id: int
    by_us: int  # when it must have registered again


class NodesCreated(Event, tag=74, frozen=True, array_like=True, gc=False):
    """Nodes that slurm.conf does not have exist: `scontrol create`, or a slurmd that says so.

    They have the ids from `first_node_id` on, which are new.
    """

    first_node_id: int
    specs: tuple[NodeSpec, ...]
    flags: int = 0  # NodeFlag bits beside those of each State=


class NodesDeleted(Event, tag=75, frozen=True, array_like=True, gc=False):
    """Dynamic nodes exist no longer; no partition and no reservation has them."""

    node_ids: tuple[int, ...]


class NodesPowered(Event, tag=76, frozen=True, array_like=True, gc=False):
    """Nodes begin to be powered up or down, or are down now; programs of the site do it.

    `flag` is POWERING_UP, POWERING_DOWN or POWERED_DOWN. Nodes that are up say so: NodeRegistered.
    With `first_duty_id` they are not powered but owe a reboot, before a job that asked for it.
    """

    node_ids: tuple[int, ...]
    flag: int
    first_duty_id: int = 0
    failed: bool = False  # they did not come in time
    to_idle: bool = False  # whatever they were before
