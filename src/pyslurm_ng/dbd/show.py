"""`sacctmgr list`: rows of an entity as positional arrays, values ready to print.

A value is a text, a number, a list of names, or nil where nothing is set. Columns that only
`--json` needs (`limits`, `qos_ids` ...) are always sent, because rows are few.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
import sqlalchemy as sa

from pyslurm_ng.base.hostlist import count
from pyslurm_ng.base.units import format_seconds
from pyslurm_ng.dbd import (
    change_rows,
    federation_listing,
    history_rows,
    instance_listing,
    limits,
    open_jobs,
    problem_listing,
    removed,
    reservation_listing,
    schema,
)
from pyslurm_ng.dbd.admin import conditions, wckeys
from pyslurm_ng.dbd.admin.accounts import account_flags
from pyslurm_ng.dbd.admin.change import Actor, DeniedError, RefusedError, refuse_denied
from pyslurm_ng.dbd.admin.runs import ids_of
from pyslurm_ng.dbd.admin.users import LEVEL_NAMES, level_of
from pyslurm_ng.dbd.admin.words import UnknownWordError, read_where, unknown_condition
from pyslurm_ng.dbd.federation_state import state_name
from pyslurm_ng.dbd.list_request import Asked
from pyslurm_ng.dbd.tree import (
    Row,
    Tree,
    coordinated_accounts,
    in_order,
    names_of,
    qos_given,
    removed_rows,
    user_records,
)
from pyslurm_ng.wire.dbd_messages import EntityRows, ListEntities

_encode = msgspec.msgpack.Encoder().encode

ASSOCIATION_FIELDS = (
    "Cluster", "Account", "User", "Partition", "Share", "Priority", "QOSLevel", "DefaultQOS", "ID",
    "ParentID", "ParentName", "Lineage", "Comment", "depth", "is_default", "limits", "qos_ids",
    "QOSRAWLevel", "QOSGiven",
    *[spec.name for spec in limits.ASSOCIATION_LIMITS],
    *[name for name in limits.SINGLE_TRES if not name.endswith("PerUser")],
)  # fmt: skip

_PRIVATE_AS = {"event": "events", "instance": "events", "reservation": "reservations"}
"""The words of PrivateData that keep all of an entity for operators."""

_WITHOUT_SET = (
    "association",
    "event",
    "instance",
    "problem",
    "runawayjobs",
    "transaction",
    "wckey",
)
"""Entities that no command can modify, so that an unknown condition needs no hint at `set`."""

QOS_FIELDS = (
    "ID", "Name", "Description", "Flags", "Priority", "GraceTime", "Preempt", "PreemptMode",
    "PreemptExemptTime", "UsageFactor", "UsageThreshold", "LimitFactor", "limits",
    *[spec.name for spec in limits.QOS_LIMITS],
    *limits.SINGLE_TRES, "MaxJobs", "MaxSubmitJobs",
)  # fmt: skip


def list_entities(
    connection: sa.Connection,
    request: ListEntities,
    actor: Actor,
    private: frozenset[str],
    *,
    keeps_users: bool = False,
) -> EntityRows:
    """Return the rows of `sacctmgr list`.

    Args:
        private: words of PrivateData.

    Raises:
        DeniedError: PrivateData keeps all of them for operators.
        UnknownWordError: a condition the entity does not have.
        RefusedError: an entity that is not implemented, or a bad value.
    """
    if (lister := LISTERS.get(request.entity)) is None:
        raise RefusedError(f" list {request.entity} is not supported")
    try:
        where = read_where(request.entity, request.where, keeps_users=keeps_users)
    except UnknownWordError as unknown:
        if request.entity not in _WITHOUT_SET:
            raise
        raise RefusedError(unknown_condition(unknown.text)[0]) from None
    asked = Asked(
        connection,
        where,
        frozenset(word.lower() for word in request.flags),
        actor,
        private,
        time.time_ns() // 1000,
    )
    word = _PRIVATE_AS.get(request.entity)
    if word in private and not actor.is_operator:
        raise DeniedError("Access/permission denied", *refuse_denied().lines)
    fields, rows = lister(asked)
    if conditions.is_nothing(where, but="Users" if request.entity == "association" else ""):
        rows = []
    records = b"".join(_encode([row.get(name) for name in fields]) for row in rows)
    return EntityRows(asked.now_us, list(fields), records, {})


def association_row(cluster: str, tree: Tree, row: Row, own_only: bool) -> Row:
    """Return one association's values by field."""
    stored = row["limits"] if own_only else tree.limits_of(row)
    names = tree.qos_names
    ids = tree.qos_ids(row)
    own_qos = qos_given(row, names)
    depth, above = 0, tree.parent(row)
    while above is not None:
        depth, above = depth + 1, tree.parent(above)
    shares = row["shares"]
    shown: Row = {
        "Cluster": cluster,
        "Account": row["account"],
        "User": row["user"],
        "Partition": row["partition"],
        "Share": "parent" if shares == schema.USE_PARENT_SHARES else shares,
        "Priority": stored.get("Priority"),
        "QOSLevel": own_qos if own_only else ",".join(sorted(names[qos_id] for qos_id in ids)),
        "QOSRAWLevel": ",".join(map(str, ids)),
        "QOSGiven": own_qos,
        "DefaultQOS": names.get(row["default_qos_id"], "") if own_only else tree.default_qos(row),
        "ID": row["id"],
        "ParentID": row["parent_id"],
        "ParentName": tree.parent_account(row),
        "Lineage": row["lineage"],
        "Comment": row["comment"],
        "depth": depth,
        "is_default": bool(row["is_default"]),
        "limits": stored,
        "qos_ids": [names[qos_id] for qos_id in ids],
    }
    for spec in limits.ASSOCIATION_LIMITS:
        shown[spec.name] = limits.show_limit(stored, spec)
    for name in limits.SINGLE_TRES:
        shown[name] = limits.show_single(stored, name)
    return shown


def _association_rows(asked: Asked, where: Callable[[Row, Tree], bool]) -> list[Row]:
    own_only = not asked.flags.isdisjoint(("woplimits", "wolimits"))
    rows = []
    for cluster_id, cluster in asked.clusters():
        tree = Tree(asked.connection, cluster_id)
        is_wanted = conditions.of_associations(tree, asked.where)
        listed = list(tree.rows.values())
        if "withdeleted" in asked.flags:
            listed = in_order([*listed, *removed_rows(asked.connection, cluster_id)])
        seen = _seen_associations(asked, tree, listed)
        for row in listed:
            if row["id"] in seen and is_wanted(row) and where(row, tree):
                rows.append(association_row(cluster, tree, row, own_only))
    return rows


def _seen_associations(asked: Asked, tree: Tree, rows: Iterable[Row]) -> set[int]:
    """Return ids of the associations that the caller may see.

    With PrivateData=users these are the caller's own, all of accounts that the caller coordinates,
    and the accounts above them.
    """
    if not asked.is_hidden("users"):
        return {row["id"] for row in rows}
    actor, seen = asked.actor, set[int]()
    for row in rows:
        above: Row | None = row
        if row["user"] != actor.name and row["account"] not in actor.coordinates:
            continue
        while above is not None and above["id"] not in seen:
            seen.add(above["id"])
            above = tree.parent(above)
    return seen


def _associations(asked: Asked) -> tuple[Iterable[str], list[Row]]:
    where = asked.where
    accounts, users = where.values("Accounts", lower=True), where.users("Users")
    ids = set(history_rows.ids_of(where, "AssocId"))
    is_of_accounts = where.last("Users") == ""

    def is_wanted(row: Row, tree: Tree) -> bool:
        in_account = not accounts or row["account"] in accounts
        if accounts and not in_account and "withsubaccounts" in asked.flags:
            lineage = row["lineage"].split("/")
            in_account = any(account in lineage for account in accounts)
        return (
            in_account
            and (not users or row["user"] in users)
            and not (is_of_accounts and row["user"])
            and (not ids or row["id"] in ids)
            and ("onlydefaults" not in asked.flags or bool(row["is_default"]))
        )

    return ASSOCIATION_FIELDS, _association_rows(asked, is_wanted)


def _users(asked: Asked) -> tuple[Iterable[str], list[Row]]:
    where = asked.where
    names = where.users("Names")
    levels = [LEVEL_NAMES[level_of(word)] for word in where.values("AdminLevel")]
    defaults = where.values("DefaultAccount", lower=True)
    tied_rows: dict[str, list[Row]] = {}
    accounts = where.values("Accounts", lower=True)
    with_associations = "withassoc" in asked.flags
    restricts = any(key in where for key in ("Accounts", "Clusters", *conditions.OF_ASSOCIATIONS))
    if with_associations or restricts:
        rows = _association_rows(
            asked,
            lambda row, _: bool(row["user"]) and (not accounts or row["account"] in accounts),
        )
        for row in rows:
            tied_rows.setdefault(row["User"], []).append(row)
    defaults_of: dict[str, str] = {}
    direct, coordinated = coordinated_accounts(asked.connection)
    levels_of: dict[str, str] = {}
    keys_of: dict[str, str] = {}
    with_deleted = "withdeleted" in asked.flags
    for cluster_id, _ in asked.clusters() or [(0, "")]:
        for record in user_records(asked.connection, cluster_id, with_deleted=with_deleted):
            defaults_of.setdefault(record.name, record.default_account)
            defaults_of[record.name] = defaults_of[record.name] or record.default_account
            levels_of[record.name] = record.admin_level
            keys_of[record.name] = keys_of.get(record.name, "") or record.default_wckey
    owners = {
        key: wckeys.owners(
            asked.connection, asked.clusters(), where.values(key), as_default=key == "DefaultWCKey"
        )
        for key in ("WCKeys", "DefaultWCKey")
        if key in where
    }
    shown: list[Row] = []
    for name, level in levels_of.items():
        own = {
            "User": name,
            "DefaultAccount": defaults_of[name],
            "AdminLevel": level,
            "Coordinators": ",".join(coordinated.get(name, ())),
            "DirectCoordinators": ",".join(direct.get(name, ())),
            "DefaultWCKey": keys_of[name],
        }
        if (
            (names and name not in names)
            or (levels and level not in levels)
            or (defaults and own["DefaultAccount"] not in defaults)
            or (restricts and name not in tied_rows)
            or any(name not in users for users in owners.values())
            or not asked.sees_user(name)
        ):
            continue
        if not with_associations:
            shown.append(own)
        else:
            shown += [row | own for row in tied_rows.get(name, [dict[str, Any]()])]
    fields = ("DefaultAccount", "AdminLevel", "Coordinators", "DirectCoordinators", "DefaultWCKey")
    if not with_associations:
        return ("User", *fields), shown
    return (*ASSOCIATION_FIELDS, *fields), shown


def _accounts(asked: Asked) -> tuple[Iterable[str], list[Row]]:
    where = asked.where
    table = schema.accounts
    is_listed = removed.is_listed(table, "withdeleted" in asked.flags)
    query = sa.select(table).where(is_listed).order_by(table.c.name)
    for key, column in (
        ("Names", table.c.name),
        ("Description", table.c.description),
        ("Organization", table.c.organization),
    ):
        if key in where:
            query = query.where(column.in_(where.values(key, lower=True)))
    if "Flags" in where:
        query = query.where(table.c.flags == account_flags(where, ""))
    direct, coordinators = map(_by_account, coordinated_accounts(asked.connection))
    with_associations = "withassoc" in asked.flags
    tied_rows: dict[str, list[Row]] = {}
    users = where.users("Users")
    restricts = any(key in where for key in ("Users", "Clusters", *conditions.OF_ASSOCIATIONS))
    if with_associations or restricts:
        for row in _association_rows(asked, lambda row, _: not users or row["user"] in users):
            tied_rows.setdefault(row["Account"], []).append(row)
    members = _accounts_of_caller(asked)
    shown: list[Row] = []
    for account in asked.connection.execute(query):
        own = {
            "Account": account.name,
            "Description": account.description,
            "Organization": account.organization,
            "Coordinators": ",".join(coordinators.get(account.name, ())),
            "DirectCoordinators": ",".join(direct.get(account.name, ())),
            "Flags": account.flags,
        }
        if restricts and account.name not in tied_rows:
            continue
        if not asked.sees_account(account.name, members):
            continue
        if not with_associations:
            shown.append(own)
        else:
            shown += [row | own for row in tied_rows.get(account.name, [dict[str, Any]()])]
    fields = ("Description", "Organization", "Coordinators", "DirectCoordinators", "Flags")
    if not with_associations:
        return ("Account", *fields), shown
    return (*ASSOCIATION_FIELDS, *fields), shown


def _by_account(accounts_of: dict[str, list[str]]) -> dict[str, list[str]]:
    """Return the users of each account, in order."""
    users_of: dict[str, list[str]] = {}
    for user, accounts in sorted(accounts_of.items()):
        for account in accounts:
            users_of.setdefault(account, []).append(user)
    return users_of


def _accounts_of_caller(asked: Asked) -> frozenset[str]:
    table = schema.associations
    query = sa.select(table.c.account).where(
        table.c.user == asked.actor.name, table.c.is_deleted == 0
    )
    return frozenset(asked.connection.execute(query).scalars())


def _wckeys(asked: Asked) -> tuple[Iterable[str], list[Row]]:
    where, table = asked.where, schema.wckeys
    names, ids = where.values("Names"), where.values("IDs")
    users = where.users("Users")
    shown = []
    for cluster_id, cluster in sorted(asked.clusters(), key=lambda pair: pair[1]):
        is_listed = removed.is_listed(table, "withdeleted" in asked.flags)
        query = sa.select(table).where(table.c.cluster_id == cluster_id, is_listed)
        shown += [
            {
                "WCKeys": row.name,
                "Cluster": cluster,
                "User": row.user,
                "ID": row.id,
                "is_default": row.is_default,
            }
            for row in asked.connection.execute(query.order_by(table.c.name, table.c.user))
            if (not names or row.name in names)
            and (not users or row.user in users)
            and (not ids or str(row.id) in ids)
            and asked.sees_user(row.user)
        ]
    return ("WCKeys", "Cluster", "User", "ID", "is_default"), shown


def _clusters(asked: Asked) -> tuple[Iterable[str], list[Row]]:
    table = schema.clusters
    is_listed = removed.is_listed(table, "withdeleted" in asked.flags)
    query = sa.select(table).where(is_listed).order_by(table.c.name)
    shown = []
    for cluster in asked.connection.execute(query):
        if not conditions.is_cluster(cluster, asked.where):
            continue
        tree = Tree(asked.connection, cluster.id)
        root = tree.find("root")
        row = association_row(cluster.name, tree, root, False) if root is not None else {}
        tres = schema.node_events
        current = asked.connection.execute(
            sa.select(tres.c.tres, tres.c.cluster_nodes).where(
                tres.c.cluster_id == cluster.id, tres.c.node_name == "", tres.c.end_us == 0
            )
        ).first()
        row |= {
            "Cluster": cluster.name,
            "ControlHost": cluster.control_host,
            "ControlPort": cluster.control_port,
            "RPC": cluster.rpc_version,
            "Classification": cluster.classification,
            "Flags": cluster.flags,
            "Federation": cluster.federation,
            "FedState": state_name(cluster.federation_state),
            "FedStateRaw": cluster.federation_state,
            "Features": cluster.features,
            "ID": cluster.federation_id,
            "TRES": current.tres if current else "",
            "ClusterNodes": current.cluster_nodes if current else "",
            "NodeCount": count(current.cluster_nodes) if current else 0,
        }
        shown.append(row)
    fields = ("ControlHost", "ControlPort", "RPC", "Classification", "Flags", "Federation",
              "FedState", "FedStateRaw", "Features", "TRES", "ClusterNodes",
              "NodeCount")  # fmt: skip
    return (*ASSOCIATION_FIELDS, *fields), shown


def _qos(asked: Asked) -> tuple[Iterable[str], list[Row]]:
    table = schema.qos
    is_listed = removed.is_listed(table, "withdeleted" in asked.flags)
    query = sa.select(table).where(is_listed, *conditions.of_qos(asked.where)).order_by(table.c.id)
    names = {row.id: row.name for row in asked.connection.execute(sa.select(table))}
    shown = []
    for qos in asked.connection.execute(query):
        stored = limits.load(qos.limits)
        exempt = stored.get("PreemptExemptTime")
        row: Row = {
            "ID": qos.id,
            "Name": qos.name,
            "Description": qos.description,
            "Flags": qos.flags,
            "Priority": qos.priority,
            "GraceTime": format_seconds(qos.grace_time_s),
            "Preempt": names_of(qos.preempt, names),
            "PreemptMode": qos.preempt_mode,
            "PreemptExemptTime": "" if exempt is None else format_seconds(exempt),
            "UsageFactor": f"{stored.get('UsageFactor', 1_000_000) / 1e6:.6f}",
            "UsageThreshold": _factor(stored.get("UsageThreshold")),
            "LimitFactor": _factor(stored.get("LimitFactor")),
            "limits": stored,
        }
        for spec in limits.QOS_LIMITS:
            row[spec.name] = limits.show_limit(stored, spec)
        for name in limits.SINGLE_TRES:
            row[name] = limits.show_single(stored, name)
        # The names that these limits have in associations mean those of users here.
        row["MaxJobs"] = row["MaxJobsPerUser"]
        row["MaxSubmitJobs"] = row["MaxSubmitJobsPerUser"]
        shown.append(row)
    return QOS_FIELDS, shown


def _factor(millionths: int | None) -> str:
    return "" if millionths is None else f"{millionths / 1e6:.6f}"


def _tres(asked: Asked) -> tuple[Iterable[str], list[Row]]:
    where = asked.where
    rows = asked.connection.execute(sa.select(schema.tres).order_by(schema.tres.c.id))
    kinds, names, ids = (where.values(key, lower=True) for key in ("Types", "Names", "IDs"))
    shown = [
        {"Type": row.type, "Name": row.name, "ID": row.id}
        for row in rows
        if (not kinds or row.type in kinds or f"{row.type}/{row.name}" in kinds)
        and (not names or row.name in names)
        and (not ids or str(row.id) in ids)
    ]
    return ("Type", "Name", "ID"), shown


def _resources(asked: Asked) -> tuple[Iterable[str], list[Row]]:
    """Licences of licence servers; with `withclusters` once for each cluster that may use them."""
    where, table, shares = asked.where, schema.resources, schema.cluster_resources
    names, servers = (where.values(key, lower=True) for key in ("Names", "Servers"))
    is_each = "withclusters" in asked.flags
    clusters = dict(asked.clusters())
    cluster_shares: dict[int, list[tuple[str, int]]] = {}
    allocated: dict[int, int] = {}
    for share in asked.connection.execute(sa.select(shares).where(shares.c.is_deleted == 0)):
        allocated[share.resource_id] = allocated.get(share.resource_id, 0) + share.allowed
        if share.cluster_id in clusters:
            share_of = (clusters[share.cluster_id], share.allowed)
            cluster_shares.setdefault(share.resource_id, []).append(share_of)
    shown: list[Row] = []
    is_listed = removed.is_listed(table, "withdeleted" in asked.flags)
    for row in asked.connection.execute(sa.select(table).where(is_listed).order_by(table.c.id)):
        if (names and row.name not in names) or (servers and row.server not in servers):
            continue
        if where.values("Clusters") and row.id not in cluster_shares:
            continue
        for cluster, allowed in sorted(cluster_shares.get(row.id, ())) if is_each else [("", 0)]:
            shown.append(
                {
                    "Name": row.name, "Server": row.server, "Type": "License", "Count": row.count,
                    "LastConsumed": row.last_consumed, "Allocated": allocated.get(row.id, 0),
                    "servertype": row.server_type, "Flags": row.flags,
                    "Description": row.description, "Cluster": cluster, "Allowed": allowed,
                }
            )  # fmt: skip
    fields = ("Name", "Server", "Type", "Count", "LastConsumed", "Allocated", "servertype",
              "Flags", "Description", "Cluster", "Allowed")  # fmt: skip
    return fields, shown


def _open_jobs(asked: Asked) -> tuple[Iterable[str], list[Row]]:
    if not asked.actor.is_operator:
        raise refuse_denied()
    ids = frozenset(ids_of(asked.where))
    return open_jobs.FIELDS, [*open_jobs.rows(asked.connection, asked.clusters(), ids)]


LISTERS: dict[str, Callable[[Asked], tuple[Iterable[str], list[Row]]]] = {
    "association": _associations,
    "user": _users,
    "account": _accounts,
    "cluster": _clusters,
    "qos": _qos,
    "tres": _tres,
    "transaction": change_rows.transactions,
    "event": history_rows.events,
    "problem": problem_listing.problems,
    "runawayjobs": _open_jobs,
    "wckey": _wckeys,
    "resource": _resources,
    "federation": federation_listing.federations,
    "reservation": reservation_listing.reservations,
    "instance": instance_listing.instances,
}
