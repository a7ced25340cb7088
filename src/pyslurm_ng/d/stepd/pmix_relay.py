"""PMIx for the tasks of one step on one node: `srun --mpi=pmix`.

The server with libpmix is a process of its own (`d.pmix.server`), which the supervisor forks and
which takes the user's rights at once. What it sends is checked and passed on to srun, and back. If
it ends before the tasks do, the step ends.
"""

import os
import select
import time
from _signal import SIGKILL  # type: ignore[import-not-found]
from _socket import AF_UNIX, SHUT_WR, SOCK_CLOEXEC, SOCK_STREAM, socketpair

from pyslurm_ng.base.poll_loop import read_some, write_some
from pyslurm_ng.d.stepd.own_process import become, fork_own, identity_of
from pyslurm_ng.wire import mpi_frames, step_io

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from pyslurm_ng.base.poll_loop import PollLoop
    from pyslurm_ng.d.spool.step_contract import MpiSpec, StepSpec
    from pyslurm_ng.d.stepd.mpi_ends import MpiEnds
    from pyslurm_ng.d.stepd.step_processes import StepProcesses
    from pyslurm_ng.d.stepd.step_streams import SrunLink
    from pyslurm_ng.d.stepd.task import Task

_END_S = 2.0
_REMOVE_S = 2.0
_REMOVE_PAUSE_S = 0.01
_MOST_VARIABLES_BYTES = 256 << 10
_MOST_UNSENT = 8 << 20
"""Above it srun is not read: the server is a process of the user, who can stop it."""
_TO_SRUN = ("fence", "ask", "fetch", "fetched")


class PmixRelay:
    """The supervisor's side of one step's PMIx server.

    Attributes:
        environment: what the tasks' variables have to have besides; known when `is_ready`.
        problem: why there is no server.
        is_ready: whether the tasks may start, or cannot.
    """

    def __init__(
        self,
        loop: "PollLoop",
        spec: "StepSpec",
        mpi: "MpiSpec",
        processes: "StepProcesses",
        link_of: "Callable[[], SrunLink | None]",
        ends: "MpiEnds",
    ) -> None:
        self.environment: list[bytes] = []
        self.problem = ""
        self.is_ready = False
        self._loop = loop
        self._spec = spec
        self._mpi = mpi
        self._processes = processes
        self._link_of = link_of
        self._ends = ends
        self._frames = step_io.Frames()
        self._unsent = bytearray()
        self._descriptor = -1
        self._is_ending = False
        self._pid = 0
        temporary = os.environ.get("TMPDIR", "/tmp")  # slurmd's, not the user's
        self._directory = f"{temporary}/pmix.{mpi['job']}.{spec['node']}.{os.urandom(6).hex()}"
        self._states: dict[int, int] = {}
        self._most_unanswered = mpi_frames.MOST_OPEN * len(mpi["nodes"])
        self._unanswered: dict[tuple[int, int], dict[str, Any]] = {}  # by tag and node

    # What the step calls -----------------------------------------------------------------------

    def begin(self, joins: "list[int]") -> None:
        """Fork the server, in the step's control groups. Raises OSError."""
        ours, theirs = socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC)
        spec, mpi = self._spec, self._mpi
        channel, directory = theirs.fileno(), self._directory
        identity = identity_of(spec)

        def work() -> None:
            from pyslurm_ng.d.pmix.server import serve

            for join in joins:
                os.write(join, b"0")
            serve(
                mpi, spec["node"], spec["node_index"], channel, directory, lambda: become(identity)
            )  # fmt: skip

        try:
            self._pid = fork_own(work, [channel, *joins])
        finally:
            theirs.close()
        self._processes.beside.add(self._pid)
        self._socket, self._descriptor = ours, ours.fileno()
        ours.setblocking(False)
        self._watch()

    def add(self, task: "Task", descriptor: int) -> None:
        """Close the descriptor of a task: it finds its server by its variables."""
        os.close(descriptor)

    def on_frame(self, body: bytes) -> None:
        """Pass on a message of srun. Raises BadStepFrame."""
        fields = mpi_frames.parse(body)
        answer = mpi_frames.refusal(fields)
        if answer is not None:
            self._unanswered[fields["tag"], fields["node"]] = answer
            if len(self._unanswered) > self._most_unanswered:
                raise step_io.BadStepFrame("MPI: fetch: more than nodes may ask at once")
        if self._descriptor < 0:
            self._refuse()
            return
        self._unsent += step_io.pack(step_io.MPI, step_io.ALL, body)
        self._write()

    def _refuse(self) -> None:
        """Answer what other nodes have asked of a server that has ended."""
        link = self._link_of()
        for answer in self._unanswered.values():
            if link is not None and link.is_open:
                link.send(mpi_frames.frame(answer))
        self._unanswered.clear()

    def task_ended(self, task: "Task") -> None:
        """End the step if a rank ends with an error before it has said that it is done."""
        rank = self._mpi["first_rank"] + task.task
        if not self._ends.has_failed:
            self._read()  # it may have said so
        if task.status and self._states.get(rank) == mpi_frames.BEGAN:
            self._fail(f"task {rank} ended before MPI_Finalize")

    def stop(self) -> None:
        """Let the server remove its files and end, now that the tasks have ended.

        A server that does not is a process that the step has left, and is killed as such.
        """
        if self._descriptor < 0:
            return
        self._is_ending = True
        self._socket.shutdown(SHUT_WR)
        give_up = time.monotonic() + _END_S
        while self._descriptor >= 0 and time.monotonic() < give_up:
            self._loop.turn(_END_S)
        self._hang_up()

    def close(self) -> None:
        """End the connection, and remove what a server that was killed has left.

        The directory is the user's. So an empty one is removed here, and what is in it by a
        process with the user's rights, which has not for ever: there may be millions of files.
        """
        self._hang_up()
        try:
            os.rmdir(self._directory)
        except FileNotFoundError:
            return
        except OSError:
            self._wait_for(fork_own(self._remove, []))

    def _remove(self) -> None:
        from shutil import rmtree

        become(identity_of(self._spec))
        rmtree(self._directory, ignore_errors=True)

    def _wait_for(self, pid: int) -> None:
        give_up = time.monotonic() + _REMOVE_S
        while not os.waitpid(pid, os.WNOHANG)[0]:
            if time.monotonic() > give_up:
                os.kill(pid, SIGKILL)
                give_up += _REMOVE_S
            self._loop.turn(_REMOVE_PAUSE_S)

    def _hang_up(self) -> None:
        if self._descriptor >= 0:
            self._loop.drop(self._descriptor)
            self._socket.close()
            self._descriptor = -1
            self._unsent.clear()
            self._pause()
        self._processes.beside.discard(self._pid)
        self._refuse()

    # The server --------------------------------------------------------------------------------

    def _watch(self) -> None:
        events = select.POLLIN | (select.POLLOUT if self._unsent else 0)
        self._loop.watch(self._descriptor, events, self._on_ready)

    def _on_ready(self, events: int) -> None:
        if events & select.POLLOUT:
            self._write()
        if events & (select.POLLIN | select.POLLHUP | select.POLLERR):
            self._read()

    def _write(self) -> None:
        if self._descriptor < 0:
            return
        if not write_some(self._descriptor, self._unsent):
            self._unsent.clear()  # reading shows the end
        self._watch()
        self._pause()

    def _pause(self) -> None:
        link = self._link_of()
        if link is not None:
            link.pause(is_paused=len(self._unsent) > _MOST_UNSENT)

    def _read(self) -> None:
        if self._descriptor < 0:
            return
        link = self._link_of()
        if link is not None and not link.has_room:
            self._loop.drop(self._descriptor)
            link.when_room(self._resume)
            return
        data = read_some(self._descriptor)
        if data is None:
            return
        try:
            for kind, _, body in self._frames.feed(data):
                if kind != step_io.MPI:
                    raise step_io.BadStepFrame("MPI: another frame")
                self._take(mpi_frames.parse(body), body)
        except step_io.BadStepFrame as problem:
            self._lost(f"its server: {problem}")
            return
        if not data:
            self._lost("its PMIx server has ended")

    def _resume(self) -> None:
        if self._descriptor >= 0:
            self._watch()

    def _lost(self, text: str) -> None:
        self._hang_up()
        if self.is_ready and not self.problem and not self._is_ending:
            self._fail(text)
        self.problem = self.problem or text
        self.is_ready = True

    def _fail(self, text: str) -> None:
        if not self._ends.has_failed:
            self._abort()
            self._ends.fail(text)

    def _abort(self) -> None:
        link = self._link_of()
        if link is not None and link.is_open:
            link.send(mpi_frames.frame({"do": "abort", "text": "", "status": 1}))

    def _take(self, fields: "dict[str, Any]", body: bytes) -> None:
        """Take a message of the server. Raises BadStepFrame."""
        link = self._link_of()
        if fields["do"] in _TO_SRUN and link is not None:
            if fields["do"] == "fetched":
                self._unanswered.pop((fields["tag"], fields["node"]), None)
            link.send(step_io.pack(step_io.MPI, step_io.ALL, body))
        elif fields["do"] == "rank":
            self._on_rank(fields["rank"], fields["status"])
        elif fields["do"] == "failed":
            self.problem, self.is_ready = f"mpi/pmix: {fields['text']}", True
        elif fields["do"] == "ready" and len(fields["data"]) <= _MOST_VARIABLES_BYTES:
            self.environment = [entry for entry in fields["data"].split(b"\0") if entry]
            self.is_ready = True
        else:
            raise step_io.BadStepFrame(f"MPI: {fields['do']} is not sent by a PMIx server")

    def _on_rank(self, rank: int, state: int) -> None:
        self._states[rank] = state
        if len(self._states) > self._mpi["ranks"]:
            raise step_io.BadStepFrame("MPI: more ranks than there are")
        if state == mpi_frames.ABORTED and not self._ends.has_failed:
            self._abort()
            self._ends.aborted(rank)
