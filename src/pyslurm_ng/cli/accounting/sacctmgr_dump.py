"""sacctmgr dump: the accounts of a cluster as the flat file that Slurm's `sacctmgr load` reads."""

import os

from pyslurm_ng.cli.accounting.flat_file import quoted
from pyslurm_ng.cli.accounting.sacctmgr_session import Session
from pyslurm_ng.cli.command import fail, read_conf, user_name
from pyslurm_ng.data_parser.records import rows_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Row = dict[str, Any]

_HEAD = """\
# Accounts of a cluster, for `sacctmgr load`: a Cluster line, its accounts and users below their
# parents. One line is TYPE - 'NAME':KEY=VALUE:KEY=VALUE; each Parent is an account named before.
"""
# Fields of a QOS that are written if they differ from those of a new one.
_QOS_WORDS = (
    ("Flags", ""),
    ("GraceTime", "00:00:00"),
    ("LimitFactor", "1.000000"),
    ("Preempt", ""),
    ("PreemptExemptTime", ""),
    ("PreemptMode", "cluster"),
    ("UsageFactor", "1.000000"),
    ("UsageThreshold", ""),
)


def run(session: Session, words: "list[str]") -> int:
    """Write the file; return the exit code."""
    cluster, path = "", ""
    for word in words:
        key, equals, value = word.partition("=")
        if equals and "file".startswith(key.lower()):
            path = value
        elif equals and "cluster".startswith(key.lower()):
            cluster = value
        elif equals or cluster:
            fail(f" Unknown option: {word}")
        else:
            cluster = word
    if not cluster:
        fail(" We need a cluster to dump.")
    path = path or f"./{cluster}.cfg"
    lines = lines_of(session, cluster)
    try:
        _write(path, _HEAD + "\n".join(lines) + "\n")
    except OSError as error:
        fail(f"sacctmgr: error: Can't write {path}: {error.strerror}")
    return 0


def _write(path: str, text: str) -> None:
    """Replace a file of this name as a whole or not at all.

    Links and devices, such as /dev/stdout, stay what they are. In a folder where others write,
    too, nobody else may choose where the text goes: the new file has a name that was free.
    """
    if os.path.lexists(path) and (os.path.islink(path) or not os.path.isfile(path)):
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return
    name = f"{path}.{os.urandom(4).hex()}"
    descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(name, path)
    except OSError:
        os.unlink(name)
        raise


def lines_of(session: Session, cluster: str) -> "list[str]":
    """Return the lines of a cluster."""

    def rows(entity: str, *flags: str) -> "list[Row]":
        where = [["clusters", "=", cluster]] if entity in ("association", "wckey") else []
        return rows_of(
            session.call("ListEntities", {"entity": entity, "where": where, "flags": [*flags]})
        )

    if cluster not in [row["Cluster"] for row in rows("cluster")]:
        fail(f" No cluster by name '{cluster}' found.")
    associations = rows("association", "woplimits")
    users = {row["User"]: row for row in rows("user", "withcoordinators")}
    name = user_name(os.getuid())
    level = users.get(name, {}).get("AdminLevel") or "None"
    may_dump = level != "None" or name in (
        "root",
        read_conf("sacctmgr", "SlurmUser").get("SlurmUser"),
    )
    # The defaults are those of this cluster.
    for user in users.values():
        user |= {"DefaultAccount": "", "DefaultWCKey": "", "WCKeys": []}
    for row in associations:
        if row["User"] in users and row["is_default"]:
            users[row["User"]]["DefaultAccount"] = row["Account"]
    for row in rows("wckey"):
        user = users.get(row["User"], {"WCKeys": []})
        user["WCKeys"].append(row["WCKeys"])
        if row["is_default"]:
            user["DefaultWCKey"] = row["WCKeys"]
    accounts = {row["Account"]: row for row in rows("account")}
    lines = [_line("QOS", row["Name"], _of_qos(row)) for row in rows("qos")]
    root = next((row for row in associations if row["ParentID"] == 0), None)
    if root is None or not may_dump:
        fail(" Your user does not have sufficient privileges to dump clusters.")
    lines.append(_line("Cluster", cluster, _of_association(root)))
    lines += _children(root, associations, users, accounts)
    return lines


def _children(
    parent: "Row", associations: "list[Row]", users: "dict[str, Row]", accounts: "dict[str, Row]"
) -> "list[str]":
    """Return the section of an account, then those of the accounts below it."""
    below = [row for row in associations if row["ParentID"] == parent["ID"]]
    if not below:
        return []
    below.sort(key=lambda row: (not row["User"], row["User"] or row["Account"], row["Partition"]))
    lines = [f"Parent - '{parent['Account']}'"]
    for row in below:
        name = row["User"] or row["Account"]
        kind = "User" if row["User"] else "Account"
        pairs = _of_user(row, users.get(name, {})) if row["User"] else _of_account(accounts[name])
        lines.append(_line(kind, name, pairs + _of_association(row)))
    for row in below:
        if not row["User"]:
            lines += _children(row, associations, users, accounts)
    return lines


def _line(kind: str, name: str, pairs: "list[str]") -> str:
    return ":".join([f"{kind} - {quoted(name)}", *pairs])


def _pair(name: str, text: str) -> "list[str]":
    return [f"{name}={quoted(text)}"] if text else []


def _of_user(row: "Row", user: "Row") -> "list[str]":
    level = user.get("AdminLevel") or "None"
    return [
        *_pair("Partition", row["Partition"]),
        *_pair("DefaultAccount", user.get("DefaultAccount") or ""),
        *_pair("DefaultWCKey", user.get("DefaultWCKey") or ""),
        *_pair("WCKeys", ",".join(user.get("WCKeys") or ())),
        *_pair("AdminLevel", "" if level == "None" else level),
        *_pair("Coordinator", user.get("DirectCoordinators") or ""),
    ]


def _of_account(account: "Row") -> "list[str]":
    return [
        *_pair("Description", account["Description"]),
        *_pair("Organization", account["Organization"]),
        *_pair("Flags", account["Flags"]),
    ]


def _of_association(row: "Row") -> "list[str]":
    return [
        *_pair("DefaultQOS", row["DefaultQOS"]),
        f"Fairshare={row['Share']}",
        *_limits(row["limits"]),
        *_pair("QOS", row["QOSGiven"]),
    ]


def _of_qos(row: "Row") -> "list[str]":
    words = {name: str(row[name]) for name, usual in _QOS_WORDS if str(row[name] or "") != usual}
    others = [_word(name, text) for name, text in words.items() if text not in ("", "None")]
    if row["Priority"]:
        others.append(f"Priority={row['Priority']}")
    fields = [name for name, _ in _QOS_WORDS]
    limits = {name: value for name, value in row["limits"].items() if name not in fields}
    return [*_pair("Description", row["Description"]), *sorted(_limits(limits) + others)]


def _word(name: str, value: "str | int") -> str:
    return f"{name}={quoted(str(value)) if ':' in str(value) else value}"


def _limits(limits: "Row") -> "list[str]":
    """Return limits as they were set: counts, minutes, TRES lists."""
    words = []
    for name in sorted(limits):
        value = limits[name]
        if isinstance(value, dict):
            value = ",".join(f"{tres}={amount}" for tres, amount in value.items())
        words.append(_word(name, value))
    return words
