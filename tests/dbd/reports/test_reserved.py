"""What jobs used of reservations that come again and again."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import pytest

from pyslurm_ng.dbd.reports import reserved
from pyslurm_ng.dbd.reports.reserved import UsedWhile

SECOND = 1_000_000


def row(name: str, start_s: int, end_s: int) -> Any:
    return SimpleNamespace(name=name, start_us=start_s * SECOND, end_us=end_s * SECOND)


def job(reservation: str, start_s: int, end_s: int, cpus: int = 1) -> Any:
    return SimpleNamespace(
        reservation=reservation,
        start_us=start_s * SECOND,
        end_us=end_s * SECOND,
        tres_allocated=f"cpu={cpus}",
    )


@pytest.mark.parametrize("seed", range(20))
def test_each_job_counts_in_the_rows_that_it_ran_in(seed: int) -> None:
    """The same as by comparing each job with each row; an end of 0 is still to come."""
    draw = random.Random(seed)
    names = ["daily", "once"]

    def span() -> tuple[int, int]:
        start_s = draw.randrange(1, 100)
        return start_s, draw.choice([0, start_s, start_s + draw.randrange(50)])

    rows = [row(draw.choice(names), *span()) for _ in range(12)]
    jobs = [job(draw.choice([*names, "gone"]), *span(), draw.randrange(1, 9)) for _ in range(40)]
    used = UsedWhile(rows)
    for ended in jobs:
        used.count(ended)
    for own, seconds in zip(rows, used.seconds, strict=True):
        most = 2**62
        expected = 0
        for ended in jobs:
            if ended.reservation != own.name:
                continue
            end_s = own.end_us // SECOND or most
            last_s = min(ended.end_us // SECOND or end_s, end_s)
            ran_s = max(0, last_s - max(ended.start_us, own.start_us) // SECOND)
            expected += ran_s * int(ended.tres_allocated.removeprefix("cpu="))
        assert seconds.get("cpu", 0) == expected


def test_a_job_is_compared_with_few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reservation of each day has hundreds of rows, and anybody may ask."""
    read = []

    def counted(text: str) -> dict[str, int]:
        read.append(text)
        return {"cpu": 1}

    monkeypatch.setattr(reserved, "amounts", counted)
    used = UsedWhile([row("daily", day * 100 + 1, day * 100 + 99) for day in range(365)])
    for day in range(365):
        used.count(job("daily", day * 100 + 10, day * 100 + 20))
    assert len(read) <= 2 * 365
    assert all(seconds == {"cpu": 10} for seconds in used.seconds)
