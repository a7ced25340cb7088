"""Usage of before a new state of a controller, from stored hours, days and the jobs since."""

from __future__ import annotations

import math

import msgspec
import pytest

from pyslurm_ng.dbd.database import Database
from pyslurm_ng.dbd.reports.share_usage import share_usage
from pyslurm_ng.model import events as ev
from pyslurm_ng.wire.dbd_messages import ReadUsage
from tests.dbd.accounting_room import (
    SECOND,
    at,
    finished,
    manage,
    on,
    record,
    started,
    submitted,
)
from tests.dbd.rollup.usage_room import roll_up

pytestmark = pytest.mark.usefixtures("in_utc")
HOUR_S = 3600
ROOT_USER = 2  # the association below that of account root, which is 1
HALF_LIFE_S = 6 * HOUR_S


def ran(first: int, last: int, job_id: int, cpus: int = 4) -> list[ev.AnyEvent]:
    """A job of user root without waiting."""
    return [
        msgspec.structs.replace(submitted(first, job_id), assoc_id=ROOT_USER),
        *started(first, job_id, on(1, cpus)),
        *finished(last, job_id, 3, 0),
    ]


def used_cpu_s(
    database: Database, until: int, *, half_life_s: int = 0, since: int = 0
) -> dict[tuple[str, int | str], int]:
    """Return the CPU seconds of each owner."""
    with database.read() as connection:
        stored = share_usage(connection, ReadUsage("demo", since, until, half_life_s))
    return {(used.kind, used.owner): used.tres_s["cpu"] for used in stored.owners}


def test_stored_hours_and_the_jobs_since_are_added_up(store: Database) -> None:
    """To the last second where usage lasts; accounts above have what is below them."""
    record(store, *ran(at("12:30:00"), at("14:10:00"), 1))
    record(store, *ran(at("14:59:00"), at("15:01:00"), 2))
    expected = 4 * (6000 + 120)
    roll_up(store, at("14:30:00"))
    assert set(used_cpu_s(store, at("14:59:30")).values()) == {4 * (6000 + 30)}
    for done in ("14:59:59", "15:00:00", "16:00:00"):
        roll_up(store, at(done))
        used = used_cpu_s(store, at("16:30:00"))
        assert set(used.values()) == {expected}, done
        assert set(used) == {("qos", "normal"), ("assoc", 1), ("assoc", ROOT_USER)}


@pytest.mark.parametrize("days", [0, 5])
def test_usage_fades_as_in_the_controller(store: Database, days: int) -> None:
    """Within the rounding of a stored period: the job of an hour fills it."""
    record(store, *ran(at("12:00:00"), at("13:00:00"), 1))
    until = at("16:00:00") + days * 24 * HOUR_S * SECOND
    roll_up(store, until)
    half_life_s = HALF_LIFE_S * (8 if days else 1)
    log_kept = math.log1p(-0.693 / half_life_s)
    age_s = (until - at("13:00:00")) / SECOND
    exact = 4 * math.expm1(HOUR_S * log_kept) / log_kept * math.exp(age_s * log_kept)
    used = used_cpu_s(store, until, half_life_s=half_life_s)
    assert used["qos", "normal"] == pytest.approx(exact, rel=0.08 if days else 1e-3)
    assert set(used.values()) == {used["qos", "normal"]}


def test_what_was_reset_or_is_older_does_not_count(store: Database) -> None:
    """PriorityUsageResetPeriod, RawUsage=0 of an account, and UsageFactor."""
    record(store, *ran(at("12:00:00"), at("13:00:00"), 1))
    record(store, *ran(at("14:00:00"), at("15:00:00"), 2))
    roll_up(store, at("16:00:00"))
    assert set(used_cpu_s(store, at("16:00:00"), since=at("13:30:00")).values()) == {4 * HOUR_S}
    assert manage(store, "modify qos normal set UsageFactor=0.5").exit_code == 0
    assert set(used_cpu_s(store, at("16:00:00")).values()) == {4 * HOUR_S}
    # The reset is of now, long after these hours.
    assert manage(store, "modify account root set RawUsage=0").exit_code == 0
    assert set(used_cpu_s(store, at("16:00:00"))) == {("qos", "normal")}
