"""One run of scontrol: its switches and its connection, and how it prints records."""

import os
from time import monotonic_ns

from pyslurm_ng.base.preempt_words import preempt_text
from pyslurm_ng.cli.command import connect, fail, printable, read_conf, say, uid_of
from pyslurm_ng.wire.client import SlurmError
from pyslurm_ng.wire.daemon_link import controller_hosts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sized
    from typing import Any, TypeAlias

    from pyslurm_ng.wire.client import Client

    Action: TypeAlias = Callable[["Session", list[str]], int]
    """The action of a command: it takes the arguments and returns the exit code."""


class Session:
    """One run of scontrol: the switches, and the connection once it is needed."""

    def __init__(self, options: "dict[str, str]", argv: "list[str]") -> None:
        self.all = "all" in options or "SCONTROL_ALL" in os.environ
        self.detail = 1 if "details" in options else 0
        self.future = "future" in options or "SCONTROL_FUTURE" in os.environ
        self.oneliner = "oneliner" in options
        self.json = ["scontrol", *argv] if "json" in options else []
        self.quiet = "quiet" in options
        self.verbose = "verbose" in options and not self.quiet
        self.uid: int | None = None  # --uid: who changes jobs, if not the caller
        if "uid" in options:
            self.uid = uid_of(options["uid"])
            if self.uid < 0:
                fail(f'scontrol: error: --uid="{options["uid"]}" invalid')
        self._conf: dict[str, str] | None = None
        self._client: Client | None = None

    @property
    def own_conf(self) -> "dict[str, str]":
        """The few keys of slurm.conf that are needed here."""
        return read_conf("scontrol", "BurstBufferType", "PreemptMode", "RebootProgram")

    @property
    def conf(self) -> "dict[str, str]":
        """The keys of the cluster that is asked."""
        if self._conf is None:
            self._conf = self.own_conf
        return self._conf

    def move(self, conf: "dict[str, str]") -> None:
        """Ask another cluster from now on."""
        self._conf = conf
        if self._client is not None:
            self._client.close()
        self._client = None

    @property
    def client(self) -> "Client":
        """The connection to the controller."""
        if self._client is None:
            self._client = connect(self.conf)
        return self._client

    @property
    def preempt_mode(self) -> str:
        """PreemptMode= of the cluster."""
        return preempt_text(self.conf.get("PreemptMode", "OFF").upper().split(","))

    def complain(self, text: str) -> None:
        """Print an error; with --quiet only the exit code tells it."""
        if not self.quiet:
            say(text)

    def miss(self, text: str) -> None:
        """Print on stdout that there is nothing to show; with --quiet print nothing."""
        if not self.quiet:
            print(text)

    def count(self, reply: "dict[str, Any]", rows: "Sized") -> None:
        """With --verbose print the time of an answer and how many records it has."""
        if self.verbose:
            from pyslurm_ng.cli.listing.list_format import Dates

            when = Dates(reply["now_us"]).text(reply["now_us"])
            print(f"last_update_time={when}, records={len(rows)}")

    def ping(self, *, as_json: bool = False) -> int:
        """Print whether the controllers are up."""
        hosts = controller_hosts(self.conf.get("SlurmctldHost", "")) or [("localhost", "")]
        begin_us = monotonic_ns() // 1000
        try:
            self.client.call("Ping", {}, 2.0)
            is_up = True
        except SlurmError:
            is_up = False
        if as_json:
            self._print_ping([name for name, _ in hosts], is_up, monotonic_ns() // 1000 - begin_us)
            return 0 if is_up else 1
        for index, (name, _) in enumerate(hosts):
            role = "primary" if not index else f"backup{index}" if index > 1 else "backup"
            # Standby controllers do not answer yet.
            state = "UP" if is_up and not index else "DOWN"
            print(f"Slurmctld({role}) at {name} is {state}")
        return 0 if is_up else 1

    def _print_ping(self, hosts: "list[str]", is_up: bool, latency_us: int) -> None:
        """Print as JSON which controllers answer, and how long the primary one took."""
        from pyslurm_ng.cli.command import write_bytes
        from pyslurm_ng.cli.documents import tail
        from pyslurm_ng.data_parser.json_text import document, encode

        records = []
        for index, host in enumerate(hosts):
            responds = is_up and not index
            record = {
                "hostname": host,
                "responding": responds,
                "latency": latency_us if responds else -1,
                "primary": not index,
                "status": "No error" if responds else "Communication connection failure",
            }
            records.append(encode(record, 2))
        cluster = self.conf.get("ClusterName", "cluster")
        write_bytes(document("pings", records, tail(self.json, cluster)))


def null(text: "str | int") -> "str | int":
    """Return what scontrol prints for an empty value."""
    return text or "(null)"


def star(count: int) -> "str | int":
    """Return a requested value, or `*` if there is none."""
    return count or "*"


def print_record(session: "Session", lines: "list[str]") -> None:
    """Print one record: lines indented under the first, or all in one.

    Users' texts cannot begin a new line or send commands to the reader's terminal.
    """
    lines = [printable(line) for line in lines]
    if session.oneliner:
        print(" ".join(lines))
    else:
        print("\n   ".join(lines) + "\n")
