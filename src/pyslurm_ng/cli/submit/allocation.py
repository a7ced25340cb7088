"""The job of salloc or srun: to request it, to wait for it, to hear of its end, to end it."""

import os
import select
from errno import ETIMEDOUT
from time import monotonic

from pyslurm_ng.base.numbers import (
    JOB_CANCELLED,
    JOB_DEADLINE,
    REQ_INTERACTIVE,
    REQ_OVERCOMMIT,
    SHOW_ALL,
    SHOW_DETAIL,
    SIGHUP,
    SIGINT,
    SIGQUIT,
    SIGTERM,
)
from pyslurm_ng.cli.command import say
from pyslurm_ng.cli.file_names import current_directory
from pyslurm_ng.wire.client import SlurmError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from pyslurm_ng.cli.signals import Signals
    from pyslurm_ng.cli.submit.options import Options
    from pyslurm_ng.wire.client import Client

_OF_WHOLE_JOB = frozenset(("SLURM_CLUSTER_NAME", "SLURM_SUBMIT_DIR", "SLURM_SUBMIT_HOST"))
"""Variables of which components have no copies."""
_SAY_QUEUED_AFTER_S = 1.0  # on a host with 20 times its load, an allocation may take 0.3 s
_RECONNECT_S = 1.0


_HELD = ("Dependency", "DependencyNeverSatisfied", "BeginTime", "JobHeldUser", "JobHeldAdmin")
_LIMITED = ("PartitionConfig", "PartitionNodeLimit", "PartitionTimeLimit")


def _why_number(reason: str) -> int:
    """Return the error number of --immediate for the reason why the job waits."""
    from pyslurm_ng.base.error_numbers import Errno

    if reason == "Priority":
        return Errno.ESLURM_NOT_TOP_PRIORITY
    if reason in _HELD:
        return Errno.ESLURM_DEPENDENCY
    if reason == "PartitionDown":
        return Errno.ESLURM_PARTITION_DOWN
    if reason in _LIMITED or reason == "PartitionInactive":
        return Errno.ESLURM_REQUESTED_PART_CONFIG_UNAVAILABLE
    return Errno.ESLURM_NODES_BUSY


class NotAtOnce(SlurmError):
    """The job has not started within the time of --immediate."""

    @property
    def is_busy(self) -> bool:
        """Whether it would have started on other nodes: a job that could not at all is refused."""
        from pyslurm_ng.base.error_numbers import Errno

        return self.code not in (
            Errno.ESLURM_DEPENDENCY,
            Errno.ESLURM_PARTITION_DOWN,
            Errno.ESLURM_REQUESTED_PART_CONFIG_UNAVAILABLE,
        )


class Revoked(Exception):
    """The job ended before it began; its messages are printed."""


class Allocation:
    """One interactive job, and the open call on which the controller reports about it.

    Attributes:
        job_id: the job's id, 0 until the controller has given one.
        granted: the controller's answer about the allocation.
        over: the controller's report of the job's end; None while the job lasts.
    """

    def __init__(
        self,
        client: "Client",
        options: "Options",
        signals: "Signals",
        further: "Sequence[Options]" = (),
    ) -> None:
        self.job_id = 0
        self.granted: dict[str, Any] = {}
        self.over: dict[str, Any] | None = None
        self._client = client
        self._options = options
        self._further = further  # of all components of a heterogeneous job except the first
        self._signals = signals
        self._command = options.command
        self._fields: dict[str, Any] = {}
        self._sequence = 0
        self._was_queued = False
        self._is_quiet = "quiet" in options.settings
        # How long the job may wait for its start: 1 means not at all, 0 for ever.
        self._immediate_s = 0
        if "immediate" in options.settings:
            self._immediate_s = int(options.settings["immediate"] or "1")

    @property
    def is_immediate(self) -> bool:
        """Whether the job is not to wait at all."""
        return self._immediate_s == 1

    def _info(self, text: str) -> None:
        if not self._is_quiet:
            say(f"{self._command}: {text}")

    # Asking and waiting -------------------------------------------------------------------------

    def ask(self, *, is_kept: bool = False) -> None:
        """Send the request and wait until the job has its resources.

        Raises:
            SlurmError: the controller refused the job.
            Revoked: a signal came, or the job ended while it waited.
        """
        request = self._options.request
        self._options.flag(REQ_INTERACTIVE)
        self._fields = {
            "request": request,
            "environment": b"",
            "is_kept": is_kept,
            "request_id": os.urandom(16),
        }
        for component in self._further:
            component.flag(REQ_INTERACTIVE)
        if self._further:
            self._fields["components"] = [component.request for component in self._further]
        self._sequence = self._client.begin("AllocateJob", self._fields)
        wait_s = self._immediate_s
        give_up = monotonic() + wait_s if wait_s else float("inf")
        # A job that must start immediately is not reported as waiting.
        say_at = float("inf") if self.is_immediate else monotonic() + _SAY_QUEUED_AFTER_S
        while not self.granted:
            now = monotonic()
            until = min(give_up, say_at if not self._was_queued else float("inf"))
            self._wait(min(until - now, 3600.0))
            if self.over is not None:
                self._ended_while_waiting()
            if self.granted:
                break
            if monotonic() >= give_up and self.job_id:
                code, text = self._why_not(wait_s)
                self.give_back(0)
                raise NotAtOnce(code, text)
            if monotonic() >= say_at and self.job_id and not self._was_queued:
                self._was_queued = True
                self._tell_queued()
        if self._further and not self._was_queued:
            # Slurm prints this each time: it starts components together, after its answer.
            self._was_queued = True
            self._tell_queued()
        if self._was_queued:
            self._info(f"job {self.job_id} has been allocated resources")

    def _tell_queued(self) -> None:
        if self._command == "salloc":
            self._info(f"Pending job allocation {self.job_id}")
        self._info(f"job {self.job_id} queued and waiting for resources")

    def _why_not(self, wait_s: int) -> "tuple[int, str]":
        """Return why the job has not started in time, in Slurm's words."""
        from pyslurm_ng.base.error_texts import error_text
        from pyslurm_ng.cli.command import Table

        code = _why_number("")
        if wait_s > 1 and self._command == "salloc":
            return code, os.strerror(ETIMEDOUT)
        if self.is_immediate:
            try:
                query = {"filter": {"jobs": [str(self.job_id)]}, "flags": SHOW_ALL | SHOW_DETAIL}
                reply = self._client.call("ShowJobs", query)
                rows = Table(reply["fields"], reply["records"], reply["fields"]).dicts()
                code = _why_number(rows[0]["reason"]) if rows else code
            except SlurmError:
                pass  # the code above has to do
        return code, error_text(code)

    def _wait(self, timeout_s: float) -> None:
        """Wait for an answer or a signal, and take it; connect again if the connection was lost."""
        poll = select.poll()
        poll.register(self._signals.descriptor, select.POLLIN)
        descriptor = self._client.fileno()
        if descriptor < 0:
            self._ask_again()
            descriptor = self._client.fileno()
        if descriptor >= 0:
            poll.register(descriptor, select.POLLIN)
        else:
            timeout_s = min(timeout_s, _RECONNECT_S)
        for ready, _ in poll.poll(max(0, int(timeout_s * 1000) + 1)):
            if ready == descriptor:
                self.receive()
            else:
                self._signalled()

    def _ask_again(self) -> None:
        """Send the request again after the connection was lost: it gets the same job."""
        try:
            self._sequence = self._client.begin("AllocateJob", self._fields)
        except SlurmError:
            return

    def receive(self) -> None:
        """Read one answer and take it."""
        try:
            _, reply, is_last = self._client.receive(60.0)
        except SlurmError as problem:
            if problem.sequence and not self.job_id:
                raise
            return
        self.take(reply, is_last)

    def take(self, reply: "dict[str, Any]", is_last: bool) -> None:
        """Record one answer to the request."""
        if "notes" in reply:
            for note in reply["notes"] if not self.is_immediate and not self._is_quiet else ():
                say(f"{self._command}: {note}")
            if not self.job_id and self._options.verbose:
                self._info(f"JobId={reply['job_id']} returned by the controller")
            filters = self._options.filters
            if not self.job_id and filters is not None and self._command == "salloc":
                filters.post_submit(reply["job_id"])  # srun has a step to tell of, later
            self.job_id = reply["job_id"]
        elif "cpus_per_node" in reply:
            self.granted = reply
            if self._command == "srun":
                os.environ.update(self.site_variables())  # for its tasks
        elif "text" in reply:
            say(reply["text"])
        elif is_last and "state" in reply:
            self.over = reply

    def _ended_while_waiting(self) -> None:
        assert self.over is not None
        if self.over["state"] == JOB_CANCELLED:
            self._cancelled_while_waiting()
        else:
            if self.over["state"] == JOB_DEADLINE:
                say(f"{self._command}: Force Terminated job {self.job_id}")
            say(f"{self._command}: Job allocation {self.job_id} has been revoked")
        raise Revoked

    def _cancelled_while_waiting(self) -> None:
        from pyslurm_ng.base.error_numbers import Errno
        from pyslurm_ng.base.error_texts import error_text

        is_srun = self._command == "srun"
        if not is_srun:
            self._tell_revoked()
        say(f"{self._command}: Job has been cancelled")
        lead = "Unable to allocate resources" if is_srun else "Job submit/allocate failed"
        say(f"{self._command}: error: {lead}: {error_text(Errno.ESLURM_ALREADY_DONE)}")

    def _tell_revoked(self) -> None:
        """Print that the allocation is given back; salloc prints a full stop after it.

        Of `salloc --no-shell` it was never anyone's to hold, and nothing is said, as in Slurm.
        """
        if self._fields["is_kept"]:
            return
        end = "" if self._command == "srun" else "."
        self._info(f"Job allocation {self.job_id} has been revoked{end}")

    def _signalled(self) -> None:
        for number in self._signals.take():
            if number not in (SIGINT, SIGTERM, SIGHUP, SIGQUIT):
                continue
            if not self.job_id:
                self._wait_for_id()
            if self.job_id:
                self.give_back(0)
                self._tell_revoked()
            if self._command != "srun" or not self.job_id:
                self._info("Job aborted due to signal")
            elif number == SIGINT:
                self._info(f"Force Terminated JobId={self.job_id}")
            raise Revoked

    def _wait_for_id(self) -> None:
        """Wait for the job's id, so that a signal before the answer cancels the job, too."""
        try:
            _, reply, is_last = self._client.receive(5.0)
        except SlurmError:
            return
        self.take(reply, is_last)

    # Using --------------------------------------------------------------------------------------

    def fileno(self) -> int:
        """Return the descriptor of the connection to the controller; -1 if it is lost."""
        return self._client.fileno()

    def variables(self) -> "dict[str, str]":
        """Return the variables that salloc sets for its command."""
        job_variables = self.site_variables() | _variables(self.granted, self._options)
        components = self.granted.get("components")
        if not components:
            return job_variables
        job_variables["SLURM_HET_SIZE"] = job_variables["SLURM_PACK_SIZE"] = str(len(components))
        for offset, options in enumerate((self._options, *self._further)):
            for name, value in _variables(components[offset], options).items():
                if name not in _OF_WHOLE_JOB:
                    job_variables[f"{name}_HET_GROUP_{offset}"] = value
                    job_variables[f"{name}_PACK_GROUP_{offset}"] = value
        return job_variables

    def site_variables(self) -> "dict[str, str]":
        """Return the variables of the site's functions, which the tasks of srun get, too."""
        entries = (entry.partition("=") for entry in self.granted.get("variables", ()))
        return {name: value for name, _, value in entries}

    def give_back(self, status: int) -> None:
        """End the job with a wait status, unless it has ended already."""
        if not self.job_id or self.over is not None:
            return
        try:
            self._client.change("CompleteJob", {"job_id": self.job_id, "exit_code": status})
        except SlurmError as problem:
            from pyslurm_ng.base.error_numbers import Errno

            if problem.code != Errno.ESLURM_ALREADY_DONE:
                say(f"{self._command}: error: Unable to clean up job allocation {self.job_id}: "
                    f"{problem.text}")  # fmt: skip


def _variables(granted: "dict[str, Any]", options: "Options") -> "dict[str, str]":
    """Return the variables of one job, or those of one component as if it were a job."""
    request = options.request
    variables = {
        "SLURM_CLUSTER_NAME": granted["cluster"],
        "SLURM_JOBID": granted["job_id"],
        "SLURM_JOB_ACCOUNT": granted["account"],
        "SLURM_JOB_CPUS_PER_NODE": granted["cpus_per_node"],
        "SLURM_JOB_ID": granted["job_id"],
        "SLURM_JOB_NAME": granted["name"],
        "SLURM_JOB_NODELIST": granted["nodes"],
        "SLURM_JOB_NUM_NODES": granted["node_count"],
        "SLURM_JOB_PARTITION": granted["partition"],
        "SLURM_JOB_QOS": granted["qos"],
        "SLURM_NNODES": granted["node_count"],
        "SLURM_NODELIST": granted["nodes"],
        "SLURM_SUBMIT_DIR": current_directory(),
        "SLURM_SUBMIT_HOST": os.uname().nodename.partition(".")[0],
        "SLURM_TASKS_PER_NODE": granted["tasks_per_node"],
    }
    if granted["step_manager"][0]:
        node, host, port = granted["step_manager"]
        variables["SLURM_STEPMGR"] = node
        variables["SLURM_STEPMGR_ADDRESS"] = f"{host} {port}"
    if options_ntasks(options):
        variables["SLURM_NPROCS"] = variables["SLURM_NTASKS"] = granted["ntasks"]
    for name, variable in (
        ("cpus_per_task", "SLURM_CPUS_PER_TASK"),
        ("ntasks_per_node", "SLURM_NTASKS_PER_NODE"),
        ("ntasks_per_core", "SLURM_NTASKS_PER_CORE"),
        ("ntasks_per_socket", "SLURM_NTASKS_PER_SOCKET"),
        ("ntasks_per_gpu", "SLURM_NTASKS_PER_GPU"),
        ("threads_per_core", "SLURM_THREADS_PER_CORE"),
        ("mem_per_node_mib", "SLURM_MEM_PER_NODE"),
        ("mem_per_cpu_mib", "SLURM_MEM_PER_CPU"),
        ("mem_per_gpu_mib", "SLURM_MEM_PER_GPU"),
        ("gpus", "SLURM_GPUS"),
        ("gpus_per_node", "SLURM_GPUS_PER_NODE"),
        ("gpus_per_socket", "SLURM_GPUS_PER_SOCKET"),
        ("gpus_per_task", "SLURM_GPUS_PER_TASK"),
        ("gpu_bind", "SLURM_GPU_BIND"),
        ("tres_bind", "SLURM_TRES_BIND"),
        ("cpus_per_gpu", "SLURM_CPUS_PER_GPU"),
        ("plane_size", "SLURM_DIST_PLANESIZE"),
        ("hint", "SLURM_HINT"),
        ("reservation", "SLURM_JOB_RESERVATION"),
        ("licenses", "SLURM_JOB_LICENSES"),
        ("acctg_freq", "SLURM_ACCTG_FREQ"),
        ("network", "SLURM_NETWORK"),
        ("profile", "SLURM_PROFILE"),
    ):
        if request.get(name):
            variables[variable] = request[name]
    if not options.given.keys().isdisjoint(("tres-per-task", "cpus-per-task", "gpus-per-task")):
        variables["SLURM_TRES_PER_TASK"] = options.task_tres()
    if request.get("distribution"):
        from pyslurm_ng.sched.cons_tres.layout import shown_distribution

        variables["SLURM_DISTRIBUTION"] = shown_distribution(request["distribution"])
    if options.has_flag(REQ_OVERCOMMIT):
        variables["SLURM_OVERCOMMIT"] = 1
    variables |= frequency_variables(options)
    if request.get("hint"):
        # --hint has set the threads, and srun refuses both in its variables.
        variables.pop("SLURM_THREADS_PER_CORE", None)
    if "mem-bind" in options.settings:
        from pyslurm_ng.cli.submit.binding_options import mem_bind_variables

        variables |= mem_bind_variables(options)
    return {name: str(value) for name, value in variables.items() if value != ""}


def frequency_variables(options: "Options") -> "dict[str, str]":
    """Return the variables of --cpu-freq and --gpu-freq."""
    variables = {}
    if "cpu-freq" in options.settings:
        variables["SLURM_CPU_FREQ_REQ"] = options.settings["cpu-freq"]
    if options.request.get("tres_freq"):
        variables["SLURM_GPU_FREQ"] = options.request["tres_freq"].removeprefix("gpu:")
    return variables


def options_ntasks(options: "Options") -> bool:
    """Return whether some option says how many tasks there are."""
    names = ("ntasks", "ntasks_per_node", "ntasks_per_gpu", "gpus_per_task")
    return any(options.request.get(name) for name in names)
