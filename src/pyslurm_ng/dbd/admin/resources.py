"""sacctmgr add, modify and delete resource: licences of licence servers.

A cluster may use a share of a resource, in percent or, with flag Absolute, a count; all shares
together are at most the total. A controller sees its share as licence NAME@SERVER.
"""

from __future__ import annotations

import sqlalchemy as sa

from pyslurm_ng.base.numbers import NO_VAL
from pyslurm_ng.base.units import whole_number
from pyslurm_ng.dbd import schema
from pyslurm_ng.dbd.admin import removed_records
from pyslurm_ng.dbd.admin.change import (
    BadNumberError,
    Change,
    RefusedError,
    Row,
    require_administrator,
)
from pyslurm_ng.dbd.admin.words import Words

_SERVER = "slurmdb"
_MOST = NO_VAL - 1
_NOT_IN_NAMES = "@,:|=&*+-'\" "


def add(change: Change, words: Words, _: Words) -> None:
    """Create resources, or let more clusters use them."""
    require_administrator(change, "add resources")
    names = words.values("Names", lower=True)
    if not names:
        raise RefusedError(" Need name of resource to add.")
    server = (words.last("Servers") or _SERVER).lower()
    clusters = _clusters(change, words, must_exist=True)
    lines: list[str] = []
    new_names: list[str] = []
    if "Flags" in words:
        _flags("=", words.last("Flags") or "")
    for name in names:
        resource = _find(change, name, server)
        is_new = resource is None
        if resource is None:
            resource = _created(change, name, server, words)
            new_names.append(name)
        cluster_ids = {cluster_id for cluster_id, _, _ in _shares(change, resource["id"])}
        added = [cluster for cluster in clusters if cluster[0] not in cluster_ids]
        if not is_new and not added:
            continue
        lines.append(f"  {name}@{server}")
        for cluster_id, cluster in added:
            share = _share(words, resource["flags"])
            _give(change, resource["id"], cluster_id, share)
            change.log("Add Resources", cluster, f"{name}@{server}", f"allowed={share}")
            lines.append(f"   Cluster - {cluster}\t{_shown(share, resource['flags'])}")
        _check_shares(change, resource)
        change.changed += 1
    if not lines:
        raise RefusedError(" Nothing new added.", is_output=True)
    change.lines += [" Adding Resource(s)", *lines, " Settings"]
    change.lines += _settings(new_names, server, words)


def modify(change: Change, where: Words, settings: Words) -> None:
    """Change resources, and the shares of clusters in them."""
    require_administrator(change, "modify resources")
    if not settings.items:
        raise RefusedError(" You didn't give me anything to set")
    clusters = dict(_clusters(change, where))
    table, shares = schema.resources, schema.cluster_resources
    lines: list[str] = []
    values = _columns(settings)
    if values and clusters:
        raise RefusedError(" Only what is allowed can be set for some clusters")
    if not values and "PercentAllowed" not in settings:
        raise RefusedError(" You didn't give me anything to set")
    for resource in _selected(change, where):
        label = f"{resource['name']}@{resource['server']}"
        if values:
            change.connection.execute(
                table.update()
                .where(table.c.id == resource["id"])
                .values(**values, **change.stamp())
            )
            resource |= values
            lines.append(f"  {label}")
        for cluster_id, cluster, _ in _shares(change, resource["id"]):
            if clusters and cluster_id not in clusters:
                continue
            if "PercentAllowed" in settings:
                change.connection.execute(
                    shares.update()
                    .where(
                        shares.c.resource_id == resource["id"], shares.c.cluster_id == cluster_id
                    )
                    .values(allowed=_share(settings, resource["flags"]), **change.stamp())
                )
            lines.append(f"  Cluster - {cluster}\t- {label}")
        _check_shares(change, resource)
        settings_text = ", ".join(f"{key}={value}" for key, _, value in settings.items)
        change.log("Modify Resources", "", label, settings_text)
    if not lines:
        raise RefusedError(" Nothing modified", is_output=True)
    change.lines += [" Modified server resource ...", *lines]
    change.changed += len(lines)


def delete(change: Change, where: Words, _: Words) -> None:
    """Remove resources, or only the shares of some clusters."""
    require_administrator(change, "delete resources")
    if not where.items:
        raise RefusedError(" No conditions given to remove, not executing.")
    clusters = dict(_clusters(change, where))
    shares = schema.cluster_resources
    lines: list[str] = []
    for resource in _selected(change, where):
        label = f"{resource['name']}@{resource['server']}"
        gone = [
            (cluster_id, cluster)
            for cluster_id, cluster, _ in _shares(change, resource["id"])
            if not clusters or cluster_id in clusters
        ]
        change.connection.execute(
            shares.update()
            .where(
                shares.c.resource_id == resource["id"],
                shares.c.cluster_id.in_([cluster_id for cluster_id, _ in gone]),
            )
            .values(is_deleted=1, **change.stamp())
        )
        if clusters:
            lines += [f"  Cluster - {cluster}\t- {label}" for _, cluster in gone]
        else:
            removed_records.remove(change, schema.resources.c.id, [resource["id"]])
            lines.append(f"  {label}")
            lines += [f"  Cluster - {cluster}\t- {label}" for _, cluster in gone]
        change.log("Remove Resources", ",".join(clusters.values()), label, "")
    if not lines:
        raise RefusedError(" Nothing deleted", is_output=True)
    change.lines += [" Deleting resource(s)...", *lines]
    change.changed += len(lines)


def _clusters(change: Change, words: Words, must_exist: bool = False) -> list[tuple[int, str]]:
    """Return the named clusters; [] if none is named."""
    if not words.values("Clusters"):
        return []
    try:
        return change.clusters(words, must_exist)
    except RefusedError as refused:
        need = " Need a valid cluster name to add a cluster resource."
        raise RefusedError(*refused.lines, *([need] if must_exist else [])) from None


def _find(change: Change, name: str, server: str) -> Row | None:
    table = schema.resources
    resource_row = change.connection.execute(
        sa.select(table).where(
            table.c.name == name, table.c.server == server, table.c.is_deleted == 0
        )
    ).first()
    return None if resource_row is None else dict(resource_row._mapping)


def _selected(change: Change, where: Words) -> list[Row]:
    if where.values("Clusters") and not _clusters(change, where):
        return []  # none of the clusters exists
    table = schema.resources
    query = sa.select(table).where(table.c.is_deleted == 0).order_by(table.c.id)
    for key, column in (("Names", table.c.name), ("Servers", table.c.server)):
        values = where.values(key, lower=True)
        if values:
            query = query.where(column.in_(values))
    return [dict(row._mapping) for row in change.connection.execute(query)]


def _shares(change: Change, resource_id: int) -> list[tuple[int, str, int]]:
    """Return cluster id, its name and its share, by name."""
    table, clusters = schema.cluster_resources, schema.clusters
    rows = change.connection.execute(
        sa.select(table.c.cluster_id, clusters.c.name, table.c.allowed)
        .join(clusters, clusters.c.id == table.c.cluster_id)
        .where(table.c.resource_id == resource_id, table.c.is_deleted == 0)
        .order_by(clusters.c.name)
    )
    return [(row.cluster_id, row.name, row.allowed) for row in rows]


def _created(change: Change, name: str, server: str, words: Words) -> Row:
    """Make a resource and return it.

    Raises:
        RefusedError: its name is not allowed, or type or count is missing.
    """
    if any(char in _NOT_IN_NAMES or not char.isprintable() for char in name + server):
        raise RefusedError(f" Bad resource name '{name}@{server}'")
    kind = words.last("Type") or "license"
    if not "license".startswith(kind.lower()):
        raise RefusedError(f" Unknown resource type: '{kind}'  Valid resources is License.")
    if "Count" not in words:
        raise RefusedError(f" Need to designate a resource count to initially add '{name}'.")
    blank: Row = {
        "name": name, "server": server, "description": name, "server_type": "", "flags": "",
        "count": 0, "last_consumed": 0,
    }  # fmt: skip
    row = blank | _columns(words) | change.stamp(is_new=True)
    change.database.upsert(change.connection, schema.resources, ("name", "server"), [row])
    change.log("Add Resources", "", f"{name}@{server}", f"count={row['count']}")
    made = _find(change, name, server)
    assert made is not None, name
    return made


def _give(change: Change, resource_id: int, cluster_id: int, share: int) -> None:
    row = {"resource_id": resource_id, "cluster_id": cluster_id, "allowed": share}
    row |= change.stamp(is_new=True)
    keys = ("resource_id", "cluster_id")
    change.database.upsert(change.connection, schema.cluster_resources, keys, [row])


def _columns(words: Words) -> Row:
    """Return the columns of a resource that words set.

    Raises:
        RefusedError: a bad value.
    """
    columns: Row = {}
    for key, op, value in words.items:
        if key in ("Count", "LastConsumed"):
            column = "count" if key == "Count" else "last_consumed"
            columns[column] = _number("count" if key == "Count" else key, value)
        elif key == "Flags":
            columns["flags"] = _flags(op, value)
        elif key in ("Description", "ServerType"):
            columns["description" if key == "Description" else "server_type"] = value
    return columns


def _number(key: str, value: str) -> int:
    count = whole_number(value)
    if count is None or count > _MOST:
        raise BadNumberError(key, value)
    return count


def _flags(op: str, value: str) -> str:
    """Return the flags after `=`, `+=` or `-=` of words; there is only one flag."""
    flags = [word for word in value.lower().split(",") if word not in ("", "-1", "none", "''")]
    if any(not "absolute".startswith(word) for word in flags):
        raise RefusedError(
            " Unknown Server Resource flag used in:",
            f"  '{value}'",
            " Valid Server Resource flags are",
            " 'Absolute'",
            is_output=True,
        )
    return "Absolute" if flags and op != "-=" else ""


def _share(words: Words, flags: str) -> int:
    """Return what a cluster is allowed: in percent, or as a count."""
    text = words.last("PercentAllowed") or "0"
    return _number("Allowed", text if flags == "Absolute" else text.removesuffix("%"))


def _shown(share: int, flags: str) -> str:
    return str(share) if flags == "Absolute" else f"{share}%"


def _check_shares(change: Change, resource: Row) -> None:
    """Refuse what would give clusters more than there is."""
    shares = _shares(change, resource["id"])
    flags = resource["flags"]
    total = sum(share for _, _, share in shares)
    most = resource["count"] if flags == "Absolute" else 100
    if total > most:
        raise RefusedError(
            f"sacctmgr: error: You can not allocate more than {_shown(most, flags)} of a resource",
            " If change was accepted it would look like this...",
            f"  {resource['name']}@{resource['server']}",
            *(f"   Cluster - {cluster}\t {_shown(share, flags)}" for _, cluster, share in shares),
            f"   total\t\t{_shown(total, flags)}",
        )


def _settings(names: list[str], server: str, words: Words) -> list[str]:
    """Return what `add` says of resources: `names` are those that it makes."""
    shown = [("Server", server)]
    if names:
        shown.insert(0, ("Name", ",".join(names)))
        shown.append(("Description", words.last("Description") or ",".join(names)))
    for key in ("ServerType", "Count", "LastConsumed", "Flags"):
        value = words.last(key)
        if value is not None:
            shown.append((key, value))
    if "Type" in words:
        shown.append(("Type", "License"))
    return [f"  {key:<14s} = {value}" for key, value in shown]
