"""slurmd's life: registers, obeys, reports; the decisions are `core`'s."""

from __future__ import annotations

import asyncio
import errno
import gc
import os
import signal
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Protocol

import msgspec

from pyslurm_ng import __version__
from pyslurm_ng.base.errors import Errno
from pyslurm_ng.base.faults import Faults
from pyslurm_ng.base.hostlist import fold_numbers
from pyslurm_ng.base.numbers import END_LOST
from pyslurm_ng.conf import node_loss
from pyslurm_ng.d import core as co, environment, step_record
from pyslurm_ng.d.accounts import Accounts
from pyslurm_ng.d.controllers import Controllers
from pyslurm_ng.d.end_watch import EndWatch
from pyslurm_ng.d.health import HealthCheck
from pyslurm_ng.d.host import sensors
from pyslurm_ng.d.host.own_cores import own_cpus
from pyslurm_ng.d.job_spec import (
    NodeSetup,
    SpecError,
    batch_spec,
    gpu_view,
    place_of,
    step_spec,
)
from pyslurm_ng.d.lease import Lease
from pyslurm_ng.d.neighbours import Neighbours
from pyslurm_ng.d.orphaned_steps import OrphanedStep
from pyslurm_ng.d.setup import BadSetup, Options, Setup, load_setup
from pyslurm_ng.d.spool import SPOOL_FULL, Spool, SpoolFull
from pyslurm_ng.d.step_runner import CannotSupervise, StepKey, StepRunner
from pyslurm_ng.d.usage import usage_of
from pyslurm_ng.daemon import background as bg
from pyslurm_ng.daemon.hooks import run_hook
from pyslurm_ng.daemon.log import QUIET, DaemonLog
from pyslurm_ng.model.ids import STEP_BATCH, step_text
from pyslurm_ng.model.node import NodeFacts
from pyslurm_ng.wire import node_messages as nm
from pyslurm_ng.wire.auth import AuthError, Peer, body_digest, check_time
from pyslurm_ng.wire.auth_slurm import KeyFileError
from pyslurm_ng.wire.endpoint import Answer
from pyslurm_ng.wire.identity import Identity, load_identity
from pyslurm_ng.wire.messages import ErrorReply, Ping, Pong

_SWEEP_S = 60.0
_KEPT_S = 300.0
_KNOWN_S = 900.0
"""Longer than any credential is good for, with both clocks as far apart as they may be."""
_FLUSH_DELAY_S = 0.02
_LOST_STATUS = 9
_INTERNAL = "slurmd has failed; its log tells more"


class CannotStart(Exception):
    """The node daemon cannot run; the text is Slurm's `fatal:` line."""


def _key_of(action: co.StartBatch | co.StartStep) -> StepKey:
    credential = action.credential
    step_id = STEP_BATCH if isinstance(action, co.StartBatch) else credential.step_id
    return credential.job_id, step_id, credential.attempt


def _why_not_started(error: OSError | SpecError | SpoolFull) -> tuple[int, str, str]:
    """Return number and text of why a step does not run, and why the node drains, if it does."""
    if isinstance(error, FileExistsError):
        return Errno.ESLURMD_CREDENTIAL_REVOKED, "it was started before on this node", ""
    if isinstance(error, OSError):
        drain = SPOOL_FULL if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS) else ""
        return Errno.ESLURMD_JOB_NOTRUNNING, f"spool: {error.strerror}", drain
    drain = SPOOL_FULL if isinstance(error, SpoolFull) else ""
    return Errno.ESLURMD_JOB_NOTRUNNING, str(error), drain


def _check_user(credential: nm.JobCredential) -> None:
    """Raise SpecError unless this process may start processes of a job's user."""
    if os.geteuid() not in (0, credential.uid):
        whose = f"cannot start processes of uid {credential.uid}"
        raise SpecError(f"slurmd runs as uid {os.geteuid()}, not as root, and {whose}")


def _step_name(key: StepKey) -> str:
    return f"StepId={key[0]}.{step_text(key[1])}"


def _boot_us() -> int:
    """Return microseconds since boot, suspensions of the machine included; this clock cannot be
    set."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000


class Streams(Protocol):
    """What answers srun and commands on this node."""

    async def listen(self) -> None:
        """Listen; raises OSError."""

    async def close(self) -> None:
        """Stop serving."""


class Daemon:
    """One slurmd; `start` returns its exit code.

    Args:
        serves: makes what answers srun and commands, once all it asks of the daemon is there.

    Raises:
        CannotStart: from `start`, before it is reported as running.
    """

    def __init__(
        self,
        options: Options,
        setup: Setup,
        log: DaemonLog,
        serves: Callable[[Daemon], Streams],
    ) -> None:
        self._serves = serves
        self.options = options
        self.setup = setup
        self.log = log
        self.faults = Faults(log)
        self._background: bg.Background | None = None
        self._tickets: dict[int, tuple[nm.LaunchStep, Any]] = {}
        self._ticket = 0
        self._flush_due = False
        self._was_full = False  # the spool
        self._started_us = time.time_ns() // 1000
        self._last_order_us = 0

    @property
    def node(self) -> NodeSetup:
        """This node as configured."""
        return self.setup.node

    # Before the loop ----------------------------------------------------------------------------

    def start(self, background: bg.Background) -> int:
        """Make the spool, then serve until told to stop."""
        self._background = background
        try:
            self.spool = Spool(self.setup.spool)
            self.identity = self._load_identity()
        except (KeyFileError, AuthError) as error:
            raise CannotStart(str(error)) from None
        except OSError as error:
            raise CannotStart(f"{error.filename or self.setup.spool}: {error.strerror}") from None
        pid_file = self._write_pid_file()
        os.umask(0o022)
        try:
            return asyncio.run(self._serve())
        finally:
            if pid_file is not None:
                pid_file.remove()

    def _load_identity(self) -> Identity:
        conf = self.node.conf
        controllers = frozenset(
            name for host in conf.slurmctld_host for name in (host.name, host.address) if name
        )
        return load_identity(
            role="node",
            name=self.node.node_name,
            auth_type=conf.auth_type,
            auth_info=",".join(conf.auth_info),
            key_path=os.path.join(os.path.dirname(conf.path), "slurm.key"),
            cluster=conf.cluster_name,
            host=self.node.host_name,
            service_uid=self.setup.service_uid,
            clock_us=lambda: time.time_ns() // 1000,
            admin_hosts=controllers | {self.node.host_name},
            replay_path=f"{self.setup.spool}/replay",
            faults=self.faults,
        )

    def _write_pid_file(self) -> bg.PidFile | None:
        path = self.setup.pid_file
        try:
            os.makedirs(os.path.dirname(path) or ".", mode=0o755, exist_ok=True)
            return bg.PidFile(path)
        except OSError as error:
            self.log.error(f"Unable to open pidfile `{path}': {error.strerror}")
            return None

    # On the loop --------------------------------------------------------------------------------

    async def _serve(self) -> int:
        self._loop = asyncio.get_running_loop()
        self._loop.set_exception_handler(self._loop_error)
        self._ended = asyncio.Event()
        self._threads = ThreadPoolExecutor(4, "lookup")
        self._accounts = Accounts()
        self.core = self._new_core()
        self.runner = StepRunner(
            self.setup.spool, on_started=self._step_started, on_ended=self._step_ended,
            on_told=self._step_told,
        )  # fmt: skip
        self._ends = EndWatch(
            self.runner,
            lambda: float(self.node.conf.unkillable_step_timeout),
            lambda key: self.act(self.core.step_unkillable(key[0], key[2], key[1])),
            lambda key: self.log.error(
                f"{_step_name(key)}: slurmstepd does not answer, killing it"
            ),
        )
        try:
            await self.runner.begin()
        except CannotSupervise as error:
            raise CannotStart(str(error)) from None
        self._keep_to_own_cpus()
        self._adopt_steps()
        self._lease = Lease(
            is_kept=node_loss.policy(self.node.conf) == node_loss.LEASE,
            lease_s=node_loss.lease_s(self.node.conf),
            now_s=self._loop.time(),
        )
        self._controllers = Controllers(
            self.identity, self.node, self.log, on_message=self._on_message,
            registration=self._registration, core=self.core, lease=self._lease,
            registered=self.flush_soon, faults=self.faults,
        )  # fmt: skip
        self.relay = self._controllers.relay
        self._neighbours = Neighbours(
            self.identity, self.node, self.core, self._lease, self.log,
            obey=lambda order: self.act(self.core.obey(order, None)),
        )  # fmt: skip
        self._streams = self._serves(self)
        try:
            await self._streams.listen()
        except OSError as error:
            self.runner.close()
            self._controllers.close()
            raise CannotStart(str(error)) from None
        for number in (signal.SIGTERM, signal.SIGINT):
            self._loop.add_signal_handler(number, self.terminate)
        self._loop.add_signal_handler(signal.SIGHUP, self._hang_up)
        self._loop.add_signal_handler(signal.SIGUSR2, self.log.reopen)
        gc.collect()
        gc.freeze()
        self._health = HealthCheck(
            self.log, self.node.node_name, lambda: self.node.conf, self._state,
            {"SLURM_CONF": self.node.conf.path, "SLURMD_NODENAME": self.node.node_name},
        )  # fmt: skip
        await self._health.at_start()
        self._tell_ready()
        self._controllers.begin()
        self._neighbours.begin()
        self._loop.call_later(_SWEEP_S, self._sweep)
        await self._ended.wait()
        await self._finish()
        return 0

    def _keep_to_own_cpus(self) -> None:
        """Stay on specialised cores from now on, for all but what the template starts."""
        conf = self.node.conf
        if not (self.node.uses("task/affinity") or self.node.uses("task/cgroup")):
            return
        is_first = any(word.lower() == "spec_cores_first" for word in conf.scheduler_parameters)
        params = conf.task_plugin_param
        cpus = own_cpus(self.setup.line, self.node.host, params, is_first=is_first)
        if not cpus:
            return
        try:
            os.sched_setaffinity(0, cpus)
        except OSError as error:
            self.log.error(f"cannot keep to CPUs {fold_numbers(cpus)}: {error.strerror}")
            return
        self.log.info(f"slurmd keeps to CPUs {fold_numbers(cpus)}")

    def _new_core(self) -> co.NodeCore:
        conf = self.node.conf
        core = co.NodeCore(
            has_prolog=bool(conf.prolog), has_epilog=bool(conf.epilog), kill_wait_s=conf.kill_wait
        )
        core.epoch = self.spool.epoch()
        core.newest_job_id = self.spool.newest_job_id()
        return core

    def _tell_ready(self) -> None:
        self.log.info(f"slurmd version {__version__} started on node {self.node.node_name}")
        bg.tell_systemd("READY=1")
        assert self._background is not None
        if not self.options.foreground:
            self.log.stderr_level = QUIET
        self._background.ready()

    async def _finish(self) -> None:
        self.log.info("Slurmd shutdown completing")
        bg.tell_systemd("STOPPING=1")
        if self.node.tree is not None:
            self.node.tree.remove_empty()
        self._health.stop()
        self._ends.close()
        self.runner.close()
        self._neighbours.close()
        await self._streams.close()
        self._controllers.close()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def terminate(self) -> None:
        """Leave; steps go on."""
        self.log.info("Terminate signal (SIGINT or SIGTERM) received")
        self._ended.set()

    def _hang_up(self) -> None:
        self.log.info("Reconfigure signal (SIGHUP) received")
        self.log.reopen()
        self.reconfigure()

    def reconfigure(self) -> None:
        """Read the files again; with bad ones everything stays as it is."""
        try:
            fresh = load_setup(self.options)
        except BadSetup as error:
            for line in error.lines:
                self.log.error(line)
            self.log.error("the configuration in force stays")
            return
        conf = fresh.node.conf
        self.setup = fresh
        self.core.has_prolog, self.core.has_epilog = bool(conf.prolog), bool(conf.epilog)
        self.core.kill_wait_s = conf.kill_wait
        self._accounts.forget()
        self._lease.is_kept = node_loss.policy(conf) == node_loss.LEASE
        self._lease.lease_s = node_loss.lease_s(conf)
        self._neighbours.node = fresh.node
        self._controllers.reconfigure(fresh.node)
        self._controllers.register()

    def _loop_error(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        text = str(context.get("message", "error on the loop"))
        self.faults.note("loop", text, error if isinstance(error, BaseException) else None)

    # Registration -------------------------------------------------------------------------------

    def _registration(self) -> nm.RegisterNode:
        return nm.RegisterNode(
            facts=msgspec.msgpack.encode(self._facts()),
            jobs=self.core.running(_boot_us(), time.time_ns() // 1000),
            epoch=self.core.epoch,
            conf_hash=self.node.conf.text_hash,
            load_hundredths=sensors.load_hundredths(),
            free_mem_mib=sensors.free_mem_mib(),
            newest_job_id=self.core.newest_job_id,
        )

    def _facts(self) -> NodeFacts:
        host, node = sensors.host_facts(self.node.conf.tmp_fs), self.setup.line
        cpus, boards = host.cpus, host.boards
        sockets, cores, threads = host.sockets, host.cores_per_socket, host.threads_per_core
        memory, disk = host.real_memory_mib, host.tmp_disk_mib
        if self.setup.is_pretended:
            cpus, boards, sockets = node.cpus, node.boards, node.sockets
            cores, threads = node.cores_per_socket, node.threads_per_core
            memory, disk = node.real_memory_mib, max(disk, node.tmp_disk_mib)
        return NodeFacts(
            arch=host.arch,
            os=host.os,
            version=__version__,
            cpus=cpus,
            boards=boards,
            sockets=sockets,
            cores_per_socket=cores,
            threads_per_core=threads,
            real_memory_mib=memory,
            tmp_disk_mib=disk,
            gres=self.node.devices,
            boot_id=self.options.boot_id or host.boot_id,
            boot_us=host.boot_us,
            daemon_start_us=self._started_us,
            hostname=host.hostname,
            addr=node.address,
            instance_id=self.options.instance_id,
            instance_type=self.options.instance_type,
            extra=self.options.extra,
        )

    def status(self) -> nm.NodeDaemonStatus:
        """Return what `scontrol show slurmd` prints."""
        facts = self._facts()
        running = sorted(self.runner.running())
        return nm.NodeDaemonStatus(
            node=self.node.node_name,
            hostname=facts.hostname,
            steps=[(job_id, step_id) for job_id, step_id, _ in running],
            cpus=facts.cpus,
            boards=facts.boards,
            sockets=facts.sockets,
            cores_per_socket=facts.cores_per_socket,
            threads_per_core=facts.threads_per_core,
            real_memory_mib=facts.real_memory_mib,
            tmp_disk_mib=facts.tmp_disk_mib,
            started_us=self._started_us,
            last_order_us=self._last_order_us,
            pid=os.getpid(),
            log_level=self.log.level,
            log_file=self.options.log_path or self.setup.log_file,
            version=__version__,
        )

    # Messages of controllers --------------------------------------------------------------------

    def _on_message(self, message: msgspec.Struct, peer: Peer, answer: Answer) -> None:
        if isinstance(message, Ping):
            now_us = time.time_ns() // 1000
            answer(Pong(self.node.node_name, "node", f"slurm {__version__}", now_us))
            return
        epoch = getattr(message, "epoch", None)
        if epoch is None:
            answer(ErrorReply(Errno.SLURM_UNEXPECTED_MSG_ERROR, "Unexpected message received"))
            return
        newest = self.core.epoch
        if not self.core.accept_epoch(epoch):
            self.log.error(f"orders of epoch {epoch} refused: epoch {newest} is in command")
            return
        self._last_order_us = time.time_ns() // 1000
        if epoch > newest:
            self._keep_epoch(epoch)
        if isinstance(message, nm.NodeOrders):
            for order in message.orders:
                try:
                    self._take_order(order)
                except Exception as error:  # noqa: BLE001 - the other jobs' orders are no worse
                    self.faults.note("order", f"{type(order).__name__} {order.duty_id}", error)
            self.spool.keep_newest_job_id(self.core.newest_job_id)
            self.flush_soon()
        elif isinstance(message, nm.NodeRegisterAgain):
            self._controllers.register()
        elif isinstance(message, nm.NodeReconfigure):
            self.reconfigure()
        elif isinstance(message, nm.NodeShutdown):
            self.log.info("Shutdown requested by the controller")
            self._ended.set()

    def _keep_epoch(self, epoch: int) -> None:
        """Have a restart know the epoch; orders are obeyed also where that is impossible."""
        try:
            self.spool.keep_epoch(epoch)
        except OSError as error:
            self.faults.note("epoch", f"epoch {epoch} cannot be kept in {self.spool.directory}: "
                             f"{error.strerror}")  # fmt: skip

    def _take_order(self, order: nm.Order) -> None:
        blob = getattr(order, "credential", b"")
        credential: nm.JobCredential | None = None
        if blob:
            try:
                credential = self.open_credential(blob)
                self._check_launch(order, credential)
            except AuthError as error:
                self.log.error(f"credential of duty {order.duty_id} refused: {error.text}")
                if credential is not None and isinstance(order, (nm.LaunchBatch, nm.PrepareJob)):
                    key = (credential.job_id, credential.attempt)
                    self.core.refuse(order, key, error.text)
                return
        try:
            actions = self.core.obey(order, credential)
        except Exception:
            if credential is not None and isinstance(order, (nm.LaunchBatch, nm.PrepareJob)):
                key = (credential.job_id, credential.attempt)
                self.core.refuse(order, key, _INTERNAL)
            raise
        if credential is not None:
            self.core.arrived(credential.job_id, _boot_us())
        self.act(actions)

    def open_credential(self, blob: bytes) -> nm.JobCredential:
        """Return what the controller signed, if it is for this node and this time.

        Raises:
            AuthError: it is not.
        """
        payload = self.identity.signer.open_credential(blob)
        try:
            credential = nm.decode_credential(payload)
        except msgspec.DecodeError as error:
            raise AuthError("malformed_credential", f"job credential: {error}") from None
        if credential.cluster != self.node.conf.cluster_name:
            raise AuthError("wrong_cluster", f"credential is for {credential.cluster!r:.64}")
        if self.node.node_name not in credential.nodes:
            raise AuthError("wrong_node", f"credential is not for {self.node.node_name}")
        if credential.epoch < self.core.epoch:
            raise AuthError("old_epoch", f"credential is of epoch {credential.epoch}")
        return credential

    def _check_launch(self, order: nm.Order, credential: nm.JobCredential) -> None:
        """Raise AuthError unless a start is in time and of what was signed."""
        if isinstance(order, nm.TerminateJob):
            return
        self.check_time(credential)
        if isinstance(order, nm.LaunchBatch) and (
            body_digest(order.script) != credential.script_digest
            or body_digest(order.environment) != credential.environment_digest
        ):
            raise AuthError("altered", "script or environment is not what was signed")

    def check_time(self, credential: nm.JobCredential) -> None:
        """Raise AuthError unless a credential may be used to start something now."""
        now_us = time.time_ns() // 1000
        check_time("Job credential", credential.issued_us, credential.expires_us, now_us)

    # Carrying out -------------------------------------------------------------------------------

    def act(self, actions: list[co.Action]) -> None:
        """Carry out what the core wants; reports go out soon."""
        for action in actions:
            try:
                self._carry_out(action)
            except Exception as error:  # noqa: BLE001 - the other actions are carried out
                self.faults.note("action", f"{action!r:.200}", error)
        self.flush_soon()

    def _carry_out(self, action: co.Action) -> None:
        if isinstance(action, (co.StartBatch, co.StartStep)):
            self.runner.expect(_key_of(action))
            start = partial(self._start, action)
            self.with_account(action.credential, start, partial(self._start_fault, action))
        elif isinstance(action, co.Command):
            key = (action.job_id, action.step_id, action.attempt)
            if action.words["do"] == "terminate":
                self._ends.expect(key, action.words["wait_s"])
            if not self.runner.command(key, action.words) and self.runner.has(key):
                # Its channel is not there yet (just adopted, just queued): try once more.
                self._loop.call_later(0.2, self.runner.command, key, action.words)
        elif isinstance(action, co.RefuseStep):
            self._refuse_step(action.ticket, action.code, action.text)
        elif isinstance(action, co.RunProlog):
            self._loop.create_task(self._prolog(action))
        elif isinstance(action, co.RunEpilog):
            self._loop.create_task(self._epilog(action))
        elif isinstance(action, co.TellUnkillable):
            self._loop.create_task(self._unkillable(action))
        else:
            self._loop.create_task(self._reboot())

    def with_account(
        self,
        credential: nm.JobCredential,
        go_on: Callable[[Any], object],
        failed: Callable[[BaseException], object],
    ) -> None:
        """Call with the user's groups and home, now or when the database has answered.

        Args:
            failed: is called with what was raised in place of an answer.
        """
        account = self._accounts.known(credential)
        if account is not None:
            go_on(account)
            return

        def found(ended: asyncio.Future[Any]) -> None:
            error = ended.exception()
            failed(error) if error is not None else go_on(ended.result())

        try:
            future = self._loop.run_in_executor(self._threads, self._accounts.find, credential)
        except RuntimeError as error:
            failed(error)  # a job has taken all threads that there can be
        else:
            future.add_done_callback(found)

    def _start(self, action: co.StartBatch | co.StartStep, account: Any) -> None:
        """Have a supervisor started; an unexpected error costs this step only."""
        try:
            if isinstance(action, co.StartBatch):
                self._start_batch(action, account)
            else:
                self._start_step(action, account)
        except Exception as error:  # noqa: BLE001 - the controller is told that it does not run
            self._start_fault(action, error)

    def _start_fault(self, action: co.StartBatch | co.StartStep, error: BaseException) -> None:
        """Report a step that could not be started for a fault of this daemon."""
        job_id, step_id, attempt = key = _key_of(action)
        self.faults.note("start", f"{_step_name(key)} could not be started", error)
        if isinstance(action, co.StartStep):
            self._refuse_step(action.ticket, Errno.ESLURMD_JOB_NOTRUNNING, _INTERNAL)
        self.runner.release(key)
        self.act(self.core.step_failed(job_id, attempt, step_id, _INTERNAL))

    def _start_batch(self, action: co.StartBatch, account: Any) -> None:
        credential = action.credential
        job_id, attempt = credential.job_id, credential.attempt
        self.log.info(f"Launching batch job {job_id} for UID {credential.uid}")
        try:
            _check_user(credential)
            # The script is written twice: into the step's file and, by the supervisor, as it is.
            self.spool.check_room(2 * len(action.order.script) + len(action.order.environment))
            since_us = self.core.since_us(job_id)
            spec = batch_spec(self.node, credential, action.order, account, since_us)
            path = self.spool.step_path(job_id, STEP_BATCH, attempt)
            self.runner.start((job_id, STEP_BATCH, attempt), path, spec)
        except (OSError, SpecError, SpoolFull) as error:
            self._not_started(action, f"batch job {job_id}", error)

    def _not_started(
        self,
        action: co.StartBatch | co.StartStep,
        name: str,
        error: OSError | SpecError | SpoolFull,
    ) -> tuple[int, str]:
        """Tell the core that a step does not run; return what its caller is told.

        That holds for one that ran before, too, and was asked for again: its job would wait for
        ever for an end of it. Only what a predecessor began and still runs goes on.
        """
        job_id, step_id, attempt = key = _key_of(action)
        code, text, drain = _why_not_started(error)
        self.log.error(f"{name}: {text}")
        self.runner.release(key)
        if not self.runner.has(key):
            self.act(self.core.step_failed(job_id, attempt, step_id, text, drain=drain))
        return code, text

    def launch_step(self, credential: nm.JobCredential, request: nm.LaunchStep, call: Any) -> None:
        """Take srun's request, whose sender has been checked."""
        self._ticket += 1
        self._tickets[self._ticket] = (request, call)
        actions = self.core.launch_step(credential, self._ticket)
        self.core.arrived(credential.job_id, _boot_us())
        self.act(actions)

    def _start_step(self, action: co.StartStep, account: Any) -> None:
        credential = action.credential
        job_id, step_id, attempt = credential.job_id, credential.step_id, credential.attempt
        request, call = self._tickets[action.ticket]
        name = f"StepId={job_id}.{step_text(step_id)}"
        self.log.info(f"launch task {name} request from UID:{credential.uid}")
        try:
            _check_user(credential)
            self.spool.check_room(len(request.environment))
            since_us = self.core.since_us(job_id)
            spec = step_spec(self.node, credential, request, account, since_us)
            path = self.spool.step_path(job_id, step_id, attempt)
            self.runner.start((job_id, step_id, attempt), path, spec)
        except (OSError, SpecError, SpoolFull) as error:
            call.error(*self._not_started(action, name, error))
        else:
            call.reply(nm.StepLaunched(self.node.node_name, 0))
        self._tickets.pop(action.ticket, None)

    def _refuse_step(self, ticket: int, code: int, text: str) -> None:
        waiting = self._tickets.pop(ticket, None)
        if waiting is not None:
            waiting[1].error(code, text)

    def _step_started(self, key: StepKey, pids: Mapping[int, int]) -> None:
        job_id, step_id, attempt = key
        self.core.step_started(job_id, attempt, step_id)
        self.flush_soon()

    def _step_ended(self, key: StepKey, records: Mapping[str, Any]) -> None:
        job_id, step_id, attempt = key
        end = records.get("end")
        if end is None:
            self._loop.create_task(self._end_lost(key, records))
            return
        try:
            known = self._end_of(end)
        except Exception as error:  # noqa: BLE001 - its job ends all the same
            self.faults.note("end", f"the end of {_step_name(key)} cannot be read", error)
            self._loop.create_task(self._end_lost(key, records))
            return
        self.act(self.core.step_ended(job_id, attempt, step_id, known))

    async def _end_lost(self, key: StepKey, records: Mapping[str, Any]) -> None:
        """End what a supervisor that died has left; the step is over when nothing is left."""
        job_id, step_id, attempt = key
        self.log.error(f"{_step_name(key)}: its supervisor was lost")
        path = self.spool.step_path(job_id, step_id, attempt)
        for line in self.spool.take_trace(path):
            self.log.error(f"  {line}")
        limit_s = float(self.node.conf.unkillable_step_timeout)
        left = OrphanedStep(job_id, step_id, path, records)
        try:
            await left.end(
                limit_s, lambda: self.act(self.core.step_unkillable(job_id, attempt, step_id))
            )
        except Exception as error:  # noqa: BLE001 - the job's end is reported all the same
            self.faults.note("leftovers", f"{_step_name(key)} may have left processes", error)
        end = {"status": _LOST_STATUS, "flags": END_LOST, "error": "slurmstepd was lost",
               "start_us": 0, "end_us": time.time_ns() // 1000}  # fmt: skip
        self.act(self.core.step_ended(job_id, attempt, step_id, self._end_of(end)))

    def _step_told(self, key: StepKey, words: Mapping[str, Any]) -> None:
        """A supervisor says something without being asked."""
        if words["did"] == "unkillable":
            self.act(self.core.step_unkillable(key[0], key[2], key[1]))
            return
        text = f"{_step_name(key)}: {words['text']}"
        if words["did"] == "slow":
            self.log.error(text)
            return
        self.faults.note("supervisor", text)
        for line in words["trace"].splitlines():
            self.log.error(f"  {line}")

    def _end_of(self, end: Mapping[str, Any]) -> co.StepEnd:
        flags = end["flags"]
        if end["error"]:
            self.log.error(end["error"])
        return co.StepEnd(
            status=end["status"],
            flags=flags & 0xFFFF,
            start_us=end["start_us"],
            end_us=end["end_us"],
            usage=usage_of(end, self.node.node_name),
            error=end["error"][:4096],
        )

    # Hooks --------------------------------------------------------------------------------------

    async def _prolog(self, action: co.RunProlog) -> None:
        conf, problem = self.node.conf, ""
        if not self.spool.had_prolog(action.job_id, action.attempt):
            try:
                variables = self._hook_variables(action.credential, "prolog_slurmd")
                result = await run_hook(conf.prolog, variables, conf.prolog_timeout)
                problem = result.text if result.status else ""
            except Exception as error:  # noqa: BLE001 - without a prolog nothing runs
                self.faults.note("prolog", f"prolog of job {action.job_id}", error)
                problem = _INTERNAL
            if problem:
                self.log.error(f"prolog failed: {problem}")
            else:
                self._mark_prolog(action.job_id, action.attempt)
        self.act(self.core.prolog_ended(action.job_id, action.attempt, problem))

    def _mark_prolog(self, job_id: int, attempt: int) -> None:
        try:
            self.spool.mark_prolog(job_id, attempt)
        except OSError as error:
            self.faults.note(
                "prolog_mark",
                f"that the prolog of job {job_id} has run cannot be kept in "
                f"{self.spool.directory}: {error.strerror}; a restarted slurmd would run it again",
            )

    async def _epilog(self, action: co.RunEpilog) -> None:
        conf, status = self.node.conf, 0
        if action.credential is not None:
            try:
                variables = self._hook_variables(action.credential, "epilog_slurmd")
                result = await run_hook(conf.epilog, variables, conf.epilog_timeout)
                status = result.status
                if status:
                    self.log.error(f"epilog failed: {result.text}")
            except Exception as error:  # noqa: BLE001 - as if the program had failed
                self.faults.note("epilog", f"epilog of job {action.job_id}", error)
                status = 1 << 8
        self.spool.forget_prolog(action.job_id, action.attempt)
        self.act(self.core.epilog_ended(action.job_id, action.attempt, status))

    async def _unkillable(self, action: co.TellUnkillable) -> None:
        program = self.node.conf.unkillable_step_program
        variables = {"SLURM_JOB_ID": str(action.job_id), "SLURM_STEP_ID": str(action.step_id)}
        result = await run_hook((program,), variables, self.node.conf.prolog_epilog_timeout)
        if result.status:
            self.log.error(f"UnkillableStepProgram: {result.text}")

    def _state(self) -> str:
        """Return how the node is used, as far as it knows itself."""
        used = sum(
            alloc.cpus
            for job in self.core.jobs.values()
            if job.credential is not None
            for name, alloc in zip(job.credential.nodes, job.credential.allocs, strict=False)
            if name == self.node.node_name
        )
        if not used:
            return "IDLE"
        total = next(
            (node.cpus for node in self.node.conf.nodes if node.name == self.node.node_name), 1
        )
        return "ALLOC" if used >= total else "MIXED"

    def _hook_variables(self, credential: nm.JobCredential, context: str) -> dict[str, str]:
        place = place_of(self.node, credential)
        view = gpu_view(self.node, credential)
        return environment.hook_environment(credential, place, context, view)

    async def _reboot(self) -> None:
        program = self.node.conf.reboot_program
        if not program:
            self.log.error("RebootProgram is not configured")
            return
        result = await run_hook((program,), {}, 0)
        if result.status:
            self.log.error(f"RebootProgram: {result.text}")

    # Restart ------------------------------------------------------------------------------------

    def _adopt_steps(self) -> None:
        """Take up what a predecessor left: running steps, and ends it did not get reported."""
        for path, (job_id, step_id, attempt) in list(self.spool.found_steps()):
            try:
                records = step_record.read(path)
                if not records:
                    continue  # only its name is kept, so that it is not started twice
                credential = nm.decode_credential(
                    self.identity.signer.open_credential(records["spec"]["credential"])
                )
            except (OSError, KeyError, AuthError, msgspec.DecodeError,
                    step_record.StepRecordError) as error:  # fmt: skip
                self.log.error(f"{path}: cannot be taken up: {error}")
                continue
            if "reported" in records:
                self._remember_ended(records, credential, step_id)
                continue
            spec, is_alive = records["spec"], step_record.is_alive(records.get("pid"))
            since_us = spec.get("since_us", 0) if is_alive else 0  # of this boot
            self.core.adopt(credential, step_id, spec.get("duty", 0), since_us)
            key = (job_id, step_id, attempt)
            if "end" not in records and is_alive:
                self.log.info(f"reattaching StepId={job_id}.{step_text(step_id)}")
                self.runner.adopt(key, path, spec["uid"])
            else:
                self._step_ended(key, records)
        self.spool.remove_scripts({job_id for job_id, _, _ in self.runner.running()})

    def _remember_ended(
        self, records: Mapping[str, Any], credential: nm.JobCredential, step_id: int
    ) -> None:
        """Know that an attempt ran here, so that a late order does not start it again."""
        if step_id == STEP_BATCH and "end" in records:
            end = self._end_of(records["end"])
            self.core.remember_ended(credential, records["spec"].get("duty", 0), end)

    # Reports ------------------------------------------------------------------------------------

    def flush_soon(self) -> None:
        """Send reports at the end of this turn; mere starts wait for what may follow them."""
        if self._flush_due or not self.core.reports:
            return
        self._flush_due = True
        only_starts = all(isinstance(report, nm.DutyDone) for report in self.core.reports)
        if only_starts and not self.core.has_preparing():
            self._loop.call_later(_FLUSH_DELAY_S, self._flush)
        else:
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flush_due = False
        self._controllers.send_reports(self._reported)

    def _reported(self, reports: list[nm.Report]) -> None:
        """The controller has these for good: their files have done their duty."""
        for report in reports:
            if isinstance(report, (nm.BatchEnded, nm.StepEnded)):
                step_id = STEP_BATCH if isinstance(report, nm.BatchEnded) else report.step_id
                path = self.spool.step_path(report.job_id, step_id, report.attempt)
                try:
                    self.spool.mark_reported(path)
                except OSError:
                    continue

    def _sweep(self) -> None:
        """Remove files of steps that were reported some minutes ago, then see what is free."""
        self._loop.call_later(_SWEEP_S, self._sweep)
        self._remove_reported()
        self._watch_room()

    def _watch_room(self) -> None:
        """Ask for no more jobs while the spool is full: they would fail one after the other."""
        try:
            self.spool.check_room()
        except (SpoolFull, OSError) as error:
            if not self._was_full:
                self.log.error(f"{error}: node {self.node.node_name} takes no more jobs")
            self._was_full = True
            self.core.drain(SPOOL_FULL)
            self.flush_soon()
            return
        if self._was_full:
            self._was_full = False
            self.log.info(
                f"SlurmdSpoolDir {self.spool.directory} has room again: the node is used again "
                f"after scontrol update NodeName={self.node.node_name} State=RESUME"
            )

    def _remove_reported(self) -> None:
        now = time.time()
        for path, key in list(self.spool.found_steps()):
            if self.runner.has(key):
                continue
            try:
                found = os.stat(path)
                age_s = now - found.st_mtime
                if not found.st_size and age_s > _KNOWN_S:
                    self.spool.remove_step(path)
                elif found.st_size and age_s > _KEPT_S and "reported" in step_record.read(path):
                    self.spool.empty_step(path)
            except (OSError, step_record.StepRecordError):
                continue
