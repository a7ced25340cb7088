"""Reservations: reading, creating, changing and deleting."""

from __future__ import annotations

from typing import Any

from pyslurm_ng.base.error_numbers import Errno
from pyslurm_ng.base.numbers import SECOND_US
from pyslurm_ng.data_parser.json_text import seconds
from pyslurm_ng.data_parser.reservations import reservation_object
from pyslurm_ng.web.call import Answer, Call
from pyslurm_ng.web.endpoints.cluster import last_update, rows_of_reply
from pyslurm_ng.web.endpoints.jobs import refuse_unchanged, update_time
from pyslurm_ng.web.endpoints.nodes import optional
from pyslurm_ng.web.refusal import BAD_REQUEST, NOT_FOUND, Refusal, refusal_of
from pyslurm_ng.wire.daemon_link import SlurmError

OWN_KEYS = ("allowed_partitions", "comment", "qos")
"""Of scontrol show reservation --json; the schemas of REST do not have them."""
_NONE: dict[str, Any] = {"reservations": [], "last_update": seconds(0)}


def all_reservations(call: Call) -> Answer:
    """List all reservations."""
    return _listed(call, "")


def one_reservation(call: Call) -> Answer:
    """List one reservation."""
    return _listed(call, call.path["reservation_name"])


def _listed(call: Call, name: str) -> Answer:
    since_s = update_time(call)
    source = "_dump_reservations"
    try:
        reply = call.controller.call("ShowReservations", {})
    except SlurmError as error:
        raise refusal_of(error, "Unable to query reservations", source, _NONE) from None
    refuse_unchanged(reply, since_s)
    rows = [row for row in rows_of_reply(reply) if not name or row["name"] == name]
    if name and not rows:
        raise Refusal(
            NOT_FOUND, f"Unable to find reservation {name[:64]}",
            Errno.ESLURM_RESERVATION_INVALID, source, payload=_NONE,
        )  # fmt: skip
    records = [reservation_object(row) for row in rows]
    for record in records:
        for key in OWN_KEYS:
            del record[key]
    return {"reservations": records, **last_update(reply)}


def delete_reservation(call: Call) -> Answer:
    """Delete a reservation that no running job uses."""
    name = call.path["reservation_name"]
    try:
        call.controller.change("DeleteReservation", {"name": name})
    except SlurmError as error:
        description = f"Failure to delete reservation {name}"
        raise refusal_of(error, description, "slurm_delete_reservation()") from None
    return {}


def make_reservation(call: Call) -> Answer:
    """Create or change the reservation of the body."""
    return {"reservations": [_make(call, call.body or {})]}


def make_reservations(call: Call) -> Answer:
    """Create or change the reservations of the body, in its order."""
    bodies = (call.body or {}).get("reservations") or []
    if not bodies:
        raise Refusal(BAD_REQUEST, "reservations: none are named", source="#/reservations/")
    return {"reservations": [_make(call, body) for body in bodies]}


def _make(call: Call, body: dict[str, Any]) -> dict[str, Any]:
    """Create a reservation, or change the one that has the name; return what was asked, named."""
    settings = {key: text for key, text in _settings(body) if text is not None}
    name = body.get("name") or ""
    try:
        is_known = bool(name) and name in {
            row["name"] for row in rows_of_reply(call.controller.call("ShowReservations", {}))
        }
        request = {"name": name, "settings": settings, "create": not is_known}
        answer = call.controller.change("UpdateReservation", request)
    except SlurmError as error:
        description = f"Failure to create reservation {name}".rstrip()
        raise refusal_of(error, description, "slurm_create_reservation()") from None
    return {**body, "name": answer["name"]}


def _settings(body: dict[str, Any]) -> list[tuple[str, str | None]]:
    return [
        ("accounts", _list(body.get("accounts"))),
        ("burstbuffer", body.get("burst_buffer")),
        ("comment", body.get("comment")),
        ("corecnt", optional(body.get("core_count"))),
        ("duration", optional(body.get("duration"))),
        ("endtime", _moment(body.get("end_time"))),
        ("features", body.get("features")),
        ("flags", _list(body.get("flags"))),
        ("groups", _list(body.get("groups"))),
        ("licenses", _list(body.get("licenses"))),
        ("maxstartdelay", optional(body.get("max_start_delay"))),
        ("nodecnt", optional(body.get("node_count"))),
        ("nodes", _list(body.get("node_list"))),
        ("partitionname", body.get("partition")),
        ("starttime", _moment(body.get("start_time"))),
        ("tres", _tres(body.get("tres"))),
        ("users", _list(body.get("users"))),
    ]


def _list(words: list[str] | None) -> str | None:
    return None if words is None else ",".join(words)


def _moment(value: dict[str, Any] | None) -> str | None:
    """Return a moment as the daemon takes it, in microseconds."""
    text = optional(value)
    return None if text is None or not text.isdecimal() else str(int(text) * SECOND_US)


def _tres(rows: list[dict[str, Any]] | None) -> str | None:
    if rows is None:
        return None
    words = []
    for row in rows:
        name = f"/{row['name']}" if row.get("name") else ""
        words.append(f"{row.get('type') or ''}{name}={row.get('count') or 0}")
    return ",".join(words)


ROUTES = {
    ("get", "/slurm/{version}/reservations/"): all_reservations,
    ("post", "/slurm/{version}/reservations/"): make_reservations,
    ("post", "/slurm/{version}/reservation"): make_reservation,
    ("get", "/slurm/{version}/reservation/{reservation_name}"): one_reservation,
    ("delete", "/slurm/{version}/reservation/{reservation_name}"): delete_reservation,
}
