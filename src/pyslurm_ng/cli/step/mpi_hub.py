"""Where what the nodes of an MPI step exchange comes together: in srun.

Every node has a connection to srun already. A collective is complete when each of its nodes has
given its part; then each gets all parts, in the order of nodes. Names that ranks publish are kept
here. With several components the process above their sruns is the hub (`het_exchange`).
"""

from pyslurm_ng.wire import mpi_frames, step_io

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from pyslurm_ng.base.poll_loop import PollLoop

_MOST_NAMES = 65536
_MOST_PUBLISHED_BYTES = 64 << 20


class ExchangeEnds(Exception):
    """The step has to end; the text is for its user, and may be empty."""


class _Round:
    """One collective: who takes part, and what they have given."""

    __slots__ = ("complete", "members", "parts")

    def __init__(self, members: "frozenset[int]") -> None:
        self.members = members
        self.parts: dict[int, bytearray] = {}
        self.complete: set[int] = set()


class MpiHub:
    """Passes messages on; it does no input or output itself.

    Args:
        node_count: how many nodes the step has, over all components.
    """

    def __init__(self, node_count: int) -> None:
        self._all = frozenset(range(node_count))
        self._rounds: dict[bytes, list[_Round]] = {}
        self._names: dict[bytes, bytes] = {}
        self._published_bytes = 0
        self._ended: dict[int, int] = {}  # a rank that has ended, by node

    def take(self, node: int, body: bytes) -> "list[tuple[int, bytes]]":
        """Take a message of a node; return frames for nodes.

        Raises:
            ExchangeEnds: the step has to end.
        """
        try:
            fields = mpi_frames.parse(body)
        except step_io.BadStepFrame as problem:
            raise ExchangeEnds(f"node {node}: {problem}") from None
        if fields["do"] == "fence":
            return self._fence(node, fields)
        if fields["do"] == "ask":
            return [(node, self._name(fields))]
        if fields["do"] in ("fetch", "fetched") and fields["node"] in self._all:
            return [(fields["node"], mpi_frames.frame({**fields, "node": node}))]
        if fields["do"] == "abort":
            raise ExchangeEnds(fields["text"])
        raise ExchangeEnds(f"node {node}: MPI: {fields['do']} is not sent by nodes")

    def rank_ended(self, node: int, rank: int) -> None:
        """Note that a rank has ended. Raises ExchangeEnds if others wait for it."""
        self._ended.setdefault(node, rank)
        self._check_world()

    def _check_world(self) -> None:
        """A fence of all ranks cannot be complete once one of them has ended."""
        for each in self._rounds.get(b"", ()):
            for node, rank in self._ended.items():
                if node not in each.complete:
                    raise ExchangeEnds(f"task {rank} has ended, and others wait for it")

    def _fence(self, node: int, fields: "dict[str, Any]") -> "list[tuple[int, bytes]]":
        members = frozenset(fields["nodes"]) or self._all
        if node not in members or not members <= self._all:
            raise ExchangeEnds(f"node {node}: a fence of nodes that are not there")
        rounds = self._rounds.setdefault(fields["of"], [])
        each = next((each for each in rounds if node not in each.complete), None)
        if each is None:
            each = _Round(members)
            rounds.append(each)
            if sum(map(len, self._rounds.values())) > mpi_frames.MOST_OPEN:
                raise ExchangeEnds(f"more than {mpi_frames.MOST_OPEN} fences at once")
        if each.members != members:
            raise ExchangeEnds(f"node {node}: others take part in this fence with other nodes")
        part = each.parts.setdefault(node, bytearray())
        part += fields["data"]
        if sum(map(len, each.parts.values())) > mpi_frames.MOST_GATHERED_BYTES:
            raise ExchangeEnds(f"more than {mpi_frames.MOST_GATHERED_BYTES} bytes in a fence")
        if fields["more"]:
            return []
        each.complete.add(node)
        if each.complete == each.members:
            rounds.remove(each)
            if not rounds:
                del self._rounds[fields["of"]]
            return self._gathered(fields["of"], each)
        self._check_world()
        return []

    @staticmethod
    def _gathered(of: bytes, each: _Round) -> "list[tuple[int, bytes]]":
        data = b"".join(bytes(each.parts[node]) for node in sorted(each.members))
        frames = [
            mpi_frames.frame({"do": "fence", "of": of, "nodes": [], "data": piece, "more": more})
            for piece, more in mpi_frames.pieces(data)
        ]
        return [(node, frame) for node in sorted(each.members) for frame in frames]

    def _name(self, fields: "dict[str, Any]") -> bytes:
        """Publish, look up or unpublish; return the answer."""
        name, status, data = fields["name"], 0, b""
        if fields["what"] == "publish":
            size = self._published_bytes + len(fields["data"])
            is_full = len(self._names) >= _MOST_NAMES or size > _MOST_PUBLISHED_BYTES
            if name in self._names or is_full:
                status = 1
            else:
                self._names[name] = fields["data"]
                self._published_bytes = size
        elif name not in self._names:
            status = 1
        elif fields["what"] == "unpublish":
            self._published_bytes -= len(self._names.pop(name))
        else:
            data = self._names[name]
        return mpi_frames.frame(
            {"do": "told", "tag": fields["tag"], "status": status, "data": data}
        )  # fmt: skip


class NodeExchange:
    """A step's nodes on one side, the hub on the other: here both are in one srun."""

    def __init__(self, hub: MpiHub) -> None:
        self._hub = hub
        self._send: Callable[[int, bytes], bool] = lambda node, frame: False
        self._end: Callable[[str], None] = lambda text: None

    def begin(
        self,
        loop: "PollLoop",
        send: "Callable[[int, bytes], bool]",
        end: "Callable[[str], None]",
    ) -> None:
        """Serve from now on.

        Args:
            send: takes a node and a frame; returns whether the node is still there.
            end: takes a text that says why the step ends.
        """
        self._send, self._end = send, end

    def take(self, node: int, body: bytes) -> None:
        """Take a message of a node."""
        try:
            frames = self._hub.take(node, body)
        except ExchangeEnds as problem:
            self._end(str(problem))
            return
        for to_node, frame in frames:
            if not self._send(to_node, frame):
                self._refuse(to_node, frame)

    def _refuse(self, node: int, frame: bytes) -> None:
        """Answer for a node that has ended."""
        answer = mpi_frames.refusal(mpi_frames.parse(frame[step_io.HEAD_BYTES :]))
        if answer is not None:
            self.take(node, mpi_frames.frame(answer)[step_io.HEAD_BYTES :])

    def rank_ended(self, node: int, rank: int) -> None:
        """Note that a rank has ended."""
        try:
            self._hub.rank_ended(node, rank)
        except ExchangeEnds as problem:
            self._end(str(problem))

    def end_others(self) -> None:
        """End the other components: there are none."""
