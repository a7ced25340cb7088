"""Accounting records of REST as the settings of sacctmgr: `GrpTRES=cpu=4`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Record = dict[str, Any]
Settings = list[tuple[str, str, str]]
Path = tuple[str, ...]

ASSOCIATION_LIMITS: Mapping[Path, str] = {
    ("priority",): "Priority",
    ("min", "priority_threshold"): "MinPrioThreshold",
    ("max", "jobs", "active"): "MaxJobs",
    ("max", "jobs", "accruing"): "MaxJobsAccrue",
    ("max", "jobs", "total"): "MaxSubmitJobs",
    ("max", "jobs", "per", "count"): "GrpJobs",
    ("max", "jobs", "per", "accruing"): "GrpJobsAccrue",
    ("max", "jobs", "per", "submitted"): "GrpSubmitJobs",
    ("max", "jobs", "per", "wall_clock"): "MaxWallDurationPerJob",
    ("max", "per", "account", "wall_clock"): "GrpWall",
    ("max", "tres", "total"): "GrpTRES",
    ("max", "tres", "group", "minutes"): "GrpTRESMins",
    ("max", "tres", "group", "active"): "GrpTRESRunMins",
    ("max", "tres", "minutes", "total"): "MaxTRESRunMins",
    ("max", "tres", "minutes", "per", "job"): "MaxTRESMinsPerJob",
    ("max", "tres", "per", "job"): "MaxTRESPerJob",
    ("max", "tres", "per", "node"): "MaxTRESPerNode",
}
QOS_LIMITS: Mapping[Path, str] = {
    ("priority",): "Priority",
    ("limits", "min", "priority_threshold"): "MinPrioThreshold",
    ("limits", "min", "tres", "per", "job"): "MinTRESPerJob",
    ("limits", "max", "active_jobs", "accruing"): "GrpJobsAccrue",
    ("limits", "max", "active_jobs", "count"): "GrpJobs",
    ("limits", "max", "jobs", "count"): "GrpSubmitJobs",
    ("limits", "max", "jobs", "active_jobs", "per", "account"): "MaxJobsPerAccount",
    ("limits", "max", "jobs", "active_jobs", "per", "user"): "MaxJobsPerUser",
    ("limits", "max", "jobs", "per", "account"): "MaxSubmitJobsPerAccount",
    ("limits", "max", "jobs", "per", "user"): "MaxSubmitJobsPerUser",
    ("limits", "max", "tres", "total"): "GrpTRES",
    ("limits", "max", "tres", "minutes", "total"): "GrpTRESMins",
    ("limits", "max", "tres", "minutes", "per", "qos"): "GrpTRESRunMins",
    ("limits", "max", "tres", "minutes", "per", "job"): "MaxTRESMinsPerJob",
    ("limits", "max", "tres", "minutes", "per", "account"): "MaxTRESRunMinsPerAccount",
    ("limits", "max", "tres", "minutes", "per", "user"): "MaxTRESRunMinsPerUser",
    ("limits", "max", "tres", "per", "account"): "MaxTRESPerAccount",
    ("limits", "max", "tres", "per", "job"): "MaxTRESPerJob",
    ("limits", "max", "tres", "per", "node"): "MaxTRESPerNode",
    ("limits", "max", "tres", "per", "user"): "MaxTRESPerUser",
    ("limits", "max", "wall_clock", "per", "qos"): "GrpWall",
    ("limits", "max", "wall_clock", "per", "job"): "MaxWallDurationPerJob",
    ("limits", "max", "accruing", "per", "account"): "MaxJobsAccruePerAccount",
    ("limits", "max", "accruing", "per", "user"): "MaxJobsAccruePerUser",
}
CONDITION_LIMITS: Mapping[Path, str] = {
    ("grpjobs",): "GrpJobs", ("grpjobsaccrue",): "GrpJobsAccrue",
    ("grpsubmitjobs",): "GrpSubmitJobs", ("grptres",): "GrpTRES",
    ("grptresmins",): "GrpTRESMins", ("grptresrunmins",): "GrpTRESRunMins",
    ("grpwall",): "GrpWall", ("maxjobs",): "MaxJobs", ("maxjobsaccrue",): "MaxJobsAccrue",
    ("maxsubmitjobs",): "MaxSubmitJobs", ("maxtresminsperjob",): "MaxTRESMinsPerJob",
    ("maxtresrunmins",): "MaxTRESRunMins", ("maxtresperjob",): "MaxTRESPerJob",
    ("maxtrespernode",): "MaxTRESPerNode", ("maxwalldurationperjob",): "MaxWallDurationPerJob",
    ("minpriothresh",): "MinPrioThreshold", ("priority",): "Priority",
}  # fmt: skip
"""Of an association in accounts_association and users_association."""
_INHERITED = 0x7FFFFFFF
"""Slurm's number for the shares of the parent."""


def limits(record: Record, table: Mapping[Path, str], *, is_new: bool) -> Settings:
    """Return the limits of a record as settings; a new record has none that is not set."""
    settings: Settings = []
    for path, key in table.items():
        value: Any = record
        for name in path:
            value = value.get(name) if isinstance(value, dict) else None
        text = _tres(value) if isinstance(value, list) else _number(value)
        if text and not (is_new and text == "-1"):
            settings.append((key, "=", text))
    return settings


def _number(value: Any) -> str:
    """Return an optional number as typed, "" for one that is not given."""
    if not isinstance(value, dict):
        return ""
    if value.get("infinite"):
        return "-1"
    return str(int(value.get("number") or 0)) if value.get("set") else ""


def _tres(rows: list[Record]) -> str:
    words = []
    for row in rows:
        name = f"/{row['name']}" if row.get("name") else ""
        words.append(f"{row.get('type') or ''}{name}={row.get('count') or 0}")
    return ",".join(words)


def association_settings(record: Record, *, is_new: bool) -> Settings:
    """Return the settings of an association."""
    settings = limits(record, ASSOCIATION_LIMITS, is_new=is_new)
    shares = record.get("shares_raw")
    if shares is not None:
        text = _shares(shares)
        if not (is_new and text == "parent" and not record.get("user")):
            settings.append(("Fairshare", "=", text))
    for key, value in (
        ("QOS", ",".join(record.get("qos") or ())),
        ("DefaultQOS", (record.get("default") or {}).get("qos")),
        ("Comment", record.get("comment")),
    ):
        if value and not (isinstance(value, int) and not value):
            settings.append((key, "=", str(value)))
    return settings


def _shares(number: int) -> str:
    return "parent" if number == _INHERITED else str(number)


def condition_settings(record: Record) -> Settings:
    """Return the settings of a new association in a condition."""
    settings = limits(record, CONDITION_LIMITS, is_new=True)
    for key, name in (
        ("DefaultQOS", "defaultqos"), ("Parent", "parent"), ("Comment", "comment"),
    ):  # fmt: skip
        if record.get(name):
            settings.append((key, "=", str(record[name])))
    if record.get("fairshare"):
        settings.append(("Fairshare", "=", _shares(record["fairshare"])))
    if record.get("qoslevel"):
        settings.append(("QOS", "=", ",".join(record["qoslevel"])))
    return settings


def qos_settings(record: Record, *, is_new: bool) -> Settings:
    """Return the settings of a QOS."""
    settings = limits(record, QOS_LIMITS, is_new=is_new)
    preempt = record.get("preempt") or {}
    for key, value in (
        ("Description", record.get("description")),
        ("Flags", ",".join(_flag(word) for word in record.get("flags") or () if word)),
        ("GraceTime", (record.get("limits") or {}).get("grace_time")),
        ("Preempt", ",".join(preempt.get("list") or ())),
        ("PreemptMode", _mode(preempt.get("mode"))),
        ("PreemptExemptTime", _seconds(preempt.get("exempt_time"))),
        ("UsageFactor", _fraction(record.get("usage_factor"))),
        ("UsageThreshold", _fraction(record.get("usage_threshold"))),
        ("LimitFactor", _fraction((record.get("limits") or {}).get("factor"))),
    ):
        if value:
            settings.append((key, "=", str(value)))
    return settings


_FLAGS = {"DENY_LIMIT": "DenyOnLimit", "OVERRIDE_PARTITION_QOS": "OverPartQOS"}


def _flag(word: str) -> str:
    """Return `DenyOnLimit` for `DENY_LIMIT`, as sacctmgr spells flags."""
    known = _FLAGS.get(word)
    return known or "".join(part.capitalize() for part in word.split("_"))


def _mode(words: list[str] | None) -> str:
    modes = [word for word in words or () if word]
    return "" if not modes else "cluster" if modes == ["DISABLED"] else ",".join(modes)


def _seconds(value: Any) -> str:
    return _number(value) if isinstance(value, dict) and value.get("set") else ""


def _fraction(value: Any) -> str:
    if not isinstance(value, dict) or not value.get("set"):
        return ""
    return str(value.get("number") or 0)
