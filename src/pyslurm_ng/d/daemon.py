"""slurmd's life: it starts, registers, obeys and ends; steps outlive it.

What to do is decided in `core`. Here its parts are made and joined: `controllers` and `neighbours`
bring orders, `controller_orders` checks them, `node_actions` carries out what the core wants,
`step_ends` takes what becomes of steps, and `report_times` sends what is to be reported.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import time

import msgspec

from pyslurm_ng import __version__
from pyslurm_ng.base.faults import Faults
from pyslurm_ng.base.hostlist import fold_numbers
from pyslurm_ng.conf import node_loss
from pyslurm_ng.d.controllers.connections import Controllers
from pyslurm_ng.d.controllers.lease import Lease
from pyslurm_ng.d.controllers.neighbours import Neighbours
from pyslurm_ng.d.controllers.registration import Registration
from pyslurm_ng.d.controllers.report_times import ReportTimes
from pyslurm_ng.d.core.actions import Action
from pyslurm_ng.d.core.orders import obey
from pyslurm_ng.d.host.own_cores import own_cpus
from pyslurm_ng.d.jobs.node_actions import NodeActions
from pyslurm_ng.d.node.accounts import Accounts
from pyslurm_ng.d.node.credential_checks import CredentialChecks
from pyslurm_ng.d.node.device_watch import DeviceWatch
from pyslurm_ng.d.node.health import HealthCheck
from pyslurm_ng.d.node.local_node import LocalNode
from pyslurm_ng.d.node.node_meter import NodeMeter
from pyslurm_ng.d.node.setup import Options, Setup
from pyslurm_ng.d.requests.administration import Administration
from pyslurm_ng.d.requests.controller_orders import ControllerOrders
from pyslurm_ng.d.requests.output_reader import OutputReader
from pyslurm_ng.d.requests.service import NodeStreams
from pyslurm_ng.d.spool.spool import Spool
from pyslurm_ng.d.stepmgr.managers import StepManagers
from pyslurm_ng.d.steps.spool_room import SpoolRoom
from pyslurm_ng.d.steps.step_adoption import adopt_steps
from pyslurm_ng.d.steps.step_ends import StepEnds
from pyslurm_ng.d.steps.step_runner import StepRunner
from pyslurm_ng.d.steps.template_link import CannotSupervise
from pyslurm_ng.daemon import background as bg
from pyslurm_ng.daemon.log import QUIET, DaemonLog
from pyslurm_ng.wire.auth import AuthError, Peer
from pyslurm_ng.wire.auth_slurm import KeyFileError
from pyslurm_ng.wire.endpoint import Answer
from pyslurm_ng.wire.identity import Identity, load_identity


class CannotStart(Exception):
    """The node daemon cannot run; the text is Slurm's `fatal:` line."""


def start(options: Options, setup: Setup, log: DaemonLog, background: bg.Background) -> int:
    """Make the spool, then serve until told to stop; return the exit code.

    Raises:
        CannotStart: before slurmd is reported as running.
    """
    faults = Faults(log)
    try:
        node = LocalNode(setup, Spool(setup.spool), log, faults)
        identity = _load_identity(setup, faults)
    except (KeyFileError, AuthError) as error:
        raise CannotStart(str(error)) from None
    except OSError as error:
        raise CannotStart(f"{error.filename or setup.spool}: {error.strerror}") from None

    async def life() -> int:
        return await Daemon(options, node, identity, background).serve()

    pid_file = write_pid_file(setup.pid_file, log)
    os.umask(0o022)
    try:
        return asyncio.run(life())
    finally:
        if pid_file is not None:
            pid_file.remove()


def _load_identity(setup: Setup, faults: Faults) -> Identity:
    conf = setup.node.conf
    controllers = frozenset(
        name for host in conf.slurmctld_host for name in (host.name, host.address) if name
    )
    return load_identity(
        role="node",
        name=setup.node.node_name,
        auth_type=conf.auth_type,
        auth_info=",".join(conf.auth_info),
        key_path=os.path.join(os.path.dirname(conf.path), "slurm.key"),
        cluster=conf.cluster_name,
        host=setup.node.host_name,
        service_uid=setup.service_uid,
        clock_us=lambda: time.time_ns() // 1000,
        admin_hosts=controllers | {setup.node.host_name},
        replay_path=f"{setup.spool}/replay",
        faults=faults,
    )


def write_pid_file(path: str, log: DaemonLog) -> bg.PidFile | None:
    """Write this process's id; return None, with a line in the log, where that is impossible."""
    try:
        os.makedirs(os.path.dirname(path) or ".", mode=0o755, exist_ok=True)
        return bg.PidFile(path)
    except OSError as error:
        log.error(f"Unable to open pidfile `{path}': {error.strerror}")
        return None


class Daemon:
    """One slurmd on its loop."""

    def __init__(
        self, options: Options, node: LocalNode, identity: Identity, background: bg.Background
    ) -> None:
        self._options = options
        self._node = node
        self._background = background
        self._loop = asyncio.get_running_loop()
        self._ended = asyncio.Event()
        self._accounts = Accounts()
        self._credentials = CredentialChecks(node, identity)
        registration = Registration(node, options)
        lease = Lease(
            is_kept=node_loss.policy(node.conf) == node_loss.LEASE,
            lease_s=node_loss.lease_s(node.conf),
            now_s=self._loop.time(),
        )
        self._meter = NodeMeter(node)
        self._controllers = Controllers(
            identity, node, lease, on_message=self._on_message,
            registration=registration.message, registered=lambda: self._act([]),
            watts=self._meter.watts,
        )  # fmt: skip
        self._ends = StepEnds(node, self._act)
        self._runner = StepRunner(
            node.setup.spool, on_started=self._ends.started, on_ended=self._ends.ended,
            on_report=self._ends.reported,
        )  # fmt: skip
        reports = ReportTimes(node, self._controllers)
        self._actions = NodeActions(node, self._runner, self._accounts, reports)
        self._neighbours = Neighbours(
            identity, node, lease, obey=lambda order: self._act(obey(node.core, order, None))
        )
        self._administration = Administration(
            options,
            node,
            lease,
            self._accounts,
            self._controllers,
            terminate=self._ended.set,
            reconfigured=self._meter.follow,
        )
        reader = OutputReader(
            node, self._credentials, self._accounts, self._runner.fork_receiver,
            self._actions.namespaces.held,
        )  # fmt: skip
        self._orders = ControllerOrders(
            node, self._credentials, self._actions, self._administration, reader
        )
        self._room = SpoolRoom(node, self._runner, drained=reports.send_soon)
        self._health = HealthCheck(
            node.log, node.name, lambda: node.conf, node.state,
            {"SLURM_CONF": node.conf.path, "SLURMD_NODENAME": node.name},
        )  # fmt: skip
        self._devices = DeviceWatch(node, self._meter.lost_gpus, self._controllers.register)
        self._managers = StepManagers(
            node, identity, self._credentials, self._act, self._actions.launches.ask
        )
        self._actions.on_acted = self._acted
        reports.on_managed = self._managers.acknowledged
        self._streams = NodeStreams(
            node, identity, self._runner, self._accounts, self._actions, self._administration,
            self._managers,
            status=lambda: registration.status(self._runner.running()),
            relay=self._controllers.relay, is_linked=self._controllers.is_linked,
        )  # fmt: skip

    # For parts that are made before those that they call back.

    def _act(self, actions: list[Action]) -> None:
        self._actions.act(actions)

    def _acted(self) -> None:
        self._managers.look()
        self._streams.let_go_ended()

    def _on_message(self, message: msgspec.Struct, peer: Peer, answer: Answer) -> None:
        self._orders.take(message, answer)

    # Life ---------------------------------------------------------------------------------------

    async def serve(self) -> int:
        """Serve until told to stop; return the exit code.

        Raises:
            CannotStart: before slurmd is reported as running.
        """
        self._loop.set_exception_handler(self._node.faults.on_loop)
        try:
            await self._runner.begin()
            self._keep_to_own_cpus()
            self._managers.take_up()
            adopt_steps(self._node, self._credentials, self._runner, self._ends)
            self._actions.namespaces.begin()
            await self._streams.listen()
        except (CannotSupervise, OSError) as error:
            self._runner.close()
            self._controllers.close()
            raise CannotStart(str(error)) from None
        for number in (signal.SIGTERM, signal.SIGINT):
            self._loop.add_signal_handler(number, self._administration.terminate)
        self._loop.add_signal_handler(signal.SIGHUP, self._hang_up)
        self._loop.add_signal_handler(signal.SIGUSR2, self._node.log.reopen)
        gc.collect()
        gc.freeze()
        self._meter.follow()
        await self._health.at_start()
        self._tell_ready()
        self._controllers.begin()
        self._neighbours.begin()
        self._room.begin()
        self._devices.begin()
        await self._ended.wait()
        await self._finish()
        return 0

    def _keep_to_own_cpus(self) -> None:
        """Stay on specialised cores from now on, for all but what the template starts."""
        node, conf, log = self._node.configured, self._node.conf, self._node.log
        if not (node.uses("task/affinity") or node.uses("task/cgroup")):
            return
        is_first = any(word.lower() == "spec_cores_first" for word in conf.scheduler_parameters)
        params = conf.task_plugin_param
        cpus = own_cpus(self._node.setup.line, node.host, params, is_first=is_first)
        if not cpus:
            return
        try:
            os.sched_setaffinity(0, cpus)
        except OSError as error:
            log.error(f"cannot keep to CPUs {fold_numbers(cpus)}: {error.strerror}")
            return
        log.info(f"slurmd keeps to CPUs {fold_numbers(cpus)}")

    def _tell_ready(self) -> None:
        log = self._node.log
        log.info(f"slurmd version {__version__} started on node {self._node.name}")
        bg.tell_systemd("READY=1")
        if not self._options.foreground:
            log.stderr_level = QUIET
        self._background.ready()

    async def _finish(self) -> None:
        self._node.log.info("Slurmd shutdown completing")
        bg.tell_systemd("STOPPING=1")
        self._health.stop()
        self._devices.stop()
        self._meter.stop()
        self._actions.close()
        tree = self._node.configured.tree
        if tree is not None:
            tree.remove_empty({job_id for job_id, _, _ in self._runner.running()})
        self._runner.close()
        self._neighbours.close()
        self._managers.close()
        await self._streams.close()
        self._controllers.close()
        self._accounts.close()

    def _hang_up(self) -> None:
        self._node.log.info("Reconfigure signal (SIGHUP) received")
        self._node.log.reopen()
        self._administration.reconfigure()
