"""A node's dealings with its controllers: register, beat, report until acknowledged."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import msgspec

from pyslurm_ng.d.controllers.lease import Lease
from pyslurm_ng.d.host import sensors
from pyslurm_ng.d.node.local_node import LocalNode
from pyslurm_ng.wire import node_messages as nm
from pyslurm_ng.wire.auth import CLOCK_CAUSES, Peer
from pyslurm_ng.wire.endpoint import Answer, Endpoint, zmq_port
from pyslurm_ng.wire.identity import Identity
from pyslurm_ng.wire.node_loss_messages import RelayWord, WordRelayed
from pyslurm_ng.wire.open_requests import PeerBusy, PeerGone, RequestFailed

_REGISTER_LIMIT_S = 10.0
_AGAIN_S = 1.0
_REPORT_LIMIT_S = 10.0
_LINK_POLL_S = 0.25
_RELAY_LIMIT_S = 5.0
_FIRST_HEARTBEAT_S = 30.0  # until a controller has said how often


class Controllers:
    """The connections of one node; `core.reports` are sent, and kept until they are durable.

    Args:
        on_message: called with each message of a controller.
        registration: what to register with.
        registered: called when a controller knows us (again).
        watts: returns what the node draws now and on average, for heartbeats.
    """

    def __init__(
        self,
        identity: Identity,
        node: LocalNode,
        lease: Lease,
        *,
        on_message: Callable[[msgspec.Struct, Peer, Answer], None],
        registration: Callable[[], nm.RegisterNode],
        registered: Callable[[], None],
        watts: Callable[[], tuple[int, int]],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._node = node
        self._log = node.log
        self._faults = node.faults
        self._core = node.core
        self._lease = lease
        self._registration = registration
        self._on_registered = registered
        self._watts = watts
        self._endpoint = Endpoint(
            identity,
            audience=f"slurmd:{node.name}",
            on_message=on_message,
            on_refused=self._refused,
        )
        self._peers: list[str] = []
        self._at = 0
        self._heartbeat_s = _FIRST_HEARTBEAT_S
        self._is_registered = False
        self._is_registering = False
        self._in_flight: list[nm.Report] = []
        self._was_linked = True
        self._said_away = False
        self._next_beat: asyncio.TimerHandle | None = None

    @property
    def primary(self) -> str:
        """The controller that answered last, by its name as a peer."""
        return self._peers[self._at]

    def _refused(self, cause: str, text: str, peer: Peer | None) -> None:
        if cause in CLOCK_CAUSES and peer is not None:
            self._faults.note("clock", f"message of {peer.role} {peer.name} refused: {text}")
        else:
            self._log.verbose(f"message refused ({cause}): {text}")

    def begin(self) -> None:
        """Dial every controller and register."""
        conf = self._node.conf
        port = zmq_port(conf.slurmctld_port[0], conf.slurmctld_parameters)
        for index, host in enumerate(conf.slurmctld_host):
            name = f"slurmctld{index}"
            # A shared address is that of whichever controller is in charge.
            address = conf.slurmctld_addr or host.address or host.name
            self._endpoint.connect(name, "slurmctld", address, port)
            self._peers.append(name)
        self.register()
        self._loop.call_later(_LINK_POLL_S, self._watch_link)
        self._beat_later()

    def close(self) -> None:
        """End all connections."""
        self._endpoint.close()

    # Registration -----------------------------------------------------------------------------

    def register(self) -> None:
        """Tell the controller who we are and what runs here."""
        if self._is_registering or self._endpoint.is_closed:
            return
        self._is_registering = True
        self._endpoint.request(
            self.primary, self._registration(), _REGISTER_LIMIT_S, self._registered
        )

    def _registered(self, outcome: msgspec.Struct | RequestFailed) -> None:
        self._is_registering = False
        if isinstance(outcome, nm.NodeRegistered):
            self._is_registered = True
            self._said_away = False
            self._heartbeat_s = outcome.heartbeat_ms / 1000 or float(max(1, outcome.heartbeat_s))
            self._lease.beat_s = self._heartbeat_s
            self._lease.heard(self._loop.time())
            self._beat_later()
            self._log.info(f"registered with {self.primary} (epoch {outcome.epoch})")
            self._on_registered()
            return
        text = outcome.text if isinstance(outcome, RequestFailed) else "unexpected answer"
        if not self._said_away:
            self._log.error(f"Unable to register: {text}")
            self._said_away = True
        self._at = (self._at + 1) % len(self._peers)
        if not self._endpoint.is_closed:
            self._loop.call_later(_AGAIN_S, self.register)

    def _watch_link(self) -> None:
        """Register as soon as a controller that was away can be reached again."""
        if self._endpoint.is_closed:
            return
        self._loop.call_later(_LINK_POLL_S, self._watch_link)
        is_linked = self._endpoint.is_linked(self.primary)
        if is_linked and not self._was_linked and self._is_registered:
            self.register()
        self._was_linked = is_linked

    def _beat_later(self) -> None:
        """Count the message just sent as a heartbeat: the next one follows in its time from now."""
        if self._next_beat is not None:
            self._next_beat.cancel()
        self._next_beat = self._loop.call_later(self._heartbeat_s, self._beat)

    def _beat(self) -> None:
        if self._endpoint.is_closed:
            return
        self._beat_later()
        beat = nm.Heartbeat(
            sensors.load_hundredths(),
            sensors.free_mem_mib(),
            self._core.epoch,
            self._lease.is_kept,
            *self._watts(),
        )
        if beat.wants_answer:
            self._endpoint.request(self.primary, beat, self._heartbeat_s, self._beat_heard)
            return
        try:
            self._endpoint.send(self.primary, beat)
        except (PeerGone, PeerBusy):
            return  # silence is what a missing heartbeat means

    def _beat_heard(self, outcome: msgspec.Struct | RequestFailed) -> None:
        if not isinstance(outcome, RequestFailed):
            self._lease.heard(self._loop.time())

    def is_linked(self) -> bool:
        """Return whether this node is registered and its controller can be reached."""
        return self._is_registered and self._endpoint.is_linked(self.primary)

    def relay(self, message: RelayWord, done: Callable[[WordRelayed], None]) -> None:
        """Bring the word of a node that is cut off to the controller, if we reach it."""

        def settle(outcome: msgspec.Struct | RequestFailed) -> None:
            done(outcome if isinstance(outcome, WordRelayed) else WordRelayed())

        if not self.is_linked():
            done(WordRelayed())
            return
        self._endpoint.request(self.primary, message, _RELAY_LIMIT_S, settle)

    # Reports ----------------------------------------------------------------------------------

    def send_reports(self, acknowledged: Callable[[list[nm.Report]], None]) -> None:
        """Send reports, one message at a time, so that the next one holds more."""
        is_ready = self._is_registered and not self._endpoint.is_closed
        if self._in_flight or not self._core.reports or not is_ready:
            return
        self._in_flight = nm.first_reports(self._core.reports)

        def done(outcome: msgspec.Struct | RequestFailed) -> None:
            sent, self._in_flight = self._in_flight, []
            if isinstance(outcome, RequestFailed):
                if not self._endpoint.is_closed:
                    self._loop.call_later(_AGAIN_S / 2, self.send_reports, acknowledged)
                return
            # The core may have taken back single reports meanwhile, so not by position.
            self._lease.heard(self._loop.time())
            gone = {id(report) for report in sent}
            self._core.reports = [report for report in self._core.reports if id(report) not in gone]
            acknowledged(sent)
            self.send_reports(acknowledged)

        message = nm.NodeReports(list(self._in_flight), time.time_ns() // 1000)
        self._endpoint.request(self.primary, message, _REPORT_LIMIT_S, done)
