"""Creating, changing and deleting partitions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyslurm_ng.web.call import Answer, Call
from pyslurm_ng.web.endpoints.cluster import rows_of_reply
from pyslurm_ng.web.refusal import BAD_REQUEST, Refusal, refusal_of
from pyslurm_ng.wire.daemon_link import SlurmError

_SOURCE = "slurm_update_partition()"
_KEYS: Mapping[tuple[str, ...], str] = {
    ("nodes", "configured"): "nodes", ("nodes", "allowed_allocation"): "allocnodes",
    ("accounts", "allowed"): "allowaccounts", ("accounts", "deny"): "denyaccounts",
    ("groups", "allowed"): "allowgroups", ("qos", "allowed"): "allowqos",
    ("qos", "deny"): "denyqos", ("qos", "assigned"): "qos", ("alternate",): "alternate",
    ("tres", "billing_weights"): "tresbillingweights",
    ("defaults", "partition_memory_per_cpu"): "defmempercpu",
    ("defaults", "partition_memory_per_node"): "defmempernode",
    ("defaults", "time"): "defaulttime", ("defaults", "job"): "jobdefaults",
    ("partition", "exclusive"): "exclusive", ("partition", "oversubscribe"): "oversubscribe",
    ("partition", "state"): "state", ("grace_time",): "gracetime",
    ("maximums", "cpus_per_node"): "maxcpuspernode",
    ("maximums", "cpus_per_socket"): "maxcpuspersocket",
    ("maximums", "partition_memory_per_cpu"): "maxmempercpu",
    ("maximums", "partition_memory_per_node"): "maxmempernode",
    ("maximums", "nodes"): "maxnodes", ("maximums", "time"): "maxtime",
    ("maximums", "over_time_limit"): "overtimelimit", ("minimums", "nodes"): "minnodes",
    ("preempt_mode",): "preemptmode", ("priority", "job_factor"): "priorityjobfactor",
    ("priority", "tier"): "prioritytier", ("timeouts", "resume"): "resumetimeout",
    ("timeouts", "suspend"): "suspendtimeout", ("topology",): "topology",
    ("suspend_time",): "suspendtime",
}  # fmt: skip
"""Keys of a partition, and those of `scontrol update partition`."""
_FLAGS = {
    "DEFAULT": "default", "HIDDEN": "hidden", "NO_ROOT": "disablerootjobs",
    "ROOT_ONLY": "rootonly", "REQ_RESV": "reqresv", "LLN": "lln", "PDOI": "powerdownonidle",
}  # fmt: skip


def set_partitions(call: Call) -> Answer:
    """Create the partitions of the body, or change those that there are."""
    bodies = (call.body or {}).get("partitions") or []
    if not bodies or not all(body.get("name") for body in bodies):
        raise Refusal(BAD_REQUEST, "partitions: a name is needed", source="#/partitions/")
    try:
        reply = call.controller.call("ShowPartitions", {"flags": 0})
        known = {row["name"] for row in rows_of_reply(reply)}
        for body in bodies:
            call.controller.change(
                "UpdatePartition",
                {
                    "name": body["name"],
                    "settings": _settings(body),
                    "create": body["name"] not in known,
                },
            )
    except SlurmError as error:
        raise refusal_of(error, "Failure to update partition", _SOURCE) from None
    return {}


def _settings(body: dict[str, Any]) -> dict[str, str]:
    settings = {}
    for path, key in _KEYS.items():
        value: Any = body
        for name in path:
            value = value.get(name) if isinstance(value, dict) else None
        text = _text(value)
        if text is not None:
            settings[key] = text
    for word in body.get("flags") or ():
        name = (word or "").removesuffix("_CLEAR")
        if name in _FLAGS:
            settings[_FLAGS[name]] = "no" if (word or "").endswith("_CLEAR") else "yes"
    if settings.get("preemptmode") == "CLUSTER_GLOBAL":
        del settings["preemptmode"]
    return settings


def _text(value: Any) -> str | None:
    """Return a value as typed; None for one that is not given."""
    if isinstance(value, dict):
        if value.get("infinite"):
            return "UNLIMITED"
        return str(value.get("number") or 0) if value.get("set") else None
    if isinstance(value, list):
        return ",".join(word for word in value if word) or None
    return None if value is None or value == "" else str(value)


def delete_partition(call: Call) -> Answer:
    """Delete a partition that no job uses."""
    name = call.path["partition_name"]
    try:
        call.controller.change("DeletePartition", {"name": name})
    except SlurmError as error:
        description = f"Failure to delete partition {name}"
        raise refusal_of(error, description, "slurm_delete_partition()") from None
    return {}


ROUTES = {
    ("post", "/slurm/{version}/partitions/"): set_partitions,
    ("delete", "/slurm/{version}/partition/{partition_name}"): delete_partition,
}
