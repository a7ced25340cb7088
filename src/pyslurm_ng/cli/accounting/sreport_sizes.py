"""Reports of job sizes: how long jobs of each size ran, by account or wckey."""

from pyslurm_ng.base.numbers import NO_UID
from pyslurm_ng.cli.accounting.sreport_amounts import PERCENT_CHARACTERS
from pyslurm_ng.cli.accounting.sreport_conditions import Conditions
from pyslurm_ng.cli.accounting.sreport_fields import REPORTS
from pyslurm_ng.cli.accounting.sreport_session import NotAnsweredError, rows_of
from pyslurm_ng.cli.accounting.sreport_table import Amount, Column, choose_columns, format_words
from pyslurm_ng.cli.command import say

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from pyslurm_ng.cli.accounting.sreport_session import Session
    from pyslurm_ng.cli.accounting.sreport_table import Cell

    Row = dict[str, Any]

BOUNDS = [50, 250, 500, 1000]
"""Where sizes begin that have a column of their own."""
MOST_BOUNDS = 1000
_ONE_TRES = (
    " Job report only supports a single --tres type.\n"
    " Generate a separate report for each TRES type."
)


def by_account(session: "Session", words: "list[str]") -> None:
    """Print job sizes by account."""
    SizeReport(session, "SizesByAccount", words).print("Job Sizes")


def by_wckey(session: "Session", words: "list[str]") -> None:
    """Print job sizes by wckey."""
    SizeReport(session, "SizesByWckey", words).print("Job Sizes by Wckey")


def by_account_and_wckey(session: "Session", words: "list[str]") -> None:
    """Print job sizes by account and wckey."""
    SizeReport(session, "SizesByAccountAndWcKey", words).print("Job Sizes")


class SizeReport:
    """One report: its conditions, its columns, its answer."""

    def __init__(self, session: "Session", name: str, words: "list[str]") -> None:
        self._session = session
        self._name = name
        self._conditions = Conditions("job", words)
        self._period = session.period(self._conditions)
        fields = format_words(self._conditions.texts("format"))
        if "format" not in self._conditions:
            fields = REPORTS["job", name].split(",")
        self._columns, is_good = choose_columns("job", fields, is_tree=False)
        if not (self._conditions.is_good and is_good):
            session.exit_code = 1
        self._bounds = _bounds(self._conditions.texts("grouping"))
        self._is_count = "printjobcount" in self._conditions
        self._is_flat = "flatview" in self._conditions and name != "SizesByWckey"
        self._sizes_seen: set[int] = set()  # of all jobs that were looked at

    def print(self, title: str) -> None:
        """Ask slurmdbd and print the report."""
        tres = self._tres()
        rows = self._rows(tres)
        if not self._bounds and not self._sizes_seen:
            raise NotAnsweredError(" We need a grouping list to set up the print.")
        session = self._session
        lines = [f"{title} {self._period.title} ({self._period.seconds} secs)"]
        if "tres" in session.options:
            lines.append(f"TRES type is {tres}")
        unit = session.unit.title()
        lines.append(
            "Units are in number of jobs ran" if self._is_count else f"Time reported in {unit}"
        )
        session.printer().title(*lines)
        sizes, headers = self._sizes()
        wide = PERCENT_CHARACTERS - 2 if session.unit.has_percent else 0
        width = 13 + (0 if session.unit.is_percent else wide)
        columns = [*self._columns, *[Column("", header, width) for header in headers]]
        columns += [Column("", "Total Count", 11), Column("", "% of cluster", 12)]
        session.printer().table(columns, self._lines(rows, sizes))

    def _tres(self) -> str:
        """Return the TRES that is counted."""
        words = [
            word for word in self._session.options.get("tres", "cpu").lower().split(",") if word
        ]
        self._session.refuse_percent_of_nodes()
        if len(words) != 1 or words == ["all"]:
            raise NotAnsweredError(_ONE_TRES)
        return words[0]

    def _rows(self, tres: str) -> "list[Row]":
        """Return jobs by cluster, the name they are shown under, and size."""
        conditions = self._conditions
        is_by_wckey = self._name != "SizesByAccount" and not self._is_flat
        request = {
            "start_s": self._period.start_s,
            "end_s": self._period.end_s,
            "clusters": self._session.clusters(conditions),
            "tres": tres,
            "by_wckey": is_by_wckey,
            "uids": _uids(conditions.names("users")),
            "gids": _numbers(conditions.names("gid")),
            "jobs": _numbers([name.partition("_")[0] for name in conditions.names("jobs")]),
            "partitions": conditions.names("partitions"),
            "nodes": node_names(conditions.texts("nodes")),
            "wckeys": conditions.names("wckeys"),
        }
        try:
            answer = self._session.call("ListJobSizes", request)
        except NotAnsweredError as error:
            if not is_by_wckey:
                raise
            say(str(error))  # as Slurm, which goes on without wckeys
            return []
        if tres not in answer["tres"]:
            raise NotAnsweredError("sreport: fatal: No valid TRES given")
        rows = []
        for row in rows_of(answer):
            if not self._is_flat or self._names(row, {}):
                self._sizes_seen.add(row["cpus"])
            if is_by_wckey and row["wckey"][:1] in ("", "*"):
                continue  # the job named none, and Slurm leaves it out, too
            parents = answer["parents"].get(row["cluster"], {})
            rows += [{**row, "name": name} for name in self._names(row, parents)]
        return rows

    def _names(self, row: "Row", parents: "dict[str, str]") -> "list[str]":
        """Return what a row is listed by: its wckey, or the accounts that are named or above it."""
        if self._name == "SizesByWckey":
            return [row["wckey"]]
        accounts = self._conditions.lowered("accounts")
        if self._is_flat:
            names = [row["account"]] if not accounts or row["account"] in accounts else []
        else:
            below = ""
            account = row["account"]
            names = []
            for _ in range(len(parents) + 2):
                if account in (accounts or ("root",)):  # the topmost one has all below it
                    names = [below if "acctasparent" in self._conditions else account]
                if account == "root":
                    break
                below, account = account, parents.get(account, "root")
        if self._name == "SizesByAccountAndWcKey":
            return [f"{name}:{row['wckey']}" for name in names if name]
        return [name for name in names if name]

    def _sizes(self) -> "tuple[list[tuple[int, int]], list[str]]":
        """Return the first and last size of each column, and its heading."""
        unit = "TRES" if self._tres() != "cpu" else "CPUs"
        if not self._bounds:
            cpus = sorted(self._sizes_seen)
            return [(size, size) for size in cpus], [f"{size} {unit}" for size in cpus]
        firsts = [0, *self._bounds]
        lasts = [bound - 1 for bound in self._bounds]
        headers = [f"{first}-{last} {unit}" for first, last in zip(firsts, lasts, strict=False)]
        headers.append(f">= {self._bounds[-1]} {unit}")
        return list(zip(firsts, [*lasts, 2**63], strict=True)), headers

    def _lines(self, rows: "list[Row]", sizes: "list[tuple[int, int]]") -> "list[list[Cell]]":
        counted = "jobs" if self._is_count else "seconds"
        sums: dict[tuple[str, str], list[int]] = {}
        for row in rows:
            line = sums.setdefault((row["cluster"], row["name"]), [0] * len(sizes))
            for index, (first, last) in enumerate(sizes):
                if first <= row["cpus"] <= last:
                    line[index] += row[counted]
                    break
        totals: dict[str, int] = {}
        for (cluster, _), line in sums.items():
            totals[cluster] = totals.get(cluster, 0) + sum(line)
        lines = []
        for (cluster, name), line in sorted(sums.items()):
            total = sum(line)
            part = total * 100 / totals[cluster] if totals[cluster] else 0
            cells: list[Cell] = [_cell(column.name, cluster, name) for column in self._columns]
            cells += [value if self._is_count else Amount(value, total) for value in line]
            cells += [total if self._is_count else self._session.unit.plain(total), f"{part:.2f}%"]
            lines.append(cells)
        return lines


def _cell(column: str, cluster: str, name: str) -> "Cell":
    if column == "Cluster":
        return cluster
    if column in ("Account", "Wckey"):
        return name
    return {"User": "", "Duration": "00:00:00"}.get(column, 0)


def _bounds(texts: "list[str]") -> "list[int]":
    """Return where the columns of `grouping=` begin; none: each size has its own."""
    words = [word for text in texts for word in text.split(",")]
    if [word.lower() for word in words] == ["individual"]:
        return []
    for word in words:
        if not word.isdecimal() or len(word) > 12 or not int(word):
            raise NotAnsweredError(f"sreport: error: Invalid size in grouping: '{word}'")
    if len(words) > MOST_BOUNDS:
        raise NotAnsweredError(f"sreport: error: More than {MOST_BOUNDS} sizes in grouping")
    return sorted({int(word) for word in words}) or BOUNDS


def _uids(names: "list[str]") -> "list[int]":
    """Return the numbers of users; none if one of them is unknown, as in Slurm."""
    from pwd import getpwnam, getpwuid

    uids = []
    for name in names:
        try:
            person = getpwuid(int(name[:10])) if name.isdecimal() else getpwnam(name)
        except (KeyError, OverflowError):
            say(f"sreport: error: Invalid user id: {name}")
            return []
        uids.append(person.pw_uid)
    return uids


def _numbers(words: "list[str]") -> "list[int]":
    """Return numbers; a word that is not a number becomes a number that nothing has."""
    return [int(word) if word.isdecimal() and len(word) < 10 else NO_UID for word in words]


def node_names(texts: "list[str]") -> "list[str]":
    """Return the names in the lists of nodes that `nodes=` gives; a bad list is refused."""
    from pyslurm_ng.base.hostlist import HostlistError, expand

    try:
        return [name for text in texts for name in expand(text)]
    except HostlistError as problem:
        raise NotAnsweredError(f"sreport: error: {problem}") from problem
