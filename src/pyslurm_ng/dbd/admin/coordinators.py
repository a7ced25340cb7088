"""sacctmgr add and delete coordinator."""

from __future__ import annotations

import sqlalchemy as sa

from pyslurm_ng.dbd import schema
from pyslurm_ng.dbd.admin import conditions
from pyslurm_ng.dbd.admin.change import Change, RefusedError, refuse_denied, require_few
from pyslurm_ng.dbd.admin.users import touch
from pyslurm_ng.dbd.admin.words import Words


def add(change: Change, words: Words, _: Words) -> None:
    """Make users coordinators of accounts (and so of those below them)."""
    if not words.items:
        raise RefusedError(" You need to specify conditions to to add the coordinator.")
    for key, what in (("Accounts", "an account"), ("Names", "a user")):
        if not words.values(key):
            raise RefusedError(f" You need to specify {what} list here.")
    names, accounts = _names_and_accounts(change, words)
    require_few(change, len(names) * len(accounts), "users and accounts")
    pairs = schema.coordinators
    present = {(row.account, row.user) for row in change.connection.execute(sa.select(pairs))}
    new_names = [
        {"account": account, "user": name}
        for account in accounts
        for name in names
        if (account, name) not in present
    ]
    if not new_names:
        raise RefusedError(" Nothing new added.", is_output=True)
    change.database.upsert(change.connection, pairs, ("account", "user"), new_names)
    touch(change, names)
    change.lines += [
        " Adding Coordinator User(s)",
        *(f"  {name}" for name in names),
        " To Account(s) and all sub-accounts",
        *(f"  {account}" for account in accounts),
    ]
    change.changed += len(new_names)
    change.log("Add Account Coord", "", ",".join(names), ",".join(accounts))


def delete(change: Change, where: Words, _: Words) -> None:
    """Take coordination away."""
    if not (where.values("Names") or where.values("Accounts")):
        raise RefusedError(" You need to specify a user list or account list here.")
    if conditions.is_nothing(where):
        what = "account" if where.values("Names") else "user"
        raise RefusedError(f" You specified a non-existent {what} ''.")
    names, accounts = _names_and_accounts(change, where)
    pairs = schema.coordinators
    condition = sa.and_(
        pairs.c.user.in_(names) if names else sa.true(),
        pairs.c.account.in_(accounts) if accounts else sa.true(),
    )
    coordinators = change.connection.execute(
        sa.select(pairs).where(condition).order_by(pairs.c.user, pairs.c.account)
    ).all()
    if names:
        lines = [" Removing Coordinators with user name", *(f"  {name}" for name in names)]
        lines.append(" From Account(s)" if accounts else " From all accounts")
    else:
        lines = [" Removing all users from Accounts"]
    lines += [f"  {account}" for account in accounts]
    if not coordinators:
        raise RefusedError(*lines, " Nothing removed", is_output=True)
    change.connection.execute(pairs.delete().where(condition))
    touch(change, [row.user for row in coordinators])
    change.lines += [
        *lines,
        " Removed Coordinators (sub accounts not listed)...",
        *(f"  U = {row.user:<9s} A = {row.account:<10s}" for row in coordinators),
    ]
    change.changed += len(coordinators)
    change.log("Remove Account Coords", "", ",".join(names), ",".join(accounts))


def _names_and_accounts(change: Change, words: Words) -> tuple[list[str], list[str]]:
    """Return the users and accounts named.

    Raises:
        RefusedError: one of them does not exist, or the user may not change coordinators there.
    """
    names = words.users("Names")
    accounts = words.values("Accounts", lower=True)
    actor = change.actor
    if not actor.is_operator and not (accounts and set(accounts) <= actor.coordinates):
        raise refuse_denied()
    missing: list[str] = []
    for table, asked_names, what in (
        (schema.accounts, accounts, "account"),
        (schema.users, names, "user"),
    ):
        query = sa.select(table.c.name).where(
            table.c.is_deleted == 0, table.c.name.in_(asked_names)
        )
        known = set(change.connection.execute(query).scalars())
        missing += [
            f" You specified a non-existent {what} '{name}'."
            for name in asked_names
            if name not in known
        ]
    if missing:
        raise RefusedError(*missing)
    return names, accounts
