"""What slurmdbd keeps beside jobs: associations, QOS, accounts, users, clusters, TRES."""

from pyslurm_ng.data_parser.accounting_jobs import number

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    Row = dict[str, Any]

USUAL_TRES_IDS = {
    "cpu": 1, "mem": 2, "energy": 3, "node": 4, "billing": 5, "fs/disk": 6, "vmem": 7, "pages": 8,
}  # fmt: skip


def objects(
    entity: str, rows: "list[Row]", tres_ids: "Mapping[str, int]"
) -> "tuple[str, list[Row]]":
    """Return the key of an entity's list and its records; "" for an entity that has none."""
    if entity in ("user", "account"):
        return _grouped(entity, rows)
    if entity == "resource":
        return "resources", _resources(rows)
    if entity == "association":
        return "associations", [association(row, tres_ids) for row in rows]
    if entity == "qos":
        return "qos", [qos(row, tres_ids) for row in rows]
    if entity == "cluster":
        return "clusters", [cluster(row, tres_ids) for row in rows]
    makers = {"tres": ("TRES", _tres), "wckey": ("wckeys", _wckey)}
    key, maker = makers.get(entity, ("", _tres))
    return key, [maker(row) for row in rows] if key else []


def _wckey(row: "Row") -> "Row":
    return {
        "accounting": [],
        "cluster": row["Cluster"],
        "id": row["ID"],
        "name": row["WCKeys"],
        "user": row["User"],
        "flags": [],  # the only one is of deleted keys, which are not listed
    }


def _limit(limits: "Row", name: str) -> "Row":
    value = limits.get(name)
    return number(value, value is None)


def _list(limits: "Row", name: str, tres_ids: "Mapping[str, int]") -> "list[Row]":
    resources = []
    for full, count in (limits.get(name) or {}).items():
        kind, _, rest = full.partition("/")
        resources.append({"type": kind, "name": rest, "id": tres_ids.get(full, 0), "count": count})
    return sorted(resources, key=lambda resource: resource["id"])


def association(row: "Row", tres_ids: "Mapping[str, int]") -> "Row":
    """Return one association."""
    limits = row["limits"]
    return {
        "accounting": [],
        "account": row["Account"],
        "cluster": row["Cluster"],
        "comment": row["Comment"],
        "default": {"qos": row["DefaultQOS"]},
        "flags": [],
        "max": {
            "jobs": {
                "per": {
                    "count": _limit(limits, "GrpJobs"),
                    "accruing": _limit(limits, "GrpJobsAccrue"),
                    "submitted": _limit(limits, "GrpSubmitJobs"),
                    "wall_clock": _limit(limits, "MaxWallDurationPerJob"),
                },
                "active": _limit(limits, "MaxJobs"),
                "accruing": _limit(limits, "MaxJobsAccrue"),
                "total": _limit(limits, "MaxSubmitJobs"),
            },
            "tres": {
                "total": _list(limits, "GrpTRES", tres_ids),
                "group": {
                    "minutes": _list(limits, "GrpTRESMins", tres_ids),
                    "active": _list(limits, "GrpTRESRunMins", tres_ids),
                },
                "minutes": {
                    "total": _list(limits, "MaxTRESRunMins", tres_ids),
                    "per": {"job": _list(limits, "MaxTRESMinsPerJob", tres_ids)},
                },
                "per": {
                    "job": _list(limits, "MaxTRESPerJob", tres_ids),
                    "node": _list(limits, "MaxTRESPerNode", tres_ids),
                },
            },
            "per": {"account": {"wall_clock": _limit(limits, "GrpWall")}},
        },
        "id": row["ID"],
        "is_default": row["is_default"],
        "lineage": row["Lineage"],
        "min": {"priority_threshold": _limit(limits, "MinPrioThreshold")},
        "parent_account": row["ParentName"],
        "partition": row["Partition"],
        "priority": _limit(limits, "Priority"),
        "qos": row["qos_ids"],
        "shares_raw": row["Share"] if isinstance(row["Share"], int) else 0x7FFFFFFF,
        "user": row["User"],
    }


def qos(row: "Row", tres_ids: "Mapping[str, int]") -> "Row":
    """Return one QOS."""
    limits = row["limits"]
    mode = row["PreemptMode"].upper()
    exempt = limits.get("PreemptExemptTime")
    factor = limits.get("LimitFactor")
    threshold = limits.get("UsageThreshold")
    return {
        "description": row["Description"],
        "flags": [_snake(word) for word in row["Flags"].split(",") if word],
        "id": row["ID"],
        "limits": {
            "grace_time": _seconds(row["GraceTime"]),
            "max": _qos_max(limits, tres_ids),
            "factor": _fraction(factor),
            "min": {
                "priority_threshold": _limit(limits, "MinPrioThreshold"),
                "tres": {"per": {"job": _list(limits, "MinTRESPerJob", tres_ids)}},
            },
        },
        "name": row["Name"],
        "preempt": {
            "list": [word for word in row["Preempt"].split(",") if word],
            "mode": ["DISABLED"] if mode == "CLUSTER" else mode.split(","),
            "exempt_time": number(exempt, exempt is None),
        },
        "priority": number(row["Priority"]),
        "usage_factor": _fraction(limits.get("UsageFactor", 1_000_000)),
        "usage_threshold": _fraction(threshold),
    }


def _qos_max(limits: "Row", tres_ids: "Mapping[str, int]") -> "Row":
    """Return the most that a QOS allows, to all its jobs, an account, a user and a job."""
    return {
        "active_jobs": {
            "accruing": _limit(limits, "GrpJobsAccrue"),
            "count": _limit(limits, "GrpJobs"),
        },
        "jobs": {
            "count": _limit(limits, "GrpSubmitJobs"),
            "active_jobs": {
                "per": {
                    "account": _limit(limits, "MaxJobsPerAccount"),
                    "user": _limit(limits, "MaxJobsPerUser"),
                }
            },
            "per": {
                "account": _limit(limits, "MaxSubmitJobsPerAccount"),
                "user": _limit(limits, "MaxSubmitJobsPerUser"),
            },
        },
        "tres": {
            "total": _list(limits, "GrpTRES", tres_ids),
            "minutes": {
                "total": _list(limits, "GrpTRESMins", tres_ids),
                "per": {
                    "qos": _list(limits, "GrpTRESRunMins", tres_ids),
                    "job": _list(limits, "MaxTRESMinsPerJob", tres_ids),
                    "account": [],
                    "user": _list(limits, "MaxTRESRunMinsPerUser", tres_ids),
                },
            },
            "per": {
                "account": _list(limits, "MaxTRESPerAccount", tres_ids),
                "job": _list(limits, "MaxTRESPerJob", tres_ids),
                "node": _list(limits, "MaxTRESPerNode", tres_ids),
                "user": _list(limits, "MaxTRESPerUser", tres_ids),
            },
        },
        "wall_clock": {
            "per": {
                "qos": _limit(limits, "GrpWall"),
                "job": _limit(limits, "MaxWallDurationPerJob"),
            }
        },
        "accruing": {
            "per": {
                "account": _limit(limits, "MaxJobsAccruePerAccount"),
                "user": _limit(limits, "MaxJobsAccruePerUser"),
            }
        },
    }


def _fraction(millionths: "int | None") -> "Row":
    if millionths is None:
        return {"set": False, "infinite": True, "number": 0.0}
    return {"set": True, "infinite": False, "number": millionths / 1e6}


def _snake(word: str) -> str:
    """Return `DENY_LIMIT` style for `DenyOnLimit`, as the data parser names flags."""
    named = {"DenyOnLimit": "DENY_LIMIT", "OverPartQOS": "OVERRIDE_PARTITION_QOS"}
    if word in named:
        return named[word]
    text = ""
    for index, char in enumerate(word):
        if char.isupper() and index and not word[index - 1].isupper():
            text += "_"
        text += char.upper()
    return text


def _seconds(text: str) -> int:
    days, _, clock = text.rpartition("-")
    total = 0
    for word in clock.split(":"):
        total = 60 * total + int(word)
    return total + 86400 * int(days or 0)


def _tres(row: "Row") -> "Row":
    return {"type": row["Type"], "name": row["Name"], "id": row["ID"], "count": 0}


def cluster(row: "Row", tres_ids: "Mapping[str, int]") -> "Row":
    """Return one cluster."""
    objects = []
    for word in (row["TRES"] or "").split(","):
        full, _, amount = word.rpartition("=")
        if full:
            kind, _, name = full.partition("/")
            count = int(amount)
            objects.append(
                {"type": kind, "name": name, "id": tres_ids.get(full, 0), "count": count}
            )
    return {
        "controller": {"host": row["ControlHost"], "port": row["ControlPort"]},
        "flags": [],
        "name": row["Cluster"],
        "nodes": row["ClusterNodes"],
        "associations": {"root": _short(row)},
        "rpc_version": row["RPC"],
        "tres": objects,
    }


def _resources(rows: "list[Row]") -> "list[Row]":
    """Return resources, each once, with their clusters if these were asked for.

    A cluster's share is a count with flag Absolute, otherwise a percentage.
    """
    by_name: dict[tuple[str, str], Row] = {}
    for row in rows:
        resource = by_name.setdefault(
            (row["Name"], row["Server"]),
            {
                "name": row["Name"],
                "server": row["Server"],
                "server_type": row["servertype"],
                "type": row["Type"],
                "description": row["Description"],
                "count": row["Count"],
                "last_consumed": row["LastConsumed"],
                "allocated": row["Allocated"],
                "flags": [flag.upper() for flag in row["Flags"].split(",") if flag],
                "clusters": [],
            },
        )
        if row["Cluster"]:
            resource["clusters"].append({"cluster": row["Cluster"], "allowed": row["Allowed"]})
    return list(by_name.values())


def _short(row: "Row") -> "Row":
    return {
        "account": row["Account"],
        "cluster": row["Cluster"],
        "partition": row["Partition"],
        "user": row["User"],
        "id": row["ID"],
    }


def _grouped(entity: str, rows: "list[Row]") -> "tuple[str, list[Row]]":
    """Return users or accounts, each once, with their associations if these were asked for."""
    field = "User" if entity == "user" else "Account"
    groups: dict[str, Row] = {}
    for row in rows:
        name = row[field]
        direct = (row.get("DirectCoordinators") or "").split(",")
        coordinators = [
            {"name": word, "direct": word in direct}
            for word in (row["Coordinators"] or "").split(",")
            if word
        ]
        if name not in groups and entity == "user":
            groups[name] = {
                "administrator_level": [row["AdminLevel"]],
                "associations": [],
                "coordinators": coordinators,
                "default": {
                    "qos": 0,
                    "account": row["DefaultAccount"],
                    "wckey": row["DefaultWCKey"],
                },
                "flags": [],
                "name": name,
                "old_name": "",
                "wckeys": [],
            }
        elif name not in groups:
            groups[name] = {
                "associations": [],
                "coordinators": coordinators,
                "description": row["Description"],
                "name": name,
                "organization": row["Organization"],
                "flags": list(filter(None, (row.get("Flags") or "").split(","))),
            }
        if row.get("ID") is not None:
            groups[name]["associations"].append(_short(row))
    return entity + "s", list(groups.values())


def tres_ids(rows: "list[Row]") -> "dict[str, int]":
    """Return the numbers of all TRES by name, from the rows of entity tres."""
    return {
        f"{row['Type']}/{row['Name']}" if row["Name"] else row["Type"]: row["ID"] for row in rows
    }
