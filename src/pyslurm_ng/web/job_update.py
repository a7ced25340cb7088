"""A job's description as the keys of `scontrol update job`."""

from __future__ import annotations

from typing import Any

from pyslurm_ng.base.numbers import SECOND_US
from pyslurm_ng.web.call import Call

Desc = dict[str, Any]

_PLAIN = {
    "account": "account", "admin_comment": "admincomment", "batch_features": "features",
    "burst_buffer": "burstbuffer", "cluster_constraint": "clusterfeatures",
    "comment": "comment", "constraints": "features", "dependency": "dependency",
    "extra": "extra", "licenses": "licenses", "mail_user": "mailuser", "mcs_label": "mcslabel",
    "name": "jobname", "partition": "partition", "prefer": "prefer", "qos": "qos",
    "reservation": "reservationname", "standard_error": "stderr", "standard_input": "stdin",
    "standard_output": "stdout", "tres_bind": "tresbind", "tres_freq": "tresfreq",
    "tres_per_job": "tresperjob", "tres_per_node": "trespernode",
    "tres_per_socket": "trespersocket", "tres_per_task": "trespertask", "wckey": "wckey",
    "current_working_directory": "workdir", "cpus_per_tres": "cpuspertres",
    "memory_per_tres": "mempertres", "core_specification": "corespec",
    "thread_specification": "threadspec", "nice": "nice", "tasks": "numtasks",
    "cpus_per_task": "cpuspertask", "minimum_cpus_per_node": "mincpusnode",
    "tasks_per_node": "taskspernode", "temporary_disk_per_node": "mintmpdisknode",
    "sockets_per_node": "reqsockets", "cores_per_socket": "reqcores",
    "threads_per_core": "reqthreads", "wait_for_switch": "wait-for-switch", "nodes": "numnodes",
    "minimum_cpus": "numcpus",
}  # fmt: skip
_OPTIONAL = {
    "priority": "priority", "memory_per_cpu": "minmemorycpu", "memory_per_node": "minmemorynode",
    "required_switches": "switches", "segment_size": "segmentsize",
}  # fmt: skip
_LIMITS = {"time_limit": "timelimit", "time_minimum": "timemin"}
_YES_NO = {"contiguous": "contiguous", "reboot": "reboot", "requeue": "requeue"}
_LISTS = {"excluded_nodes": "excnodelist", "required_nodes": "reqnodelist"}
_NOT_CHANGED = (
    "script", "environment", "argv", "array", "rlimits", "user_id", "group_id", "immediate",
    "open_mode", "profile", "kill_warning_signal", "network", "container",
)  # fmt: skip


def update_settings(call: Call, desc: Desc) -> dict[str, str]:
    """Return the keys and values, as typed, for the changes of a description."""
    settings = {key: str(desc[name]) for name, key in _PLAIN.items() if desc.get(name) is not None}
    for name, key in _OPTIONAL.items():
        value = desc.get(name) or {}
        if value.get("set"):
            settings[key] = str(value.get("number") or 0)
    for name, key in _LIMITS.items():
        value = desc.get(name) or {}
        if value.get("infinite"):
            settings[key] = "UNLIMITED"
        elif value.get("set"):
            settings[key] = str(value.get("number") or 0)
    for name, key in _YES_NO.items():
        if desc.get(name) is not None:
            settings[key] = "yes" if desc[name] else "no"
    for name, key in _LISTS.items():
        if desc.get(name) is not None:
            settings[key] = ",".join(desc[name])
    settings.update(_moments(desc))
    settings.update(_others(desc))
    for name in _NOT_CHANGED:
        if desc.get(name):
            call.warn(f"{name} of a job that is queued cannot be changed", f"#/{name}/")
    return settings


def _moments(desc: Desc) -> dict[str, str]:
    """Return moments in microseconds, as the daemon takes them."""
    moments = {"starttime": (desc.get("begin_time") or {}).get("number"),
               "deadline": desc.get("deadline"), "endtime": desc.get("end_time")}  # fmt: skip
    return {key: str(when * SECOND_US) for key, when in moments.items() if when}


def _others(desc: Desc) -> dict[str, str]:
    settings = {}
    least, most = desc.get("minimum_nodes"), desc.get("maximum_nodes")
    if least is not None or most is not None:
        settings["numnodes"] = f"{least or 1}-{most}" if most else str(least)
    words = [word for word in desc.get("mail_type") or () if word]
    if words:
        settings["mailtype"] = ",".join(_MAIL.get(word, word) for word in words)
    shared = [word for word in desc.get("shared") or () if word]
    if shared:
        settings["oversubscribe"] = "yes" if "oversubscribe" in shared else "no"
    if desc.get("delay_boot") is not None:
        settings["delayboot"] = str(-(-desc["delay_boot"] // 60))
    return settings


_MAIL = {
    "TIME=100%": "TIME_LIMIT", "TIME=90%": "TIME_LIMIT_90", "TIME=80%": "TIME_LIMIT_80",
    "TIME=50%": "TIME_LIMIT_50", "INVALID_DEPENDENCY": "INVALID_DEPEND",
}  # fmt: skip
