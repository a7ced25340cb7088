"""Places for the functions of a site's burst buffers."""

from __future__ import annotations

import asyncio

from pyslurm_ng.ctld.burst_buffers.turns import Turns


def test_users_take_places_in_turn_and_none_takes_more_than_its_share() -> None:
    """Three places, two at most for each; what waits of one user holds no other user up."""

    async def scene() -> list[str]:
        turns, order = Turns(3, 2), list[str]()

        async def work(uid: int, number: int) -> None:
            await turns.take(uid)
            order.append(f"{uid}.{number}")

        tasks = [asyncio.create_task(work(1, number)) for number in range(1000)]
        await asyncio.sleep(0)
        assert (order, turns.waiting(1)) == (["1.0", "1.1"], 998)
        tasks += [asyncio.create_task(work(2, number)) for number in range(2)]
        await asyncio.sleep(0)
        assert order[2:] == ["2.0"]
        turns.leave(1)
        await asyncio.sleep(0)
        turns.leave(1)
        await asyncio.sleep(0)
        assert sorted(order[3:]) == ["1.2", "2.1"]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return order

    assert len(asyncio.run(scene())) == 5


def test_a_place_is_not_lost_when_who_waits_for_it_goes() -> None:
    async def scene() -> None:
        turns = Turns(1, 1)
        await turns.take(1)
        gone = asyncio.create_task(turns.take(1))
        stays = asyncio.create_task(turns.take(1))
        await asyncio.sleep(0)
        gone.cancel()
        await asyncio.sleep(0)
        turns.leave(1)
        await asyncio.wait([stays], timeout=10)
        assert stays.done()

    asyncio.run(scene())


def test_calls_of_the_controller_itself_have_turns() -> None:
    """They are of no user; -1 stands for it."""
    turns = Turns(1, 1)
    asyncio.run(asyncio.wait_for(turns.take(-1), 10))
    assert turns.waiting(-1) == 0
