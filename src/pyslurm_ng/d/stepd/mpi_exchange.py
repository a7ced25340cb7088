"""A supervisor's side of what the nodes of an MPI step exchange: requests to srun and its answers.

Nothing waits here: each request has a callback. srun has all parts of a collective before it sends
them to anyone (see `cli.step.mpi_hub`).
"""

from collections import deque

from pyslurm_ng.wire import mpi_frames, step_io

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from pyslurm_ng.d.spool.step_contract import MpiSpec
    from pyslurm_ng.d.stepd.step_streams import SrunLink

    Gathered = Callable[[bytes], None]
    Answered = Callable[[int, bytes], None]


class MpiExchange:
    """Requests of one node that are under way.

    Args:
        link_of: returns the connection to srun, None if there is none.
        on_fetch: called with (tag, the node that asks, rank, data) to be answered by `fetched`.
        on_problem: called when the step's exchange cannot go on, with a text for the user.
    """

    def __init__(
        self,
        spec: "MpiSpec",
        link_of: "Callable[[], SrunLink | None]",
        on_fetch: "Callable[[int, int, int, bytes], None]",
        on_problem: "Callable[[str], None]",
    ) -> None:
        self._most_gathered = mpi_frames.most_gathered(spec["ranks"])
        self._is_alone = len(spec["nodes"]) == 1
        self._link_of = link_of
        self._on_fetch = on_fetch
        self._on_problem = on_problem
        self._fences: dict[bytes, deque[Gathered]] = {}
        self._parts: dict[bytes, bytearray] = {}
        self._tags = 0
        self._asked: dict[int, Answered] = {}

    def _send(self, fields: "dict[str, Any]") -> None:
        link = self._link_of()
        if link is None or not link.is_open:
            self._on_problem("the connection to srun is lost")
        else:
            link.send(mpi_frames.frame(fields))

    def fence(self, of: bytes, nodes: "list[int]", data: bytes, then: "Gathered") -> None:
        """Give this node's part of a collective; `then` gets the parts of all nodes."""
        if len(data) > mpi_frames.MOST_GIVEN_BYTES:
            most = mpi_frames.MOST_GIVEN_BYTES
            self._on_problem(f"its tasks here give {len(data)} bytes to a fence; {most} is most")
        elif self._is_alone:
            then(data)
        else:
            self._fences.setdefault(of, deque()).append(then)
            for piece, more in mpi_frames.pieces(data):
                self._send(
                    {"do": "fence", "of": of, "nodes": nodes, "data": piece, "more": more}
                )  # fmt: skip

    def ask(
        self, what: str, name: bytes, data: bytes, then: "Answered", owner: int = mpi_frames.NONE
    ) -> None:
        """Publish, look up or unpublish a name; `then` gets a status, 0 if done, and data."""
        if len(self._asked) >= mpi_frames.MOST_OPEN:
            self._on_problem(f"srun has not answered {mpi_frames.MOST_OPEN} requests")
            return
        tag = self._tag(then)
        fields = {"what": what, "name": name, "owner": owner, "data": data}
        self._send({"do": "ask", "tag": tag, **fields})

    def fetch(self, node: int, rank: int, data: bytes, then: "Answered") -> None:
        """Ask a node for what a rank of it has put."""
        tag = self._tag(then)
        self._send({"do": "fetch", "tag": tag, "node": node, "rank": rank, "data": data})

    def fetched(self, tag: int, node: int, status: int, data: bytes) -> None:
        """Answer another node's `fetch`."""
        self._send({"do": "fetched", "tag": tag, "node": node, "status": status, "data": data})

    def abort(self, text: str, status: int) -> None:
        """Have srun end the step on all nodes; nothing if there is no srun any more."""
        link = self._link_of()
        if link is not None and link.is_open:
            text = text[: mpi_frames.MOST_TEXT_BYTES]
            link.send(mpi_frames.frame({"do": "abort", "text": text, "status": status}))

    def _tag(self, then: "Answered") -> int:
        self._tags = (self._tags + 1) & 0x7FFFFFFF
        self._asked[self._tags] = then
        return self._tags

    def on_frame(self, body: bytes) -> None:
        """Take a message of srun. Raises BadStepFrame."""
        fields = mpi_frames.parse(body)
        if fields["do"] == "fence":
            self._on_part(fields["of"], fields["data"], more=fields["more"])
        elif fields["do"] in ("told", "fetched"):
            then = self._asked.pop(fields["tag"], None)
            if then is not None:
                then(fields["status"], fields["data"])
        elif fields["do"] == "fetch":
            self._on_fetch(fields["tag"], fields["node"], fields["rank"], fields["data"])
        else:
            raise step_io.BadStepFrame(f"MPI: {fields['do']} is not sent by srun")

    def _on_part(self, of: bytes, data: bytes, *, more: bool) -> None:
        part = self._parts.setdefault(of, bytearray())
        part += data
        if len(part) > self._most_gathered or of not in self._fences:
            raise step_io.BadStepFrame("MPI: fence: more than was gathered")
        if more:
            return
        waiting = self._fences[of]
        then = waiting.popleft()
        if not waiting:
            del self._fences[of]
        then(bytes(self._parts.pop(of)))
