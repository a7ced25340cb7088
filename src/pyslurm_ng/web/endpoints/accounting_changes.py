"""Changing accounting: adding, changing and removing what sacctmgr adds, changes and removes.

A record that there is already is changed; others are added.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pyslurm_ng.base.error_numbers import Errno
from pyslurm_ng.data_parser.records import rows_of
from pyslurm_ng.web.accounting_settings import (
    Record,
    Settings,
    association_settings,
    condition_settings,
    qos_settings,
)
from pyslurm_ng.web.call import Answer, Call
from pyslurm_ng.web.endpoints.accounting import listed
from pyslurm_ng.web.refusal import BAD_REQUEST, NOT_FOUND, UNPROCESSABLE, Refusal, refusal_of
from pyslurm_ng.wire.daemon_link import SlurmError

CHANGE_S = 900.0
_DENIED = ("access/permission denied", "only admins/operators", "only administrators")
"""What slurmdbd's refusals say where the user lacks rights, as sacctmgr prints them."""


def change(
    call: Call, verb: str, entity: str, where: Settings, settings: Settings, source: str
) -> dict[str, Any]:
    """Make one change; refuse with what slurmdbd says."""
    request = {"verb": verb, "entity": entity, "where": where, "set": settings, "commit": True}
    description = f"{source.rstrip('()')}() failed"
    try:
        reply = call.database.change("ChangeEntities", request, CHANGE_S)
    except SlurmError as error:
        raise refusal_of(error, description, source) from None
    if reply["exit_code"]:
        lines = [line.strip() for line in (*reply["error_lines"], *reply["lines"]) if line.strip()]
        text = "; ".join(lines) or "Unspecified error"
        if any(words in text.lower() for words in _DENIED):
            raise Refusal(UNPROCESSABLE, description, Errno.ESLURM_ACCESS_DENIED, source)
        raise Refusal(UNPROCESSABLE, description, Errno.SLURM_ERROR, source, text)
    return reply


def _is_known(call: Call, entity: str, where: Settings, source: str) -> bool:
    return bool(_known(call, entity, where, source))


def _known(call: Call, entity: str, where: Settings, source: str) -> list[Record]:
    fields = {"entity": entity, "where": where, "flags": []}
    try:
        return rows_of(call.database.call("ListEntities", fields, CHANGE_S))
    except SlurmError as error:
        raise refusal_of(error, f"{source.rstrip('()')}() failed", source) from None


def _add_or_change(
    call: Call, entity: str, where: Settings, settings: Callable[[bool], Settings], source: str
) -> None:
    """Add a record, or change the one that agrees with `where`."""
    if _is_known(call, entity, where, source):
        changes = settings(False)
        if changes:
            change(call, "modify", entity, where, changes, source)
    else:
        change(call, "add", entity, where + settings(True), [], source)


def _records(call: Call, key: str) -> list[Record]:
    """Return the records of the body.

    Raises:
        Refusal: there are none.
    """
    rows = (call.body or {}).get(key) or []
    if not rows:
        raise Refusal(BAD_REQUEST, f"{key}: none are given", source=f"#/{key}/")
    return list(rows)


def _named(record: Record, key: str, name: str = "name") -> str:
    value = record.get(name)
    if not value:
        raise Refusal(BAD_REQUEST, f"{key}: {name} is missing", source=f"#/{key}/{name}/")
    return str(value)


def _plain(record: Record, *keys: tuple[str, str]) -> Settings:
    return [(key, "=", str(record[name])) for name, key in keys if record.get(name)]


# Accounts -------------------------------------------------------------------------------------

_ACCOUNT = (("description", "Description"), ("organization", "Organization"))


def set_accounts(call: Call) -> Answer:
    """Add or change accounts."""
    source = "slurmdb_accounts_add()"
    for record in _records(call, "accounts"):
        where: Settings = [("Names", "=", _named(record, "accounts"))]
        settings = _plain(record, *_ACCOUNT)
        _add_or_change(call, "account", where, lambda _, made=settings: made, source)  # type: ignore[misc]
        for coordinator in record.get("coordinators") or ():
            _coordinate(call, record["name"], _named(coordinator, "coordinators"))
    return {}


def _coordinate(call: Call, account: str, user: str) -> None:
    where: Settings = [("Accounts", "=", account), ("Names", "=", user)]
    if _is_known(call, "coordinator", where, "slurmdb_coord_add()") is False:
        change(call, "add", "coordinator", where, [], "slurmdb_coord_add()")


def add_accounts(call: Call) -> Answer:
    """Add accounts with one association each."""
    body = call.body or {}
    condition = body.get("association_condition") or {}
    names = condition.get("accounts") or []
    _need(names, "association_condition/accounts")
    settings = _condition(condition) + _plain(body.get("account") or {}, *_ACCOUNT)
    reply = change(
        call, "add", "account", [("Names", "=", ",".join(names)), *settings], [],
        "slurmdb_accounts_add_cond()",
    )  # fmt: skip
    return {"added_accounts": "\n".join(reply["lines"])}


def _need(names: Sequence[str], where: str) -> None:
    if not names:
        raise Refusal(BAD_REQUEST, f"{where}: none are given", source=f"#/{where}/")


def _condition(condition: Record) -> Settings:
    settings = condition_settings(condition.get("association") or {})
    if condition.get("clusters"):
        settings.append(("Clusters", "=", ",".join(condition["clusters"])))
    return settings


# Users ----------------------------------------------------------------------------------------


def set_users(call: Call) -> Answer:
    """Add or change users; a new one needs a default account."""
    source = "slurmdb_users_add()"
    for record in _records(call, "users"):
        where: Settings = [("Names", "=", _named(record, "users"))]
        default = record.get("default") or {}

        def settings(is_new: bool, record: Record = record, default: Record = default) -> Settings:
            made = _plain(default, ("account", "DefaultAccount"), ("wckey", "DefaultWCKey"))
            levels = [word for word in record.get("administrator_level") or () if word]
            if levels and levels != ["Not Set"]:
                made.append(("AdminLevel", "=", levels[0]))
            if is_new and default.get("account"):
                made.append(("Accounts", "=", default["account"]))
            return made

        _add_or_change(call, "user", where, settings, source)
    return {}


def add_users(call: Call) -> Answer:
    """Add users to accounts."""
    body = call.body or {}
    condition, user = body.get("association_condition") or {}, body.get("user") or {}
    names = condition.get("users") or []
    _need(names, "association_condition/users")
    settings = _condition(condition)
    for name, key in (("accounts", "Accounts"), ("partitions", "Partitions"), ("wckeys", "WCKeys")):
        if condition.get(name):
            settings.append((key, "=", ",".join(condition[name])))
    settings += _plain(user, ("defaultaccount", "DefaultAccount"), ("defaultwckey", "DefaultWCKey"))
    levels = [word for word in user.get("adminlevel") or () if word]
    if levels:
        settings.append(("AdminLevel", "=", levels[0]))
    reply = change(
        call, "add", "user", [("Names", "=", ",".join(names)), *settings], [],
        "slurmdb_users_add_cond()",
    )  # fmt: skip
    return {"added_users": "\n".join(reply["lines"])}


# Associations, QOS, clusters, wckeys ----------------------------------------------------------


def set_associations(call: Call) -> Answer:
    """Add or change associations."""
    source = "slurmdb_associations_add()"
    for record in _records(call, "associations"):
        account = _named(record, "associations", "account")
        where: Settings = [("Accounts", "=", account)]
        where += _plain(record, ("cluster", "Clusters"), ("partition", "Partitions"))
        entity, user = "account", record.get("user")
        names: Settings = [("Names", "=", account), *where[1:]]
        if user:
            entity, names = "user", [("Names", "=", user), *where]
        known = [*where, ("Users", "=", user or "")] if user else where
        if rows := _known(call, "association", known, source):
            changes = association_settings(record, is_new=False)
            above = (record.get("parent_account") or "").lower()
            if not user and any(row["ParentName"] != above for row in rows if not row["User"]):
                changes += _plain(record, ("parent_account", "Parent"))
            if changes:
                change(call, "modify", entity, names, changes, source)
        else:
            made = association_settings(record, is_new=True)
            made += _plain(record, ("parent_account", "Parent")) if not user else []
            change(call, "add", entity, names + made, [], source)
    return {}


def set_qos(call: Call) -> Answer:
    """Add or change QOS."""
    for record in _records(call, "qos"):
        where: Settings = [("Names", "=", _named(record, "qos"))]
        _add_or_change(
            call, "qos", where,
            lambda is_new, record=record: qos_settings(record, is_new=is_new),  # type: ignore[misc]
            "slurmdb_qos_add()",
        )  # fmt: skip
    return {}


def set_clusters(call: Call) -> Answer:
    """Add clusters; what there is of one is its controller's to say."""
    for record in _records(call, "clusters"):
        where: Settings = [("Names", "=", _named(record, "clusters"))]
        _add_or_change(call, "cluster", where, lambda _: [], "slurmdb_clusters_add()")
    return {}


def set_wckeys(call: Call) -> Answer:
    """Give users wckeys."""
    source = "slurmdb_wckeys_add()"
    for record in _records(call, "wckeys"):
        name, user = _named(record, "wckeys"), _named(record, "wckeys", "user")
        cluster = _plain(record, ("cluster", "Clusters"))
        where: Settings = [("Names", "=", name), ("Users", "=", user), *cluster]
        if not _is_known(call, "wckey", where, source):
            change(
                call, "add", "user", [("Names", "=", user), ("WCKeys", "=", name), *cluster], [],
                source,
            )  # fmt: skip
    return {}


def set_tres(call: Call) -> Answer:
    """Count more TRES; numbers and counts of the body mean nothing, as in a dump."""
    source = "slurmdb_tres_add()"
    _add_tres(call, _records(call, "TRES"), source)
    return {}


def _add_tres(call: Call, records: list[Record], source: str) -> None:
    rows = listed(call, "tres", [], [], "slurmdb_tres_get()")["TRES"]
    known = {(row["type"], row["name"]) for row in rows}
    for record in records:
        kind = _named(record, "TRES", "type")
        if (kind, record.get("name") or "") not in known:
            where = [("Types", "=", kind), *_plain(record, ("name", "Names"))]
            change(call, "add", "tres", where, [], source)


# Removing -------------------------------------------------------------------------------------


def _remove(call: Call, entity: str, name: str, key: str, source: str) -> Answer:
    where: Settings = [("Names", "=", name)]
    if not _is_known(call, entity, where, source):
        raise Refusal(NOT_FOUND, f"Unable to find {entity} {name[:64]}", source=source)
    change(call, "delete", entity, where, [], source)
    return {key: [name]} if key else {}


def remove_account(call: Call) -> Answer:
    """Remove an account with its associations."""
    name = call.path["account_name"]
    return _remove(call, "account", name, "removed_accounts", "slurmdb_accounts_remove()")


def remove_user(call: Call) -> Answer:
    """Remove a user with its associations."""
    return _remove(call, "user", call.path["name"], "", "slurmdb_users_remove()")


def remove_qos(call: Call) -> Answer:
    """Remove a QOS."""
    return _remove(call, "qos", call.path["qos"], "removed_qos", "slurmdb_qos_remove()")


def remove_cluster(call: Call) -> Answer:
    """Remove a cluster."""
    name = call.path["cluster_name"]
    return _remove(call, "cluster", name, "deleted_clusters", "slurmdb_clusters_remove()")


def remove_wckey(call: Call) -> Answer:
    """Take a wckey, which its number names, from its user."""
    number, source = call.path["id"], "slurmdb_wckeys_remove()"
    if not (number.isascii() and number.isdecimal()):
        raise Refusal(BAD_REQUEST, "id: the number of a wckey is needed", source=source)
    rows = listed(call, "wckey", [("IDs", "=", number)], [], source)["wckeys"]
    if not rows:
        raise Refusal(NOT_FOUND, f"Unable to find wckey {number[:64]}", source=source)
    where: Settings = [
        ("Names", "=", rows[0]["user"]),
        ("WCKeys", "=", rows[0]["name"]),
        ("Clusters", "=", rows[0]["cluster"]),
    ]
    reply = change(call, "delete", "user", where, [], source)
    return {"deleted_wckeys": [line.strip() for line in reply["lines"][1:]]}


def remove_associations(call: Call) -> Answer:
    """Remove the associations that agree with the query, which has to name an account or user."""
    source = "slurmdb_associations_remove()"
    query = call.query
    where = [
        (key, "=", query[name])
        for name, key in (("account", "Accounts"), ("cluster", "Clusters"),
                          ("partition", "Partitions"), ("user", "Users"))
        if query.get(name)
    ]  # fmt: skip
    if not query.get("account") and not query.get("user"):
        raise Refusal(BAD_REQUEST, "account or user has to be given", source="#/query/")
    rows = listed(call, "association", where, [], source)["associations"]
    if not rows:
        raise Refusal(NOT_FOUND, "Unable to find associations", source=source)
    entity = "user" if query.get("user") else "account"
    names = "Names" if entity == "user" else "Accounts"
    chosen: Settings = [
        (names if key == ("Users" if entity == "user" else "Accounts") else key, "=", value)
        for key, _, value in where
    ]
    change(call, "delete", entity, chosen, [], source)
    return {"removed_associations": [_shown(row) for row in rows]}


def _shown(row: Record) -> str:
    words = [f"C={row['cluster']}", f"A={row['account']}"]
    words += [f"U={row['user']}"] if row["user"] else []
    words += [f"P={row['partition']}"] if row["partition"] else []
    return " ".join(words)


# Everything at once ---------------------------------------------------------------------------


def dump(call: Call) -> Answer:
    """Return all that accounting knows beside jobs."""
    whole: dict[str, Any] = {}
    for entity, flags, source in (
        ("cluster", [], "slurmdb_clusters_get()"),
        ("tres", [], "slurmdb_tres_get()"),
        ("account", ["withassoc", "withcoordinators"], "slurmdb_accounts_get()"),
        ("user", ["withassoc", "withcoordinators"], "slurmdb_users_get()"),
        ("qos", [], "slurmdb_qos_get()"),
        ("wckey", [], "slurmdb_wckeys_get()"),
        ("association", [], "slurmdb_associations_get()"),
    ):
        whole.update(listed(call, entity, [], list(flags), source))
    whole["tres"] = whole.pop("TRES")
    return whole


_LOADED = (
    ("clusters", set_clusters), ("qos", set_qos), ("accounts", set_accounts),
    ("users", set_users), ("associations", set_associations), ("wckeys", set_wckeys),
)  # fmt: skip


def load(call: Call) -> Answer:
    """Add or change all that the body has, in an order in which nothing is missing."""
    body = call.body or {}
    if not any(body.get(key) for key, _ in _LOADED):
        raise Refusal(BAD_REQUEST, "nothing to load", source="#/")
    for key, make in _LOADED:
        if body.get(key):
            make(call)
    if body.get("tres"):
        _add_tres(call, body["tres"], "slurmdb_tres_add()")
    return {}


ROUTES: dict[tuple[str, str], Callable[[Call], Answer]] = {
    ("post", "/slurmdb/{version}/accounts/"): set_accounts,
    ("post", "/slurmdb/{version}/accounts_association/"): add_accounts,
    ("delete", "/slurmdb/{version}/account/{account_name}"): remove_account,
    ("post", "/slurmdb/{version}/users/"): set_users,
    ("post", "/slurmdb/{version}/users_association/"): add_users,
    ("delete", "/slurmdb/{version}/user/{name}"): remove_user,
    ("post", "/slurmdb/{version}/associations/"): set_associations,
    ("delete", "/slurmdb/{version}/associations/"): remove_associations,
    ("delete", "/slurmdb/{version}/association/"): remove_associations,
    ("post", "/slurmdb/{version}/qos/"): set_qos,
    ("delete", "/slurmdb/{version}/qos/{qos}"): remove_qos,
    ("post", "/slurmdb/{version}/clusters/"): set_clusters,
    ("delete", "/slurmdb/{version}/cluster/{cluster_name}"): remove_cluster,
    ("post", "/slurmdb/{version}/wckeys/"): set_wckeys,
    ("delete", "/slurmdb/{version}/wckey/{id}"): remove_wckey,
    ("post", "/slurmdb/{version}/tres/"): set_tres,
    ("get", "/slurmdb/{version}/config"): dump,
    ("post", "/slurmdb/{version}/config"): load,
}
