"""Which GPUs and which cores go together, drawn as one node of two sockets."""

from __future__ import annotations

from itertools import combinations
from math import comb

import pytest
from hypothesis import given, strategies as st

from pyslurm_ng.base.numbers import REQ_GRES_DISABLE_BIND, REQ_GRES_ENFORCE_BIND
from pyslurm_ng.model.job import JobRequest
from pyslurm_ng.model.node import Node, NodeFacts, NodeGres, NodeSpec, spec_with_facts
from pyslurm_ng.model.partition import Partition
from pyslurm_ng.sched.cons_tres.allot import allot
from pyslurm_ng.sched.cons_tres.devices import choose_devices, near_cores
from pyslurm_ng.sched.cons_tres.free_node import FreeNode
from pyslurm_ng.sched.cons_tres.select import choose
from pyslurm_ng.sched.request.need import Selection, need_of
from tests.sched.cons_tres.device_nodes import GPUS, LEFT, RIGHT, node

LINKS = ((-1, 1, 4, 1), (1, -1, 1, 4), (4, 1, -1, 1), (1, 4, 1, -1))
LINKED = NodeGres("gpu", "", 4, links=LINKS)


def given_to(
    free: FreeNode, selection: Selection | None = None, **wants: object
) -> tuple[int, int]:
    """Return the masks of cores and GPUs that a job of one node gets; (0, 0) for none."""
    request = JobRequest(nodes_min=1, nodes_max=1, **wants)  # type: ignore[arg-type]
    need = need_of(request, Partition("main", (0,)), {}, selection or Selection(with_memory=False))
    chosen = choose(need, [free])
    if chosen is None:
        return 0, 0
    alloc = allot(need, chosen)[0]
    gpus = int.from_bytes(alloc.gres[0].indexes, "little") if alloc.gres else 0
    return int.from_bytes(alloc.cores, "little"), gpus


def test_cores_are_near_the_gpus() -> None:
    """A job that gets the third GPU gets its cores on the second socket, also one by one."""
    assert given_to(node(GPUS, busy_gpus=0b0011), ntasks=1, cpus_per_task=4, gpus="1") == (
        0x0F00,
        0b0100,
    )
    assert given_to(node(GPUS, busy_gpus=0b0011), ntasks=4, gpus="1") == (0x0F00, 0b0100)
    # More cores than there are near it: the others follow.
    cores, _ = given_to(node(GPUS), ntasks=10, gpus="1")
    assert cores & 0xFF == 0xFF and cores.bit_count() == 10


def test_gpus_are_near_free_cores() -> None:
    """Where the first socket is full, a GPU of the second is taken; both sockets only if needed."""
    assert given_to(node(GPUS, busy_cores=0x00FF), ntasks=1, gpus="1") == (0x0100, 0b0100)
    assert given_to(node(GPUS), ntasks=2, gpus="2") == (0x0003, 0b0011)
    assert given_to(node(GPUS, busy_gpus=0b0001), ntasks=2, gpus="2")[1] == 0b1100


def test_best_linked_gpus_go_together() -> None:
    """Pairs with four links before those with one; a single one leaves such a pair whole."""
    assert given_to(node(LINKED), ntasks=1, gpus="2")[1] == 0b0101
    assert given_to(node(LINKED, busy_gpus=0b0001), ntasks=1, gpus="2")[1] == 0b1010
    assert given_to(node(LINKED, busy_gpus=0b0001), ntasks=1, gpus="1")[1] == 0b0100


def test_binding_can_be_enforced_or_let_go() -> None:
    """--gres-flags: enforced, a job waits for cores near its GPU; disabled, it takes any."""
    full = node(GPUS, busy_cores=0x00FF, busy_gpus=0b1100)  # cores and GPUs of different sockets
    assert given_to(full, ntasks=1, gpus="1") == (0x0100, 0b0001)
    enforced = {"flags": REQ_GRES_ENFORCE_BIND}
    full = node(GPUS, busy_cores=0x00FF, busy_gpus=0b1100)
    assert given_to(full, ntasks=1, gpus="1", **enforced) == (0, 0)
    assert given_to(node(GPUS), ntasks=9, gpus_per_node="1", **enforced) == (0, 0)
    assert given_to(node(GPUS), ntasks=9, gpus_per_node="3", **enforced)[0].bit_count() == 9
    everywhere = Selection(with_memory=False, enforces_binding=True)
    assert given_to(node(GPUS), everywhere, ntasks=9, gpus_per_node="1") == (0, 0)
    loose = given_to(node(GPUS, busy_gpus=0b0011), ntasks=4, gpus="1", flags=REQ_GRES_DISABLE_BIND)
    assert loose == (0x0303, 0b0100)


def test_enforced_binding_takes_cores_beside_every_gpu() -> None:
    """Cores of the sockets of all GPUs taken; a GPU that no free core is near is not taken."""
    enforced = {"flags": REQ_GRES_ENFORCE_BIND}
    across = node(GPUS, busy_gpus=0b1010)  # one GPU of each socket is left
    assert given_to(across, ntasks=1, cpus_per_task=2, gpus_per_node="2", **enforced) == (
        0x0101,
        0b0101,
    )
    assert given_to(node(GPUS, busy_gpus=0b1010), ntasks=6, gpus="2", **enforced)[0] == 0x0707
    full = node(GPUS, busy_cores=0x00FF)
    assert given_to(full, ntasks=2, gpus="2", **enforced) == (0x0300, 0b1100)
    assert full.gres_busy["gpu:"] == 0b1100
    assert full.gres_used["gpu:"] == 2
    full = node(GPUS, busy_cores=0x00FF)
    assert given_to(full, ntasks=2, gpus="3", **enforced) == (0, 0)
    # Without enforcement the cores may be of one socket.
    across = node(GPUS, busy_gpus=0b1010)
    assert given_to(across, ntasks=1, cpus_per_task=2, gpus_per_node="2") == (0x0003, 0b0101)


@pytest.mark.parametrize(("count", "links"), [(2, LINKS), (1, ()), (3, LINKS)])
def test_without_cores_or_links_the_lowest_are_taken(count: int, links: tuple[object, ...]) -> None:
    """Deterministic: the same state, the same devices."""
    gres = NodeGres("gpu", "", 4)
    assert choose_devices(gres, 0b1110, count, 0xFFFF, 1) == {1: 2, 2: 6, 3: 14}[count]
    assert bool(links) or count == 1


@given(
    links=st.lists(st.lists(st.integers(0, 6), min_size=6, max_size=6), min_size=6, max_size=6),
    free=st.integers(1, 63),
    count=st.integers(1, 6),
)
def test_no_other_set_has_more_links(links: list[list[int]], free: int, count: int) -> None:
    """Against all sets there are."""
    rows = tuple(tuple(max(links[a][b], links[b][a]) if a != b else -1 for b in range(6))
                 for a in range(6))  # fmt: skip
    gres = NodeGres("gpu", "", 6, links=rows)
    picked = choose_devices(gres, free, count, 0, 0)
    assert picked & ~free == 0
    assert picked.bit_count() == min(count, free.bit_count())
    numbers = [bit for bit in range(6) if free >> bit & 1]
    chosen = [bit for bit in numbers if picked >> bit & 1]

    def linked(some: tuple[int, ...] | list[int]) -> int:
        return sum(rows[a][b] for a, b in combinations(some, 2))

    if count < len(numbers):
        assert linked(chosen) == max(linked(some) for some in combinations(numbers, count))


def test_many_devices_are_chosen_one_after_another() -> None:
    """Where all sets are too many to look at, a group of well linked ones is found all the same."""
    count = 20
    rows = tuple(
        tuple(-1 if a == b else 5 if a // 10 == b // 10 else 1 for b in range(count))
        for a in range(count)
    )
    gres = NodeGres("gpu", "", count, links=rows)
    assert comb(count, 8) > 2000
    picked = choose_devices(gres, (1 << count) - 1 - 0b111, 8, 0, 0)
    assert picked in (0xFF << 10, 0xFF << 11, 0xFF << 12)


def test_where_devices_lie_is_what_the_node_says() -> None:
    """slurm.conf counts four GPUs; gres.conf on the node has a line for each."""
    spec = NodeSpec("g", cpus=16, gres=(NodeGres("gpu", "", 4),))
    lines = tuple(
        NodeGres(
            "gpu", "", 1, cores=(LEFT if at < 2 else RIGHT,), links=(LINKS[at],), first_index=at
        )
        for at in range(4)
    )
    spec_found = spec_with_facts(Node(0, spec, 2, facts=NodeFacts(gres=lines)))
    assert spec_found.gres[0].cores == (LEFT, LEFT, RIGHT, RIGHT)
    assert spec_found.gres[0].links == LINKS
    fewer = spec_with_facts(Node(0, spec, 2, facts=NodeFacts(gres=lines[:3])))
    assert fewer.gres == spec.gres
    assert near_cores(spec_found, ()) == 0


def test_devices_have_the_numbers_that_the_node_gives_them() -> None:
    """gres.conf names the types in another order than slurm.conf."""
    counted = (NodeGres("gpu", "a100", 2), NodeGres("gpu", "h200", 2, first_index=2))
    lines = (NodeGres("gpu", "h200", 2), NodeGres("gpu", "a100", 2, first_index=2))
    spec = NodeSpec("g", cpus=16, gres=counted)
    numbered = spec_with_facts(Node(0, spec, 2, facts=NodeFacts(gres=lines)))
    assert [gres.first_index for gres in numbered.gres] == [2, 0]
    assert spec_with_facts(Node(0, spec, 2, facts=NodeFacts(gres=counted))) is spec
