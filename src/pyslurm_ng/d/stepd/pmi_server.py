"""PMI-1 and PMI-2 for the tasks of one step on one node: `srun --mpi=pmi2`.

Each task has a socket of its own. What tasks put is kept here; a fence gives it to all other nodes
over srun, so `get` never leaves the node. A task that sends what is no message of PMI, or dies
while others wait for it, ends its step with one line.
"""

from pyslurm_ng.d.stepd.mpi_exchange import MpiExchange
from pyslurm_ng.d.stepd.pmi_client import PmiClient
from pyslurm_ng.d.stepd.pmi_commands import PmiCommands
from pyslurm_ng.d.stepd.pmi_messages import BadPmiMessage
from pyslurm_ng.d.stepd.pmi_store import PmiStore
from pyslurm_ng.wire import mpi_frames

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from pyslurm_ng.base.poll_loop import PollLoop
    from pyslurm_ng.d.spool.step_contract import MpiSpec
    from pyslurm_ng.d.stepd.mpi_ends import MpiEnds
    from pyslurm_ng.d.stepd.step_streams import SrunLink
    from pyslurm_ng.d.stepd.task import Task

_ALL = b""


class PmiServer:
    """The server of one step on one node.

    Args:
        task_count: how many tasks are here.
        link_of: returns the connection to srun.
        ends: ends the step when it cannot go on.
    """

    environment: "list[bytes]" = []  # PMI_FD is known only when a task starts
    problem = ""
    is_ready = True

    def __init__(
        self,
        loop: "PollLoop",
        spec: "MpiSpec",
        task_count: int,
        link_of: "Callable[[], SrunLink | None]",
        ends: "MpiEnds",
    ) -> None:
        self._loop = loop
        self._spec = spec
        self._task_count = task_count
        self._ends = ends
        self._exchange = MpiExchange(spec, link_of, lambda *_: None, self._fail)
        self._clients: dict[int, PmiClient] = {}
        self._store = PmiStore(mpi_frames.most_gathered(spec["ranks"]))
        self._ended: list[int] = []  # ranks
        self._commands = PmiCommands(
            spec, self._store, self._exchange, self._fence, self._finalize, self._abort
        )

    # What the step calls -----------------------------------------------------------------------

    def begin(self, joins: "list[int]") -> None:
        """Nothing is needed before the tasks start."""

    def add(self, task: "Task", descriptor: int) -> None:
        """Serve a task that has begun."""
        rank = self._spec["first_rank"] + task.task
        client = PmiClient(self._loop, descriptor, rank, self._commands.obey, self._bad)
        self._clients[task.task] = client

    def on_frame(self, body: bytes) -> None:
        """Take a message of srun. Raises BadStepFrame."""
        self._exchange.on_frame(body)

    def task_ended(self, task: "Task") -> None:
        """Note that a task has ended, and end the step if others cannot go on without it."""
        client = self._clients.get(task.task)
        if client is None or self._ends.has_failed:
            return
        client.read()  # it may have said why
        if client.has_begun and not client.is_finished and task.status:
            self._fail(f"task {client.rank} ended before MPI_Finalize")
        self._ended.append(client.rank)
        self._check_fence()

    def stop(self) -> None:
        """The tasks have ended; nothing else has to."""

    def close(self) -> None:
        """End all connections."""
        for client in self._clients.values():
            client.close()

    def _fail(self, text: str) -> None:
        if not self._ends.has_failed:
            self._ends.fail(text)
            self._exchange.abort("", 1)

    def _bad(self, client: PmiClient, problem: str) -> None:
        self._fail(f"task {client.rank}: {problem}")

    # Fences, and the end -----------------------------------------------------------------------

    def _fence(self, client: PmiClient, fields: "dict[str, str]") -> None:
        if client.is_waiting:
            raise BadPmiMessage("it begins a fence while it waits in one")
        client.is_waiting, client.fence_thread = True, fields.get("thrid", "")
        self._check_fence()
        waiting = sum(each.is_waiting for each in self._clients.values())
        if waiting == self._task_count and not self._ends.has_failed:
            self._exchange.fence(_ALL, [], self._store.take_new(), self._fenced)

    def _check_fence(self) -> None:
        """End the step if tasks wait for some that have ended."""
        if self._ended and any(client.is_waiting for client in self._clients.values()):
            self._fail(f"task {self._ended[0]} has ended, and others wait for it")

    def _fenced(self, data: bytes) -> None:
        try:
            self._store.merge(data)
        except BadPmiMessage as problem:
            self._fail(f"fence: {problem}")
            return
        for client in self._clients.values():
            client.is_waiting = False
        for client in self._clients.values():
            name = "kvs-fence" if client.is_v2 else "barrier_out"
            client.answer(name, {"thrid": client.fence_thread})

    def _finalize(self, client: PmiClient, fields: "dict[str, str]") -> None:
        client.is_finished = True
        client.answer("finalize" if client.is_v2 else "finalize_ack", fields)

    def _abort(self, client: PmiClient, fields: "dict[str, str]") -> None:
        client.is_finished = True
        if not self._ends.has_failed:
            self._exchange.abort("", 1)
            self._ends.aborted(client.rank)
