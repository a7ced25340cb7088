"""Nodes and partitions: reading, changing, creating and deleting."""

from __future__ import annotations

from typing import Any

from pyslurm_ng.base.error_numbers import Errno
from pyslurm_ng.base.numbers import SHOW_ALL
from pyslurm_ng.base.state_names import shown_flags
from pyslurm_ng.data_parser.json_text import seconds
from pyslurm_ng.data_parser.nodes import node_object, partition_object
from pyslurm_ng.web.call import Answer, Call
from pyslurm_ng.web.endpoints.cluster import last_update, rows_of_reply
from pyslurm_ng.web.endpoints.jobs import LIST_S, refuse_unchanged, update_time
from pyslurm_ng.web.refusal import BAD_REQUEST, NOT_FOUND, Refusal, refusal_of
from pyslurm_ng.wire.daemon_link import SlurmError

_NO_NODES: dict[str, Any] = {"nodes": [], "last_update": seconds(0)}
_NO_PARTITIONS: dict[str, Any] = {"partitions": [], "last_update": seconds(0)}


def all_nodes(call: Call) -> Answer:
    """List all nodes."""
    return _nodes(call, "")


def one_node(call: Call) -> Answer:
    """List nodes by a host list."""
    return _nodes(call, call.path["node_name"])


def _nodes(call: Call, names: str) -> Answer:
    since_s = update_time(call)
    try:
        request = {"nodes": names, "flags": SHOW_ALL}
        reply = call.controller.call("ShowNodes", request, LIST_S)
    except SlurmError as error:
        description = f"Failure to query node {names}" if names else "Failure to query nodes"
        raise refusal_of(
            error, description, "_dump_nodes", _NO_NODES, may_be_unknown=True
        ) from None
    refuse_unchanged(reply, since_s)
    rows = rows_of_reply(reply)
    for row in rows:
        row["flags"] = shown_flags(
            row["flags"], is_planned=row["is_planned"], is_blocked=row["is_blocked"]
        )
    cluster = reply["cluster_name"]
    return {"nodes": [node_object(row, cluster) for row in rows], **last_update(reply)}


def change_node(call: Call) -> Answer:
    """Change the nodes of the path."""
    return _change(call, call.path["node_name"])


def change_nodes(call: Call) -> Answer:
    """Change the nodes that the body names."""
    names = ",".join((call.body or {}).get("name") or ())
    if not names:
        raise Refusal(BAD_REQUEST, "name: no nodes are named", source="#/name/")
    return _change(call, names)


_STATES = {
    "DRAIN": "DRAIN", "DOWN": "DOWN", "RESUME": "RESUME", "UNDRAIN": "UNDRAIN", "FAIL": "FAIL",
    "FUTURE": "FUTURE", "IDLE": "IDLE", "POWER_DOWN": "POWER_DOWN", "POWER_UP": "POWER_UP",
    "POWER_DOWN_ASAP": "POWER_DOWN_ASAP", "POWER_DOWN_FORCE": "POWER_DOWN_FORCE",
    "NOT_RESPONDING": "NORESP", "REBOOT_CANCELED": "CANCEL_REBOOT",
}  # fmt: skip
"""Words of the schema that `scontrol update node state=` takes, and its word for them."""


def _change(call: Call, names: str) -> Answer:
    body = call.body or {}
    settings = {
        key: text
        for key, text in (
            ("comment", body.get("comment")),
            ("extra", body.get("extra")),
            ("gres", body.get("gres")),
            ("reason", body.get("reason")),
            ("topology", body.get("topology_str")),
            ("cpubind", _text(body.get("cpu_bind"))),
            ("availablefeatures", _list(body.get("features"))),
            ("activefeatures", _list(body.get("features_act"))),
            ("nodeaddr", _list(body.get("address"))),
            ("nodehostname", _list(body.get("hostname"))),
            ("resumeafter", optional(body.get("resume_after"))),
            ("weight", optional(body.get("weight"))),
            ("state", _state(body.get("state"))),
        )
        if text is not None
    }
    if not settings:
        raise Refusal(BAD_REQUEST, f"Failure to update node {names}: nothing to change",
                      source="_update_node")  # fmt: skip
    try:
        call.controller.change("UpdateNodes", {"nodes": names, "settings": settings})
    except SlurmError as error:
        raise refusal_of(error, f"Failure to update node {names}", "_update_node") from None
    return {}


def _state(words: list[str] | None) -> str | None:
    if not words:
        return None
    if len(words) > 1 or words[0] not in _STATES:
        raise Refusal(
            BAD_REQUEST, f"state: one of {', '.join(_STATES)} is allowed",
            Errno.ESLURM_INVALID_NODE_STATE, "#/state/",
        )  # fmt: skip
    return _STATES[words[0]]


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _list(words: list[str] | None) -> str | None:
    return None if words is None else ",".join(words)


def optional(value: dict[str, Any] | None) -> str | None:
    """Return an optional number as typed; None if it is not set."""
    if value is None:
        return None
    if value.get("infinite"):
        return "infinite"
    return str(value.get("number") or 0) if value.get("set") else None


def all_partitions(call: Call) -> Answer:
    """List all partitions."""
    return _partitions(call, "")


def one_partition(call: Call) -> Answer:
    """List one partition."""
    return _partitions(call, call.path["partition_name"])


def _partitions(call: Call, name: str) -> Answer:
    since_s = update_time(call)
    source = "_dump_partitions"
    try:
        reply = call.controller.call("ShowPartitions", {"flags": SHOW_ALL})
    except SlurmError as error:
        description = "Unable to query partitions"
        raise refusal_of(error, description, source, _NO_PARTITIONS) from None
    refuse_unchanged(reply, since_s)
    rows = [row for row in rows_of_reply(reply) if not name or row["name"] == name]
    if name and not rows:
        raise Refusal(
            NOT_FOUND, f"Unable to find partition {name[:64]}",
            Errno.ESLURM_INVALID_PARTITION_NAME, source, payload=_NO_PARTITIONS,
        )  # fmt: skip
    return {"partitions": [partition_object(row) for row in rows], **last_update(reply)}


def create_nodes(call: Call) -> Answer:
    """Create dynamic nodes, as a line of slurm.conf describes them."""
    line = str((call.body or {}).get("node_conf") or "")
    if not line:
        raise Refusal(BAD_REQUEST, "node_conf: no node is described", source="#/node_conf/")
    try:
        call.controller.change("CreateNodes", {"line": line})
    except SlurmError as error:
        raise refusal_of(error, "Failure to create nodes", "slurm_create_node()") from None
    return {}


def delete_node(call: Call) -> Answer:
    """Delete dynamic nodes that nothing uses."""
    names = call.path["node_name"]
    try:
        call.controller.change("DeleteNodes", {"nodes": names})
    except SlurmError as error:
        description = f"Failure to delete node {names}"
        raise refusal_of(error, description, "slurm_delete_node()") from None
    return {}


ROUTES = {
    ("post", "/slurm/{version}/new/node/"): create_nodes,
    ("delete", "/slurm/{version}/node/{node_name}"): delete_node,
    ("get", "/slurm/{version}/nodes/"): all_nodes,
    ("post", "/slurm/{version}/nodes/"): change_nodes,
    ("get", "/slurm/{version}/node/{node_name}"): one_node,
    ("post", "/slurm/{version}/node/{node_name}"): change_node,
    ("get", "/slurm/{version}/partitions/"): all_partitions,
    ("get", "/slurm/{version}/partition/{partition_name}"): one_partition,
}
