"""The start of a step: control groups, script, srun, files and tasks."""

import os
import select
import time
from _signal import SIGKILL, SIGTERM  # type: ignore[import-not-found]

from pyslurm_ng.base.numbers import STEP_EXTERN
from pyslurm_ng.d.spool import step_record
from pyslurm_ng.d.spool.batch_script import FULL_ERRORS, SPOOL_FULL, write_script
from pyslurm_ng.d.stepd.launcher import Launcher, launch
from pyslurm_ng.d.stepd.step_cgroup import CgroupError
from pyslurm_ng.d.stepd.step_faults import leave_trace
from pyslurm_ng.d.stepd.step_streams import Inlet, Outlet
from pyslurm_ng.d.stepd.step_tasks import FILES_STATUS, PLUGIN_STATUS, CannotStart
from pyslurm_ng.d.stepd.task_streams import TERMINAL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from pyslurm_ng.base.poll_loop import PollLoop
    from pyslurm_ng.d.spool.step_contract import StepSpec
    from pyslurm_ng.d.stepd.srun_session import SrunSession
    from pyslurm_ng.d.stepd.step_cgroup import StepCgroup
    from pyslurm_ng.d.stepd.step_ending import StepEnding
    from pyslurm_ng.d.stepd.step_notices import StepNotices
    from pyslurm_ng.d.stepd.step_pam import StepPam
    from pyslurm_ng.d.stepd.step_plugins import StepPlugins
    from pyslurm_ng.d.stepd.step_processes import StepProcesses
    from pyslurm_ng.d.stepd.step_readers import StepReaders
    from pyslurm_ng.d.stepd.step_tasks import TaskStarter
    from pyslurm_ng.d.stepd.step_writer import StepWriter
    from pyslurm_ng.d.stepd.task import Task, Tasks
    from pyslurm_ng.d.stepd.task_ends import TaskEnds

_LAST_WORDS_S = 1.0
_MPI_S = 60.0
_NO_PRIVATE_DIRECTORIES = "private directories cannot be made"
_SLOW_LAUNCH_S = 30.0


class StepStart:
    """Starts one step.

    Args:
        path: the path of the step's file.
        tell: sends a map to slurmd; returns whether it could.

    Attributes:
        plugins: of plugstack.conf, None without any.
        pam: the process in which a PAM session is open; None without UsePAM.
    """

    def __init__(
        self,
        loop: "PollLoop",
        path: str,
        spec: "StepSpec",
        cgroup: "StepCgroup | None",
        tasks: "Tasks",
        processes: "StepProcesses",
        ending: "StepEnding",
        notices: "StepNotices",
        srun: "SrunSession",
        readers: "StepReaders",
        ends: "TaskEnds",
        writer: "StepWriter",
        tell: "Callable[[dict[str, Any]], bool]",
    ) -> None:
        self._loop = loop
        self._path = path
        self._spec = spec
        self._cgroup = cgroup
        self._tasks = tasks
        self._processes = processes
        self._ending = ending
        self._notices = notices
        self._srun = srun
        self._readers = readers
        self._ends = ends
        self._writer = writer
        self._tell = tell
        self.plugins: StepPlugins | None = None
        self.pam: StepPam | None = None
        self._files: dict[
            int, int
        ] = {}  # a file's number in the starter -> its number in the writer

    def run(self) -> None:
        """Make control groups, connect to srun, start the tasks. Raises CannotStart."""
        spec = self._spec
        joins = self._make_groups()
        if spec["script"]:
            self._write_script()
        if spec["route"] is not None:
            self._srun.connect(spec["route"])
        self._enter_namespace()
        if spec["step"] == STEP_EXTERN:
            self._begin_without_tasks(joins)
            return
        if self._ending.is_dying:
            raise CannotStart(SIGTERM, "")

        def goes_on(limit_s: float) -> bool:
            self._loop.turn(limit_s)
            return not self._ending.is_dying

        self._begin_x11()
        self._begin_mpi(joins)
        is_routed = self._srun.link is not None
        self._processes.launch = starter = launch(spec, joins, goes_on, is_routed=is_routed)
        self._notices.hold()
        try:
            self._wait_for(starter)
        finally:
            for descriptor in joins:
                os.close(descriptor)
            stays = self.plugins or self.pam
            if stays is not None and isinstance(starter, Launcher):
                stays.keep(starter)
            else:
                starter.close()
            self._processes.launch = None
            self._notices.release()
            self._ends.watch()
        self._tell_started()

    def _begin_without_tasks(self, joins: "list[int]") -> None:
        """Begin the extern step, which has processes only when others come from outside."""
        for descriptor in joins:
            os.close(descriptor)
        self._tell_started()

    def _enter_namespace(self) -> None:
        """Move to the job's namespace, while we have one thread. Raises CannotStart."""
        if self._spec["namespace"] is None:
            return
        from pyslurm_ng.d.stepd.job_namespace import NamespaceError, enter

        try:
            enter(self._spec["namespace"])
        except NamespaceError as problem:
            self._tell({"did": "fault", "text": str(problem), "trace": ""})
            raise CannotStart(FILES_STATUS, str(problem), _NO_PRIVATE_DIRECTORIES) from None

    def _begin_mpi(self, joins: "list[int]") -> None:
        """Wait until the tasks' MPI libraries can be served. Raises CannotStart."""
        mpi = self._srun.mpi
        if mpi is None:
            return
        try:
            mpi.begin(joins)
        except OSError as error:
            raise CannotStart(FILES_STATUS, f"fork: {error.strerror}") from None
        give_up = time.monotonic() + _MPI_S
        while not mpi.is_ready and not self._ending.is_dying and time.monotonic() < give_up:
            self._loop.turn(1.0)
        if self._ending.is_dying:
            raise CannotStart(SIGTERM, "")
        if mpi.problem or not mpi.is_ready:
            raise CannotStart(FILES_STATUS, mpi.problem or "its PMIx server does not begin")
        self._spec["env"] = self._spec["env"] + mpi.environment

    def _begin_x11(self) -> None:
        """Give the tasks a display. Raises CannotStart."""
        x11, link = self._spec.get("x11"), self._srun.link
        if x11 is None or link is None:
            return
        from pyslurm_ng.d.stepd.x11_display import X11Display

        self._srun.x11 = display = X11Display(self._loop, self._spec, x11, link)
        others = [
            variable
            for variable in self._spec["env"]
            if not variable.startswith((b"DISPLAY=", b"XAUTHORITY="))
        ]
        self._spec["env"] = others + display.environment

    def _make_groups(self) -> "list[int]":
        """Return descriptors by which tasks join the control groups. Raises CannotStart."""
        try:
            return self._cgroup.make() if self._cgroup is not None else []
        except CgroupError as error:
            if self._spec["route"] is not None:
                self._srun.connect(self._spec["route"])  # it is told why
            raise CannotStart(SIGKILL, str(error.strerror), error.drain) from None

    def _write_script(self) -> None:
        spec = self._spec
        try:
            path = write_script(spec["spool"], spec["script"], spec["uid"], spec["gid"])
        except OSError as error:
            text = f"{spec['spool']}: {error.strerror}"
            drain = SPOOL_FULL if error.errno in FULL_ERRORS else ""
            raise CannotStart(FILES_STATUS, text, drain) from None
        spec["programs"][0][spec["script_word"]] = path

    def _wait_for(self, starter: "Launcher | TaskStarter") -> None:
        """Serve until all tasks have begun. Raises CannotStart."""
        self._ends.wait()
        self._loop.watch(starter.fileno(), select.POLLIN, lambda events: None)
        slow_at = time.monotonic() + _SLOW_LAUNCH_S
        give_up = 0.0
        try:
            while True:
                message, descriptors = starter.take()
                if message is None:
                    if self._ending.is_dying and not give_up:
                        # Its messages from before the kill are still to be read.
                        starter.kill()
                        give_up = time.monotonic() + _LAST_WORDS_S
                    elif give_up and time.monotonic() > give_up:
                        raise CannotStart(SIGTERM, "")
                    self._check_plugins(starter)
                    self._loop.turn(_LAST_WORDS_S)
                    if time.monotonic() > slow_at:
                        slow_at += 3600.0
                        text = "its files, its directory or a program before its tasks delay it"
                        self._tell({"did": "slow", "text": text})
                elif self.plugins is not None and self.plugins.take(message):
                    continue
                elif "done" in message:
                    self._writer.begin()
                    self._notices.say_all(message["notes"])
                    return
                elif message and "failed" not in message:
                    self._take(message, descriptors)
                else:
                    self._fail(message)
        finally:
            self._loop.drop(starter.fileno())

    def _check_plugins(self, starter: "Launcher | TaskStarter") -> None:
        """Raise CannotStart if the plugins take too long to let the tasks start."""
        if self.plugins is not None and self.plugins.are_late:
            starter.kill()
            raise CannotStart(PLUGIN_STATUS, "spank: plugins took too long; they were killed")

    def _fail(self, message: "dict[str, Any]") -> None:
        """Raise CannotStart because the starter cannot go on or has ended."""
        if not message:
            if self._ending.is_dying:
                raise CannotStart(SIGTERM, "")
            raise CannotStart(FILES_STATUS, "the process that starts tasks was lost")
        self._notices.say_all(message["notes"])
        if "trace" in message and not self._tell(
            {"did": "fault", "text": message["text"], "trace": message["trace"]}
        ):
            leave_trace(self._path, message["trace"])
        raise CannotStart(message["failed"], message["text"])

    def _take(self, message: "dict[str, Any]", descriptors: "list[int]") -> None:
        """Take a task that was started, or a file that it needs."""
        if "file" in message:
            self._files[message["file"]] = self._writer.add(descriptors[0])
            return
        if "stderr" in message:
            self._notices.use_file(self._writer.add(descriptors[0]))
            return
        task = self._tasks.all[message["task"]]
        task.pid, task.status = message["pid"], message["status"]
        task.is_over = message["is_over"]
        if task.pid:
            self._tasks.by_pid[task.pid] = task
        if message["inlet"]:
            is_terminal = message["inlet"] == TERMINAL
            task.inlet = Inlet(
                self._loop, descriptors.pop(0), self._srun.input_taken, is_terminal=is_terminal
            )
        for stream, file in message["outlets"]:
            task.outlets.append(self._outlet(task, descriptors.pop(0), stream, file))
        if message["has_stderr"]:
            task.stderr = descriptors.pop(0)
        if message["has_pmi"] and self._srun.mpi is not None:
            self._srun.mpi.add(task, descriptors.pop(0))
        self._notices.say_all(message["notes"])

    def _outlet(self, task: "Task", descriptor: int, stream: int, file: int) -> Outlet:
        if file < 0:
            link = self._srun.link
            return Outlet(
                self._loop, descriptor, task=task.task, kind=stream, link=link,
                copy=self._readers.pass_on,
            )  # fmt: skip
        label = b"%*d: " % (self._spec["label_width"], task.task)
        return Outlet(
            self._loop, descriptor, task=task.task, kind=stream, link=None,
            copy=self._readers.pass_on, writer=self._writer, file=self._files[file], label=label,
        )  # fmt: skip

    def _tell_started(self) -> None:
        pids = self._tasks.pids()
        if not self._spec["is_batch"]:
            try:
                step_record.append(self._path, {"kind": "tasks", "pids": pids})
            except OSError:
                pass  # the leftovers of a lost supervisor are found without it, too
        self._tell({"did": "start", "pids": pids})
        self._srun.started()
        for task in self._tasks.all:
            if task.is_over:
                self._ends.task_over(task)
