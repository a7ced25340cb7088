"""How events of reservations change rows: each time for which one was the same is a row."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from pyslurm_ng.base.hostlist import fold_sorted
from pyslurm_ng.dbd import schema
from pyslurm_ng.dbd.ingest.session import Row, Session
from pyslurm_ng.dbd.rollup.rows import amounts
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.amounts import tres_text
from pyslurm_ng.model.license_server import license_counts
from pyslurm_ng.model.reservation import Reservation


def apply(session: Session, event: ev.AnyEvent) -> bool:
    """Apply an event of a reservation; return whether it was one."""
    match event:
        case ev.ReservationCreated() | ev.ReservationUpdated():
            _set(session, event.reservation, event.time_us)
        case ev.ReservationDeleted():
            _end(session, event.name, event.time_us)
        case _:
            return False
    session.reservation_ids.clear()
    return True


def id_of(session: Session, name: str, time_us: int) -> int:
    """Return the number of the reservation that has a name at a time, 0 if there is none."""
    if not name:
        return 0
    number = session.reservation_ids.get(name)
    if number is None:
        table = schema.reservations
        query = sa.select(table.c.reservation_id).where(
            _of(session, name), table.c.end_us > time_us
        )
        last = session.connection.execute(query.order_by(table.c.start_us.desc()).limit(1))
        number = session.reservation_ids[name] = int(last.scalar() or 0)
    return number


def end_all(connection: sa.Connection, cluster_id: int, time_us: int) -> None:
    """End the reservations of a cluster whose controller has begun anew."""
    _end_rows(connection, schema.reservations.c.cluster_id == cluster_id, time_us)


def _set(session: Session, reservation: Reservation, time_us: int) -> None:
    """Close the present row of a reservation and begin another, unless both say the same."""
    row = _row(session, reservation, time_us)
    table = schema.reservations
    query = sa.select(table).where(_of(session, reservation.name), table.c.end_us > time_us)
    open_rows = session.connection.execute(query.order_by(table.c.start_us)).all()
    if len(open_rows) == 1:
        before = dict(open_rows[0]._mapping)
        if before | {"start_us": max(before["start_us"], time_us)} == row:
            return
    _end(session, reservation.name, time_us)
    if row["end_us"] > row["start_us"]:
        session.upsert(table, ("cluster_id", "name", "start_us"), [row])


def _row(session: Session, reservation: Reservation, time_us: int) -> Row:
    names = [session.node_names.get(node_id, "") for node_id in reservation.node_ids]
    row: dict[str, Any] = {
        "cluster_id": session.cluster_id,
        "name": reservation.name,
        "start_us": max(reservation.start_us, time_us),
        "end_us": reservation.end_us,
        "reservation_id": reservation.reservation_id,
        "flags": ",".join(reservation.flags),
        "tres": tres_text({"cpu": _cpus(session, reservation), **_licenses(session, reservation)}),
        "node_list": fold_sorted(list(filter(None, names))),
        "users": ",".join(reservation.users),
        "accounts": ",".join(reservation.accounts),
    }
    return row


def _cpus(session: Session, reservation: Reservation) -> int:
    """Return how many CPUs a reservation has, of cores and of whole nodes."""
    parts = reservation.parts()
    cpus = 0
    for node_id in reservation.node_ids:
        if node_id in parts:
            threads = max(1, session.node_threads.get(node_id, 1))
            cpus += parts[node_id].cores.bit_count() * threads
        else:
            cpus += amounts(session.node_tres.get(node_id, "")).get("cpu", 0)
    return cpus


def _licenses(session: Session, reservation: Reservation) -> dict[str, int]:
    """Return the licences of a reservation that are among the cluster's TRES."""
    counts = {f"license/{name}": count for name, count in license_counts(reservation.licenses)}
    return {tres: count for tres, count in counts.items() if tres in session.tracked}


def _of(session: Session, name: str) -> sa.ColumnElement[bool]:
    table = schema.reservations
    return sa.and_(table.c.cluster_id == session.cluster_id, table.c.name == name)


def _end(session: Session, name: str, time_us: int) -> None:
    _end_rows(session.connection, _of(session, name), time_us)


def _end_rows(connection: sa.Connection, of_rows: sa.ColumnElement[bool], time_us: int) -> None:
    """Cut rows off at a time; rows that would have begun later are removed."""
    table = schema.reservations
    connection.execute(table.delete().where(of_rows, table.c.start_us >= time_us))
    connection.execute(
        table.update().where(of_rows, table.c.end_us > time_us).values(end_us=time_us)
    )
