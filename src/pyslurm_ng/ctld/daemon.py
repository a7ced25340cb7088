"""slurmctld from start to end: it reads files and journal, serves on a loop, and stops in order."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from pyslurm_ng import __version__
from pyslurm_ng.base.numbers import DAY_US, MINUTE_US, SECOND_US
from pyslurm_ng.ctld.configuration import Configuration
from pyslurm_ng.ctld.control import Control
from pyslurm_ng.ctld.controller_parts import ControllerParts
from pyslurm_ng.ctld.local_calendar import LOCAL
from pyslurm_ng.ctld.metrics.endpoint import Endpoint as Metrics
from pyslurm_ng.ctld.rules import timers
from pyslurm_ng.ctld.rules.clear import clear_state
from pyslurm_ng.ctld.rules.configure import configure
from pyslurm_ng.ctld.rules.queue import accrual
from pyslurm_ng.ctld.rules.reservation import reservation_due
from pyslurm_ng.ctld.start import (
    Beginning,
    CannotStart,
    Options,
    make_places,
    prepare,
    write_pid_file,
)
from pyslurm_ng.daemon import background as bg
from pyslurm_ng.daemon.log import QUIET, DaemonLog
from pyslurm_ng.daemon.process_settings import ignore_signals, raise_open_files, settle_memory
from pyslurm_ng.journal.lock import StateLock
from pyslurm_ng.journal.recovery import Layout
from pyslurm_ng.journal.segment import JournalError
from pyslurm_ng.model import events as ev
from pyslurm_ng.wire.auth import Peer
from pyslurm_ng.wire.daemon_link import socket_file
from pyslurm_ng.wire.endpoint import zmq_port
from pyslurm_ng.wire.node_messages import NodeShutdown
from pyslurm_ng.wire.stream import StreamServer

_TICK_S = 1.0
_ACCRUAL_US = MINUTE_US  # age is counted in days
_SWITCH_S = 0.0005
# Time for ZeroMQ's thread to hand the last messages to the kernel before the sockets close.
_NODE_SHUTDOWN_S = 0.2
_ACCOUNTING_S = 3.0
"""How long a start waits for slurmdbd before it takes work."""


class Daemon:
    """One slurmctld; `start` returns its exit code.

    Raises:
        CannotStart: from `start`, before it is reported as running.
    """

    def __init__(
        self, options: Options, configuration: Configuration, log: DaemonLog, host: str
    ) -> None:
        self.options = options
        self.log = log
        self.host = host
        self._configuration = configuration
        self._background: bg.Background | None = None
        self._stop = False
        self._accrual_us = 0  # when to look next for jobs that gather age
        self._was_full = False
        self._due_s = 0.0  # when the next second's turn should come

    def start(self, background: bg.Background) -> int:
        """Become SlurmUser, recover the state, serve until told to stop."""
        self._background = background
        raise_open_files()
        configuration = self._configuration
        make_places(configuration)
        try:
            lock = StateLock(Layout(Path(configuration.conf.state_save_location)).state)
        except JournalError as error:
            raise CannotStart(str(error)) from None
        if os.geteuid() == 0:
            os.chown(lock.path, configuration.service_uid, -1)
        pid_file = write_pid_file(configuration, self.log)
        try:
            return asyncio.run(
                self._serve(prepare(configuration, self.options, self.log, self.host))
            )
        finally:
            if pid_file is not None:
                pid_file.remove()
            lock.release()

    async def _serve(self, beginning: Beginning) -> int:
        """Run until a signal or `scontrol shutdown`."""
        loop = asyncio.get_running_loop()
        self._parts = parts = ControllerParts(beginning, self._configuration, self.log)
        self._control = control = Control(parts, self.options, self.log)
        loop.set_exception_handler(parts.faults.on_loop)
        self._metrics = Metrics(
            parts.writer, parts.soft, parts.service, parts.identities, parts.clock, parts.faults,
            beginning.identity.tokens,
        )  # fmt: skip
        self._begin_epoch(beginning)
        # Job ids that slurmdbd knows must not be given out again, so it is asked first.
        parts.accounting.connect(parts.configuration.conf)
        await parts.accounting.hear(_ACCOUNTING_S)
        await self._load_scripts()
        try:
            await self._listen(beginning)
        except OSError as error:
            await self._server.close()
            raise CannotStart(f"cannot listen: {error}") from None
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, control.terminate)
        loop.add_signal_handler(signal.SIGHUP, control.hang_up)
        loop.add_signal_handler(signal.SIGUSR2, control.reopen_logs)
        ignore_signals(loop)
        settle_memory()
        # The loop waits so long for the interpreter, each time, while the other thread plans.
        sys.setswitchinterval(_SWITCH_S)
        self._tell_ready(beginning)
        self._due_s = loop.time() + _TICK_S
        loop.call_later(_TICK_S, self._tick)
        parts.buffers.begin()
        parts.job_programs.begin()
        parts.scheduler.due()
        await control.ended.wait()
        await self._finish()
        return 0

    def _begin_epoch(self, beginning: Beginning) -> None:
        """Take command: a new epoch, the state as the options and files want it."""
        writer, now_us = self._parts.writer, self._parts.clock.now_us()
        self._parts.timekeeper.begin()
        epoch = beginning.recovery.next_epoch
        writer.record([ev.EpochStarted(now_us, epoch, self.host, _boot_id())])
        if self.options.clear:
            for events in clear_state(writer.cluster, now_us):
                writer.record(events)
        configuration = self._configuration
        writer.record(
            configure(
                writer.cluster,
                configuration.conf,
                now_us,
                configuration.topologies,
                keep_partitions=True,
            )
        )
        writer.flush()

    async def _load_scripts(self) -> None:
        """Load the site's scripts: no job may be taken without what they decide.

        Raises:
            CannotStart: one is missing or broken; the log says which.
        """
        loaded: asyncio.Future[list[str]] = asyncio.get_running_loop().create_future()
        self._parts.gate.load(loaded.set_result)
        if await loaded:
            self._parts.close()
            raise CannotStart("failed to initialize job_submit plugin")

    async def _listen(self, beginning: Beginning) -> None:
        conf = self._configuration.conf
        port = conf.slurmctld_port[0]
        self._server = StreamServer(
            self._parts.service.handle,
            audience="slurmctld",
            host=self.host,
            service_uid=self._configuration.service_uid,
            authenticator=beginning.identity.authenticator,
            roles_of=self._roles_of,
            faults=self._parts.faults,
            rate_limit=self._parts.rate_limit,
            http=self._metrics.respond,
        )
        path = socket_file("slurmctld", conf.slurmctld_pid_file, port)
        try:
            await self._server.listen_unix(path)
        except OSError as error:
            raise OSError(error.errno, error.strerror, path) from None
        await self._server.listen_tcp(None, port)
        self._parts.endpoint.bind("*", zmq_port(port, conf.slurmctld_parameters))

    def _roles_of(self, peer: Peer) -> frozenset[str]:
        """Return what accounting's user records add to a user."""
        parts = self._parts
        record = parts.writer.cluster.users.get(parts.identities.name_of(peer.uid))
        if record is None or record.admin_level == "None":
            return frozenset()
        is_admin = record.admin_level == "Administrator"
        return frozenset(("admin", "operator")) if is_admin else frozenset(("operator",))

    def _tell_ready(self, beginning: Beginning) -> None:
        conf = self._configuration.conf
        self.log.info(
            f"slurmctld version {__version__} started on cluster {conf.cluster_name}"
            f"({beginning.recovery.next_epoch})"
        )
        for line in self._configuration.warnings:
            self.log.info(line)
        self.log.info(f"Running as primary controller on {self.host}")
        bg.tell_systemd("READY=1")
        assert self._background is not None
        if not self.options.foreground:
            self.log.stderr_level = QUIET
        self._background.ready()

    def _tick(self) -> None:
        """What a second brings: limits, silence, the clock, a checkpoint."""
        if self._stop:
            return
        parts = self._parts
        self._metrics.note_late(int((parts.loop.time() - self._due_s) * SECOND_US))
        self._due_s = parts.loop.time() + _TICK_S
        parts.loop.call_later(_TICK_S, self._tick)
        if parts.timekeeper.tick():
            self._accrual_us = 0
        now_us = parts.clock.now_us()
        cluster, conf = parts.writer.cluster, parts.configuration.conf
        parts.soft.expect(cluster, now_us)
        parts.soft.listened(now_us, int(_TICK_S * 1e6), conf.slurmd_timeout * SECOND_US)
        works: tuple[tuple[str, Callable[[], object]], ...] = (
            # Usage is written down before its jobs are purged.
            ("usage", lambda: parts.writer.record(parts.usage.due(now_us, LOCAL))),
            ("fair-share", lambda: parts.fair_share.tick(now_us)),
            ("limits", lambda: self._end_in_time(now_us)),
            ("reservations", lambda: self._keep_reservations(now_us)),
            ("age", lambda: self._accrue(now_us)),
            ("orders", parts.sender.tick),
            ("launches", parts.nodes.tick),
            ("fences", parts.fences.tick),
            ("mail", lambda: parts.mailer.tick(now_us)),
            ("counters", lambda: self._measure(now_us)),
            ("triggers", self._run_triggers),
            ("space", self._tell_space),
            (
                "checkpoint",
                lambda: parts.checkpointer.tick(parts.writer.durable, time.monotonic()),
            ),
        )
        for name, work in works:
            try:
                work()
            except Exception as error:  # noqa: BLE001 - it costs the others nothing
                parts.faults.note("timer", name, error)

    def _end_in_time(self, now_us: int) -> None:
        """End jobs and steps at their limits, and do everything else that time alone causes."""
        parts = self._parts
        cluster, conf = parts.writer.cluster, parts.configuration.conf
        spared = partial(parts.faults.note, "timer")
        limited = parts.run_times.sure(parts.limits.due(conf, now_us, spared))
        run_out: tuple[int, ...] = ()
        if parts.scheduler.policy.stops_jobs:
            try:
                run_out = tuple(parts.run_times.sure(parts.usage.run_out(now_us)))
            except Exception as error:  # noqa: BLE001 - time limits count all the same
                spared("minutes used up", error)
        seen_us = parts.soft.last_seen_us
        dependent = parts.dependencies.due(now_us, spared)
        parts.writer.record(
            timers.due(cluster, conf, seen_us, now_us, limited, run_out, spared, dependent, LOCAL)
        )
        parts.steps.tick(limited, parts.run_times.take_fresh())

    def _keep_reservations(self, now_us: int) -> None:
        """Let reservations begin, end and follow their groups."""
        parts = self._parts
        cluster, conf = parts.writer.cluster, parts.configuration.conf
        parts.writer.record(reservation_due.due(cluster, conf, now_us, LOCAL))
        parts.reservation_groups.tick(cluster, now_us)

    def _accrue(self, now_us: int) -> None:
        """Find the jobs that gather age, now and then."""
        parts = self._parts
        if parts.scheduler.policy.enforces_limits and now_us >= self._accrual_us:
            self._accrual_us = now_us + _ACCRUAL_US
            parts.writer.record(accrual.due(parts.writer.cluster, now_us))

    def _run_triggers(self) -> None:
        """Run the programs of triggers whose events have happened."""
        link, most = self._parts.accounting.link, self._parts.configuration.conf.max_dbd_msgs
        self._parts.triggers.tick(
            is_connected=None if link is None else link.is_connected,
            is_full=link is not None and link.backlog >= most,
        )

    def _tell_space(self) -> None:
        """Log once that the state file system is full, and once that it has room again."""
        is_full = self._parts.writer.refusal_now() is not None
        if is_full != self._was_full:
            state_folder = self._configuration.conf.state_save_location
            if is_full:
                self.log.error(
                    f"No space left in StateSaveLocation {state_folder}: new jobs and changes of "
                    "jobs, partitions and reservations are refused until there is"
                )
            else:
                self.log.info(f"StateSaveLocation {state_folder} has room again")
        self._was_full = is_full

    def _measure(self, now_us: int) -> None:
        """Bring the counters of sdiag up to date."""
        parts, soft = self._parts, self._parts.soft
        if now_us // DAY_US != soft.reset_us // DAY_US:
            soft.reset(now_us)
        soft.journal_bytes = parts.journal.bytes_written
        soft.journal_groups = parts.journal.groups
        if parts.accounting.link is not None:
            soft.dbd_queue, soft.dbd_connected = (
                parts.accounting.link.backlog,
                parts.accounting.link.is_connected,
            )
        soft.agent_queue = parts.sender.open_count
        soft.agents = len(parts.sender.nodes)
        soft.refused = dict(self._server.refusals + parts.endpoint.refusals)
        soft.connections = self._server.counts()

    async def _finish(self) -> None:
        """Stop taking work, make everything durable, let the last answers out."""
        bg.tell_systemd("STOPPING=1")
        self._stop = True
        parts = self._parts
        parts.scheduler.stop()
        await parts.hooks.stop()
        parts.writer.close()
        parts.checkpointer.stop()
        await parts.loop.run_in_executor(None, parts.journal.close)
        parts.writer.on_durable(parts.journal.durable)
        for runner in (parts.programs, parts.user_programs, parts.completions):
            runner.stop()
        if self._control.with_nodes:
            parts.sender.broadcast(NodeShutdown(parts.writer.cluster.epoch))
            await asyncio.sleep(_NODE_SHUTDOWN_S)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        await self._server.close()
        parts.close()
        self.log.info("Slurmctld shutdown completing")


def _boot_id() -> str:
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""
