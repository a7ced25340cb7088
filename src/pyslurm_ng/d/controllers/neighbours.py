"""The way to the controller over other nodes, for a node that is cut off: see `lease`."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence

import msgspec

from pyslurm_ng.conf.node_lines import NodeConf
from pyslurm_ng.d.controllers.lease import Lease, word
from pyslurm_ng.d.node.local_node import LocalNode
from pyslurm_ng.wire import node_messages as nm, table
from pyslurm_ng.wire.auth import AuthError, body_digest, check_digest
from pyslurm_ng.wire.identity import Identity
from pyslurm_ng.wire.node_loss_messages import NodeWordHeard, RelayWord, WordRelayed
from pyslurm_ng.wire.stream_client import LinkError, connect_link
from pyslurm_ng.wire.table import MessageError

_ASKED_AT_ONCE = 3  # of a large cluster another one is asked each time
_CONNECT_LIMIT_S = 2.0
_ANSWER_LIMIT_S = 8.0
_LEAST_PAUSE_S = 1.0


class Neighbours:
    """Asks other nodes whether they reach the controller, while this one does not.

    Args:
        obey: carries out an order of the controller.
    """

    def __init__(
        self,
        identity: Identity,
        node: LocalNode,
        lease: Lease,
        obey: Callable[[nm.TerminateJob], None],
    ) -> None:
        self._node = node
        self._identity = identity
        self._core = node.core
        self._lease = lease
        self._log = node.log
        self._obey = obey
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[None] | None = None
        self._told: set[tuple[int, int]] = set()

    def begin(self) -> None:
        """Look from time to time whether a neighbour has to be asked."""
        self._task = self._loop.create_task(self._watch())

    def close(self) -> None:
        """Stop asking."""
        if self._task is not None:
            self._task.cancel()

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(max(_LEAST_PAUSE_S, self._lease.beat_s))
            if not self._lease.is_cut_off(self._loop.time()):
                self._told.clear()
                continue
            # Without a job, and without one that is to be reported, nothing waits for an answer.
            if self._core.jobs or self._core.reports:
                await self._ask()

    async def _ask(self) -> None:
        """Ask some nodes, one after the other, until one of them has brought an answer."""
        others = [node for node in self._node.conf.nodes if node.name != self._node.name]
        for other in random.sample(others, min(_ASKED_AT_ONCE, len(others))):
            try:
                heard = await self._ask_over(other)
            except (LinkError, AuthError, MessageError, msgspec.DecodeError) as error:
                self._log.debug(f"node {other.name} cannot help: {error}")
                continue
            if heard is not None:
                self._take(heard.given_up, other.name)
                return

    async def _ask_over(self, other: NodeConf) -> NodeWordHeard | None:
        """Return what the controller answers; None if the other node does not reach it either.

        Raises:
            LinkError: the other node is not reached.
            AuthError, MessageError: what it brought is not the controller's.
        """
        identity, body = self._identity, table.encode(word(self._core.reports))
        credential = identity.authenticator.issue(
            identity.peer, "slurmctld", "NodeWord", body_digest(body)
        )
        link = await connect_link(
            identity,
            f"slurmd:{other.name}",
            host=other.address,
            port=other.port,
            timeout_s=_CONNECT_LIMIT_S,
        )
        try:
            brought = await link.request(RelayWord(credential, body), _ANSWER_LIMIT_S)
        finally:
            link.close()
        if not isinstance(brought, WordRelayed) or not brought.body:
            return None
        admission = identity.authenticator.admit(
            brought.credential, "NodeWordHeard", f"slurmd:{self._node.name}"
        )
        check_digest(admission, "NodeWordHeard", brought.body)
        if admission.peer.role != "slurmctld":
            raise AuthError("role", f"{other.name} brought an answer of a {admission.peer.role}")
        heard = table.decode_reply("NodeWordHeard", brought.body)
        assert isinstance(heard, NodeWordHeard)
        if heard.epoch < self._core.epoch:
            raise AuthError("old_epoch", f"the answer is of epoch {heard.epoch}")
        return heard

    def _take(self, given_up: Sequence[tuple[int, int]], by: str) -> None:
        """End what the controller has given up, when the lease is over."""
        now_s = self._loop.time()
        for run in given_up:
            if tuple(run) not in self._told:
                self._told.add((run[0], run[1]))
                self._log.error(
                    f"cut off from the controller, which node {by} reaches: it has given up "
                    f"JobId={run[0]}, run {run[1]}; that ends here when the lease of "
                    f"{self._lease.lease_s:.0f} s is over"
                )
        for order in self._lease.orders(given_up, now_s):
            self._obey(order)
