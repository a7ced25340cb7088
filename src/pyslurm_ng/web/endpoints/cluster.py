"""ping, diag, licenses, shares, conf and reconfigure."""

from __future__ import annotations

import time
from typing import Any

from pyslurm_ng.base.numbers import SECOND_US
from pyslurm_ng.data_parser.configuration import pairs_of, slurm_conf, slurm_conf_meta
from pyslurm_ng.data_parser.diag import statistics
from pyslurm_ng.data_parser.nodes import license_object
from pyslurm_ng.data_parser.records import Table
from pyslurm_ng.data_parser.shares import shares
from pyslurm_ng.web.call import Answer, Call
from pyslurm_ng.web.refusal import refusal_of
from pyslurm_ng.wire.daemon_link import SlurmError, controller_hosts

OWN_COUNTERS = ("faults_by_kind", "connections", "backed_off_by_user")
"""Of sdiag --json; the schemas of REST do not have them."""


def ping(call: Call) -> Answer:
    """Ask the controller whether it answers; standby controllers do not answer."""
    hosts = [name for name, _ in controller_hosts(call.daemons.conf.get("SlurmctldHost", ""))]
    begin_ns = time.monotonic_ns()
    try:
        call.controller.call("Ping", {})
        is_up = True
    except SlurmError:
        is_up = False
    latency_us = (time.monotonic_ns() - begin_ns) // 1000
    rows = []
    for index, host in enumerate(hosts or ["localhost"]):
        responds = is_up and not index
        rows.append({
            "hostname": host,
            "responding": responds,
            "latency": latency_us if responds else -1,
            "primary": not index,
            "status": "No error" if responds else "Communication connection failure",
            # Up to v0.0.44.
            "pinged": "UP" if responds else "DOWN",
            "mode": "primary" if not index else f"backup{index}",
        })  # fmt: skip
    if call.version >= "v0.0.45":
        for row in rows:
            del row["pinged"], row["mode"]
    return {"pings": rows}


def diagnostics(call: Call) -> Answer:
    """Return the counters of sdiag."""
    try:
        reply = call.controller.call("ShowDiagnostics", {})
    except SlurmError as error:
        raise refusal_of(error, "Unable to query statistics", "slurm_get_statistics()") from None
    counters = statistics(reply)
    for name in OWN_COUNTERS:
        counters.pop(name, None)
    return {"statistics": counters}


def licenses(call: Call) -> Answer:
    """Return all licences."""
    try:
        reply = call.controller.call("ShowLicenses", {"names": []})
    except SlurmError as error:
        raise refusal_of(error, "Unable to query licenses", "slurm_load_licenses()") from None
    rows = rows_of_reply(reply)
    if not rows:
        call.warn("Zero licenses to dump", "_dump_licenses")
    return {"licenses": [license_object(row) for row in rows], **last_update(reply)}


def fair_shares(call: Call) -> Answer:
    """Return the associations' shares; `accounts` and `users` choose some."""
    request = {
        "parts": ["assoc"],
        "accounts": _words(call.query.get("accounts", "")),
        "users": _words(call.query.get("users", "")),
    }
    try:
        reply = call.controller.call("ShowAssociations", request)
    except SlurmError as error:
        description = "Unable to query shares"
        raise refusal_of(error, description, "slurm_associations_get_shares()") from None
    rows = reply["associations"]
    for name, field in (("accounts", "account"), ("users", "user")):
        if request[name]:
            rows = [row for row in rows if row[field] in request[name]]
    return {"shares": shares(rows, reply)}


def configuration(call: Call) -> Answer:
    """Return slurm.conf as the controller uses it."""
    try:
        reply = call.controller.call("ShowConfig", {})
    except SlurmError as error:
        raise refusal_of(error, "Unable to query slurm.conf", "slurm_load_ctl_conf()") from None
    pairs = pairs_of(reply["lines"])
    now_s = reply["now_us"] // SECOND_US
    return {
        "slurm_conf": slurm_conf(pairs, call.version),
        "slurm_conf_meta": slurm_conf_meta(pairs, now_s, call.version),
    }


def reconfigure(call: Call) -> Answer:
    """Let the controller read its files again."""
    try:
        call.controller.change("Reconfigure", {})
    except SlurmError as error:
        description = "slurm_reconfigure() failed"
        raise refusal_of(error, description, "op_handler_reconfigure") from None
    return {}


def rows_of_reply(reply: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of a reply by field name."""
    return Table(reply["fields"], reply["records"], reply["fields"]).dicts()


def last_update(reply: dict[str, Any]) -> dict[str, Any]:
    """Return when the records of a reply changed."""
    from pyslurm_ng.data_parser.json_text import seconds

    return {"last_update": seconds(reply["last_update_us"])}


def _words(text: str) -> list[str]:
    return [word for word in text.split(",") if word]


ROUTES = {
    ("get", "/slurm/{version}/ping/"): ping,
    ("get", "/slurm/{version}/diag/"): diagnostics,
    ("get", "/slurm/{version}/licenses/"): licenses,
    ("get", "/slurm/{version}/shares"): fair_shares,
    ("get", "/slurm/{version}/conf"): configuration,
    ("get", "/slurm/{version}/reconfigure/"): reconfigure,
}
