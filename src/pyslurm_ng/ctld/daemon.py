"""slurmctld's life: from files and journal to a loop that serves, and in order out again."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeVar, cast

from pyslurm_ng import __version__
from pyslurm_ng.base import background as bg
from pyslurm_ng.base.daemon_log import ERROR, FATAL, LEVELS, QUIET, DaemonLog, level_number
from pyslurm_ng.conf.slurm_conf import SlurmConf
from pyslurm_ng.ctld.allocations import Allocations
from pyslurm_ng.ctld.clock import Clock
from pyslurm_ng.ctld.configuration import BadConfiguration, Configuration, load_configuration
from pyslurm_ng.ctld.credentials import Credentials
from pyslurm_ng.ctld.dbd_link import DbdLink, find_place
from pyslurm_ng.ctld.event_log import EventLog
from pyslurm_ng.ctld.explainer import Explainer
from pyslurm_ng.ctld.het_follower import HetFollower
from pyslurm_ng.ctld.identities import Identities
from pyslurm_ng.ctld.job_watch import JobWatch
from pyslurm_ng.ctld.limit_index import LimitIndex
from pyslurm_ng.ctld.local_calendar import LOCAL
from pyslurm_ng.ctld.loop_edges import LoopEdges
from pyslurm_ng.ctld.mailer import Mailer
from pyslurm_ng.ctld.node_service import NodeService
from pyslurm_ng.ctld.notices import Notices
from pyslurm_ng.ctld.programs import Programs
from pyslurm_ng.ctld.recover import recover_cluster
from pyslurm_ng.ctld.roles import Checkpointer
from pyslurm_ng.ctld.rules import reservation_due, timers
from pyslurm_ng.ctld.rules.assoc import mirror
from pyslurm_ng.ctld.rules.clear import clear_state
from pyslurm_ng.ctld.rules.configure import configure
from pyslurm_ng.ctld.rules.context import Caller
from pyslurm_ng.ctld.rules.submit import allocate_job
from pyslurm_ng.ctld.scheduler import Scheduler
from pyslurm_ng.ctld.scripts import ScriptStore
from pyslurm_ng.ctld.sender import Sender
from pyslurm_ng.ctld.service import Service
from pyslurm_ng.ctld.soft import Soft
from pyslurm_ng.ctld.step_calls import StepCalls
from pyslurm_ng.ctld.usage_index import UsageIndex
from pyslurm_ng.ctld.writer import Writer
from pyslurm_ng.journal.lock import StateLock
from pyslurm_ng.journal.recovery import Layout, Recovery
from pyslurm_ng.journal.reserve import Reserve
from pyslurm_ng.journal.segment import JournalError
from pyslurm_ng.journal.writer import JournalWriter
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.sched.backfill import plan
from pyslurm_ng.wire.auth import AuthError, Identity, KeyFileError, Peer, load_identity
from pyslurm_ng.wire.client import run_directory, socket_file
from pyslurm_ng.wire.dbd_messages import RegisterCluster
from pyslurm_ng.wire.endpoint import Endpoint, zmq_port
from pyslurm_ng.wire.messages import Done
from pyslurm_ng.wire.node_messages import NodeReconfigure, NodeShutdown
from pyslurm_ng.wire.query_messages import SetDebugLevel
from pyslurm_ng.wire.stream import Call, StreamServer

T = TypeVar("T")

_TICK_S = 1.0
_SWITCH_S = 0.0005
_PASS_INTERVAL_S = 0.01
_LOOKUP_THREADS = 4
# Time for ZeroMQ's thread to hand the last messages to the kernel before the sockets close.
_NODE_SHUTDOWN_S = 0.2
_DAY_US = 86_400_000_000
_CLOCK_JUMP_US = 5_000_000


def control_host(conf: SlurmConf, host: str) -> str:
    """Return where a controller on `host` is reached: the address that SlurmctldHost gives it."""
    given = (place.address for place in conf.slurmctld_host if place.name == host)
    return next(given, "") or host


class CannotStart(Exception):
    """The controller cannot run; the text is Slurm's `fatal:` line."""


@dataclass(frozen=True, slots=True)
class Options:
    """The command line of slurmctld."""

    conf_path: str
    foreground: bool = False
    clear: bool = False
    ignore_errors: bool = False
    log_path: str = ""
    verbose: int = 0
    quiet: int = 0


class Daemon:
    """One slurmctld; `start` returns its exit code.

    Raises:
        CannotStart: from `start`, before anybody was told that it runs.
    """

    def __init__(
        self, options: Options, configuration: Configuration, log: DaemonLog, host: str
    ) -> None:
        self.options = options
        self.configuration = configuration
        self.log = log
        self.host = host
        self.layout = Layout(Path(configuration.conf.state_save_location))
        self._background: bg.Background | None = None
        self._stop = False
        self._with_nodes = False

    # Before the loop ----------------------------------------------------------------------------

    def start(self, background: bg.Background) -> int:
        """Become SlurmUser, recover the state, serve until told to stop."""
        self._background = background
        self._make_places()
        try:
            lock = StateLock(self.layout.state)
        except JournalError as error:
            raise CannotStart(str(error)) from None
        if os.geteuid() == 0:
            os.chown(lock.path, self.configuration.service_uid, -1)
        pid_file = self._write_pid_file()
        try:
            return asyncio.run(self._serve(self._prepare()))
        finally:
            if pid_file is not None:
                pid_file.remove()
            lock.release()

    def _prepare(self) -> Cluster:
        """Drop root's rights, then read keys and state as SlurmUser."""
        try:
            bg.become_user(self.configuration.conf.slurm_user)
            os.umask(0o022)
            self._identity = self._load_identity()
            if not os.access(self.layout.state, os.W_OK | os.X_OK):
                raise CannotStart(f"Incorrect permissions on state save loc: {self.layout.state}")
            self.layout.create()
            return self._recover()
        except (bg.CannotBecome, KeyFileError, AuthError, JournalError) as error:
            raise CannotStart(str(error)) from None
        except OSError as error:
            raise CannotStart(f"{error.filename or self.layout.state}: {error.strerror}") from None

    def _make_places(self) -> None:
        """Make directories while we may still be root."""
        conf, uid = self.configuration.conf, self.configuration.service_uid
        for directory in (run_directory(conf.slurmctld_pid_file), conf.state_save_location):
            try:
                os.mkdir(directory, 0o755)
                if os.geteuid() == 0:
                    os.chown(directory, uid, -1)
            except FileExistsError:
                continue
            except OSError as error:
                raise CannotStart(f"mkdir({directory}): {error.strerror}") from None

    def _write_pid_file(self) -> bg.PidFile | None:
        """Say who runs, once it is certain that nobody else does."""
        conf, uid = self.configuration.conf, self.configuration.service_uid
        try:
            return bg.PidFile(conf.slurmctld_pid_file, uid if os.geteuid() == 0 else -1)
        except OSError as error:
            self.log.error(f"Unable to open pidfile `{conf.slurmctld_pid_file}': {error.strerror}")
            return None

    def _load_identity(self) -> Identity:
        conf = self.configuration.conf
        hosts = frozenset(
            name
            for controller in conf.slurmctld_host
            for name in (controller.name, controller.address)
            if name
        )
        return load_identity(
            role="slurmctld",
            name=self.host,
            auth_type=conf.auth_type,
            auth_info=",".join(conf.auth_info),
            key_path=os.path.join(self.configuration.directory, "slurm.key"),
            cluster=conf.cluster_name,
            host=self.host,
            service_uid=self.configuration.service_uid,
            clock_us=lambda: time.time_ns() // 1000,
            admin_hosts=hosts | {self.host},
            replay_path=str(self.layout.state / "replay"),
        )

    def _recover(self) -> Cluster:
        begin = time.monotonic()
        self._scripts = ScriptStore(self.layout.state / "scripts")
        self._recovery = Recovery(self.layout, ignore_errors=self.options.ignore_errors)
        cluster, count = recover_cluster(self._recovery, self._scripts)
        # Its bytes are as large as the cluster, and applied now.
        self._recovery.checkpoint = None
        for note in self._recovery.notes:
            self.log.error(note)
        for digest in self._scripts.begin(cluster):
            self.log.error(f"script or environment {digest} of a job is missing")
        self._replayed = count
        self.log.info(
            f"Recovered state of {len(cluster.jobs)} jobs, {len(cluster.living_nodes())} nodes, "
            f"{len(cluster.reservations)} reservations "
            f"({count} events in {time.monotonic() - begin:.2f} s)"
        )
        return cluster

    # On the loop --------------------------------------------------------------------------------

    async def _serve(self, cluster: Cluster) -> int:
        """Run until a signal or `scontrol shutdown`."""
        self._loop = asyncio.get_running_loop()
        self._loop.set_exception_handler(self._loop_error)
        self._ended = asyncio.Event()
        self._clock = Clock(cluster.time_us + 1)
        self._soft = Soft(started_us=self._clock.now_us(), reset_us=self._clock.now_us())
        self._lookups = ThreadPoolExecutor(_LOOKUP_THREADS, "lookup")
        self._build(cluster)
        self._begin_epoch()
        try:
            await self._listen()
        except OSError as error:
            await self._server.close()
            raise CannotStart(f"cannot listen: {error}") from None
        for number in (signal.SIGTERM, signal.SIGINT):
            self._loop.add_signal_handler(number, self._terminate)
        self._loop.add_signal_handler(signal.SIGHUP, self._hang_up)
        self._loop.add_signal_handler(signal.SIGUSR2, self.log.reopen)
        self._connect_accounting()
        gc.collect()
        gc.freeze()
        # Records form no cycles: a look through all finds nothing, through many it takes long.
        gc.set_threshold(10_000, 5, 10_000)
        # The loop waits so long for the interpreter, each time, while the other thread plans.
        sys.setswitchinterval(_SWITCH_S)
        self._tell_ready()
        self._loop.call_later(_TICK_S, self._tick)
        self._scheduler.due()
        await self._ended.wait()
        await self._finish()
        return 0

    def _build(self, cluster: Cluster) -> None:
        """Put the parts together."""
        recovery, loop, conf = self._recovery, self._loop, self.configuration.conf
        try:
            self._journal = JournalWriter(
                self.layout.journal,
                recovery.journal_id,
                recovery.position._replace(epoch=recovery.next_epoch),
                first_sequence=recovery.next_sequence,
                on_durable=self._durable_in_thread,
                on_fatal=self._journal_failed,
                reserve=Reserve(self.layout.reserve),
            )
        except OSError as error:
            raise CannotStart(f"cannot begin a journal segment: {error}") from None
        self._writer = Writer(
            cluster, self._journal, call_soon=loop.call_soon, on_bug=self._bug_in_core
        )
        self._scripts.when_durable = self._writer.when_durable
        self._edges = LoopEdges(self._clock, self._pass_failed)
        self._usage = UsageIndex(cluster, conf.priority_decay_half_life)
        self._scheduler = Scheduler(
            self._writer,
            self._soft,
            self._edges,
            plan=plan,
            policy=self.configuration.policy,
            runs_prolog="alloc" in {flag.lower() for flag in conf.prolog_flags},
            least_interval_s=_PASS_INTERVAL_S,
            usage=self._usage,
        )
        self._identities = Identities(
            self._look_up, self.configuration.service_uid, conf.group_update_time * 1_000_000
        )
        self._service = Service(
            self._writer,
            self._soft,
            configuration=self.configuration,
            clock=self._clock,
            identities=self._identities,
            scripts=self._scripts,
            control=self,
            host=self.host,
        )
        self._writer.observe(partial(self._soft.records.note, cluster))
        self._limits = LimitIndex(cluster)
        self._writer.observe(self._usage.applied)
        self._writer.observe(self._limits.applied)
        self._writer.observe(self._soft.applied)
        self._writer.observe(EventLog(cluster, self.log).applied)
        self._writer.observe(self._scripts.applied)
        self._writer.observe(self._scheduler.applied)
        self._watch = JobWatch(cluster)
        self._writer.observe(self._watch.applied)
        self._het = HetFollower(
            self._writer,
            self._edges.call_soon,
            self._clock.now_us,
            lambda: self.configuration.conf.slurmctld_parameters,
        )
        self._writer.observe(self._het.applied)
        self._het.begin()
        self._programs = Programs(self.log)
        self._mailer = Mailer(
            cluster, conf, self._programs, self._writer.when_durable, self._clock.now_us()
        )
        self._writer.observe(self._mailer.applied)
        self._build_nodes()
        self._build_steps()
        self._service.more["ExplainJob"] = Explainer(
            self._writer,
            self._soft,
            self._scheduler,
            self.layout.journal,
            self._service.context,
            self._edges.answer,
            self.bug,
        ).handle
        self._checkpointer = Checkpointer(
            self.layout,
            recovery.journal_id,
            # A long replay now means a long one next time, unless a checkpoint follows soon.
            start_sequence=recovery.position.sequence - self._replayed,
            keep_after=self._keep_after,
            bytes_written=lambda: self._journal.bytes_written,
            say=lambda text, is_error: (self.log.error if is_error else self.log.verbose)(text),
        )

    def _build_nodes(self) -> None:
        """Put together what talks to node daemons."""
        self._endpoint = Endpoint(
            self._identity,
            audience="slurmctld",
            on_message=lambda message, peer, answer: self._nodes.handle(message, peer, answer),
            on_refused=lambda cause, text: self.log.verbose(f"message refused ({cause}): {text}"),
        )
        self._credentials = Credentials(self._identity.signer)
        self._sender = Sender(
            self._writer,
            self._endpoint,
            credentials=self._credentials,
            scripts=self._scripts,
            now_us=self._clock.now_us,
            call_soon=self._loop.call_soon,
            failed=self.log.error,
        )
        self._writer.observe(self._sender.applied)
        self._nodes = NodeService(
            self._writer,
            self._soft,
            self._sender,
            conf=self.configuration.conf,
            clock=self._clock,
            log=self.log,
        )

    def _build_steps(self) -> None:
        """Put together what answers srun and salloc as long as they run."""
        service = self._service
        self._allocations = Allocations(
            self._writer,
            self._watch,
            self._edges,
            lambda call, caller, answer: service.change(
                call, allocate_job, service.context(caller), answer
            ),
        )
        self._steps = StepCalls(self._writer, self._credentials, self._edges, service.context)
        self._writer.observe(self._steps.applied)
        service.more["AllocateJob"] = self._allocations.handle
        service.more["CreateStep"] = self._steps.handle
        service.more["NotifyJob"] = Notices(self._writer, self._allocations, self._sender).handle
        service.more["SetDebugLevel"] = self._set_debug_level

    def _begin_epoch(self) -> None:
        """Take command: a new epoch, the state as the options and files want it."""
        writer, now_us = self._writer, self._clock.now_us()
        epoch = self._recovery.next_epoch
        writer.record([ev.EpochStarted(now_us, epoch, self.host, _boot_id())])
        if self.options.clear:
            for events in clear_state(writer.cluster, now_us):
                writer.record(events)
        writer.record(
            configure(
                writer.cluster,
                self.configuration.conf,
                now_us,
                self.configuration.topologies,
                keep_partitions=True,
            )
        )
        writer.flush()

    async def _listen(self) -> None:
        conf = self.configuration.conf
        port = conf.slurmctld_port[0]
        self._server = StreamServer(
            self._service.handle,
            audience="slurmctld",
            host=self.host,
            service_uid=self.configuration.service_uid,
            authenticator=self._identity.authenticator,
            roles_of=self._roles_of,
        )
        await self._server.listen_unix(socket_file("slurmctld", conf.slurmctld_pid_file, port))
        address = conf.slurmctld_addr or None
        await self._server.listen_tcp(address, port)
        self._endpoint.bind("*", zmq_port(port, conf.slurmctld_parameters))

    def _connect_accounting(self) -> None:
        """Keep slurmdbd up to date, if the configuration wants one."""
        conf, cluster = self.configuration.conf, self._writer.cluster
        self._dbd: DbdLink | None = None
        if not conf.accounting_storage_type.endswith("/slurmdbd"):
            return
        self._dbd = DbdLink(
            identity=self._identity,
            place=find_place(
                conf.accounting_storage_host,
                conf.accounting_storage_port,
                conf.slurmctld_pid_file,
            ),
            registration=RegisterCluster(
                cluster=conf.cluster_name,
                control_host=control_host(conf, self.host),
                control_port=conf.slurmctld_port[0],
                journal_id=self._recovery.journal_id.hex(),
                tres=list(conf.tracked_tres()),
                store_flags=list(conf.accounting_store_flags),
            ),
            journal=self.layout.journal,
            durable=lambda: self._writer.durable,
            on_update=lambda update: self._writer.record(
                mirror(cluster, update, self._clock.now_us())
            ),
            log=self.log,
        )
        self._writer.follow(self._dbd.wake)
        self._dbd_task = self._loop.create_task(self._dbd.run())

    def _roles_of(self, peer: Peer) -> frozenset[str]:
        """Return what accounting's user records add to a user."""
        record = self._writer.cluster.users.get(self._identities.name_of(peer.uid))
        if record is None or record.admin_level == "None":
            return frozenset()
        is_admin = record.admin_level == "Administrator"
        return frozenset(("admin", "operator")) if is_admin else frozenset(("operator",))

    def _tell_ready(self) -> None:
        conf = self.configuration.conf
        self.log.info(
            f"slurmctld version {__version__} started on cluster {conf.cluster_name}"
            f"({self._recovery.next_epoch})"
        )
        for line in self.configuration.warnings:
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
        self._loop.call_later(_TICK_S, self._tick)
        ahead_us = self._clock.steer()
        if abs(ahead_us) > _CLOCK_JUMP_US:
            self.log.debug(f"the wall clock differs by {ahead_us / 1e6:.1f} s; following slowly")
        now_us = self._clock.now_us()
        cluster = self._writer.cluster
        self._soft.expect(cluster, now_us)
        conf = self.configuration.conf
        limited = self._limits.due(conf, now_us)
        run_out = self._usage.run_out(now_us) if self._scheduler.policy.stops_jobs else ()
        self._writer.record(
            timers.due(cluster, conf, self._soft.last_seen_us, now_us, limited, run_out)
        )
        self._writer.record(reservation_due.due(cluster, conf, now_us, LOCAL))
        self._sender.tick()
        self._steps.tick(limited)
        self._mailer.tick(now_us)
        soft = self._soft
        if now_us // _DAY_US != soft.reset_us // _DAY_US:
            soft.reset(now_us)
        soft.journal_bytes = self._journal.bytes_written
        soft.journal_groups = self._journal.groups
        if self._dbd is not None:
            soft.dbd_queue, soft.dbd_connected = self._dbd.backlog, self._dbd.is_connected
        soft.agent_queue = self._sender.open_count
        soft.agents = len(self._sender.nodes)
        soft.refused = {**self._server.refusals, **self._endpoint.refusals}
        self._checkpointer.tick(self._writer.durable, time.monotonic())

    def _keep_after(self, durable: int) -> int:
        """The lowest record that all followers have taken over."""
        return durable if self._dbd is None else min(durable, self._dbd.acknowledged)

    # Control ------------------------------------------------------------------------------------

    def shutdown(self, *, controller_only: bool) -> None:
        """Stop at the end of this turn; the answer that asked for it leaves first."""
        self._with_nodes = not controller_only
        self.log.info("Shutdown requested, saving all slurm state")
        self._loop.call_later(0.01, self._ended.set)

    def reconfigure(self) -> list[str]:
        """Read the files again; a bad one changes nothing."""
        try:
            fresh = load_configuration(self.options.conf_path)
        except BadConfiguration as error:
            for line in error.lines:
                self.log.error(line)
            self.log.error("the configuration in force stays")
            raise
        old, conf = self.configuration.conf, fresh.conf
        kept = [
            key
            for key in ("cluster_name", "slurmctld_port", "state_save_location", "auth_type",
                        "slurm_user", "slurmctld_pid_file")
            if getattr(old, key) != getattr(conf, key)
        ]  # fmt: skip
        self.configuration = self._service.configuration = fresh
        self._nodes.conf = self._mailer.conf = conf
        self._scheduler.policy = fresh.policy
        self._usage.decay(conf.priority_decay_half_life)
        self._identities.forget()
        now_us = self._clock.now_us()
        self._writer.record(configure(self._writer.cluster, conf, now_us, fresh.topologies))
        self._sender.broadcast(NodeReconfigure(self._writer.cluster.epoch))
        self.log.info("reconfigured from " + conf.path)
        names = ", ".join(key.title().replace("_", "") for key in kept)
        return [f"{names}: a change needs a restart of slurmctld"] if kept else []

    def _set_debug_level(self, call: Call, caller: Caller) -> None:
        """`scontrol setdebug`: log more or less until the files are read again."""
        level = cast(SetDebugLevel, call.request).level
        if self.log.file_level:
            self.log.file_level = max(FATAL, level)
        if self.options.foreground:
            self.log.stderr_level = max(FATAL, level)
        conf = replace(self.configuration.conf, slurmctld_debug=LEVELS[level])
        self.configuration = replace(self.configuration, conf=conf)
        self._service.configuration = self.configuration
        self.log.info(f"Set debug level to '{LEVELS[level]}'")
        self._writer.when_durable(lambda: call.reply(Done()))

    def bug(self, text: str, error: BaseException) -> None:
        """Log an error that nobody foresaw."""
        self.log.error(f"{text}: {type(error).__name__}: {error}")
        for part in traceback.format_exception(error):
            for line in part.splitlines():
                self.log.error("  " + line)

    # Signals, threads and failures -------------------------------------------------------------

    def _terminate(self) -> None:
        self.log.info("Terminate signal (SIGINT or SIGTERM) received")
        self._ended.set()

    def _hang_up(self) -> None:
        self.log.info("Reconfigure signal (SIGHUP) received")
        self.log.reopen()
        bg.tell_systemd("RELOADING=1")
        try:
            for note in self.reconfigure():
                self.log.info(note)
        except BadConfiguration:
            pass  # said line by line already
        bg.tell_systemd("READY=1")

    def _durable_in_thread(self, sequence: int) -> None:
        try:
            self._loop.call_soon_threadsafe(self._writer.on_durable, sequence)
        except RuntimeError:
            return  # the loop has ended; nothing waits any more

    def _journal_failed(self, why: str) -> None:
        """In the journal's thread: nothing unrecorded has been promised, so just stop."""
        self.log.fatal(why)
        os._exit(1)

    def _bug_in_core(self, text: str, error: BaseException) -> None:
        """Memory is ahead of the journal: end before anybody notices."""
        self.bug(text, error)
        self.log.fatal("stopping; the journal holds the state before this event")
        os._exit(1)

    def _pass_failed(self, error: BaseException) -> None:
        self.bug("a scheduling pass failed", error)
        self._loop.call_later(1.0, self._scheduler.failed)

    def _loop_error(self, loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
        error = context.get("exception")
        text = str(context.get("message", "error on the loop"))
        if isinstance(error, BaseException):
            self.bug(text, error)
        else:
            self.log.error(text)

    def _look_up(self, work: Callable[[], T], done: Callable[[T], None], /) -> None:
        future = self._loop.run_in_executor(self._lookups, work)
        future.add_done_callback(lambda ended: done(ended.result()))

    async def _finish(self) -> None:
        """Stop taking work, make everything durable, let the last answers out."""
        bg.tell_systemd("STOPPING=1")
        self._stop = True
        self._scheduler.stop()
        self._programs.stop()
        self._writer.close()
        self._checkpointer.stop()
        await self._loop.run_in_executor(None, self._journal.close)
        self._writer.on_durable(self._journal.durable)
        if self._with_nodes:
            self._sender.broadcast(NodeShutdown(self._writer.cluster.epoch))
            await asyncio.sleep(_NODE_SHUTDOWN_S)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        if self._dbd is not None:
            self._dbd_task.cancel()
        await self._server.close()
        self._endpoint.close()
        self._edges.close()
        self._lookups.shutdown(wait=False, cancel_futures=True)
        self.log.info("Slurmctld shutdown completing")


def open_log(log: DaemonLog, options: Options, configuration: Configuration) -> None:
    """Log where and how much the configuration and the command line say.

    Raises:
        CannotStart: the log file cannot be opened.
    """
    conf = configuration.conf
    level = max(1, level_number(conf.slurmctld_debug) + options.verbose - options.quiet)
    log.stderr_level = level
    path = options.log_path or conf.slurmctld_log_file
    if not path:
        return
    if not options.foreground:
        # On the way to the background a terminal is told only what went wrong.
        log.stderr_level = min(level, ERROR)
    form = conf.log_time_format[0] if conf.log_time_format else "iso8601_ms"
    try:
        log.open(path, min(level, 9), form)
        if os.geteuid() == 0:
            os.chown(path, configuration.service_uid, -1)
    except OSError as error:
        raise CannotStart(f"Unable to open logfile `{path}': {error.strerror}") from None


def _boot_id() -> str:
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""
