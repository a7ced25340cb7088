"""Messages of nodes that are cut off from the controller (node_loss=lease).

Such a node asks another node, which asks the controller. The messages are signed, so that the node
between cannot change them.
"""

from typing import Annotated

from msgspec import Meta, Struct

from pyslurm_ng.model import bounds as b
from pyslurm_ng.wire.table import message, reply

RUNS_AT_ONCE = 16_384
_Runs = Annotated[list[tuple[b.JobIdField, b.Count]], Meta(max_length=RUNS_AT_ONCE)]


@message(kind="NodeWord", roles="node", max_bytes=1 << 20)
class NodeWord(Struct, array_like=True, frozen=True):
    """A node's message to a controller that it cannot reach, sent through another node.

    `over` are (job, attempt) of runs that it was asked about and that have left nothing there.
    """

    over: _Runs = []


@reply("NodeWordHeard")
class NodeWordHeard(Struct, frozen=True):
    """The controller's answer: (job, attempt) of runs that were lost with the node."""

    epoch: int
    given_up: list[tuple[int, int]]


@message(kind="RelayWord", roles="node", max_bytes=(1 << 20) + (64 << 10))
class RelayWord(Struct, array_like=True, frozen=True):
    """A `NodeWord` with its sender's own credential for slurmctld: to a node, which sends it on."""

    credential: Annotated[bytes, Meta(max_length=32 << 10)]
    body: Annotated[bytes, Meta(max_length=1 << 20)]


@reply("WordRelayed", max_bytes=16 << 20)
class WordRelayed(Struct, frozen=True):
    """The controller's signed `NodeWordHeard`; empty from a node that does not reach it either."""

    credential: bytes = b""
    body: bytes = b""
