"""What node daemons say: registrations, heartbeats, reports."""

from __future__ import annotations

from typing import Protocol

from msgspec import DecodeError, Struct
from msgspec.msgpack import Decoder

from pyslurm_ng.base.errors import Errno, Reject
from pyslurm_ng.base.faults import Faults
from pyslurm_ng.base.numbers import MINUTE_US
from pyslurm_ng.base.units import plural
from pyslurm_ng.conf.slurm_conf import SlurmConf
from pyslurm_ng.ctld.clock import Clock
from pyslurm_ng.ctld.history import History
from pyslurm_ng.ctld.nodes.run_times import RunTimes
from pyslurm_ng.ctld.nodes.sender import RETRY_US, Sender
from pyslurm_ng.ctld.rules.context import Caller
from pyslurm_ng.ctld.rules.ends.lost_runs import open_on, over
from pyslurm_ng.ctld.rules.nodes import late_launches
from pyslurm_ng.ctld.rules.nodes.dynamic import joined
from pyslurm_ng.ctld.rules.nodes.registration import register, strays
from pyslurm_ng.ctld.rules.nodes.reports import judge, moved
from pyslurm_ng.ctld.rules.nodes.silence import heartbeat_ms
from pyslurm_ng.ctld.soft import Soft
from pyslurm_ng.ctld.writer import Writer
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.node import NodeFacts
from pyslurm_ng.model.states import NodeFlag, NodeState
from pyslurm_ng.wire.auth import CLOCK_CAUSES, AuthError, Peer, body_digest, check_digest
from pyslurm_ng.wire.endpoint import Answer
from pyslurm_ng.wire.identity import Identity
from pyslurm_ng.wire.messages import Done, ErrorReply, kind_of
from pyslurm_ng.wire.node_loss_messages import NodeWord, NodeWordHeard, RelayWord, WordRelayed
from pyslurm_ng.wire.node_messages import (
    Heartbeat,
    ManagedSteps,
    NodeRegisterAgain,
    NodeRegistered,
    NodeReports,
    RegisterNode,
)
from pyslurm_ng.wire.table import MessageError, decode_request, encode

_MOST_SKEW_US = MINUTE_US
"""A difference up to this may be the time that reports waited while the controller was away."""
_facts_decoder = Decoder(NodeFacts)


class Log(Protocol):
    """Where lines go."""

    def error(self, text: str) -> None:
        """Something is wrong."""

    def verbose(self, text: str) -> None:
        """Of interest to some."""


class NodeService:
    """Answers the messages of nodes; a node's name comes from its credential, not its message.

    Attributes:
        conf: in force now; the daemon replaces it.
    """

    def __init__(
        self,
        writer: Writer,
        soft: Soft,
        sender: Sender,
        *,
        identity: Identity,
        conf: SlurmConf,
        clock: Clock,
        run_times: RunTimes,
        log: Log,
        faults: Faults,
        history: History,
    ) -> None:
        self.conf = conf
        self._authenticator = identity.authenticator
        self._own = identity.peer
        self._writer = writer
        self._soft = soft
        self._sender = sender
        self._clock = clock
        self._run_times = run_times
        self._log = log
        self._faults = faults
        self._history = history
        self._asked_again: dict[str, int] = {}
        self._asked_of_runs: dict[str, int] = {}
        self._asked_of_launches: set[str] = set()

    def handle(self, message: Struct, peer: Peer, answer: Answer) -> None:
        """Take one message of a node that proved its name."""
        node_id = self._writer.cluster.node_index.by_name.get(peer.name)
        if node_id is None and isinstance(message, RegisterNode) and message.dynamic:
            node_id = self._join(peer.name, message.dynamic)
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

    def _join(self, name: str, line: str) -> int | None:
        """Make the node of a slurmd that came with -Z; return its id, None if it cannot be."""
        writer, now_us = self._writer, self._clock.now_us()
        events = joined(writer.cluster, name, line, self.conf, now_us)
        if isinstance(events, Reject):
            self._log.error(f"dynamic node {name} is refused: {events.detail or events.code}")
            return None
        writer.record(events)
        return writer.cluster.node_index.by_name.get(name)

    def refused(self, cause: str, text: str, peer: Peer | None) -> None:
        """Note a refused message; a node with a wrong clock is not dead.

        It counts as not responding, so nothing is started there, but its jobs are not given up.
        """
        if cause not in CLOCK_CAUSES or peer is None:
            self._log.verbose(f"message refused ({cause}): {text}")
            return
        self._faults.note("clock", f"message of {peer.role} {peer.name} refused: {text}")
        node_id = self._writer.cluster.node_index.by_name.get(peer.name)
        if peer.role != "node" or node_id is None:
            return
        now_us = self._clock.now_us()
        self._soft.heard(node_id, now_us)
        if not self._writer.cluster.node(node_id).flags & NodeFlag.NOT_RESPONDING:
            self._writer.record([ev.NodesSilent(time_us=now_us, node_ids=(node_id,), silent=True)])

    def _take(self, node_id: int, message: Struct, peer: Peer, answer: Answer) -> None:
        if isinstance(message, Heartbeat):
            self._heartbeat(node_id, peer.name, message)
            if message.wants_answer:
                answer(Done())
        elif isinstance(message, NodeReports):
            self._reports(node_id, peer.name, message, answer)
        elif isinstance(message, RelayWord):
            self._relayed(peer.name, message, answer)
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
        self._history.of_node(name, message.epoch, message.newest_job_id, message.jobs)
        writer.record(self._run_times.heard(node_id, message.jobs, now_us))
        was_asked = name in self._asked_of_launches
        self._asked_of_launches.discard(name)
        jobs, conf = message.jobs, self.conf
        writer.record(register(cluster, node_id, facts, jobs, conf, now_us, was_asked=was_asked))
        self._soft.heard(
            node_id, now_us, load=message.load_hundredths, free_mem_mib=message.free_mem_mib
        )
        self._asked_again.pop(name, None)
        self._log.verbose(f"node {name} registered with {plural(len(message.jobs), 'job')}")
        beat_ms = heartbeat_ms(self.conf, len(cluster.nodes))
        reply = NodeRegistered(cluster.epoch, max(1, beat_ms // 1000), now_us, beat_ms)
        writer.when_durable(lambda: answer(reply))
        self._sender.registered(node_id)
        self._sender.end_strays(node_id, strays(cluster, node_id, message.jobs))

    def _reports(self, node_id: int, name: str, message: NodeReports, answer: Answer) -> None:
        """Judge each report against the Cluster as the one before left it; say when durable.

        One that cannot be judged is accepted, or it would come again for ever. The node is
        asked what it still runs, which tells whether a job's end was in it.
        """
        writer, now_us = self._writer, self._clock.now_us()
        self._soft.heard(node_id, now_us)
        # Times in reports are the node's; what is recorded are differences of ours.
        ahead_us = now_us - message.sent_us if message.sent_us else 0
        for report in message.reports:
            try:
                adjusted = moved(report, ahead_us) if abs(ahead_us) > _MOST_SKEW_US else report
                events = judge(writer.cluster, node_id, adjusted, self.conf, now_us)
            except Exception as error:  # noqa: BLE001 - the other jobs' reports are no worse
                self._faults.note("report", f"{report!r:.200} of node {name}", error)
                self._ask_again(name, now_us, is_known=True)
                continue
            size = writer.record_sized(events)
            if isinstance(report, ManagedSteps):
                self._count_steps(report.job_id, size)
        writer.when_durable(lambda: answer(Done()))

    def _count_steps(self, job_id: int, size: int) -> None:
        """Count what steps of a step manager add to the journal for the job's user.

        Steps that the controller makes are its user's requests, and counted as these.
        """
        job = self._writer.cluster.jobs.get(job_id)
        if job is not None and size:
            self._writer.wrote(Caller(job.uid, job.gid, job.user_name), size)

    def _heartbeat(self, node_id: int, name: str, message: Heartbeat) -> None:
        now_us = self._clock.now_us()
        self._soft.heard(
            node_id,
            now_us,
            load=message.load_hundredths,
            free_mem_mib=message.free_mem_mib,
            watts=(message.watts, message.mean_watts),
        )
        node = self._writer.cluster.node(node_id)
        is_known = name in self._sender.nodes
        if not is_known or node.state in (NodeState.DOWN, NodeState.UNKNOWN):
            self._ask_again(name, now_us, is_known=is_known)
        elif node.flags & NodeFlag.NOT_RESPONDING:
            self._writer.record([ev.NodesSilent(time_us=now_us, node_ids=(node_id,), silent=False)])
        if is_known and name in self._writer.cluster.job_index.lost_on:
            self._ask_of_runs(node_id, name, now_us)

    def _ask_of_runs(self, node_id: int, name: str, now_us: int) -> None:
        """Have a node that is back end runs that were lost there, until it says that they are."""
        if now_us - self._asked_of_runs.get(name, 0) < RETRY_US:
            return
        self._asked_of_runs[name] = now_us
        self._sender.end_strays(node_id, open_on(self._writer.cluster, name))

    def _relayed(self, by: str, message: RelayWord, answer: Answer) -> None:
        """Take the message of a node that is cut off, and tell it which runs were lost with it.

        It is signed by that node, so the one that brings it can only leave it out.
        """
        writer, cluster = self._writer, self._writer.cluster
        try:
            admission = self._authenticator.admit(message.credential, "NodeWord", "slurmctld")
            check_digest(admission, "NodeWord", message.body)
            word = decode_request("NodeWord", message.body)
        except (AuthError, MessageError) as error:
            self._log.error(f"a word that node {by} brought is refused: {error.text}")
            answer(ErrorReply(Errno.SLURM_PROTOCOL_AUTHENTICATION_ERROR, error.text))
            return
        name = admission.peer.name
        if admission.peer.role != "node" or name not in cluster.node_index.by_name:
            answer(ErrorReply(Errno.ESLURM_INVALID_NODE_NAME, "Invalid node name specified"))
            return
        assert isinstance(word, NodeWord)
        now_us = self._clock.now_us()
        for job_id, attempt in word.over:
            job = cluster.jobs.get(job_id)
            if job is not None:
                proof = f"{name} said so through {by}"
                writer.record(over(job, name, proof, now_us, attempt=attempt))
        heard = NodeWordHeard(cluster.epoch, open_on(cluster, name))
        body = encode(heard)
        authenticator = self._authenticator
        credential = authenticator.issue(
            self._own, f"slurmd:{name}", kind_of(heard), body_digest(body)
        )
        # A run is given up when that is durable, and not before.
        writer.when_durable(lambda: answer(WordRelayed(credential, body)))

    def tick(self) -> None:
        """Ask nodes what they run that owe a launch for longer than BatchStartTimeout."""
        now_us = self._clock.now_us()
        for node in late_launches.waiting_nodes(self._writer.cluster, self.conf, now_us):
            name = node.spec.name
            if name in self._sender.nodes and self._ask_again(name, now_us, is_known=True):
                self._asked_of_launches.add(name)

    def _ask_again(self, name: str, now_us: int, *, is_known: bool) -> bool:
        """Ask a node that we do not know, or that came back, to register; a known one rarely.

        Return whether it is asked now.
        """
        pause_us = 30_000_000 if is_known else 500_000
        if 0 <= now_us - self._asked_again.get(name, 0) < pause_us:
            return False
        self._asked_again[name] = now_us
        self._sender.tell(name, NodeRegisterAgain(self._writer.cluster.epoch))
        return True
