"""The grid kernel against its slow twin."""

from __future__ import annotations

from array import array
from copy import deepcopy
from typing import NamedTuple

from hypothesis import given, settings, strategies as st

from pyslurm_ng._select import NEVER, Grid, holding
from tests.oracle.grid import SlowGrid

CPUS, MEM = 0, 1
TIMES = [0, 1, 2, 4, 7, 11, 16, *range(20, 80, 3)]
KINDS = [
    # nodes, cpus, memory, duration
    (1, 1, 1, 1),
    (1, 2, 3, 4),
    (1, 3, 1, 20),
    (1, 2, 2, 45),
    (2, 3, 3, 33),
    (2, 2, 2, 3),
    (3, 1, 1, 9),
    (5, 4, 2, 2),
]


def hold(grid: Grid, until_us: int, *holdings: tuple[int, int, int]) -> None:
    """Let a job that runs hold (node, resource, amount)."""
    numbers = array("q", [holding(*amounts) for amounts in holdings])
    grid.hold(numbers, array("i", [0, len(numbers)]), array("q", [until_us]))


def planes_of(grid: Grid, *, exact: bool) -> tuple[list[list[int]], list[int]]:
    """Return the planes of each kind, and how many of its resources they do not tell exactly."""
    planes, inexact = [], []
    plane_of: dict[tuple[int, int], int] = {}
    for _, cpus, mem, _ in KINDS:
        keys = [(CPUS, cpus), (MEM, mem)] if exact else [(CPUS, 1)]
        for key in keys:
            if key not in plane_of:
                plane_of[key] = grid.add_plane(key[0], [key[1]])
        planes.append([plane_of[key] for key in keys])
        inexact.append(0 if exact else 2)
    return planes, inexact


@settings(deadline=None)
@given(
    nodes=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=70),
    running=st.lists(
        st.tuples(st.integers(0, 69), st.integers(1, 3), st.integers(0, 2), st.integers(0, 20)),
        max_size=12,
    ),
    jobs=st.lists(st.integers(0, len(KINDS) - 1), max_size=60),
    exact=st.booleans(),
    hidden=st.sets(st.integers(0, 69), max_size=10),
    leaves=st.booleans(),
    at_once=st.booleans(),
)
def test_finds_what_its_twin_finds(
    nodes: list[tuple[int, int]],
    running: list[tuple[int, int, int, int]],
    jobs: list[int],
    exact: bool,
    hidden: set[int],
    leaves: bool,
    at_once: bool,
) -> None:
    """Same first slots; nodes that fit and differ; rows agree in the end, none below 0."""
    grid, twin = Grid(TIMES, [0] * len(nodes), 1, 2), SlowGrid(TIMES, nodes)
    for resource in (CPUS, MEM):
        grid.set_amounts(resource, [node[resource] for node in nodes])
    if leaves:
        grid.set_leaves([index // 3 for index in range(len(nodes))])
    for node, cpus, mem, until in running:
        node %= len(nodes)
        amounts = min(cpus, twin.free[node][CPUS][0]), min(mem, twin.free[node][MEM][0])
        hold(grid, until, (node, CPUS, amounts[0]), (node, MEM, amounts[1]))
        end = max(1, len([time for time in TIMES if time < until]))
        for resource in (CPUS, MEM):
            twin.hold(node, resource, amounts[resource], 0, end)
    planes, inexact = planes_of(grid, exact=exact)
    suits = [index for index in range(len(nodes)) if index not in hidden]
    mask = bytes(index in suits for index in range(len(nodes)))
    mask_number = grid.add_mask(mask)
    kinds = [
        grid.add_kind(
            grid.add_shape([CPUS, MEM], planes[row], [[cpus, mem]], inexact[row]),
            mask_number,
            count,
            duration,
        )
        for row, (count, cpus, mem, duration) in enumerate(KINDS)
    ]
    for row in jobs:
        count, cpus, mem, duration = KINDS[row]
        slot, fitting = twin.find(suits, count, {CPUS: cpus, MEM: mem}, duration)
        number = -1
        if at_once:
            start, number = grid.place(kinds[row])
        else:
            start = grid.find(kinds[row])
        assert start == (NEVER if slot == NEVER else TIMES[slot])
        if start == NEVER:
            continue
        node_ids = grid.found()
        assert len(node_ids) == count == len(set(node_ids) & set(fitting))
        if number < 0:
            grid.take_nodes(kinds[row], node_ids, start)
        else:
            assert grid.placed(number) == node_ids
        for node in node_ids:
            twin.hold(node, CPUS, cpus, slot, twin.end(slot, duration))
            twin.hold(node, MEM, mem, slot, twin.end(slot, duration))
    for node in range(len(nodes)):
        for resource in (CPUS, MEM):
            assert grid.free_at(node, resource) == twin.free[node][resource]
            assert min(grid.free_at(node, resource)) >= 0


def twins(nodes: list[tuple[int, int]]) -> tuple[Grid, SlowGrid, list[int]]:
    """Return an idle grid, its twin, and the grid's kinds, all in the order of KINDS."""
    grid, twin = Grid(TIMES, [0] * len(nodes), 1, 2), SlowGrid(TIMES, nodes)
    for resource in (CPUS, MEM):
        grid.set_amounts(resource, [node[resource] for node in nodes])
    planes, inexact = planes_of(grid, exact=True)
    everywhere = grid.add_mask(b"\1" * len(nodes))
    kinds = [
        grid.add_kind(
            grid.add_shape([CPUS, MEM], planes[row], [[cpus, mem]], inexact[row]),
            everywhere,
            count,
            duration,
        )
        for row, (count, cpus, mem, duration) in enumerate(KINDS)
    ]
    return grid, twin, kinds


def take_both(grid: Grid, twin: SlowGrid, kind: int, row: int, first: int) -> None:
    """Take a job found by the kernel, after a look at whether its twin finds the same start."""
    count, cpus, mem, duration = KINDS[row]
    amounts = {CPUS: cpus, MEM: mem}
    start = grid.find_from(kind, TIMES[first]) if first else grid.find(kind)
    slot, fitting = twin.find(range(len(twin.amounts)), count, amounts, duration, first)
    assert start == (NEVER if slot == NEVER else TIMES[slot])
    if slot == NEVER:
        return
    node_ids = grid.found()
    assert len(node_ids) == count == len(set(node_ids) & set(fitting))
    grid.take_nodes(kind, node_ids, start)
    for node in node_ids:
        for resource, amount in amounts.items():
            twin.hold(node, resource, amount, slot, twin.end(slot, duration))


_STEP = st.tuples(st.integers(0, len(KINDS) - 1), st.integers(0, len(TIMES) - 1))


@settings(deadline=None)
@given(
    nodes=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=70),
    stretches=st.lists(
        st.tuples(st.lists(_STEP, max_size=6), st.sampled_from(["", "keep", "roll back"])),
        max_size=8,
    ),
)
def test_trials_leave_no_trace(
    nodes: list[tuple[int, int]], stretches: list[tuple[list[tuple[int, int]], str]]
) -> None:
    """Looking from a moment on, and taking back all that was taken, are as slow twins do it."""
    grid, twin, kinds = twins(nodes)
    for steps, ending in stretches:
        before = deepcopy(twin)
        if ending:
            grid.begin_trial()
        for row, first in steps:
            take_both(grid, twin, kinds[row], row, first if ending else 0)
        if ending == "keep":
            grid.keep()
        elif ending:
            grid.roll_back()
            twin = before
    for node in range(len(nodes)):
        for resource in (CPUS, MEM):
            assert grid.free_at(node, resource) == twin.free[node][resource]


@settings(deadline=None)
@given(
    nodes=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=70),
    jobs=st.lists(st.tuples(st.integers(0, len(KINDS) - 1), st.booleans()), max_size=30),
    skipped=st.lists(st.integers(0, len(TIMES) - 1), min_size=len(KINDS), max_size=len(KINDS)),
)
def test_callers_may_choose_and_skip(
    nodes: list[tuple[int, int]], jobs: list[tuple[int, bool]], skipped: list[int]
) -> None:
    """An open kind tells every node that fits; what is skipped is never found."""
    grid, twin, kinds = twins(nodes)
    for kind, slot in zip(kinds, skipped, strict=True):
        grid.leave_open(kind)
        grid.skip(kind, TIMES[slot])
    for row, takes_last in jobs:
        count, cpus, mem, duration = KINDS[row]
        amounts = {CPUS: cpus, MEM: mem}
        start = grid.find(kinds[row])
        slot, fitting = twin.find(range(len(nodes)), count, amounts, duration, skipped[row])
        assert start == (NEVER if slot == NEVER else TIMES[slot])
        if slot == NEVER:
            continue
        mask = int.from_bytes(grid.fitting(), "little")
        assert [node for node in range(len(nodes)) if mask >> node & 1] == fitting
        chosen = fitting[-count:] if takes_last else fitting[:count]
        grid.choose(kinds[row], chosen)
        assert grid.found() == chosen
        grid.take_nodes(kinds[row], chosen, start)
        for node in chosen:
            for resource, amount in amounts.items():
                twin.hold(node, resource, amount, slot, twin.end(slot, duration))


@settings(deadline=None)
@given(
    nodes=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=70),
    taken=st.lists(st.integers(0, len(KINDS) - 1), max_size=20),
    more=st.tuples(st.integers(1, 3), st.integers(0, 3)),
    most=st.integers(1, 6),
    slot=st.integers(0, len(TIMES) - 1),
)
def test_capacity_is_what_its_twin_counts(
    nodes: list[tuple[int, int]], taken: list[int], more: tuple[int, int], most: int, slot: int
) -> None:
    """The first task of a node may need other amounts than each further one."""
    grid, twin, kinds = twins(nodes)
    for row in taken:
        take_both(grid, twin, kinds[row], row, 0)
    single = kinds[1]
    _, cpus, mem, duration = KINDS[1]
    first, each = {CPUS: cpus, MEM: mem}, {CPUS: more[0], MEM: more[1]}
    amounts = [[(first[resource], each[resource]) for resource in (CPUS, MEM)]]

    def counts_at(start: int) -> list[int]:
        end = twin.end(start, duration)
        return [min(most, twin.tasks(node, first, each, start, end)) for node in range(len(nodes))]

    counts = counts_at(slot)
    rooms = grid.capacity(single, amounts, most, 1 << 40, slot)
    assert rooms == [(node, count) for node, count in enumerate(counts) if count]
    able = [node for node, count in enumerate(counts) if count]
    assert grid.tasks_on(single, able, amounts, most, slot) == [counts[node] for node in able]
    together = grid.capacities(single, amounts, most, slot)
    assert list(together) == [sum(counts_at(start)) for start in range(slot + 1)]


class _Demand(NamedTuple):
    """What `place_next` knows of a demand."""

    kind: int


class _Job(NamedTuple):
    """What it knows of a job."""

    array_pending: tuple[int, ...] = ()
    het_job_id: int = 0
    partitions: tuple[str, ...] = ("long",)
    job_id: int = 0


@settings(deadline=None)
@given(
    nodes=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=200),
    jobs=st.lists(st.tuples(st.integers(-1, len(KINDS) - 1), st.integers(0, 9)), max_size=80),
)
def test_a_stretch_is_placed_as_one_by_one(
    nodes: list[tuple[int, int]], jobs: list[tuple[int, int]]
) -> None:
    """It ends before the first job that is not plain, may start at once or never can."""
    alone, _, kinds = twins(nodes)
    grid, _, _ = twins(nodes)
    queue = [
        (0, _Job(array_pending=() if odd else (1,)), _Demand(kinds[row] if row >= 0 else -1))
        for row, odd in jobs
    ]
    at = 0
    while at < len(queue):
        starts, numbers = grid.place_next(queue, at)
        placings = array("q", bytes(numbers))
        assert len(starts) == len(placings)
        for start, number in zip(starts, placings, strict=True):
            assert alone.place(queue[at][2].kind) == (start, number)
            assert alone.placed(number) == grid.placed(number)
            at += 1
        if at < len(queue):
            kind = queue[at][2].kind
            start, number = alone.place(kind) if kind >= 0 else (0, -1)
            assert number < 0 or queue[at][1].array_pending
            if kind >= 0:
                assert grid.place(kind) == (start, number)
                if start == TIMES[0]:
                    alone.take_nodes(kind, alone.found(), start)
                    grid.take_nodes(kind, grid.found(), start)
            at += 1
    assert_alike(alone, grid, len(nodes))


def assert_alike(alone: Grid, grid: Grid, nodes: int) -> None:
    assert alone.all_placed() == grid.all_placed()
    for node in range(nodes):
        for resource in (CPUS, MEM):
            assert alone.free_at(node, resource) == grid.free_at(node, resource)


@settings(deadline=None)
@given(
    nodes=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=100),
    jobs=st.lists(
        st.tuples(st.integers(0, len(KINDS) - 1), st.sampled_from(b"\0\0\0\1\1\2")), max_size=80
    ),
    apart=st.sets(st.integers(0, 79), max_size=2),
)
def test_jobs_that_are_kept_no_room_only_get_their_start(
    nodes: list[tuple[int, int]], jobs: list[tuple[int, int]], apart: set[int]
) -> None:
    """Others hold their room.

    The stretch ends at marks above 1 and at jobs that are planned alone.
    """
    alone, _, kinds = twins(nodes)
    grid, _, _ = twins(nodes)
    queue = [(0, _Job(job_id=at), _Demand(kinds[row])) for at, (row, _) in enumerate(jobs)]
    keeps = bytes(mark for _, mark in jobs)
    at = 0
    while at < len(queue):
        starts, numbers = grid.place_next(queue, at, keeps, dict.fromkeys(apart))
        placings = list(array("q", bytes(numbers)))
        for start in starts:
            kind = queue[at][2].kind
            assert at not in apart
            if keeps[at]:
                assert alone.place(kind) == (start, placings.pop(0))
            else:
                assert alone.find(kind) == start > TIMES[0]
            at += 1
        assert not placings
        if at < len(queue):
            kind, start = queue[at][2].kind, alone.find(queue[at][2].kind)
            assert at in apart or keeps[at] > 1 or start in (TIMES[0], NEVER)
            assert grid.find(kind) == start
            at += 1
    assert_alike(alone, grid, len(nodes))


def test_wide_jobs_use_few_leaves() -> None:
    """The tightest leaf that holds a job is chosen; a wider one takes the fewest leaves."""
    grid = Grid([0, 10], [0] * 9, 1, 1)
    grid.set_amounts(0, [1] * 9)
    grid.set_leaves([0, 0, 0, 0, 1, 1, 2, 2, 2])
    plane = grid.add_plane(0, [1])
    shape = grid.add_shape([0], [plane], [[1]], 0)
    every = grid.add_mask(b"\1" * 9)
    two, five = (grid.add_kind(shape, every, count, 5) for count in (2, 5))
    assert grid.find(two) == 0
    assert sorted(grid.found()) == [4, 5]
    grid.take_nodes(two, grid.found(), 0)
    assert grid.find(five) == 0
    assert sorted(grid.found()) == [0, 1, 2, 3, 6]


def test_required_nodes_are_among_those_found() -> None:
    """A job that names a node waits for it, and takes others as they come."""
    grid = Grid([0, 10], [0] * 4, 1, 1)
    grid.set_amounts(0, [1] * 4)
    hold(grid, 10, (2, 0, 1))
    plane = grid.add_plane(0, [1])
    shape = grid.add_shape([0], [plane], [[1]], 0)
    kind = grid.add_kind(shape, grid.add_mask(b"\1" * 4), 2, 5, grid.add_mask(b"\0\0\1\0"))
    assert grid.find(kind) == 10
    assert sorted(grid.found()) == [0, 2]


def test_capacity_counts_tasks_per_node() -> None:
    """A node holds as many tasks as its scarcest amount allows."""
    grid = Grid([0, 10], [0, 0, 0], 1, 2)
    grid.set_amounts(0, [8, 8, 1])
    grid.set_amounts(1, [100, 30, 100])
    plane = grid.add_plane(0, [2])
    shape = grid.add_shape([1, 0], [plane], [[10, 2]], 1)
    kind = grid.add_kind(shape, grid.add_mask(b"\1\1\1"), 1, 5)
    alike = [[(10, 10), (2, 2)]]
    assert grid.capacity(kind, alike, 100, 100) == [(0, 4), (1, 3)]
    assert grid.capacity(kind, alike, 100, 4) == [(0, 4)]
    assert grid.tasks_on(kind, [1, 0], alike, 100) == [3, 4]
    # Two tasks share a core of two threads: the second of each pair costs nothing more.
    assert grid.capacity(kind, [[(10, 10), (1, 1)]], 100, 100) == [(0, 8), (1, 3)]


@settings(deadline=None)
@given(
    slots=st.integers(1, 40),
    takes=st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 39), st.integers(1, 40), st.integers(1, 3)),
        max_size=60,
    ),
    kept=st.integers(0, 60),
)
def test_rows_say_what_slots_would(
    slots: int, takes: list[tuple[int, int, int, int]], kept: int
) -> None:
    """However many steps a row has: takes from any moment to any, the last of them given back."""
    times = list(range(slots))
    nodes = [(20, 0), (0, 9), (5, 5), (64, 64)]
    grid, twin = Grid(times, [0] * 4, 1, 2), SlowGrid(times, nodes)
    for resource in (CPUS, MEM):
        grid.set_amounts(resource, [node[resource] for node in nodes])
    plane = grid.add_plane(CPUS, [3])
    shape = grid.add_shape([CPUS], [plane], [[3]], 0)
    kind = grid.add_kind(shape, grid.add_mask(b"\1" * 4), 1, 2)
    for at, (node, begin, duration, amount) in enumerate(takes):
        begin %= slots
        if at == kept:
            grid.begin_trial()
        for resource in (CPUS, MEM):
            grid.take(node, resource, amount, begin, begin + duration)
            if at < kept and nodes[node][resource]:
                twin.hold(node, resource, amount, begin, min(slots, begin + duration))
    if len(takes) > kept:
        grid.roll_back()
    for node in range(4):
        for resource in (CPUS, MEM):
            assert grid.free_at(node, resource) == twin.free[node][resource]
    slot, fitting = twin.find(range(4), 1, {CPUS: 3}, 2)
    assert grid.find(kind) == slot
    assert slot == NEVER or grid.found() == fitting[:1]
