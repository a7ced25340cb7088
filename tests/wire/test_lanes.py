from __future__ import annotations

from hypothesis import given, strategies as st

from pyslurm_ng.wire.lanes import Lanes


def test_one_users_flood_delays_another_by_one() -> None:
    """RELIABILITY 46: the second user's only request is the second one served."""
    lanes: Lanes[str] = Lanes()
    for number in range(500):
        lanes.push(1000, f"flood {number}")
    lanes.push(1001, "alone")
    assert [lanes.pop() for _ in range(3)] == [
        (1000, "flood 0"), (1001, "alone"), (1000, "flood 1"),
    ]  # fmt: skip
    assert lanes.waiting(1000) == 498
    assert lanes.waiting(1001) == 0


def test_a_heavier_lane_takes_more_per_turn() -> None:
    """Administrators come through a flood, and do not shut users out."""
    lanes: Lanes[int] = Lanes({-1: 3})
    for number in range(6):
        lanes.push(-1, number)
        lanes.push(7, number)
    assert [lanes.pop()[0] for _ in range(12)] == [-1, -1, -1, 7, -1, -1, -1, 7, 7, 7, 7, 7]


@given(st.lists(st.tuples(st.integers(-1, 4), st.booleans())))
def test_nothing_is_lost_and_each_lane_keeps_its_order(steps: list[tuple[int, bool]]) -> None:
    """In any mixture of pushing and popping."""
    lanes: Lanes[int] = Lanes({-1: 8})
    expected: dict[int, list[int]] = {}
    for number, (lane, is_push) in enumerate(steps):
        if is_push or not lanes:
            lanes.push(lane, number)
            expected.setdefault(lane, []).append(number)
        else:
            at, request = lanes.pop()
            assert expected[at].pop(0) == request
    while lanes:
        at, request = lanes.pop()
        assert expected[at].pop(0) == request
    assert not any(expected.values())


@given(
    st.lists(st.tuples(st.integers(0, 3), st.sampled_from(("push", "first", "pop", "take")))),
)
def test_a_lane_that_is_taken_away_leaves_the_others_as_they_are(
    steps: list[tuple[int, str]],
) -> None:
    """As with one list for each lane, whatever is put first or taken."""
    lanes: Lanes[int] = Lanes()
    expected: dict[int, list[int]] = {lane: [] for lane in range(4)}
    for number, (lane, step) in enumerate(steps):
        if step == "push":
            lanes.push(lane, number)
            expected[lane].append(number)
        elif step == "first":
            lanes.push_first(lane, number)
            expected[lane].insert(0, number)
        elif step == "take":
            assert [*lanes.take(lane)] == expected[lane]
            expected[lane].clear()
        elif lanes:
            at, request = lanes.pop()
            assert request == expected[at].pop(0)
        assert len(lanes) == sum(map(len, expected.values()))
    while lanes:
        at, request = lanes.pop()
        assert request == expected[at].pop(0)
