"""Unused time of reservations is charged to their members, or is planned down time."""

from __future__ import annotations

import pytest

from pyslurm_ng.dbd import schema
from pyslurm_ng.dbd.admin.change import DeniedError
from pyslurm_ng.dbd.database import Database
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.reservation import Reservation
from tests.dbd.accounting_room import (
    at,
    finished,
    listed,
    manage,
    on,
    record,
    register,
    rows,
    started,
    submitted,
)
from tests.dbd.rollup.usage_room import cluster_row, roll_up

pytestmark = pytest.mark.usefixtures("in_utc")


def reservation(begin: str, end: str, *flags: str, **more: object) -> Reservation:
    """Nodes 1 and 2, 32 CPUs, for account physics."""
    fields: dict[str, object] = {"node_ids": (0, 1), "accounts": ("physics",), **more}
    return Reservation("res", at(begin), at(end), flags=flags, **fields)  # type: ignore[arg-type]


def kept(database: Database) -> list[tuple[object, ...]]:
    """Return begin, end and TRES of the rows of reservations, in seconds since noon."""
    noon = at("12:00:00")
    return [
        ((begin - noon) // 1_000_000, (end - noon) // 1_000_000, tres)  # type: ignore[operator]
        for begin, end, tres in rows(database, schema.reservations, "start_us", "end_us", "tres")
    ]


def used(database: Database) -> dict[tuple[object, object], object]:
    """Return the CPU seconds of associations by QOS."""
    columns = ("association_id", "qos_id", "tres_id", "allocated_s")
    table = schema.association_usage["hour"]
    return {row[:2]: row[3] for row in rows(database, table, *columns) if row[2] == 1}


def test_a_change_begins_another_row(store: Database) -> None:
    """What it was until then is counted as it was."""
    record(store, ev.ReservationCreated(at("12:00:00"), reservation("12:10:00", "13:00:00")))
    assert kept(store) == [(600, 3600, "cpu=32")]
    one_node = reservation("12:10:00", "13:00:00", node_ids=(0,))
    record(store, ev.ReservationUpdated(at("12:05:00"), one_node))
    assert kept(store) == [(600, 3600, "cpu=16")]
    record(store, ev.ReservationUpdated(at("12:30:00"), reservation("12:10:00", "13:00:00")))
    assert kept(store) == [(600, 1800, "cpu=16"), (1800, 3600, "cpu=32")]
    active = reservation("12:10:00", "13:00:00", is_active=True)
    record(store, ev.ReservationUpdated(at("12:35:00"), active))
    assert len(kept(store)) == 2
    record(store, ev.ReservationDeleted(at("12:40:00"), "res"))
    assert kept(store) == [(600, 1800, "cpu=16"), (1800, 2400, "cpu=32")]


def test_a_repeated_reservation_has_a_row_for_each_time(store: Database) -> None:
    record(store, ev.ReservationCreated(at("12:00:00"), reservation("12:00:00", "12:10:00")))
    record(store, ev.ReservationUpdated(at("12:10:00"), reservation("13:00:00", "13:10:00")))
    assert [row[:2] for row in kept(store)] == [(0, 600), (3600, 4200)]


def test_cores_count_with_their_threads(store: Database) -> None:
    """A reservation may hold some cores of a node."""
    record(
        store,
        ev.ReservationCreated(
            at("12:00:00"),
            reservation("12:00:00", "13:00:00", node_ids=(0, 1), core_masks=(b"\x07", b"")),
        ),
    )
    assert kept(store) == [(0, 3600, "cpu=19")]


def test_licences_that_are_counted_are_kept(store: Database) -> None:
    """Those that are among the cluster's TRES, as `sacctmgr list reservation` of Slurm has them."""
    register(store, tres=("license/matlab",))
    licences = reservation("12:00:00", "13:00:00", node_ids=(), licenses="matlab:2,ansys:1")
    record(store, ev.ReservationCreated(at("12:00:00"), licences))
    assert kept(store) == [(0, 3600, "license/matlab=2")]


def test_members_pay_for_unused_time(store: Database) -> None:
    manage(store, "add account physics cluster=demo")
    manage(store, "add user alice account=physics cluster=demo")
    record(store, ev.ReservationCreated(at("12:00:00"), reservation("12:00:00", "12:30:00")))
    record(store, submitted(at("12:00:00"), 1))
    allocated = ev.JobAllocated(at("12:00:00"), 1, "main", (on(1, 4),), 0, 1, 1, reservation="res")
    record(store, allocated, *finished(at("12:10:00"), 1, 3, 0))
    roll_up(store, at("13:00:00"))
    unused = 32 * 1200
    account = next(
        row[0]
        for row in rows(store, schema.associations, "id", "account", "user")
        if row[1:] == ("physics", "")
    )
    assert used(store) == {(5, 1): 4 * 600, (account, 0): unused}
    assert cluster_row(store, at("12:00:00"))["allocated_s"] == 32 * 1800


def test_maintenance_is_planned_down_time(store: Database) -> None:
    record(
        store, ev.ReservationCreated(at("12:00:00"), reservation("12:00:00", "12:30:00", "MAINT"))
    )
    roll_up(store, at("13:00:00"))
    assert cluster_row(store, at("12:00:00"))["planned_down_s"] == 32 * 1800


def test_reservations_that_ignore_jobs_do_not_count(store: Database) -> None:
    flags = ("MAINT", "IGNORE_JOBS")
    record(
        store, ev.ReservationCreated(at("12:00:00"), reservation("12:00:00", "12:30:00", *flags))
    )
    roll_up(store, at("13:00:00"))
    assert set(cluster_row(store, at("12:00:00"))) == {"idle_s"}


def test_a_controller_that_begins_anew_has_no_reservations(store: Database) -> None:
    """`slurmctld -c` forgets them; they end when it registers."""
    record(store, ev.ReservationCreated(at("12:00:00"), reservation("12:00:00", "12:30:00")))
    far = Reservation("far", at("12:00:00") + 10**15, at("13:00:00") + 10**15)
    record(store, ev.ReservationCreated(at("12:00:00"), far))
    register(store, "journal-2")
    assert [row[:2] for row in kept(store)] == [(0, 1800)]


def test_reservations_are_listed_with_what_was_unused(store: Database) -> None:
    """Half of the CPUs for half an hour leave 35 of 50 minutes; conditions must all hold."""
    manage(store, "add account physics")
    record(store, ev.ReservationCreated(at("12:00:00"), reservation("12:10:00", "13:00:00")))
    job = submitted(at("12:10:00"), 1)
    record(store, job, *started(at("12:10:00"), 1, on(1, 16)), *finished(at("12:40:00"), 1, 3, 0))
    with store.write() as connection:
        connection.execute(schema.jobs.update().values(reservation="res"))
    time = "start=2026-11-20T12:00:00 end=2026-11-20T14:00:00"
    (row,) = listed(store, "reservation", time)
    (physics,) = [row["ID"] for row in listed(store, "association", "account=physics")]
    assert (row["Name"], row["TRES"], row["Associations"]) == ("res", "cpu=32", str(physics))
    assert row["UnusedWall"] == "2100.000000"
    assert len(listed(store, "reservation", f"{time} names=res nodes=n2")) == 1
    for words in ("names=other", "nodes=n4", "ids=77", "clusters=mars"):
        assert listed(store, "reservation", f"{time} {words}") == []
    assert listed(store, "reservation", "start=2026-11-20T13:30:00 end=2026-11-20T14:00:00") == []


def test_reservations_of_later_are_listed_where_no_time_is_named(store: Database) -> None:
    """As in 22.05; a period ends now where its end is not named."""
    far = Reservation("far", at("12:00:00") + 10**15, at("13:00:00") + 10**15)
    record(store, ev.ReservationCreated(at("12:00:00"), far))
    assert [row["Name"] for row in listed(store, "reservation")] == ["far"]
    assert [row["Name"] for row in listed(store, "reservation", "names=far")] == ["far"]
    assert listed(store, "reservation", "start=2026-11-20T12:00:00") == []
    assert listed(store, "reservation", "end=now") == []


def test_private_reservations_are_for_operators(store: Database) -> None:
    """PrivateData=reservations: other users may not ask, as in 22.05."""
    record(store, ev.ReservationCreated(at("12:00:00"), reservation("12:10:00", "13:00:00")))
    time = "start=2026-11-20T12:00:00 end=2026-11-20T14:00:00"
    private = frozenset(("reservations",))
    with pytest.raises(DeniedError, match="denied"):
        listed(store, "reservation", time, private=private, uid=1001, user="alice")
    assert len(listed(store, "reservation", time, uid=1001, user="alice")) == 1
    assert len(listed(store, "reservation", time, private=private)) == 1
