"""What node daemons say: registrations, heartbeats, reports."""

from __future__ import annotations

from typing import Protocol

from msgspec import DecodeError, Struct
from msgspec.msgpack import Decoder

from pyslurm_ng.base.errors import Errno
from pyslurm_ng.base.faults import Faults
from pyslurm_ng.conf.slurm_conf import SlurmConf
from pyslurm_ng.ctld.clock import Clock
from pyslurm_ng.ctld.nodes.sender import Sender
from pyslurm_ng.ctld.rules.nodes import register, strays
from pyslurm_ng.ctld.rules.reports import judge
from pyslurm_ng.ctld.rules.silence import heartbeat_ms
from pyslurm_ng.ctld.soft import Soft
from pyslurm_ng.ctld.writer import Writer
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.node import NodeFacts
from pyslurm_ng.model.states import NodeFlag, NodeState
from pyslurm_ng.wire.auth import Peer
from pyslurm_ng.wire.endpoint import Answer
from pyslurm_ng.wire.messages import Done, ErrorReply, kind_of
from pyslurm_ng.wire.node_messages import (
    Heartbeat,
    NodeRegisterAgain,
    NodeRegistered,
    NodeReports,
    RegisterNode,
)

_facts_decoder = Decoder(NodeFacts)


class Log(Protocol):
    """Where lines go."""

    def error(self, text: str) -> None:
        """Something is wrong."""

    def verbose(self, text: str) -> None:
        """Of interest to some."""


class NodeService:
    """Answers the messages of nodes; the name of a node is in its credential, never in its words.

    Attributes:
        conf: in force now; the daemon replaces it.
    """

    def __init__(
        self,
        writer: Writer,
        soft: Soft,
        sender: Sender,
        *,
        conf: SlurmConf,
        clock: Clock,
        log: Log,
        faults: Faults,
    ) -> None:
        self.conf = conf
        self._writer = writer
        self._soft = soft
        self._sender = sender
        self._clock = clock
        self._log = log
        self._faults = faults
        self._asked_again: dict[str, int] = {}

    def handle(self, message: Struct, peer: Peer, answer: Answer) -> None:
        """Take one message of a node that proved its name."""
        node_id = self._writer.cluster.node_by_name.get(peer.name)
        if node_id is None:
            self._log.error(f"node {peer.name} is not in the configuration")
            answer(ErrorReply(Errno.ESLURM_INVALID_NODE_NAME, "Invalid node name specified"))
            return
        begun_us = self._clock.now_us()
        try:
            self._take(node_id, message, peer, answer)
        except Exception as error:  # noqa: BLE001 - it costs this message only
            self._faults.note("node", f"{kind_of(message)} of node {peer.name}", error)
            answer(ErrorReply(Errno.ESLURM_INTERNAL, f"{kind_of(message)}: internal error"))
        took_us = self._clock.now_us() - begun_us
        self._soft.count_call(kind_of(message), peer.uid, took_us)

    def _take(self, node_id: int, message: Struct, peer: Peer, answer: Answer) -> None:
        if isinstance(message, Heartbeat):
            self._heartbeat(node_id, peer.name, message)
        elif isinstance(message, NodeReports):
            self._reports(node_id, peer.name, message, answer)
        elif isinstance(message, RegisterNode):
            self._register(node_id, peer.name, message, answer)
        else:
            answer(ErrorReply(Errno.ESLURM_NOT_SUPPORTED, f"{kind_of(message)}: not expected here"))

    def _register(self, node_id: int, name: str, message: RegisterNode, answer: Answer) -> None:
        writer, now_us = self._writer, self._clock.now_us()
        cluster = writer.cluster
        try:
            facts = _facts_decoder.decode(message.facts)
        except DecodeError as error:
            self._log.error(f"registration of {name} refused: {error}")
            answer(ErrorReply(Errno.SLURM_PROTOCOL_VERSION_ERROR, f"RegisterNode: {error}"))
            return
        writer.record(register(cluster, node_id, facts, message.jobs, self.conf, now_us))
        self._soft.heard(
            node_id, now_us, load=message.load_hundredths, free_mem_mib=message.free_mem_mib
        )
        self._asked_again.pop(name, None)
        self._log.verbose(f"node {name} registered with {len(message.jobs)} jobs")
        beat_ms = heartbeat_ms(self.conf, len(cluster.nodes))
        reply = NodeRegistered(cluster.epoch, max(1, beat_ms // 1000), now_us, beat_ms)
        writer.when_durable(lambda: answer(reply))
        self._sender.registered(node_id)
        self._sender.end_strays(node_id, strays(cluster, node_id, message.jobs))

    def _reports(self, node_id: int, name: str, message: NodeReports, answer: Answer) -> None:
        """Judge each report against the Cluster as the one before left it; say when durable.

        One that cannot be judged is taken for good, or it would come again for ever. The node is
        asked what it still runs, which tells whether a job's end was in it.
        """
        writer, now_us = self._writer, self._clock.now_us()
        self._soft.heard(node_id, now_us)
        for report in message.reports:
            try:
                events = judge(writer.cluster, node_id, report, self.conf, now_us)
            except Exception as error:  # noqa: BLE001 - the other jobs' reports are no worse
                self._faults.note("report", f"{report!r:.200} of node {name}", error)
                self._ask_again(name, now_us, is_known=True)
                continue
            writer.record(events)
        writer.when_durable(lambda: answer(Done()))

    def _heartbeat(self, node_id: int, name: str, message: Heartbeat) -> None:
        now_us = self._clock.now_us()
        self._soft.heard(
            node_id, now_us, load=message.load_hundredths, free_mem_mib=message.free_mem_mib
        )
        node = self._writer.cluster.node(node_id)
        is_known = name in self._sender.nodes
        if not is_known or node.state in (NodeState.DOWN, NodeState.UNKNOWN):
            self._ask_again(name, now_us, is_known=is_known)
        elif node.flags & NodeFlag.NOT_RESPONDING:
            self._writer.record([ev.NodesSilent(time_us=now_us, node_ids=(node_id,), silent=False)])

    def _ask_again(self, name: str, now_us: int, *, is_known: bool) -> None:
        """Ask a node that we do not know, or that came back, to register; a known one rarely."""
        pause_us = 30_000_000 if is_known else 500_000
        if now_us - self._asked_again.get(name, 0) < pause_us:
            return
        self._asked_again[name] = now_us
        self._sender.tell(name, NodeRegisterAgain(self._writer.cluster.epoch))
