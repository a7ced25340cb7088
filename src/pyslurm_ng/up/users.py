"""Accounts for users of the host: limits and enforcement then treat them as on a real cluster."""

from __future__ import annotations

import pwd
import re
from collections.abc import Iterable
from pathlib import Path

from pyslurm_ng.up.layout import BadRequest

ACCOUNT = "users"
"""The account of users who have none; administrators may add others to it, or move them."""
ALL, NONE = "all", "none"
LIMITS_FILE = Path("/etc/login.defs")
USUAL_UIDS = (1000, 60000)
"""UID_MIN and UID_MAX where login.defs does not name them."""
MOST = 5000
"""More users than this are named one by one with --users."""
NO_LOGIN = ("/nologin", "/false")


def chosen(choice: str, caller_uid: int) -> list[str]:
    """Return the users that --users names, sorted.

    Args:
        choice: names with commas, `all`, `none`, or "" for the caller, and for all if that is root.

    Errors: BadRequest when a user does not exist.
    """
    word = choice.strip() or (ALL if caller_uid == 0 else _name_of(caller_uid))
    if word.lower() == NONE:
        return []
    if word.lower() == ALL:
        return ordinary_users(pwd.getpwall(), uid_limits())
    names = sorted({name.strip() for name in word.split(",") if name.strip()})
    for name in names:
        try:
            pwd.getpwnam(name)
        except (KeyError, ValueError):
            raise BadRequest(f"--users {name}: there is no such user") from None
    return names


def _name_of(uid: int) -> str:
    """Return a user's name; `none` for a uid without a name, as in some containers."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return NONE


def ordinary_users(entries: Iterable[pwd.struct_passwd], uids: tuple[int, int]) -> list[str]:
    """Return the people among users: those with a uid for people who may log in."""
    names = {
        entry.pw_name
        for entry in entries
        if uids[0] <= entry.pw_uid <= uids[1] and not entry.pw_shell.endswith(NO_LOGIN)
    }
    return sorted(names)[:MOST]


def can_be_named(name: str) -> bool:
    """Return whether sacctmgr takes a user's name in a list as it is."""
    return re.fullmatch(r"""[^\s,=\[\]"'-][^\s,=\[\]"']*""", name) is not None


def uid_limits(file: Path = LIMITS_FILE) -> tuple[int, int]:
    """Return the least and greatest uid that this host gives to people."""
    limits = dict(zip(("UID_MIN", "UID_MAX"), USUAL_UIDS, strict=True))
    try:
        lines = file.read_text(errors="replace").splitlines()
    except OSError:
        lines = []
    for line in lines:
        words = line.split()
        if len(words) == 2 and words[0] in limits and words[1].isdecimal():
            limits[words[0]] = int(words[1])
    return limits["UID_MIN"], limits["UID_MAX"]


def commands(names: Iterable[str], listed: str, cluster: str) -> list[list[str]]:
    """Return arguments of sacctmgr that give an account to those users who have none.

    Args:
        listed: what `sacctmgr -nP show assoc format=account,user` printed of this cluster. The
            database may have others: those that ran in the same directory before.
    """
    rows = [line.split("|") for line in listed.splitlines()]
    have_account = {row[1] for row in rows if len(row) == 2}
    missing = [name for name in names if name not in have_account]
    if not missing:
        return []
    made = any(row[0] == ACCOUNT for row in rows)
    first = [] if made else [["-i", "add", "account", ACCOUNT, "Description=users of this host"]]
    where = f"Cluster={cluster}"
    add = ["-i", "add", "user", ",".join(missing), f"Account={ACCOUNT}", where]
    return [*([*words, where] for words in first), add]
