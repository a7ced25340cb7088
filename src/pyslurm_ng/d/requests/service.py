"""What srun and commands ask of a node over its stream: launch, signal, look."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING

import msgspec

from pyslurm_ng import __version__
from pyslurm_ng.base.error_texts import error_text
from pyslurm_ng.base.errors import Errno
from pyslurm_ng.base.numbers import INFINITE, SIGKILL
from pyslurm_ng.d.core.actions import Command
from pyslurm_ng.d.core.node_core import JobHere
from pyslurm_ng.d.jobs.node_actions import NodeActions
from pyslurm_ng.d.node.accounts import Accounts
from pyslurm_ng.d.node.credential_checks import CredentialChecks
from pyslurm_ng.d.node.local_node import INTERNAL, LocalNode
from pyslurm_ng.d.requests.administration import Administration
from pyslurm_ng.d.requests.file_transfers import FileTransfers
from pyslurm_ng.d.requests.logins import Logins
from pyslurm_ng.d.stepmgr.managers import StepManagers
from pyslurm_ng.d.steps.step_runner import StepRunner
from pyslurm_ng.d.steps.usage import usage_now
from pyslurm_ng.daemon.metrics_text import family
from pyslurm_ng.model.ids import STEP_EXTERN, STEP_INTERACTIVE
from pyslurm_ng.wire import node_messages as nm
from pyslurm_ng.wire.auth import AuthError
from pyslurm_ng.wire.daemon_link import socket_file
from pyslurm_ng.wire.daemon_pages import DaemonPages, server_lines
from pyslurm_ng.wire.identity import Identity
from pyslurm_ng.wire.messages import Done, Pong
from pyslurm_ng.wire.node_loss_messages import RelayWord, WordRelayed
from pyslurm_ng.wire.query_messages import SetDebugLevel
from pyslurm_ng.wire.stream import Call, StreamServer

if TYPE_CHECKING:
    from pyslurm_ng.d.spool.step_contract import Order, Route

_INVALID = 22  # EINVAL
_NO_PID = -1
_FIRST_USER_PORT = 1024
_HERE = "127.0.0.1"


class NodeStreams:
    """The stream server of one node daemon; issues credentials to local users, too.

    Args:
        status: returns what `scontrol show slurmd` prints.
        relay: brings the word of a node that is cut off to the controller.
        is_linked: returns whether a controller knows this node and can be reached.
    """

    def __init__(
        self,
        node: LocalNode,
        identity: Identity,
        runner: StepRunner,
        accounts: Accounts,
        actions: NodeActions,
        administration: Administration,
        managers: StepManagers,
        *,
        status: Callable[[], nm.NodeDaemonStatus],
        relay: Callable[[RelayWord, Callable[[WordRelayed], None]], None],
        is_linked: Callable[[], bool],
    ) -> None:
        self._is_linked = is_linked
        self._node = node
        self._runner = runner
        self._accounts = accounts
        self._actions = actions
        self._administration = administration
        self._managers = managers
        self._daemon_status = status
        self._relay = relay
        self._credentials = CredentialChecks(node, identity)
        self._tasks: set[asyncio.Task[None]] = set()
        self._logins = Logins(node, runner, actions.namespaces.pin_of)
        self._files = FileTransfers(
            runner.fork_receiver, node.core.is_over, actions.groups.hold, actions.namespaces.hold
        )
        self._server = StreamServer(
            self._handle,
            audience=f"slurmd:{node.name}",
            host=node.configured.host_name,
            service_uid=node.setup.service_uid,
            authenticator=identity.authenticator,
            faults=node.faults,
            http=self._pages().respond,
        )

    def _pages(self) -> DaemonPages:
        """Return health and metrics; the controller's keys decide who may read them."""
        node = self._node

        def is_private() -> bool:
            words = [word.lower() for word in node.conf.metrics_parameters]
            is_open = not node.conf.private_data or "ignore_private_data" in words
            return bool(node.conf.metrics_auth_users) or not is_open

        return DaemonPages(
            self._metrics,
            why_not_ready=lambda: "" if self._is_linked() else "no controller is linked",
            is_on=lambda: node.conf.metrics_type == "metrics/openmetrics",
            is_private=is_private,
            privileged=(0, node.setup.service_uid),
        )

    def _metrics(self) -> list[str]:
        server, core, faults = self._server, self._node.core, self._node.faults.counts
        lines = family("pyslurm_node_jobs", "Jobs on this node", [("", len(core.jobs))])
        steps = sum(1 for _ in self._runner.running())
        lines += family("pyslurm_node_steps", "Steps on this node", [("", steps)])
        linked = [("", int(self._is_linked()))]
        lines += family("pyslurm_node_controller_linked", "Whether slurmctld is linked", linked)
        return lines + server_lines(
            "pyslurm_node", server.counts(), server.refusals, server.requests, faults
        )

    async def listen(self) -> None:
        """Listen on the node's port and its Unix socket. Raises OSError."""
        setup, conf = self._node.setup, self._node.conf
        path = socket_file("slurmd", setup.pid_file, setup.line.port, conf.slurmctld_port[0])
        await self._server.listen_unix(path)
        try:
            await self._server.listen_tcp(None, setup.line.port)
        except OSError:
            await self._server.close()
            raise

    def let_go_ended(self) -> None:
        """Give up what is under way for jobs that are over."""
        self._files.drop_ended()

    async def close(self) -> None:
        """Stop serving."""
        self._files.close()
        await self._server.close()

    def _handle(self, call: Call) -> None:
        request = call.request
        if isinstance(request, nm.LaunchStep):
            self._launch(call, request)
        elif isinstance(request, nm.SignalStep):
            self._signal(call, request)
        elif isinstance(request, nm.SendFile):
            self._take_file(call, request)
        elif isinstance(request, nm.ListPids):
            self._spawn(self._list_pids(call, request))
        elif isinstance(request, nm.AdoptLogin):
            self._spawn(self._logins.adopt(call, request))
        elif isinstance(request, nm.StepStatus):
            self._spawn(self._status(call, request))
        elif isinstance(request, nm.AttachStep):
            self._spawn(self._attach(call, request))
        elif isinstance(request, nm.ShowNodeDaemon):
            status = self._daemon_status()
            seen = [step for step in status.steps if self._sees(call, step[0])]
            call.reply(msgspec.structs.replace(status, steps=seen))
        elif self._managers.takes(request):
            self._managers.handle(call)
        elif isinstance(request, nm.NodeReports):
            self._managers.take_ends(call, request)
        elif isinstance(request, SetDebugLevel):
            self._set_debug_level(call, request.level)
        elif isinstance(request, RelayWord):
            self._relay(request, call.reply)
        elif call.kind == "Ping":
            now_us = time.time_ns() // 1000
            call.reply(Pong(self._node.name, "node", f"slurm {__version__}", now_us))
        elif call.kind == "Reconfigure":
            self._administration.reconfigure()
            call.reply(Done())
        elif call.kind == "Shutdown":
            call.reply(Done())
            self._administration.terminate()
        else:
            call.error(
                Errno.ESLURM_NOT_SUPPORTED, f"{call.kind}: a node daemon does not answer this"
            )

    def _set_debug_level(self, call: Call, level: int) -> None:
        """`scontrol setdebug LEVEL nodes=`: root and SlurmUser may; no operators are known here."""
        if call.peer.uid not in self._server.roles.privileged:
            call.error(Errno.ESLURM_USER_ID_MISSING, error_text(Errno.ESLURM_USER_ID_MISSING))
            return
        self._node.log.set_level(level)
        call.reply(Done())

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        # The loop keeps only a weak reference.
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _launch(self, call: Call, request: nm.LaunchStep) -> None:
        name = self._node.name
        credential = self._opened(call, request.credential)
        if credential is None:
            return
        is_step = credential.step_id <= STEP_INTERACTIVE
        if not is_step or name not in credential.step_nodes:
            call.error(Errno.ESLURMD_CREDENTIAL_REVOKED, f"the step is not for {name}")
            return
        if request.route is not None:
            route = _route_back(call, request.route)
            if route is None:
                return
            request = msgspec.structs.replace(request, route=route)
        self._actions.launches.ask(credential, request, call)

    def _opened(self, call: Call, blob: bytes) -> nm.JobCredential | None:
        """Return a credential that the caller may use; refuse the call and return None if not."""
        try:
            credential = self._credentials.open(blob)
            self._credentials.check_time(credential)
        except AuthError as error:
            call.error(Errno.ESLURMD_CREDENTIAL_REVOKED, error.text)
            return None
        if call.peer.role == "node":
            is_allowed = call.peer.name == credential.issuer
        else:
            is_allowed = call.peer.uid in (0, credential.uid)
        if not is_allowed:
            call.error(Errno.ESLURM_ACCESS_DENIED, "Access/permission denied")
            return None
        return credential

    def _take_file(self, call: Call, request: nm.SendFile) -> None:
        if not request.credential:
            self._spawn(self._files.go_on(call, request))
            return
        credential = self._opened(call, request.credential)
        if credential is None:
            return
        if not request.path.startswith("/") or "\0" in request.path:
            call.error(_INVALID, "the path must be absolute")
            return

        def failed(error: BaseException) -> None:
            self._node.faults.note("file", f"files of uid {credential.uid}", error)
            call.error(_INVALID, INTERNAL)

        self._accounts.call(
            credential,
            lambda account: self._spawn(self._files.begin(call, request, credential, account)),
            failed,
        )

    def _may_act(self, call: Call, job_id: int) -> JobHere | None:
        """Return a job here that the caller may act on; refuse the call and return None if not."""
        job = self._node.core.jobs.get(job_id)
        if job is None or job.credential is None:
            call.error(Errno.ESLURM_INVALID_JOB_ID, "Invalid job id specified")
            return None
        uids = (0, self._node.setup.service_uid, job.credential.uid)
        if call.peer.role == "node":
            is_allowed = job.is_managed and call.peer.name == job.credential.batch_host
        else:
            is_allowed = call.peer.uid in uids
        if not is_allowed:
            call.error(Errno.ESLURM_ACCESS_DENIED, "Access/permission denied")
            return None
        return job

    def _signal(self, call: Call, request: nm.SignalStep) -> None:
        job = self._may_act(call, request.job_id)
        if job is None:
            return
        if request.step_id not in job.steps:
            if self._managers.cancel(request.job_id, request.step_id):
                call.reply(Done())
                return
            call.error(Errno.ESLURM_INVALID_JOB_ID, "Invalid job id specified")
            return
        words: Order = {"do": "signal", "number": request.signal, "scope": "all"}
        if request.signal == SIGKILL and request.step_id != STEP_EXTERN:
            words = {"do": "terminate", "why": "DUE to SIGNAL Killed", "wait_s": 0.0}
        self._actions.act([Command(job.job_id, job.attempt, request.step_id, words)])
        call.reply(Done())

    def _sees(self, call: Call, job_id: int) -> bool:
        """Return whether PrivateData lets the caller know of a job's steps here."""
        if "jobs" not in (word.lower() for word in self._node.conf.private_data):
            return True
        job = self._node.core.jobs.get(job_id)
        owner = job.credential.uid if job is not None and job.credential is not None else 0
        return call.peer.uid in (0, self._node.setup.service_uid, owner)

    async def _list_pids(self, call: Call, request: nm.ListPids) -> None:
        rows: list[tuple[int, int, int, int, int]] = []
        for job_id, step_id, attempt in sorted(self._runner.running(), key=_is_extern):
            if request.job_id not in (0, job_id) or request.step_id not in (INFINITE, step_id):
                continue
            if not self._sees(call, job_id):
                continue
            if step_id == STEP_EXTERN:
                rows.append((_NO_PID, job_id, step_id, 0, 0))  # Slurm's, for the step as such
            answer = await self._runner.ask((job_id, step_id, attempt), "pids")
            tasks = {pid: task for task, pid in answer.get("tasks", {}).items()}
            order = sorted(tasks.values())
            for pid in answer.get("all", []):
                task = tasks.get(pid, -1)
                local = order.index(task) if task in order else -1
                rows.append((pid, job_id, step_id, local, task))
        call.reply(nm.PidList(self._node.name, rows))

    async def _status(self, call: Call, request: nm.StepStatus) -> None:
        job = self._may_act(call, request.job_id)
        if job is None:
            return
        key = (request.job_id, request.step_id, job.attempt)
        answer = await self._runner.ask(key, "usage")
        if not answer:
            call.error(Errno.ESLURM_INVALID_JOB_ID, "Invalid job id specified")
            return
        usage = usage_now(answer, self._node.name)
        call.reply(nm.StepUsage(self._node.name, usage, answer.get("pids", [])))

    async def _attach(self, call: Call, request: nm.AttachStep) -> None:
        """Let sattach read a step of the caller's, or say which tasks of it are here."""
        route = request.route
        job = self._node.core.jobs.get(request.job_id)
        if route is not None:
            job = self._may_act(call, request.job_id)
            route = _route_back(call, route) if job is not None else None
            if route is None:
                return
        if job is None or not self._sees(call, request.job_id):
            call.error(Errno.ESLURM_INVALID_JOB_ID, error_text(Errno.ESLURM_INVALID_JOB_ID))
            return
        key = (request.job_id, request.step_id, job.attempt)
        back: Route | None = None
        if route is not None:
            back = {"host": route.host, "port": route.port, "key": route.key}
        answer = await self._runner.ask(key, "reader", route=back)
        if not answer:
            call.error(Errno.ESLURM_INVALID_JOB_ID, error_text(Errno.ESLURM_INVALID_JOB_ID))
        elif answer["problem"]:
            call.error(_INVALID, answer["problem"])
        else:
            tasks, index = list(answer["tasks"]), int(answer["node_index"])
            call.reply(nm.StepAttached(self._node.name, index, tasks))


def _route_back(call: Call, route: nm.RouteToSrun) -> nm.RouteToSrun | None:
    """Return the caller's port on its own host; refuse the call and return None for a low port.

    Root connects for a user to no other host, whatever the message names.
    """
    if route.port < _FIRST_USER_PORT:
        call.error(_INVALID, f"port: {route.port}; {_FIRST_USER_PORT} to 65535 are allowed")
        return None
    return msgspec.structs.replace(route, host=call.address or _HERE)


def _is_extern(key: tuple[int, int, int]) -> bool:
    """Return whether a key is of an extern step: those are listed last, as in Slurm."""
    return key[1] == STEP_EXTERN
