"""Reports of stored usage: of clusters, accounts, users and wckeys."""

from pyslurm_ng.cli.accounting.sreport_conditions import Conditions
from pyslurm_ng.cli.accounting.sreport_fields import REPORTS
from pyslurm_ng.cli.accounting.sreport_session import NO_NODES, NotAnsweredError, rows_of
from pyslurm_ng.cli.accounting.sreport_table import (
    Amount,
    cells,
    choose_columns,
    format_words,
)
from pyslurm_ng.cli.command import say

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Iterable
    from typing import Any

    from pyslurm_ng.cli.accounting.sreport_session import Session
    from pyslurm_ng.cli.accounting.sreport_table import Cell

    Row = dict[str, Any]

TOP_COUNT = 10
TITLES = {
    "Utilization": "Cluster Utilization",
    "AccountUtilizationByUser": "Cluster/Account/User Utilization",
    "AccountUtilizationByQOS": "Cluster/Account/QOS Utilization",
    "UserUtilizationByAccount": "Cluster/User/Account Utilization",
    "UserUtilizationByWCKey": "Cluster/User/WCKey Utilization",
    "WCKeyUtilizationByUser": "Cluster/WCKey/User Utilization",
}
_SUMS = {
    "TresCount": 0, "allocated": 1, "down": 2, "PlannedDown": 3, "idle": 4, "planned": 5,
    "overcommitted": 6,
}  # fmt: skip
"""Where each field is in the sums of a cluster."""
_OF_EACH_CLUSTER = (
    "cpu", "mem", "energy", "node", "billing", "fs/disk", "vmem", "pages",
)  # fmt: skip
"""TRES that Slurm counts on every cluster, though there may be none of it."""


def utilization(session: "Session", words: "list[str]") -> None:
    """Print how the time of clusters was spent."""
    report = UsageReport(session, "cluster", "Utilization", "utilization", words)
    answer = report.ask("cluster")
    session.printer().title(*report.title())
    seconds = report.period.seconds
    rows = []
    for cluster, sums in answer["clusters"]:
        by_tres = dict(zip(answer["tres"], sums, strict=False))
        for tres in report.tres if sums else ():
            if not any(by_tres[tres]) and tres not in _OF_EACH_CLUSTER:
                continue  # a cluster without GPUs, beside one that has some
            rows.append(cells(report.columns, _cluster_cell(cluster, tres, by_tres[tres], seconds)))
    session.printer().table(report.columns, rows)


def _cluster_cell(cluster: str, tres: str, sums: "list[int]", seconds: int) -> "Any":
    total = sum(sums[1:6])

    def cell(name: str) -> "Cell":
        if name in ("Cluster", "TresName"):
            return cluster if name == "Cluster" else tres
        if name == "TresCount":
            return sums[0]
        if name == "reported":
            return Amount(total, sums[0] * seconds)  # the cluster may have had no time before
        if name in _SUMS:
            return Amount(sums[_SUMS[name]], total)
        return Amount(0, 0) if name in ("Used", "Energy") else ""

    return cell


def accounts(session: "Session", words: "list[str]") -> None:
    """Print what accounts and their users have used, as a tree."""
    report = UsageReport(session, "cluster", "AccountUtilizationByUser", "association", words)
    report.print(_chosen(rows_of(report.ask("association")), report.conditions))


def qos(session: "Session", words: "list[str]") -> None:
    """Print what accounts have used by QOS, as a tree."""
    report = UsageReport(session, "cluster", "AccountUtilizationByQOS", "association", words)
    report.print(_chosen(rows_of(report.ask("association", by_qos=True)), report.conditions))


def _chosen(rows: "list[Row]", conditions: Conditions) -> "list[Row]":
    """Return the rows to show, with their depth below the first account that is shown.

    With users only their rows are shown, in the accounts that are named; otherwise the accounts
    that are named with all below them.
    """
    users, names = conditions.lowered("users"), conditions.lowered("accounts")
    if users:
        return [row for row in _of_users(rows, conditions) if row["user"].lower() in users]
    trees: list[list[Row]] = []
    top = -1  # the depth of the account whose tree is shown; -1: none
    for row in rows:
        depth = row["depth"]
        if depth <= top:
            top = -1
        if top < 0 and (not names or (row["account"] in names and not row["user"])):
            top = depth
            trees.append([])
        if top >= 0:
            trees[-1].append({**row, "depth": depth - top})
    trees.sort(key=lambda tree: (tree[0]["cluster"], tree[0]["account"]))
    return [row for tree in trees for row in tree]


def users(session: "Session", words: "list[str]") -> None:
    """Print what users have used in each account, the most first."""
    report = UsageReport(session, "cluster", "UserUtilizationByAccount", "association", words)
    rows = _of_users(rows_of(report.ask("association")), report.conditions)
    cpu = report.known.index("cpu")
    report.print(_by_use(_merged(rows), cpu, cpu, session.options))


def top(session: "Session", words: "list[str]") -> None:
    """Print the users that have used most."""
    report = UsageReport(session, "user", "TopUsage", "user", words)
    count = _top_count(session, report.conditions)
    rows = _of_users(rows_of(report.ask("association")), report.conditions)
    cpu = report.known.index("cpu")
    if "group" in report.conditions:
        rows = _grouped(rows, cpu)
    rows = _by_use(rows, report.known.index(report.tres[0]), cpu, session.options)
    shown: dict[str, int] = {}
    chosen = []
    for row in rows:
        shown[row["cluster"]] = shown.get(row["cluster"], 0) + 1
        if shown[row["cluster"]] <= max(count, 1):  # Slurm shows one at least
            chosen.append(row)
    report.print(chosen, f"Top {count} Users")


def _top_count(session: "Session", conditions: Conditions) -> int:
    word = conditions.last("topcount")
    if not word:
        return TOP_COUNT
    if not word.isdecimal() or len(word) > 9:
        say(f"sreport: error: Invalid value for TopCount ({word})")
        session.exit_code = 1
        return TOP_COUNT
    return int(word)


def _of_users(rows: "list[Row]", conditions: Conditions) -> "list[Row]":
    """Return the rows of users that the conditions let through, by name and age of the account."""
    names, accounts = conditions.lowered("users"), conditions.lowered("accounts")
    chosen = [
        {**row, "depth": 0}
        for row in rows
        if row["user"]
        and (not names or row["user"].lower() in names)
        and (not accounts or row["account"] in accounts)
    ]
    ages: dict[tuple[str, str, str], int] = {}  # partitions of an account stay together
    for row in sorted(chosen, key=lambda row: row["id"]):
        ages.setdefault((row["cluster"], row["user"], row["account"]), row["id"])
    return sorted(
        chosen,
        key=lambda row: (
            row["cluster"],
            row["user"],
            ages[row["cluster"], row["user"], row["account"]],
        ),
    )


def _by_use(rows: "list[Row]", tres: int, cpu: int, options: "dict[str, str]") -> "list[Row]":
    """Return rows by cluster, then the greatest amount of a TRES first, or with -s name by name.

    As in 22.05, users who have used the same of another TRES come in the reverse order of their
    CPU time, and those with the same CPU time in the order of their names.
    """
    rows = sorted(rows, key=lambda row: (-row["amounts"][cpu], row["user"]))
    if tres != cpu:
        rows.reverse()
    word = options.get("sort", "").lower()
    is_by_name = bool(word) and "name".startswith(word)

    def place(row: "Row") -> "tuple[str, str, int]":
        return row["cluster"], row["user"] if is_by_name else "", -row["amounts"][tres]

    return sorted(rows, key=place)


def _grouped(rows: "Iterable[Row]", cpu: int) -> "list[Row]":
    """Return a row for each user of a cluster, with the accounts in the order of their use."""
    by_user: dict[tuple[str, str], list[Row]] = {}
    for row in sorted(rows, key=lambda row: -row["amounts"][cpu]):
        by_user.setdefault((row["cluster"], row["user"]), []).append(row)
    grouped = []
    for parts in by_user.values():
        names = dict.fromkeys(part["account"] for part in parts)
        grouped.append({**_summed(parts), "account": ", ".join(names)})
    return sorted(grouped, key=lambda row: row["cluster"])


def _merged(rows: "Iterable[Row]") -> "list[Row]":
    """Return a row for each user of an account, with what was used in all partitions."""
    by_name: dict[tuple[str, str, str], list[Row]] = {}
    for row in rows:
        by_name.setdefault((row["cluster"], row["user"], row["account"]), []).append(row)
    return [_summed(parts) for parts in by_name.values()]


def _summed(parts: "list[Row]") -> "Row":
    """Return the first of some rows with the amounts of all."""
    columns = zip(*[part["amounts"] for part in parts], strict=True)
    return {**parts[0], "amounts": [sum(column) for column in columns]}


def users_by_wckey(session: "Session", words: "list[str]") -> None:
    """Print what users have used under each wckey, the most first."""
    report = UsageReport(session, "cluster", "UserUtilizationByWCKey", "wckey", words)
    rows = report.wckey_rows("user_by_wckey")
    cpu = report.known.index("cpu")
    report.print(_by_use(rows, cpu, cpu, session.options))


def wckeys(session: "Session", words: "list[str]") -> None:
    """Print how much was used under each wckey, and by which users."""
    report = UsageReport(session, "cluster", "WCKeyUtilizationByUser", "wckey", words)
    sums: dict[tuple[str, str], Row] = {}
    shown: list[Row] = []
    for row in report.wckey_rows("wckey_by_user"):
        key = (row["cluster"], row["wckey"])
        if key not in sums:
            sums[key] = {**row, "user": "", "amounts": [0] * len(row["amounts"]), "is_sum": True}
            shown.append(sums[key])
        pairs = zip(sums[key]["amounts"], row["amounts"], strict=True)
        sums[key]["amounts"] = [sum(pair) for pair in pairs]
        shown.append(row)
    report.print(shown)


class UsageReport:
    """One report of stored usage: its conditions, its columns, its answer.

    Attributes:
        known: the TRES that slurmdbd knows.
        tres: those that are shown.
    """

    def __init__(
        self, session: "Session", kind: str, name: str, allowed: str, words: "list[str]"
    ) -> None:
        self.session = session
        self.name = name
        self.conditions = Conditions(allowed, words)
        self.period = session.period(self.conditions)
        fields = format_words(self.conditions.texts("format"))
        if "format" not in self.conditions:
            fields = _default_fields(REPORTS[kind, name].split(","), "tres" in session.options)
        self.columns, is_good = choose_columns(kind, fields, "tree" in self.conditions)
        if not (self.conditions.is_good and is_good):
            session.exit_code = 1
        self.known: list[str] = []
        self.tres: list[str] = []
        self._totals: dict[str, list[int]] = {}

    def ask(self, what: str, by_qos: bool = False) -> "Row":
        """Ask slurmdbd; return its answer."""
        request = {
            "what": what,
            "start_s": self.period.start_s,
            "end_s": self.period.end_s,
            "clusters": self.session.clusters(self.conditions),
            "by_qos": by_qos,
        }
        self._refuse_nodes()
        answer = self.session.call("ListUsage", request)
        self.known = answer["tres"]
        self.tres = self.session.tres(self.known, "node" if what == "cluster" else "")
        for cluster, sums in answer["clusters"]:
            self._totals[cluster] = [sum(row[1:6]) for row in sums]
        return answer

    def _refuse_nodes(self) -> None:
        """Exit as Slurm does where the TRES node has no meaning."""
        self.session.refuse_percent_of_nodes()
        words = self.session.options.get("tres", "").lower().split(",")
        if "node" in words and self.name == "Utilization":
            raise NotAnsweredError(NO_NODES.format("the Cluster Utilization report"))

    def wckey_rows(self, name: str) -> "list[Row]":
        """Return the rows of wckeys that the conditions let through."""
        try:
            rows = rows_of(self.ask("wckey"))
        except NotAnsweredError as error:
            text = f"{error}\nslurmdb_report_cluster_{name}: Problem with get query."
            raise NotAnsweredError(text) from error
        names, users = self.conditions.names("wckeys"), self.conditions.lowered("users")
        return [
            {**row, "depth": 0}
            for row in rows
            if (not names or row["wckey"] in names) and (not users or row["user"].lower() in users)
        ]

    def title(self, name: str = "") -> "list[str]":
        """Return the lines above the report."""
        title = f"{name or TITLES[self.name]} {self.period.title}"
        if self.name != "Utilization":
            title += f" ({self.period.seconds} secs)"
        unit = self.session.unit.title(self.session.tres_title)
        return [title, f"Usage reported in {unit}"]

    def print(self, rows: "list[Row]", name: str = "") -> None:
        """Print rows, one line for each TRES of each."""
        printer = self.session.printer()
        printer.title(*self.title(name))
        self._make_room({row["cluster"] for row in rows})
        lines = [cells(self.columns, self._cell(row, tres)) for row in rows for tres in self.tres]
        printer.table(self.columns, lines)

    def _make_room(self, shown: "Container[str]") -> None:
        """Widen columns for the whole time of clusters that have no row, as Slurm does."""
        for cluster, totals in self._totals.items():
            for column in self.columns if totals and cluster not in shown else ():
                names = {"Used": self.tres, "Energy": ["energy"]}.get(column.name, ())
                digits = (len(str(totals[self.known.index(name)])) for name in names)
                column.width = max(column.width, *digits, 0)

    def _cell(self, row: "Row", tres: str) -> "Any":
        def amount(tres_name: str) -> Amount:
            index = self.known.index(tres_name)
            totals = self._totals.get(row["cluster"]) or [0] * len(self.known)
            # Slurm makes no room for the sums of wckeys.
            return Amount(row["amounts"][index], totals[index], "is_sum" not in row)

        def cell(name: str) -> "Cell":
            if name == "Accounts":
                lead = " " * row["depth"] if "tree" in self.conditions else ""
                return f"{lead}{row['account']}"
            texts = {"Cluster": "cluster", "Login": "user", "WCKey": "wckey", "QOS": "qos",
                     "Partition": "partition"}  # fmt: skip
            if name in texts:
                return str(row.get(texts[name], ""))
            if name == "Proper":
                return _proper_name(row["user"])
            if name == "TresName":
                return tres
            if name in ("Used", "Energy"):
                return amount(tres if name == "Used" else "energy")
            return 0 if name in ("TresCount", "QOSID") else Amount(0, 0)

        return cell


def _default_fields(names: "list[str]", with_tres: bool) -> "list[str]":
    """Return the fields of a report; with -T the TRES is named, and energy is only one of them."""
    if not with_tres:
        return names
    before = "Allocated" if "Allocated" in names else "Used"
    named = [name for name in names if name != "Energy"]
    named.insert(named.index(before), "TresName")
    return named


_proper: "dict[str, str]" = {}


def _proper_name(user: str) -> str:
    """Return the name that the host knows a user by."""
    if user and user not in _proper:
        from pwd import getpwnam

        try:
            _proper[user] = getpwnam(user).pw_gecos.partition(",")[0]
        except KeyError:
            _proper[user] = ""
    return _proper.get(user, "")
