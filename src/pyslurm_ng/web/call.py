"""One request to slurmrestd, as endpoints see it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from pyslurm_ng.base.error_numbers import Errno
from pyslurm_ng.data_parser.envelope import NEWEST, envelope
from pyslurm_ng.web.daemons import DaemonClient, Daemons
from pyslurm_ng.web.refusal import NOT_BUILT, Refusal
from pyslurm_ng.web.requester import Requester

PLUGINS = {
    "slurm": ("openapi/slurmctld", "Slurm OpenAPI slurmctld"),
    "slurmdb": ("openapi/slurmdbd", "Slurm OpenAPI slurmdbd"),
    "util": ("openapi/util", "Slurm OpenAPI utilities"),
}


@dataclass(frozen=True)
class Streamed:
    """An answer whose list is too long to be held: `records` are objects in JSON, some at a time.

    `fingerprint` says what the list is made of, for its ETag; b"" where nothing does. The list
    keeps `held_bytes` until it is sent.
    """

    key: str
    records: Iterator[bytes]
    more: dict[str, Any]
    fingerprint: bytes
    held_bytes: int = 0


Answer = dict[str, Any] | Streamed


@dataclass
class Call:
    """A request that was read: path and query by name, and a body with the schema's types.

    Attributes:
        tag: slurm, slurmdb or util.
        source: where the requester is, for the answer's meta.
        warnings: what the answer will warn of.
    """

    tag: str
    version: str
    requester: Requester
    daemons: Daemons
    path: dict[str, str] = field(default_factory=dict)
    query: dict[str, str] = field(default_factory=dict)
    body: Any = None
    source: str = ""
    warnings: list[dict[str, str]] = field(default_factory=list)
    _clients: dict[str, DaemonClient] = field(default_factory=dict)

    @property
    def controller(self) -> DaemonClient:
        """slurmctld."""
        return self._client("slurmctld")

    @property
    def database(self) -> DaemonClient:
        """slurmdbd.

        Raises:
            Refusal: there is no accounting.
        """
        if not self.daemons.accounting_storage.endswith("slurmdbd"):
            raise Refusal(
                NOT_BUILT,
                "This cluster keeps no accounting: AccountingStorageType",
                Errno.ESLURM_NOT_SUPPORTED,
                "slurmdb",
            )
        return self._client("slurmdbd")

    def _client(self, audience: str) -> DaemonClient:
        if audience not in self._clients:
            self._clients[audience] = self.daemons.client(self.requester, audience)
        return self._clients[audience]

    def close(self) -> None:
        """End the connections."""
        for client in self._clients.values():
            client.close()

    def warn(self, description: str, source: str) -> None:
        """Let the answer warn of something."""
        self.warnings.append({"description": description, "source": source})

    def flag(self, name: str) -> bool:
        """Return whether a parameter of the query is set."""
        return self.query.get(name, "").lower() not in ("", "0", "false", "no")

    def envelope(self, *, last_update_us: int = -1) -> dict[str, Any]:
        """Return what follows the records of the answer."""
        return envelope(
            cluster=self.daemons.cluster,
            client={
                "source": self.source,
                "user": self.requester.name if self.requester.is_known else "",
                "group": self.requester.group,
            },
            command=[],
            version=self.version,
            plugin=PLUGINS.get(self.tag, ("", "")),
            accounting_storage=self.daemons.accounting_storage,
            last_update_us=last_update_us,
        )

    @property
    def is_newest(self) -> bool:
        """Whether records need no change for the version asked for."""
        return self.version == NEWEST
