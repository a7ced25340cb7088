"""sacctmgr add, modify and delete user."""

from __future__ import annotations

import sqlalchemy as sa

from pyslurm_ng.dbd import removed, schema
from pyslurm_ng.dbd.admin import conditions, removed_records, usage_reset, wckeys
from pyslurm_ng.dbd.admin.accounts import (
    check_defaults,
    describe,
    insert_association,
    remove_associations,
    update_association,
    user_line,
)
from pyslurm_ng.dbd.admin.change import (
    ADMINISTRATOR,
    NONE,
    OPERATOR,
    Change,
    DeniedError,
    RefusedError,
    Row,
    refuse_denied,
    require_administrator,
    require_few,
    require_idle,
)
from pyslurm_ng.dbd.admin.settings import read_settings
from pyslurm_ng.dbd.admin.words import NO_CONDITIONS, Words, need_name
from pyslurm_ng.dbd.tree import Tree

_LEVELS = {
    "none": NONE,
    "operator": OPERATOR,
    "operators": OPERATOR,
    "administrator": ADMINISTRATOR,
    "administrators": ADMINISTRATOR,
    "admin": ADMINISTRATOR,
}
LEVEL_NAMES = {NONE: "None", OPERATOR: "Operator", ADMINISTRATOR: "Administrator"}


def add(change: Change, words: Words, _: Words) -> None:
    """Create users and their associations with accounts, on each cluster and partition."""
    names = words.users("Names")
    if not names:
        raise RefusedError(*need_name(words, "user"))
    for name in names:
        check_name(name)
    default = (words.last("DefaultAccount") or "").lower()
    accounts = words.values("Accounts", lower=True)
    if default and default not in accounts:
        accounts.insert(0, default)
    keys = _wckeys(words)
    if not accounts and not keys:
        raise RefusedError(" Need name of account to add user to.")
    actor = change.actor
    if not actor.is_operator and not set(accounts) <= actor.coordinates:
        raise DeniedError(" error: Only admins/operators/coordinators can add users")
    if default and not actor.is_operator:
        # It would move the coming jobs of anybody's users to where the coordinator rules.
        raise RefusedError(
            f" Your user/uid ({actor.name}/{actor.uid}) is not AdminLevel >= Operator, "
            "you cannot set DefaultAccount."
        )
    if "AdminLevel" in words:
        require_administrator(change, "set an admin level")
    if keys and not actor.is_operator:
        raise refuse_denied()
    partitions = words.values("Partitions")
    each = max(1, len(accounts)) * max(1, len(partitions)) + len(keys)
    clusters = change.clusters(words, must_exist=True)
    what = "users with accounts, partitions, keys and clusters"
    require_few(change, len(names) * each * len(clusters), what)
    new_names = add_rows(change, words, names)
    if new_names and not accounts:
        raise RefusedError(" Need name of account to add user to.")
    lines, missing = _add_associations(change, words, names, accounts, default)
    key_lines = _add_wckeys(change, words, names, keys)
    if missing:
        change.lines += missing
    if not lines and not new_names and not key_lines:
        raise RefusedError(*change.lines, *_nothing(bool(missing)), is_output=True)
    if not lines and not key_lines:
        raise RefusedError(*missing, *_nothing(True), is_output=True)
    if new_names:
        change.lines += [" Adding User(s)", *(f"  {name}" for name in new_names)]
        shown = [f"  {'Default Account':<15s} = {default or accounts[0]}"]
        if "AdminLevel" in words:
            shown.append(f"  {'Admin Level':<15s} = {_level_name(words)}")
        change.lines += [" Settings =", *shown]
    if lines:
        change.lines += [" Associations =", *lines]
    if key_lines:
        change.lines += [" WCKeys =", *key_lines]
    settings = read_settings(words)
    if settings:
        change.lines += [" Non Default Settings", *settings.lines()]
    change.changed += len(lines) + len(new_names) + len(key_lines)


def _wckeys(words: Words) -> list[str]:
    """Return the keys that users are to have, with their default."""
    keys = words.values("WCKeys")
    default = words.last("DefaultWCKey") or ""
    keys = list(dict.fromkeys([*keys, default] if default not in ("", *wckeys.NO_KEY) else keys))
    for key in keys:
        wckeys.check_name(key)
    return keys


def _add_wckeys(change: Change, words: Words, names: list[str], keys: list[str]) -> list[str]:
    """Give users keys on each cluster, and their default; return the lines for what is new."""
    if not keys:
        return []
    clusters = change.clusters(words, must_exist=True)
    own = list(dict.fromkeys(names))
    lines = [line for number, cluster in clusters
             for line in wckeys.add(change, number, cluster, own, keys, is_new=True)]  # fmt: skip
    if "DefaultWCKey" in words:
        wckeys.set_default(change, clusters, own, words.last("DefaultWCKey") or wckeys.NO_KEY[0])
    touch(change, own)
    return lines


def check_name(name: str) -> None:
    """Refuse a name that no user may have."""
    if len(name) > 128 or not name.isprintable() or any(char in name for char in "/,'\" "):
        raise RefusedError(f" Bad user name {name!r}")


def _nothing(is_missing: bool) -> list[str]:
    if not is_missing:
        return [" Nothing new added."]
    return [
        "Nothing added.",
        "Make sure the accounts requested here have been added to the system/cluster. "
        "(sacctmgr add account...)",
    ]


def add_rows(change: Change, words: Words, names: list[str]) -> list[str]:
    """Create what is missing in the users table; return the new names."""
    table = schema.users
    known = set(
        change.connection.execute(
            sa.select(table.c.name).where(table.c.name.in_(names), table.c.is_deleted == 0)
        ).scalars()
    )
    new_names = [name for name in dict.fromkeys(names) if name not in known]
    level = level_of(words.last("AdminLevel") or "none")
    rows = [
        {
            "name": name,
            "admin_level": level,
            **change.stamp(is_new=True),
        }
        for name in new_names
    ]
    change.database.upsert(change.connection, table, ("name",), rows)
    for name in new_names:
        change.log("Add Users", "", name, f"admin_level={level}")
    return new_names


def _add_associations(
    change: Change, words: Words, names: list[str], accounts: list[str], default: str
) -> tuple[list[str], list[str]]:
    """Create associations; return the lines for them and for accounts that do not exist."""
    settings = read_settings(words)
    partitions = words.values("Partitions") or [""]
    lines: list[str] = []
    missing: list[str] = []
    for cluster_id, cluster in change.clusters(words, must_exist=True):
        tree = change.tree(cluster_id)
        with_default = {
            row["user"] for row in tree.rows.values() if row["user"] and row["is_default"]
        }
        for account in accounts:
            above = tree.find(account)
            if above is None:
                missing.append(f"No account {account} on cluster {cluster}, skipping.")
                continue
            for name in dict.fromkeys(names):
                for partition in partitions:
                    if tree.find(account, name, partition) is not None:
                        continue
                    is_default = account == default or (not default and name not in with_default)
                    if is_default:
                        _clear_default(change, cluster_id, name, account)
                        with_default.add(name)
                    row = insert_association(
                        change, tree, cluster_id, above, account, name, partition, settings,
                        is_default,
                    )  # fmt: skip
                    line = f"  C = {cluster:<10s} A = {account:<20s} U = {name:<9s}"
                    lines.append(f"{line} P = {partition}" if partition else line)
                    info = f"acct='{account}', user='{name}', partition='{partition}'"
                    change.log("Add Associations", cluster, f"id_assoc={row['id']}", info)
    # The default of a user comes in with all its rows: controllers see the user change.
    touch(change, names)
    return lines, missing


def _clear_default(change: Change, cluster_id: int, name: str, but: str) -> None:
    table = schema.associations
    change.connection.execute(
        table.update()
        .where(
            table.c.cluster_id == cluster_id,
            table.c.user == name,
            table.c.account != but,
            table.c.is_default == 1,
        )
        .values(is_default=0, **change.stamp())
    )


def make_default(change: Change, cluster_id: int, name: str, account: str) -> None:
    """Make an account that a user is in the default one on a cluster."""
    _clear_default(change, cluster_id, name, account)
    table = schema.associations
    change.connection.execute(
        table.update()
        .where(
            table.c.cluster_id == cluster_id,
            table.c.user == name,
            table.c.account == account,
            table.c.is_deleted == 0,
        )
        .values(is_default=1, **change.stamp())
    )


def touch(change: Change, names: list[str]) -> None:
    """Let controllers see that these users have changed."""
    table = schema.users
    change.connection.execute(
        table.update().where(table.c.name.in_(names)).values(**change.stamp())
    )


def level_of(word: str) -> int:
    """Return the admin level that a word means."""
    names = [name for name in _LEVELS if word and name.startswith(word.lower())]
    if not names:
        raise RefusedError(
            f" You gave a bad admin level '{word}'. Valid levels are None, Operator, Administrator"
        )
    return _LEVELS[names[0]]


def _level_name(words: Words) -> str:
    return LEVEL_NAMES[level_of(words.last("AdminLevel") or "none")]


def _selected(change: Change, where: Words) -> list[tuple[str, int]]:
    """Return names and admin levels of the users that the conditions name."""
    table = schema.users
    query = sa.select(table.c.name, table.c.admin_level).where(table.c.is_deleted == 0)
    names = where.users("Names")
    if names:
        query = query.where(table.c.name.in_(names))
    if "AdminLevel" in where:
        query = query.where(table.c.admin_level == level_of(where.last("AdminLevel") or ""))
    rows = change.connection.execute(query.order_by(table.c.name))
    users = [(row.name, row.admin_level) for row in rows]
    of_keys = [key for key in _OF_WCKEYS if key in where]
    for key in of_keys:
        owners = wckeys.owners(
            change.connection,
            change.clusters(where),
            where.values(key),
            as_default=key == "DefaultWCKey",
        )
        users = [user for user in users if user[0] in owners]
    keys = set(_OF_ASSOCIATIONS) - ({"Clusters"} if of_keys else set())
    if not any(key in where for key in keys):
        return users
    tied = {
        row["user"]
        for cluster_id, _ in change.clusters(where)
        for row in _matching(change.tree(cluster_id), where, {name for name, _ in users})
    }
    return [user for user in users if user[0] in tied]


_PARTS = ("Accounts", "Clusters", "Partitions", "QosLevel", "DefaultQOS")
"""Conditions that mean some associations of a user, not the user."""
_OF_ASSOCIATIONS = (*_PARTS, "DefaultAccount")
_OF_WCKEYS = ("WCKeys", "DefaultWCKey")


def _matching(tree: Tree, where: Words, names: set[str]) -> list[Row]:
    """Return the users' associations that the conditions name."""
    accounts = where.values("Accounts", lower=True)
    defaults = where.values("DefaultAccount", lower=True)
    is_wanted = conditions.of_associations(tree, where)
    of_default = {
        row["user"]
        for row in tree.rows.values()
        if row["is_default"] and row["account"] in defaults
    }
    return [
        row
        for row in tree.rows.values()
        if row["user"] in names
        and (not accounts or row["account"] in accounts)
        and ("DefaultAccount" not in where or row["user"] in of_default)
        and is_wanted(row)
    ]


def modify(change: Change, where: Words, settings_words: Words) -> None:
    """Change users' own fields, their default account, and their associations."""
    if not settings_words.items:
        raise RefusedError(" You didn't give me anything to set")
    if usage_reset.is_asked(settings_words):
        usage_reset.reset_users(change, where)
        return
    users = _selected(change, where)
    names = [name for name, _ in users]
    settings = read_settings(settings_words)
    lines: list[str] = []
    if "AdminLevel" in settings_words or "DefaultWCKey" in settings_words:
        lines += _modify_own(change, where, users, settings_words)
    default = settings_words.last("DefaultAccount")
    if default is not None:
        lines += _modify_default(change, where, names, default.lower())
    if "NewName" in settings_words:
        lines += _rename(change, users, settings_words.user(settings_words.last("NewName") or ""))
    if lines:
        change.lines += [" Modified users...", *lines]
    tied = []
    if settings:
        for cluster_id, cluster in change.clusters(where):
            tree = change.tree(cluster_id)
            for row in _matching(tree, where, set(names)):
                _require_rights(change, row)
                update_association(change, tree, row, settings, cluster)
                tied.append(user_line(cluster, row))
    if tied:
        change.lines += [" Modified user associations...", *tied]
    change.changed += len(lines) + len(tied)
    if not change.changed:
        raise RefusedError(" Nothing modified", is_output=True)


def _rename(change: Change, selected: list[tuple[str, int]], new_name: str) -> list[str]:
    """Give one user another name; jobs that have been recorded keep the name they ran under."""
    if not change.actor.is_operator:
        raise refuse_denied()
    check_name(new_name)
    if len(selected) != 1 or not new_name:
        raise RefusedError(" NewName is for one user: name who is to have it")
    ((name, level),) = selected
    # Rights go with the record: the user of the new name would be an administrator.
    if level > change.actor.level:
        raise RefusedError(f" Error with request: {name} is of a higher admin level")
    users, tied = schema.users, schema.associations
    # Deleted associations keep their names: jobs refer to them.
    for column in (users.c.name, tied.c.user):
        query = sa.select(column).where(column == new_name)
        if column is users.c.name:
            query = query.where(users.c.is_deleted == 0)
        if change.connection.execute(query).first():
            raise RefusedError(f" User {new_name} exists already, or had associations once")
    row = change.connection.execute(sa.select(users).where(users.c.name == name)).one()
    renamed = {**row._mapping, "name": new_name, **change.stamp()}
    change.database.upsert(change.connection, users, ("name",), [renamed])
    change.connection.execute(
        users.update()
        .where(users.c.name == name)
        .values(is_deleted=removed.NEVER_WAS, **change.stamp())
    )
    lineages = sa.func.replace(tied.c.lineage, f"/0-{name}/", f"/0-{new_name}/")
    change.connection.execute(
        tied.update()
        .where(tied.c.user == name)
        .values(user=new_name, lineage=lineages, **change.stamp())
    )
    named, keys = schema.coordinators, schema.wckeys
    change.connection.execute(named.update().where(named.c.user == name).values(user=new_name))
    change.connection.execute(
        keys.update().where(keys.c.user == name).values(user=new_name, **change.stamp())
    )
    change.log("Modify Users", "", name, f"name='{new_name}'")
    return [f"  {name}"]


def _require_rights(change: Change, row: Row) -> None:
    actor = change.actor
    # A coordinator gives others what the account has, never oneself.
    if not actor.is_operator and (
        row["account"] not in actor.coordinates or row["user"] == actor.name
    ):
        raise refuse_denied()


def _modify_own(
    change: Change, where: Words, users: list[tuple[str, int]], words: Words
) -> list[str]:
    values: Row = {}
    if "AdminLevel" in words:
        require_administrator(change, "set an admin level")
        values["admin_level"] = level_of(words.last("AdminLevel") or "")
    if "DefaultWCKey" in words:
        if not change.actor.is_operator:
            raise refuse_denied()
        key = words.last("DefaultWCKey") or ""
        names = [name for name, _ in users]
        wckeys.set_default(change, change.clusters(where), names, key)
    table = schema.users
    names = [name for name, _ in users]
    change.connection.execute(
        table.update().where(table.c.name.in_(names)).values(**values, **change.stamp())
    )
    if values:
        change.log("Modify Users", "", ",".join(names), f"admin_level={values['admin_level']}")
    return [f"  {name}" for name in names]


def _modify_default(change: Change, where: Words, names: list[str], account: str) -> list[str]:
    """Make `account` the default of users that are in it; others are an error."""
    if names and not account:
        text = "You can not remove the default account of a user"
        raise RefusedError(f"sacctmgr: error: {text}", f" Error with request: {text}")
    lines = []
    for cluster_id, cluster in change.clusters(where):
        tree = change.tree(cluster_id)
        for name in names:
            rows = [
                row
                for row in tree.rows.values()
                if row["user"] == name and row["account"] == account
            ]
            if not rows:
                raise RefusedError(
                    " Can't modify because these users aren't associated with new default "
                    f"account '{account}'...",
                    f"  U = {name} C = {cluster}",
                    is_output=True,
                )
            # Users choose their own default among the accounts they are in.
            if name != change.actor.name and not change.actor.is_operator:
                raise refuse_denied()
            make_default(change, cluster_id, name, account)
            lines.append(f"  {name}")
            change.log("Modify Users", cluster, name, f"default_acct='{account}'")
    touch(change, names)
    return list(dict.fromkeys(lines))


def delete(change: Change, where: Words, _: Words) -> None:
    """Remove users, or with accounts or partitions named only those associations."""
    if not where.items:
        raise RefusedError(NO_CONDITIONS)
    users = _selected(change, where)
    names = {name for name, _ in users}
    if "WCKeys" in where:
        _delete_wckeys(change, where, sorted(names))
        return
    is_whole = not any(key in where for key in _PARTS)
    if "root" in names and is_whole:
        raise RefusedError(" Error with request: The user root cannot be removed")
    for name, level in users:
        if is_whole and level > change.actor.level:
            raise RefusedError(f" Error with request: {name} is of a higher admin level")
    lines = []
    for cluster_id, cluster in change.clusters(where):
        tree = change.tree(cluster_id)
        rows = _matching(tree, where, names)
        for row in rows:
            _require_rights(change, row)
        doomed = {row["id"] for row in rows}
        require_idle(change, doomed)
        check_defaults(tree, doomed)
        remove_associations(change, cluster, rows)
        lines += [describe(cluster, row) for row in rows]
    if not lines and not (is_whole and names):
        raise RefusedError(" Nothing deleted", is_output=True)
    if is_whole:
        if not change.actor.is_operator:
            raise refuse_denied()
        gone = sorted(names)
        change.lines += [" Deleting users...", *(f"  {name}" for name in gone)]
    else:
        touch(change, sorted(names))
        change.lines += [" Deleting user associations...", *lines]
        gone = _without_associations(change, names)
        if gone:
            change.lines += [
                " Deleting users (No Associations)...",
                *(f"  {name}" for name in gone),
            ]
    if gone:
        removed_records.remove(change, schema.users.c.name, gone, schema.jobs.c.user)
        pairs = schema.coordinators
        change.connection.execute(pairs.delete().where(pairs.c.user.in_(gone)))
        wckeys.remove(change, gone)
        change.log("Remove Users", "", ",".join(gone), "")
    change.changed += len(lines) + len(gone)


def _without_associations(change: Change, names: set[str]) -> list[str]:
    """Return which of these users are in no account any longer: they are removed, too.

    Not by a coordinator, who may remove nobody, nor where somebody is of a higher admin level.
    """
    if not change.actor.is_operator:
        return []
    users, tied = schema.users, schema.associations
    query = sa.select(users.c.name).where(
        users.c.name.in_(sorted(names)),
        users.c.admin_level <= change.actor.level,
        ~sa.exists().where(tied.c.user == users.c.name, tied.c.is_deleted == 0),
    )
    return list(change.connection.execute(query.order_by(users.c.name)).scalars())


def _delete_wckeys(change: Change, where: Words, names: list[str]) -> None:
    """Take some keys from users; their jobs keep them."""
    if not change.actor.is_operator:
        raise refuse_denied()
    lines = [
        line
        for number, cluster in change.clusters(where)
        for line in wckeys.remove_some(change, number, cluster, names, where.values("WCKeys"))
    ]
    if not lines:
        raise RefusedError(" Nothing deleted", is_output=True)
    touch(change, names)
    change.lines += [" Deleting user WCKeys...", *lines]
    change.changed += len(lines)
