"""`scontrol update job` as scripts see it: the settings as fields of a request, and back."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from operator import or_
from typing import Any

from pyslurm_ng.base import units
from pyslurm_ng.base.numbers import INFINITE, NO_VAL
from pyslurm_ng.base.request_words import MAIL_WORDS, mail_words
from pyslurm_ng.ctld.rules.update.job_change import yes_or_no
from pyslurm_ng.model.job import Job

_TEXTS = {
    "account": "account",
    "admincomment": "admin_comment",
    "comment": "comment",
    "clusterfeatures": "cluster_features",
    "dependency": "dependency",
    "excnodelist": "exclude",
    "extra": "extra",
    "features": "constraint",
    "jobname": "name",
    "licenses": "licenses",
    "mailuser": "mail_user",
    "mcslabel": "mcs_label",
    "nodelist": "node_list",
    "partition": "partition",
    "prefer": "prefer",
    "qos": "qos",
    "reqnodelist": "node_list",
    "reservationname": "reservation",
    "stderr": "std_err",
    "stdin": "std_in",
    "stdout": "std_out",
    "tresfreq": "tres_freq",
    "trespernode": "gres",
    "wckey": "wckey",
    "workdir": "work_dir",
}
_SWITCHES = ("contiguous", "oversubscribe", "reboot", "requeue")  # by the same names
_MAIL = "mailtype"
_COUNTS = {
    "cpuspertask": "cpus_per_task",
    "deadline": "deadline_us",
    "mincpusnode": "mincpus",
    "minmemorycpu": "mem_per_cpu_mib",
    "minmemorynode": "mem_per_node_mib",
    "mintmpdisknode": "tmp_mib",
    "nice": "nice",
    "numcpus": "min_cpus",
    "numtasks": "ntasks",
    "priority": "priority",
    "starttime": "begin_us",
    "switches": "switches",
    "taskspernode": "ntasks_per_node",
}
_MINUTES = {"timelimit": "time_limit_min", "timemin": "time_min_min"}
_NODES = "numnodes"

_KEY_OF = {name: key for table in (_TEXTS, _COUNTS, _MINUTES) for key, name in table.items()}
_KEY_OF |= {"mail_type": _MAIL, **{name: name for name in _SWITCHES}}


def as_request(settings: dict[str, str], job: Job) -> dict[str, Any]:
    """Return the fields that settings give, as far as scripts know them and they can be read."""
    request: dict[str, Any] = {}
    for key, value in settings.items():
        if key in _TEXTS:
            request[_TEXTS[key]] = value
        elif key in _COUNTS and value.lstrip("-").isdecimal():
            request[_COUNTS[key]] = int(value)
        elif key in _MINUTES:
            try:
                request[_MINUTES[key]] = units.changed_time_limit_min(value, job.time_limit_min)
            except units.UnitError:
                continue
        elif key in _SWITCHES and yes_or_no(value) is not None:
            request[key] = int(bool(yes_or_no(value)))
        elif key == _MAIL:
            words = value.upper().split(",")
            request["mail_type"] = reduce(or_, (MAIL_WORDS.get(word.strip(), 0) for word in words))
        elif key == _NODES:
            least, _, most = value.partition("-")
            if least.isdecimal() and (most or least).isdecimal():
                request["nodes_min"] = int(least)
                if most:
                    request["nodes_max"] = int(most)
    return request


def as_settings(
    settings: dict[str, str], before: dict[str, Any], after: dict[str, Any]
) -> dict[str, str]:
    """Return the settings with what a script has changed of the request."""
    changed = dict(settings)
    names = {name for name in (*before, *after) if before.get(name) != after.get(name)}
    if names & {"nodes_min", "nodes_max"}:
        least, most = after.get("nodes_min", 0), after.get("nodes_max", 0)
        changed[_NODES] = f"{least or 1}-{most}" if most else str(least or 1)
    for name in names & _KEY_OF.keys():
        text = _text_of(name)
        key = _KEY_OF[name]
        if name == "node_list" and "nodelist" in settings:
            key = "nodelist"
        if name in after:
            changed[key] = text(after[name])
        elif name in _UNSET:
            changed[key] = _UNSET[name]
        else:
            changed.pop(key, None)
    return changed


_UNSET = dict.fromkeys(_TEXTS.values(), "")


def _text_of(name: str) -> Callable[[Any], str]:
    if name in _MINUTES.values():
        return _minutes
    if name == "mail_type":
        return lambda bits: ",".join(mail_words(bits))
    return str


def _minutes(value: int) -> str:
    return "UNLIMITED" if value == INFINITE else "0" if value == NO_VAL else str(value)
