"""srun as the place where the nodes of an MPI step meet."""

from __future__ import annotations

import pytest

from pyslurm_ng.base.poll_loop import PollLoop
from pyslurm_ng.cli.step.mpi_hub import ExchangeEnds, MpiHub, NodeExchange
from pyslurm_ng.kernels.records import pack
from pyslurm_ng.wire import mpi_frames, step_io


def part(data: bytes, of: bytes = b"", nodes: tuple[int, ...] = (), *, more: bool = False) -> bytes:
    return pack({"do": "fence", "of": of, "nodes": list(nodes), "data": data, "more": more})


def ask(what: str, name: bytes, data: bytes = b"", tag: int = 1) -> bytes:
    return pack({"do": "ask", "tag": tag, "what": what, "name": name, "owner": -1, "data": data})


def gathered(frames: list[tuple[int, bytes]]) -> dict[int, bytes]:
    """Return what each node gets in the end."""
    data: dict[int, bytes] = {}
    for node, frame in frames:
        fields = mpi_frames.parse(frame[step_io.HEAD_BYTES :])
        data[node] = data.get(node, b"") + fields["data"]
    return data


def test_all_nodes_get_all_parts() -> None:
    hub = MpiHub(3)
    assert hub.take(2, part(b"c")) == []
    assert hub.take(0, part(b"a")) == []
    assert gathered(hub.take(1, part(b"b"))) == dict.fromkeys(range(3), b"abc")


def test_a_part_may_come_in_pieces() -> None:
    hub = MpiHub(2)
    hub.take(0, part(b"a1", more=True))
    hub.take(1, part(b"b"))
    assert gathered(hub.take(0, part(b"a2"))) == dict.fromkeys(range(2), b"a1a2b")


def test_some_nodes_may_have_a_fence_of_their_own() -> None:
    """Two groups at once; a node that is first may begin the next round."""
    hub = MpiHub(4)
    assert hub.take(0, part(b"x", b"one", (0, 1))) == []
    assert hub.take(2, part(b"y", b"two", (2, 3))) == []
    assert hub.take(0, part(b"X", b"one", (0, 1))) == []
    assert gathered(hub.take(1, part(b"z", b"one", (0, 1)))) == {0: b"xz", 1: b"xz"}
    assert gathered(hub.take(1, part(b"Z", b"one", (0, 1)))) == {0: b"XZ", 1: b"XZ"}


def test_what_is_gathered_goes_out_in_pieces() -> None:
    hub = MpiHub(2)
    big = bytes(mpi_frames.PIECE_BYTES)
    hub.take(0, part(big))
    frames = hub.take(1, part(big + b"e"))
    assert gathered(frames) == dict.fromkeys(range(2), big + big + b"e")
    assert all(len(frame) <= mpi_frames.PIECE_BYTES + 100 for _, frame in frames)


def test_a_rank_that_has_ended_ends_a_fence_of_all() -> None:
    """It can never be complete. A node that has given its part is not waited for."""
    hub = MpiHub(2)
    hub.take(0, part(b"a"))
    hub.rank_ended(0, 5)
    with pytest.raises(ExchangeEnds, match="task 7 has ended, and others wait for it"):
        hub.rank_ended(1, 7)
    other = MpiHub(2)
    other.rank_ended(1, 7)
    with pytest.raises(ExchangeEnds, match="task 7"):
        other.take(0, part(b"a"))


def test_names_are_published_looked_up_and_taken_back() -> None:
    hub = MpiHub(2)

    def told(node: int, body: bytes) -> tuple[int, bytes]:
        ((to_node, frame),) = hub.take(node, body)
        assert to_node == node
        fields = mpi_frames.parse(frame[step_io.HEAD_BYTES :])
        return fields["status"], fields["data"]

    assert told(1, ask("lookup", b"ocean")) == (1, b"")
    assert told(0, ask("publish", b"ocean", b"port")) == (0, b"")
    assert told(1, ask("publish", b"ocean", b"other")) == (1, b"")
    assert told(1, ask("lookup", b"ocean")) == (0, b"port")
    assert told(1, ask("unpublish", b"ocean")) == (0, b"")
    assert told(0, ask("lookup", b"ocean")) == (1, b"")


def test_fetches_go_to_the_node_and_back() -> None:
    hub = MpiHub(3)
    ((to_node, frame),) = hub.take(
        0, pack({"do": "fetch", "tag": 4, "node": 2, "rank": 9, "data": b""})
    )
    assert to_node == 2
    assert mpi_frames.parse(frame[step_io.HEAD_BYTES :])["node"] == 0


def test_a_fetch_from_a_node_that_has_ended_is_answered() -> None:
    """The rank that asks must not wait for ever."""
    exchange = NodeExchange(MpiHub(2))
    sent: list[tuple[int, dict[str, object]]] = []

    def send(node: int, frame: bytes) -> bool:
        sent.append((node, mpi_frames.parse(frame[step_io.HEAD_BYTES :])))
        return node == 0

    exchange.begin(PollLoop(), send, pytest.fail)
    exchange.take(0, pack({"do": "fetch", "tag": 4, "node": 1, "rank": 9, "data": b""}))
    to_node, answer = sent[-1]
    assert (to_node, answer["do"], answer["tag"], answer["status"]) == (0, "fetched", 4, 1)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        pack([1]),
        pack({"do": "what"}),
        pack({"do": "told", "tag": 1, "status": 0, "data": b""}),
        part(b"", b"", (1,)),
        part(b"", b"", (0, 9)),
        pack({"do": "fence", "of": b"", "nodes": "x", "data": b"", "more": False}),
        pack({"do": "fetch", "tag": 1, "node": 7, "rank": 0, "data": b""}),
        pack({"do": "ask", "tag": 1 << 40, "what": "", "name": b"", "owner": 0, "data": b""}),
        pack({"do": "abort", "text": "", "status": 1}),
    ],
)
def test_what_no_node_may_send_ends_the_step(body: bytes) -> None:
    """A node's supervisor is checked like any other sender."""
    with pytest.raises(ExchangeEnds):
        MpiHub(2).take(0, body)
