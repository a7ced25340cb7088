"""What `sacctmgr load` prints: what changed, and tables of what is new."""

from __future__ import annotations

from pyslurm_ng.dbd.admin.change import Row
from pyslurm_ng.dbd.admin.words import Words

Column = tuple[str, int, str]
"""Header, width and the key of the setting."""

_LIMITS: tuple[Column, ...] = (
    ("Share", 9, "Fairshare"),
    ("GrpTRESMins", 13, "GrpTRESMins"),
    ("GrpTRESRunMin", 13, "GrpTRESRunMins"),
    ("GrpTRES", 13, "GrpTRES"),
    ("GrpJobs", 7, "GrpJobs"),
    ("GrpJobsAccrue", 13, "GrpJobsAccrue"),
    ("GrpMem", 7, "GrpMemory"),
    ("GrpNodes", 8, "GrpNodes"),
    ("GrpSubmit", 9, "GrpSubmitJobs"),
    ("GrpWall", 11, "GrpWall"),
    ("MaxTRESMins", 13, "MaxTRESMinsPerJob"),
    ("MaxTRES", 13, "MaxTRESPerJob"),
    ("MaxTRESPerNode", 14, "MaxTRESPerNode"),
    ("MaxJobs", 7, "MaxJobs"),
    ("MaxSubmit", 9, "MaxSubmitJobs"),
    ("MaxNodes", 8, "MaxNodesPerJob"),
    ("MaxWall", 11, "MaxWallDurationPerJob"),
    ("QOS", 20, "QosLevel"),
    ("Def QOS", 9, "DefaultQOS"),
)
_OF_ACCOUNTS: tuple[Column, ...] = (("Account", 10, ""), ("ParentName", 10, ""), *_LIMITS)
_TABLES: dict[str, tuple[tuple[Column, ...], int]] = {
    "Accounts": ((("Name", 10, ""), ("Descr", 20, ""), ("Org", 20, ""), ("QOS", 20, "")), 51),
    "Account Associations": (_OF_ACCOUNTS, 62),
    "Users": (
        (("Name", 10, ""), ("Def Acct", 10, ""), ("Def WCKey", 10, ""), ("QOS", 20, ""),
         ("Admin", 9, ""), ("Coord Accounts", 20, "")),
        51,
    ),
    "User Associations": ((("User", 10, ""), ("Account", 10, ""), *_LIMITS), 62),
}  # fmt: skip
"""Columns of each table in their order, and the length of the line below it."""


class Report:
    """What was done with one cluster."""

    def __init__(self, cluster: str) -> None:
        self._lines = [f"For cluster {cluster}"]
        self._rows: dict[str, list[list[str]]] = {name: [] for name in _TABLES}

    def root(self, words: Words) -> None:
        """Note the root association of a cluster that is new or begins anew."""
        self._lines += _lines_of_table(_OF_ACCOUNTS, [["root", "", *_limits(words)]], 62)

    def changed(self, what: str, kind: str, name: str, old: object, new: object) -> None:
        """Say that something of an account, a user or the cluster changed."""
        self.say(f" Changed {what:<21s} for {kind:<7s} {name:<10s} {old!s:>8s} -> {new}")

    def say(self, line: str) -> None:
        """Take a line that comes before the tables."""
        self._lines.append(line)

    def removed(self, row: Row) -> None:
        """Say that an association was removed."""
        user = f" U = {row['user']}" if row["user"] else ""
        self.say(f" Removed association A = {row['account']}{user}")

    def account_record(self, name: str, words: Words) -> None:
        """Take a new account."""
        row = [name, words.last("Description") or name, words.last("Organization") or name]
        self._rows["Accounts"].append([*row, words.last("QosLevel") or ""])

    def account(self, name: str, parent: str, words: Words) -> None:
        """Take a new association of an account."""
        self._rows["Account Associations"].append([name, parent, *_limits(words)])

    def user_record(self, name: str, account: str, words: Words) -> None:
        """Take a new user; `account` is the default if its line names none."""
        self._rows["Users"].append(
            [
                name,
                words.last("DefaultAccount") or account,
                words.last("DefaultWCKey") or "",
                words.last("QosLevel") or "",
                words.last("AdminLevel") or "Not Set",
                words.last("Coordinators") or "",
            ]
        )

    def user(self, name: str, account: str, words: Words) -> None:
        """Take a new association of a user."""
        self._rows["User Associations"].append([name, account, *_limits(words)])

    def lines(self) -> list[str]:
        """Return what is to be printed."""
        lines = list(self._lines)
        for name, (columns, length) in _TABLES.items():
            rows = self._rows[name]
            if rows:
                lines += [name, *_lines_of_table(columns, rows, length)]
        return lines


def _limits(words: Words) -> list[str]:
    return [words.last(key) or "" for _, _, key in _LIMITS]


def _lines_of_table(columns: tuple[Column, ...], rows: list[list[str]], length: int) -> list[str]:
    return [*_table(columns, rows), "-" * length, ""]


def _table(columns: tuple[Column, ...], rows: list[list[str]]) -> list[str]:
    """Return a table with its head; texts that are too long for a column end in a plus sign."""
    head = [header for header, _, _ in columns]
    below = ["-" * width for _, width, _ in columns]
    lines = []
    for row in (head, below, *rows):
        cells = (
            text if len(text) <= width else f"{text[: width - 1]}+"
            for text, (_, width, _) in zip(row, columns, strict=True)
        )
        lines.append(
            "".join(f"{text:>{width}} " for text, (_, width, _) in zip(cells, columns, strict=True))
        )
    return lines
