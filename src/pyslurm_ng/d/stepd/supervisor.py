"""The supervisor of one step on one node: it starts the tasks, serves their streams, and ends them.

It has one poll loop and no library, because it may run for weeks and must stay small. It obeys
slurmd over a channel and, if the step has an srun, srun over a connection. At its end it writes the
`end` record into the step's file, so it never waits for slurmd. The user cannot make it wait,
either: each task's process opens the task's files (`step_tasks`), a `launcher` runs programs before
a task, and a `step_writer` writes the supervisor's lines. An error costs only the frame or command
that led to it.

Orders come over the channel as in `d.spool.step_contract`. Answers are maps with the key "did":
start, attach (pids), slow (text), unkillable, fault (text, trace), plugin (text), or the name of
the order.
"""

import resource  # noqa: F401 - else os.wait4 loads it in each supervisor, in a millisecond
import time

from pyslurm_ng.base.numbers import END_OUT_OF_MEMORY, STEP_EXTERN
from pyslurm_ng.base.poll_loop import PollLoop
from pyslurm_ng.d.spool import step_record
from pyslurm_ng.d.spool.batch_script import remove_script
from pyslurm_ng.d.stepd.mpi_server import mpi_server
from pyslurm_ng.d.stepd.own_process import identity_of
from pyslurm_ng.d.stepd.slurmd_channel import SlurmdChannel
from pyslurm_ng.d.stepd.srun_session import SrunSession
from pyslurm_ng.d.stepd.step_cgroup import StepCgroup
from pyslurm_ng.d.stepd.step_clocks import StepClocks
from pyslurm_ng.d.stepd.step_ending import StepEnding
from pyslurm_ng.d.stepd.step_faults import StepFaults
from pyslurm_ng.d.stepd.step_frequency import StepFrequency
from pyslurm_ng.d.stepd.step_notices import StepNotices
from pyslurm_ng.d.stepd.step_orders import StepOrders
from pyslurm_ng.d.stepd.step_processes import StepProcesses
from pyslurm_ng.d.stepd.step_readers import StepReaders
from pyslurm_ng.d.stepd.step_result import StepResult
from pyslurm_ng.d.stepd.step_start import StepStart
from pyslurm_ng.d.stepd.step_tasks import FILES_STATUS, CannotStart
from pyslurm_ng.d.stepd.step_usage import StepUsage
from pyslurm_ng.d.stepd.step_writer import StepWriter
from pyslurm_ng.d.stepd.task import Tasks
from pyslurm_ng.d.stepd.task_ends import TaskEnds
from pyslurm_ng.wire import step_io

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _socket import socket
    from collections.abc import Callable
    from typing import Any

    from pyslurm_ng.d.spool.step_contract import Order, StepSpec
    from pyslurm_ng.d.stepd.extern_processes import Outside
    from pyslurm_ng.d.stepd.step_pam import StepPam
    from pyslurm_ng.d.stepd.step_plugins import StepPlugins
    from pyslurm_ng.d.stepd.step_profile import StepProfile

_FLUSH_S = 300.0
_FLUSH_KILLED_S = 5.0
_CHILDREN_PAUSE_S = 0.2
_CHANGES_ITS_PROCESS = (
    "namespace", "pam", "plugins", "mpi", "x11", "frequency", "clocks", "profile",
)  # fmt: skip


class Step:
    """One step; `run` returns when the step is over and its processes have ended."""

    def __init__(self, path: str, spec: "StepSpec", channel: "socket | None") -> None:
        self._path = path
        self._spec = spec
        self._loop = loop = PollLoop(self._fault)
        self._slurmd = SlurmdChannel(loop, path, self._obey, self._greeting)
        self._faults = StepFaults(path, self._slurmd.tell)
        self._result = result = StepResult()
        self._tasks = tasks = Tasks(spec)
        self._writer = writer = StepWriter(loop, identity_of(spec))
        self._cgroup = cgroup = StepCgroup(spec["cgroup"]) if spec["cgroup"] else None
        self._readers = readers = StepReaders(loop, spec, tasks)
        self._notices = notices = StepNotices(writer, readers)
        self._processes = processes = StepProcesses(cgroup, writer)
        processes.outside = _outside_of(spec)
        self._ending = ending = StepEnding(loop, spec, tasks, processes, notices, result)
        self._frequency = StepFrequency(spec.get("frequency"))
        self._clocks = StepClocks(loop, spec.get("clocks"), processes, ending)
        self._usage = usage = StepUsage(loop, spec, tasks, processes, ending, notices, result)
        self._orders = orders = StepOrders(
            spec, tasks, processes, ending, usage, notices, readers, path, self._slurmd.tell
        )
        self._srun = srun = SrunSession(
            loop, spec, tasks, processes, ending, orders, notices, readers
        )
        srun.mpi = mpi_server(loop, spec, tasks, srun, ending, notices, processes)
        self._ends = ends = TaskEnds(
            loop, spec, tasks, processes, ending, usage, notices, srun, writer
        )
        self._start = StepStart(
            loop, path, spec, cgroup, tasks, processes, ending, notices, srun, readers, ends,
            writer, self._slurmd.tell,
        )  # fmt: skip
        self._profile = usage.profile = self._new_profile()
        self._plugins = plugins = _plugins_of(loop, spec, processes, notices, self._slurmd.tell)
        self._start.plugins = ends.plugins = plugins
        self._start.pam = self._pam = _pam_of(loop, spec, processes, ends.reap)
        if channel is not None:
            self._slurmd.attach(channel)

    def run(self) -> None:
        """Start the tasks, serve until the last has ended, clean up, write the end record.

        If one part fails, the next parts are done all the same.
        """
        self._try(self._begin)
        self._try(self._serve)
        if self._plugins is not None:
            self._try(self._plugins.settle)
        self._result.tasks_ended()
        if self._srun.mpi is not None:
            self._try(self._srun.mpi.stop)
        if self._srun.x11 is not None:
            self._try(self._srun.x11.close)
        self._try(lambda: self._ending.end_rest(self._ends.reap, self._unkillable))
        if self._plugins is not None:
            self._try(self._plugins.finish)
        if self._pam is not None:
            self._try(self._pam.finish)
        self._try(self._frequency.restore)
        self._try(self._clocks.restore)
        if self._profile is not None:
            self._try(self._profile.finish)
        self._try(self._end_streams)
        self._finish()
        self._try(self._readers.linger)
        self._try(self._srun.linger)

    @property
    def leaves_nothing(self) -> bool:
        """Whether a step that is over has changed nothing in this process."""
        return (
            not self._faults.count
            and not self._result.error
            and not self._ending.is_dying
            and not self._slurmd.was_left
            and not any(self._spec.get(word) for word in _CHANGES_ITS_PROCESS)
        )

    def _new_profile(self) -> "StepProfile | None":
        """Return what keeps the step's profile, None if nobody asked for one."""
        spec = self._spec.get("profile")
        if spec is None:
            return None
        from pyslurm_ng.d.stepd.step_profile import StepProfile

        def tell(text: str) -> None:
            self._notices.say(text)
            self._slurmd.tell({"did": "plugin", "text": text})

        return StepProfile(self._loop, spec, self._processes, self._ending, self._path, tell)

    def _try(self, part: "Callable[[], None]") -> None:
        try:
            part()
        except CannotStart as problem:
            self._cannot_start(problem.status, problem.text)
            self._result.drain = problem.drain
        except Exception as error:  # noqa: BLE001 - the step must be ended in any case
            self._fault(error)
            if not self._result.error:
                self._cannot_start(FILES_STATUS, f"slurmstepd: {type(error).__name__}: {error}")
            self._ending.give_up()

    def _fault(self, error: BaseException) -> None:
        self._faults.note(f"StepId={self._spec['name']}", error)

    def _cannot_start(self, status: int, text: str) -> None:
        self._result.status, self._result.error = status, text
        if text:
            self._notices.say(text)
        self._srun.failed(status, text)

    def _begin(self) -> None:
        text = self._frequency.set()
        clocks, problems = self._clocks.set()
        self._start.run()
        for line in clocks:
            self._notices.show(line)
        for problem in filter(None, (text, *problems)):
            self._notices.say(problem)
        if self._profile is not None:
            self._profile.begin()
        self._usage.begin()

    def _serve(self) -> None:
        self._ending.reach_new_tasks()
        while self._tasks.are_running:
            self._loop.turn()
        while self._spec["step"] == STEP_EXTERN and not self._ending.is_dying:
            self._loop.turn()
        waits = self._spec["waits_for_children"]
        while waits and not self._ending.is_dying and self._processes.living():
            self._loop.turn(_CHILDREN_PAUSE_S)

    # slurmd -----------------------------------------------------------------------------------

    def _obey(self, order: "Order") -> None:
        self._orders.obey(order)

    def _greeting(self) -> "list[dict[str, Any]]":
        first: dict[str, Any] = {"did": "attach", "pids": self._tasks.pids()}
        return [first, {"did": "unkillable"}] if self._ending.is_unkillable else [first]

    # The end ----------------------------------------------------------------------------------

    def _unkillable(self) -> None:
        self._slurmd.tell({"did": "unkillable"})
        self._try(self._end_streams)

    def _end_streams(self) -> None:
        """Pass on the rest of the output, send DONE, and wait until srun has both."""
        for task in self._tasks.all:
            if task.inlet is not None:
                task.inlet.close()
            for outlet in task.outlets:
                outlet.drain()
                outlet.close()
            task.outlets = []
        self._check_memory()
        link = self._srun.link
        if link is not None:
            link.send(step_io.pack(step_io.DONE))
        self._readers.finish()
        self._writer.finish()
        began = time.monotonic()
        while (link is not None and not link.is_flushed) or self._writer.pid:
            # After UnkillableStepTimeout slurmd would take this for a fault of the node.
            killed_s = min(_FLUSH_KILLED_S, self._spec["unkillable_s"] / 2)
            limit_s = killed_s if self._ending.is_dying else _FLUSH_S
            if time.monotonic() > began + limit_s:
                break
            self._loop.turn(1.0)
        self._writer.kill()
        if self._srun.mpi is not None:
            self._srun.mpi.close()
        if link is not None:
            link.finish()

    def _check_memory(self) -> None:
        kills = self._processes.oom_kills()
        if kills > 0:
            self._result.flags |= END_OUT_OF_MEMORY
            plural = "event" if kills == 1 else "events"
            self._notices.say(
                f"Detected {kills} oom_kill {plural} in StepId={self._spec['name']}. "
                "Some of the step tasks have been OOM Killed."
            )

    def _finish(self) -> None:
        tasks = self._tasks.all
        status = self._result.status_of(tasks)
        usage = self._usage.rows() if self._spec["acct"] else None  # while its group is there
        if self._cgroup is not None:
            self._try(self._cgroup.leave)
        if self._spec["script"]:
            self._try(lambda: remove_script(self._spec["spool"]))
        end = self._result.record(status, len(tasks), usage, self._usage.energy_j())
        end["traffic"] = self._usage.traffic()
        try:
            try:
                step_record.append(self._path, end)
            except OSError:
                # The spool is full. Without usage the record may have room, so the job is not lost.
                step_record.append(self._path, {**end, "usage": None})
        finally:
            self._slurmd.close()
            self._ends.close()


def _outside_of(spec: "StepSpec") -> "Outside | None":
    """Return what keeps the processes of an extern step, None for other steps."""
    if spec["step"] != STEP_EXTERN:
        return None
    from pyslurm_ng.d.stepd.extern_processes import Outside

    return Outside(spec["uid"])


def _pam_of(
    loop: PollLoop, spec: "StepSpec", processes: StepProcesses, reap: "Callable[[], None]"
) -> "StepPam | None":
    """Return what keeps the step's PAM session, None without UsePAM.

    Where there are plugins the process is theirs, and closes the session after them.
    """
    if not spec.get("pam") or spec.get("plugins") is not None:
        return None
    from pyslurm_ng.d.stepd.step_pam import StepPam

    return StepPam(loop, processes, reap)


def _plugins_of(
    loop: PollLoop,
    spec: "StepSpec",
    processes: StepProcesses,
    notices: StepNotices,
    tell: "Callable[[dict[str, Any]], bool]",
) -> "StepPlugins | None":
    """Return what serves the step's plugins, None if plugstack.conf names none."""
    plugins = spec.get("plugins")
    if plugins is None:
        return None
    from pyslurm_ng.d.stepd.step_plugins import StepPlugins

    return StepPlugins(loop, spec, plugins, processes, notices, tell)
