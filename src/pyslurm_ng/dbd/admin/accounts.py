"""sacctmgr add, modify and delete account."""

from __future__ import annotations

from collections.abc import Iterable

import sqlalchemy as sa

from pyslurm_ng.dbd import limits, schema
from pyslurm_ng.dbd.admin import conditions, removed_records, usage_reset
from pyslurm_ng.dbd.admin.change import (
    BadValueError,
    Change,
    DeniedError,
    RefusedError,
    Row,
    refuse_denied,
    require_few,
    require_idle,
)
from pyslurm_ng.dbd.admin.settings import Settings, apply_settings, read_settings
from pyslurm_ng.dbd.admin.words import NO_CONDITIONS, Words, need_name
from pyslurm_ng.dbd.tree import USERS_ARE_COORDINATORS, Tree

_INHERITED = frozenset(
    ["QosLevel", "DefaultQOS", "Priority"]
    + [spec.name for spec in limits.ASSOCIATION_LIMITS if spec.is_inherited]
)


def add(change: Change, words: Words, _: Words) -> None:
    """Create accounts and their associations under `parent` on each cluster."""
    names = words.values("Names", lower=True)
    if not names:
        raise RefusedError(*need_name(words, "account"))
    check_names(names)
    parent = (words.last("Parents") or "root").lower()
    actor = change.actor
    if not actor.is_operator and parent not in actor.coordinates:
        raise DeniedError(" error: Only admins/operators/coordinators can add accounts")
    if "Flags" in words and not actor.is_operator:
        raise refuse_denied()  # a flag gives rights
    settings = read_settings(words)
    clusters = change.clusters(words, must_exist=True)
    require_few(change, len(names) * len(clusters), "accounts and clusters")
    new_lines = add_rows(change, words, names)
    existing, association_lines = [], []
    for cluster_id, cluster in clusters:
        tree = change.tree(cluster_id)
        above = tree.find(parent)
        if above is None:
            raise RefusedError(
                f" Parent account {parent} doesn't exist on cluster {cluster}.",
                is_output=True,
            )
        for name in names:
            if tree.find(name) is not None:
                existing.append(f" Already existing account {name} on cluster {cluster}")
                continue
            row = insert_association(change, tree, cluster_id, above, name, "", "", settings)
            association_lines.append(f"  C = {cluster:<10s} A = {name:<20s}")
            change.log("Add Associations", cluster, f"id_assoc={row['id']}", f"acct='{name}'")
    change.lines += existing
    if not association_lines and not new_lines:
        raise RefusedError(*(existing or [" Nothing new added."]), is_output=True)
    change.lines += new_lines
    if association_lines:
        change.lines += [" Associations =", *association_lines]
        shown = settings.lines(parent if parent != "root" else "")
        if shown:
            change.lines += [" Settings", *shown]
    change.changed += len(association_lines) + len(new_lines)


def check_names(names: list[str]) -> None:
    """Refuse names that no account may have."""
    for name in names:
        # A blank within a name is taken, since dumps of Slurm have such names.
        is_plain = name.isprintable() and not any(char in name for char in "/,'\"")
        if len(name) > 128 or not is_plain or name != name.strip():
            raise RefusedError(f" Bad account name {name!r}")


def add_rows(change: Change, words: Words, names: list[str]) -> list[str]:
    """Create missing rows of the accounts table; return the lines to print."""
    table = schema.accounts
    known = {
        row.name: row
        for row in change.connection.execute(sa.select(table).where(table.c.name.in_(names)))
    }
    new_names = [name for name in names if name not in known or known[name].is_deleted]
    if not new_names:
        return []
    description, organization = words.last("Description"), words.last("Organization")
    parent = words.last("Parents") or ""
    parent = "" if parent.lower() == "root" else parent
    rows: list[Row] = [
        {
            "name": name,
            # Slurm stores both in lower case, and falls back to the account's or parent's name.
            "description": (description or name).lower()[:255],
            "organization": (organization or parent or name).lower()[:255],
            "flags": account_flags(words, ""),
            **change.stamp(is_new=True),
        }
        for name in new_names
    ]
    change.database.upsert(change.connection, table, ("name",), rows)
    for row in rows:
        info = f"description='{row['description']}', organization='{row['organization']}'"
        change.log("Add Accounts", "", row["name"], info)
    return [
        " Adding Account(s)",
        *(f"  {name}" for name in new_names),
        " Settings",
        f"  {'Description':<15s} = {(description or '').lower() or 'Account Name'}",
        f"  {'Organization':<15s} = {(organization or '').lower() or 'Parent/Account Name'}",
        *([f"  {'Flags':<15s} = {rows[0]['flags']}"] if rows[0]["flags"] else []),
    ]


def account_flags(words: Words, flags: str) -> str:
    """Return the flags of an account that has had these, as the words set them.

    Raises:
        BadValueError: a word that is no flag.
    """
    for key, op, text in words.items:
        if key != "Flags":
            continue
        for word in filter(None, text.split(",")):
            name = word.lower()
            if name not in ("usersarecoords", "nousersarecoords", "-1", "''"):
                allowed = "UsersAreCoords and NoUsersAreCoords are allowed"
                raise BadValueError(key, text, f"sacctmgr: error: Unknown flag {word}: {allowed}")
            is_set = name == "usersarecoords" and op != "-="
            flags = USERS_ARE_COORDINATORS if is_set else ""
    return flags


def touch_members(change: Change, names: list[str]) -> None:
    """Let controllers see that users of these accounts coordinate others than before."""
    users, tied, pairs = schema.users, schema.associations, schema.coordinators
    for table in (tied, pairs):
        members = sa.select(table.c.user).where(table.c.account.in_(names))
        change.connection.execute(
            users.update().where(users.c.name.in_(members)).values(**change.stamp())
        )


def insert_association(
    change: Change,
    tree: Tree,
    cluster_id: int,
    above: Row,
    account: str,
    user: str,
    partition: str,
    settings: Settings,
    is_default: bool = False,
) -> Row:
    """Create an association, or bring a deleted one back under its old id; return it.

    The caller loads the tree again before it looks for the new association.
    """
    lineage = above["lineage"] + (f"0-{user}/" if user else f"{account}/")
    _check_depth(lineage)
    row: Row = {
        "id": 0,
        "cluster_id": cluster_id,
        "account": account,
        "user": user,
        "partition": partition,
        "parent_id": above["id"],
        "lineage": lineage,
        "is_default": int(is_default),
        "shares": 1,
        "default_qos_id": 0,
        "qos": "",
        "delta_qos": "",
        "limits": {},
        "comment": "",
    }
    row |= apply_settings(change, tree, row, settings)
    row |= change.stamp(is_new=True)
    del row["id"]
    keys = ("cluster_id", "account", "user", "partition")
    change.database.upsert(change.connection, schema.associations, keys, [row])
    table = schema.associations
    where = sa.and_(*[table.c[key] == row[key] for key in keys])
    number: int = change.connection.execute(sa.select(table.c.id).where(where)).scalar_one()
    return row | {"id": number, "limits": limits.load(row["limits"])}


def _check_depth(lineage: str) -> None:
    """Refuse an association that is too far below the root; the tree's readers rely on it."""
    if len(lineage) > schema.LINEAGE_CHARACTERS:
        raise RefusedError(
            f" error: the names of all accounts above {lineage.split('/')[-2]} have "
            f"{len(lineage)} characters, at most {schema.LINEAGE_CHARACTERS} are allowed"
        )


def modify(change: Change, where: Words, settings_words: Words) -> None:
    """Change accounts' fields, their associations, and their parents."""
    if not settings_words.items:
        raise RefusedError(" You didn't give me anything to set")
    if usage_reset.is_asked(settings_words):
        usage_reset.reset_accounts(change, where)
        return
    names = _selected(change, where)
    settings = read_settings(settings_words)
    inherited = inherited_keys(settings)
    own: Row = {}
    for key, column in (("Description", "description"), ("Organization", "organization")):
        value = settings_words.last(key)
        if value is not None:
            own[column] = value.lower()[:255]
    if "Flags" in settings_words:
        own["flags"] = account_flags(settings_words, "")
        touch_members(change, names)
    if own and not change.actor.is_operator:
        raise refuse_denied()
    if own and names:
        table = schema.accounts
        change.connection.execute(
            table.update().where(table.c.name.in_(names)).values(**own, **change.stamp())
        )
        change.lines += [" Modified accounts...", *(f"  {name}" for name in names)]
        change.changed += len(names)
        settings_text = ", ".join(f"{column}='{value}'" for column, value in own.items())
        change.log("Modify Accounts", "", ",".join(names), settings_text)
    parent = settings_words.last("Parents")
    lines = []
    for cluster_id, cluster in change.clusters(where):
        tree = change.tree(cluster_id)
        for row in _associations(tree, where, names) if settings or parent else ():
            _require_rights(change, tree, row, (parent or "").lower())
            if row["user"]:
                update_association(change, tree, row, settings, cluster)
                lines.append(user_line(cluster, row))
                continue
            line, before = f"  C = {cluster:<10s} A = {row['account']}", tree.parent_account(row)
            if parent and before == parent.lower() and not settings:
                continue
            if parent and before != parent.lower():
                move(change, tree, row, parent.lower())
            update_association(change, tree, row, settings, cluster)
            lines.append(f"{line} of {before}" if before else line)
            lines += heirs(tree, cluster, row, inherited)
    if lines:
        change.lines += [" Modified account associations...", *lines]
        change.changed += len(lines)
    if not change.changed:
        raise RefusedError(" Nothing modified", is_output=True)


def _require_rights(change: Change, tree: Tree, row: Row, parent: str) -> None:
    """Refuse a coordinator's change of an account that is not below one of the coordinator's.

    So coordinators do not change what their own account has been given. Nor do they move an
    account to where it would use what others have been given. Users they change by modify user.
    """
    actor = change.actor
    if actor.is_operator:
        return
    if not {tree.parent_account(row), parent or row["account"]} <= actor.coordinates:
        raise refuse_denied()


def update_association(
    change: Change, tree: Tree, row: Row, settings: Settings, cluster: str, **columns: object
) -> None:
    """Write an association's new settings and columns."""
    values = {**apply_settings(change, tree, row, settings), **columns, **change.stamp()}
    table = schema.associations
    change.connection.execute(table.update().where(table.c.id == row["id"]).values(**values))
    shown = [f"{key}{op}{value}" for key, op, value in settings.words]
    shown += [f"{name}={value}" for name, value in columns.items()]
    change.log("Modify Associations", cluster, f"id_assoc={row['id']}", ", ".join(shown))


def user_line(cluster: str, row: Row) -> str:
    """Return the line of a user's association that changes."""
    line = f"  C = {cluster:<10s} A = {row['account']:<20s} U = {row['user']:<9s}"
    return f"{line} P = {row['partition']}" if row["partition"] else line


def _associations(tree: Tree, where: Words, names: list[str]) -> list[Row]:
    """Return the associations of accounts that conditions name; with users, those of the users."""
    users, is_wanted = where.users("Users"), conditions.of_associations(tree, where)
    return [
        row
        for row in tree.rows.values()
        if row["account"] in names
        and (row["user"] in users if users else not row["user"])
        and is_wanted(row)
    ]


def inherited_keys(settings: Settings) -> list[str]:
    """Return which of the settings associations below have, too, unless they have their own."""
    keys = []
    for key, _, _ in settings.words:
        name = limits.SINGLE_TRES[key][0] if key in limits.SINGLE_TRES else key
        if name in _INHERITED:
            keys.append(name)
    return keys


def heirs(tree: Tree, cluster: str, above: Row, keys: list[str]) -> list[str]:
    """Return the lines of users below an account for whom one of its settings holds."""
    lines = []
    for child_id in tree.children.get(above["id"], ()):
        row = tree.rows[child_id]
        open_keys = [key for key in keys if not _has_own(row, key)]
        if not open_keys:
            continue
        if row["user"]:
            lines.append(user_line(cluster, row))
        else:
            lines += heirs(tree, cluster, row, open_keys)
    return lines


def _has_own(row: Row, key: str) -> bool:
    if key == "QosLevel":
        return bool(row["qos"])
    if key == "DefaultQOS":
        return bool(row["default_qos_id"])
    return key in row["limits"]


def move(change: Change, tree: Tree, row: Row, parent: str) -> None:
    """Put an account below another one; what the tree knows of lineages is old then.

    Raises:
        RefusedError: there is no such account, or it is below the one that moves.
    """
    above = tree.find(parent)
    if above is None:
        raise RefusedError(f" Parent Account {parent} doesn't exist.")
    family = list(tree.below(row["id"]))
    if any(member["id"] == above["id"] for member in family):
        raise RefusedError(
            f" Error with request: {parent} is below {row['account']}; "
            "an account cannot be moved under its own children"
        )
    lineage = f"{above['lineage']}{row['account']}/"
    table = schema.associations
    for member in family:
        values: Row = {"lineage": lineage + member["lineage"].removeprefix(row["lineage"])}
        _check_depth(values["lineage"])
        if member["id"] == row["id"]:
            values["parent_id"] = above["id"]
        change.connection.execute(
            table.update().where(table.c.id == member["id"]).values(**values, **change.stamp())
        )
    row["parent_id"] = above["id"]


def _selected(change: Change, where: Words) -> list[str]:
    """Return the accounts that the conditions name."""
    table = schema.accounts
    query = sa.select(table.c.name).where(table.c.is_deleted == 0).order_by(table.c.name)
    names = where.values("Names", lower=True)
    if names:
        query = query.where(table.c.name.in_(names))
    for key, column in (
        ("Description", table.c.description),
        ("Organization", table.c.organization),
    ):
        if key in where:
            query = query.where(column.in_(where.values(key, lower=True)))
    if "Flags" in where:
        query = query.where(table.c.flags == account_flags(where, ""))
    selected = list(change.connection.execute(query).scalars())
    if not any(key in where for key in (*conditions.OF_ASSOCIATIONS, "Users")):
        return selected
    tied = {
        row["account"]
        for cluster_id, _ in change.clusters(where)
        for row in _associations(change.tree(cluster_id), where, selected)
    }
    return [name for name in selected if name in tied]


def delete(change: Change, where: Words, _: Words) -> None:
    """Remove accounts with everything below them, on the named clusters or on all."""
    if not where.items:
        raise RefusedError(NO_CONDITIONS)
    if "Users" in where:
        raise RefusedError(" Use delete user to take users out of accounts.")
    names = _selected(change, where)
    if "root" in names:
        raise RefusedError(
            " You are not allowed to remove the root account.", " Use remove cluster instead."
        )
    if not change.actor.is_operator:
        raise refuse_denied()
    if not names:
        raise RefusedError(" Nothing deleted", is_output=True)
    lines = []
    for cluster_id, cluster in change.clusters(where):
        tree = change.tree(cluster_id)
        doomed = {
            lower["id"]: lower
            for row in tree.rows.values()
            if row["account"] in names and not row["user"]
            for lower in tree.below(row["id"])
        }
        require_idle(change, doomed)
        check_defaults(tree, set(doomed))
        remove_associations(change, cluster, doomed.values())
        for row in doomed.values():
            lines.append(describe(cluster, row, tree.parent_account(row)))
    if "Clusters" in where:
        if not lines:
            raise RefusedError(" Nothing deleted", is_output=True)
        change.lines += [" Deleting account associations...", *lines]
    else:
        touch_members(change, names)
        removed_records.remove(change, schema.accounts.c.name, names, schema.jobs.c.account)
        change.connection.execute(
            schema.coordinators.delete().where(schema.coordinators.c.account.in_(names))
        )
        change.lines += [" Deleting accounts...", *(f"  {name}" for name in names)]
    change.changed += len(names)
    change.log("Remove Accounts", "", ",".join(names), "")


def describe(cluster: str, row: Row, above: str = "") -> str:
    """Return the line for an association that is removed; `above` is the parent of an account."""
    if not row["user"]:
        return f"  C = {cluster:<10s} A = {row['account']} of {above}"
    line = f"  C = {cluster:<10s} A = {row['account']:<10s} U = {row['user']:<9s}"
    return f"{line} P = {row['partition']}" if row["partition"] else line


def check_defaults(tree: Tree, doomed: set[int]) -> None:
    """Refuse to take a user's default account away while the user keeps others."""
    for ended in doomed:
        row = tree.rows[ended]
        if not row["is_default"] or not row["user"]:
            continue
        others = [
            other
            for other in tree.rows.values()
            if other["user"] == row["user"]
            and other["id"] not in doomed
            and other["account"] != row["account"]
        ]
        if others:
            raise RefusedError(
                " Error with request: You can not remove the default account of a user",
                f"  U = {row['user']:<9s} A = {row['account']}",
            )


def remove_associations(change: Change, cluster: str, rows: Iterable[Row]) -> None:
    """Mark associations as deleted: their jobs stay, and controllers learn it from the version."""
    doomed = list(rows)
    removed_records.remove(
        change,
        schema.associations.c.id,
        [row["id"] for row in doomed],
        schema.jobs.c.association_id,
        is_default=0,
        limits=limits.dump({}),
        qos="",
        delta_qos="",
        default_qos_id=0,
    )
    for row in doomed:
        change.log("Remove Associations", cluster, f"id_assoc={row['id']}", key_text(row))


def key_text(row: Row) -> str:
    """Return what the transaction log says an association is of."""
    text = f"acct='{row['account']}'"
    if row["user"]:
        text += f", user='{row['user']}'"
    return f"{text}, partition='{row['partition']}'" if row["partition"] else text
