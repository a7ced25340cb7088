"""One run of sreport: its options, its connection to slurmdbd, and what all reports need."""

from pyslurm_ng.base.error_numbers import is_unreachable
from pyslurm_ng.cli.accounting.sreport_amounts import Period, Unit
from pyslurm_ng.cli.accounting.sreport_table import Printer
from pyslurm_ng.cli.command import fail, read_conf, split_list
from pyslurm_ng.cli.program import shows_federation

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from pyslurm_ng.cli.accounting.sreport_conditions import Conditions
    from pyslurm_ng.wire.client import Client

    Row = dict[str, Any]

TIMEOUT_S = 900


class NotAnsweredError(Exception):
    """slurmdbd did not answer a report; the text is for stderr."""


NO_NODES = (
    "sreport: fatal: TRES node usage is no longer reported in {}.  Please use TRES CPU instead."
)


class Session:
    """One invocation: its options and its connection."""

    def __init__(self, options: "dict[str, str]") -> None:
        self.options = options
        self.unit = Unit(options["time_format"]) if "time_format" in options else Unit()
        self.exit_code = 0
        self._conf: dict[str, str] = {}
        self._client: Client | None = None

    def close(self) -> None:
        """End the connection."""
        if self._client is not None:
            self._client.close()

    def printer(self) -> Printer:
        """Return a printer of reports that follows the present options."""
        return Printer(self.options, self.unit)

    @property
    def _slurm_conf(self) -> "dict[str, str]":
        if not self._conf:
            self._conf = read_conf("sreport", "AccountingStorageType", "TCPTimeout",
                                   "AccountingStorageBackupHost")  # fmt: skip
        return self._conf

    def call(self, kind: str, fields: "Row") -> "Row":
        """Ask slurmdbd.

        Raises:
            NotAnsweredError: it refuses, or cannot be reached.
        """
        from pyslurm_ng.wire.client import Client, SlurmError

        if self._client is None:
            storage = self._slurm_conf.get("AccountingStorageType", "") or "accounting_storage/none"
            if not storage.endswith("slurmdbd"):
                fail(
                    "You are not running a supported accounting_storage plugin\n"
                    "Only 'accounting_storage/slurmdbd' is supported."
                )
            self._client = Client(self._slurm_conf, "slurmdbd", wait_s=0.5)
        try:
            return self._client.call(kind, fields, TIMEOUT_S)
        except SlurmError as error:
            if is_unreachable(error.code):
                text = error.detail or error.text
                fail(f"sreport: error: Problem talking to the database: {text}")
            raise NotAnsweredError(f"sreport: error: {error.text}") from error

    def period(self, conditions: "Conditions") -> Period:
        """Return the period of a report."""
        from time import time

        return Period(conditions.last("start"), conditions.last("end"), int(time()))

    def clusters(self, conditions: "Conditions") -> "list[str]":
        """Return the clusters of a report: those that are named, all, or that of slurm.conf.

        As in 22.05, `clusters=` adds to -M, and both go before what means all of them.
        """
        named = split_list(self.options.get("cluster", ""))
        if named == ["all"]:
            named = []
        named += conditions.names("clusters")
        if named or "clusters" in conditions:
            return named
        if {"all_clusters", "cluster"} & self.options.keys() or "all_clusters" in conditions:
            return []
        if shows_federation(self.options, self._slurm_conf):
            return self._federation() or [self.own_cluster]
        return [self.own_cluster]

    def _federation(self) -> "list[str]":
        """Return the clusters of this one's federation."""
        where = [["Clusters", "=", self.own_cluster]]
        answer = self.call("ListEntities", {"entity": "federation", "where": where, "flags": []})
        return [str(row["Cluster"]) for row in rows_of(answer)]

    @property
    def own_cluster(self) -> str:
        """The cluster of slurm.conf."""
        return self._slurm_conf.get("ClusterName", "cluster").lower()

    def tres(self, known: "list[str]", without: str = "") -> "list[str]":
        """Return the TRES that -T names; cpu without it.

        Args:
            without: one that `all` does not mean.

        Raises:
            NotAnsweredError: none of them is known.
        """
        if "tres" not in self.options:
            return ["cpu"]
        words = [word.lower() for word in split_list(self.options["tres"])]
        if words == ["all"]:
            return [name for name in known if name != without]
        chosen = [name for name in dict.fromkeys(words) if name in known]
        if not chosen:
            raise NotAnsweredError("sreport: fatal: No valid TRES given")
        return chosen

    def refuse_percent_of_nodes(self) -> None:
        """Exit as Slurm does where -T names the TRES node and -t a part of the total.

        Raises:
            NotAnsweredError: that is so.
        """
        words = self.options.get("tres", "").lower().split(",")
        if "node" in words and self.unit.has_percent:
            raise NotAnsweredError(NO_NODES.format("percent format reports"))

    @property
    def tres_title(self) -> str:
        """Return the name of what is counted, for headings."""
        return "TRES" if "tres" in self.options else "CPU"


def rows_of(answer: "Row") -> "list[Row]":
    """Return the rows of an answer by field name."""
    from pyslurm_ng.kernels.records import project

    names = answer["fields"]
    return [
        dict(zip(names, values, strict=True))
        for values in project(answer["records"], range(len(names)))
    ]
