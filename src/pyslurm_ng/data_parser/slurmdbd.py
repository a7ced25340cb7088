"""slurmdbd itself: whether it answers, its counters and its configuration."""

from pyslurm_ng.base.numbers import SECOND_US
from pyslurm_ng.data_parser.records import user_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Row = dict[str, Any]

_PURGED = (
    ("PurgeEventAfter", "ArchiveEvents"), ("PurgeJobAfter", "ArchiveJobs"),
    ("PurgeResvAfter", "ArchiveResvs"), ("PurgeStepAfter", "ArchiveSteps"),
    ("PurgeSuspendAfter", "ArchiveSuspend"), ("PurgeTXNAfter", "ArchiveTXN"),
    ("PurgeUsageAfter", "ArchiveUsage"), ("PurgeJobScriptAfter", "ArchiveJobScript"),
    ("PurgeJobEnvAfter", "ArchiveJobEnv"),
)  # fmt: skip
"""Keys that say after how long records go, and whether they are archived then."""
_FLAGS = ("AllowNoDefAcct", "AllResourcesAbsolute", "DisableCoordDBD", "DisableArchiveCommands")


def ping(host: str, latency_us: int, is_primary: bool = True) -> "Row":
    """Return whether slurmdbd answers; a latency below 0 means that it does not."""
    responds = latency_us >= 0
    return {
        "hostname": host,
        "responding": responds,
        "latency": latency_us,
        "primary": is_primary,
        "status": "No error" if responds else "Communication connection failure",
    }


def statistics(answer: "Row") -> "Row":
    """Return the calls that slurmdbd has counted, per message and per user."""
    calls = sorted(answer["by_kind"], key=lambda row: -row[1])
    users = sorted(answer["by_uid"], key=lambda row: -row[1])
    return {
        "time_start": answer["start_us"] // SECOND_US,
        "rollups": _roll_ups(answer["roll_ups"]),
        "RPCs": [{"rpc": kind, **_calls(count, used)} for kind, count, used in calls],
        "users": [{"user": user_name(uid), **_calls(count, used)} for uid, count, used in users],
    }


def _roll_ups(rows: "list[tuple[str, int, int, int, int, int]]") -> "Row":
    known = {kind: numbers for kind, *numbers in rows}
    periods = {}
    for period, kind in (("hourly", "hour"), ("daily", "day"), ("monthly", "month")):
        count, last_us, last, most, total = known.get(kind, (0, 0, 0, 0, 0))
        duration = {"last": last, "max": most, "time": total}
        periods[period] = {"count": count, "last_run": last_us // SECOND_US, "duration": duration}
    return periods


def _calls(count: int, used_us: int) -> "Row":
    return {"count": count, "time": {"average": used_us // max(1, count), "total": used_us}}


def configuration(pairs: "list[tuple[str, str]]") -> "Row":
    """Return slurmdbd's configuration, key by key with its type."""
    texts = {name: "" if value == "(null)" else value for name, value in pairs}

    def text(*names: str) -> "Row":
        return {name: texts.get(name, "") for name in names}

    def whole(name: str) -> "Row":
        return {name: int(texts[name]) if texts.get(name, "").isdecimal() else 0}

    def words(*names: str) -> "Row":
        return {name: [word for word in texts.get(name, "").split(",") if word] for name in names}

    def switch(*names: str) -> "Row":
        return {name: texts.get(name) == "yes" for name in names}

    return {
        **text("ArchiveDir", "ArchiveScript"),
        **whole("CommitDelay"),
        **text("DbdAddr", "DbdBackupHost", "DbdHost"),
        **whole("DbdPort"),
        **words("DebugFlags"),
        **text("DebugLevel", "DefaultQOS"),
        "Flags": [name for name in _FLAGS if texts.get(name) == "yes"],
        **text("LogFile"),
        **whole("MaxPurgeLimit"),
        **text("MaxQueryTimeRange"),
        **words("Parameters", "PersistConnFlags"),
        **text("PidFile"),
        **{
            name: _purge(texts.get(name, ""), texts.get(archive) == "yes")
            for name, archive in _PURGED
        },
        **words("SerializerParameters", "SerializerPlugins"),
        **text("StorageLoc", "StoragePassScript", "StorageUser", "DebugLevelSyslog"),
        **switch("TrackWCKey", "TrackSlurmctldDown"),
    }


def _purge(text: str, is_archived: bool) -> "Row":
    """Return a time as slurmdbd.conf has it, `12month` or `30days`; without a unit it is months."""
    digits = text.rstrip("abcdefghijklmnopqrstuvwxyz")
    count = int(digits) if digits.isdecimal() else 0
    unit = text[len(digits) :].rstrip("s") or "month"
    return {
        "set": bool(count),
        **{f"{name}s": count if unit == name else 0 for name in ("hour", "day", "month")},
        "archive": is_archived,
    }
