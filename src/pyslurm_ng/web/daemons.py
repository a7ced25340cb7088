"""Asking slurmctld and slurmdbd for a requester, as any command does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from pyslurm_ng.conf.quick import find_conf, quick
from pyslurm_ng.web.requester import Requester
from pyslurm_ng.wire.client import QUICK_KEYS, Client

CONF_KEYS = (
    *QUICK_KEYS,
    "AccountingStorageType",
    "AuthAltParameters",
    "MetricsAuthUsers",
    "MetricsParameters",
    "MetricsType",
    "PrivateData",
    "TrackWCKey",
    "PreemptMode",
    "SlurmdParameters",
    "SelectTypeParameters",
)
NO_ANSWER_S = 2.0
"""How long a daemon that does not answer is tried: the requester can try again itself."""


class DaemonClient(Protocol):
    """What endpoints need of `wire.client.Client`."""

    def call(
        self, kind: str, fields: dict[str, Any], timeout_s: float | None = None
    ) -> dict[str, Any]:
        """Send a request and return its answer."""

    def change(
        self, kind: str, fields: dict[str, Any], timeout_s: float | None = None
    ) -> dict[str, Any]:
        """Send a request that changes something."""

    def stream(self, kind: str, fields: dict[str, Any], timeout_s: float | None = None) -> Any:
        """Send a request and yield its answers."""

    def begin(self, kind: str, fields: dict[str, Any]) -> int:
        """Send a request without waiting; return the number of its answers."""

    def receive(self, timeout_s: float | None = None) -> tuple[int, dict[str, Any], bool]:
        """Return number, answer and whether it is the last."""

    def fileno(self) -> int:
        """Return the descriptor to poll; -1 without one."""

    def close(self) -> None:
        """End the connection."""


MakeClient = Callable[[Mapping[str, str], str, Requester], DaemonClient]


def make_client(conf: Mapping[str, str], audience: str, requester: Requester) -> DaemonClient:
    """Return a client of a daemon; it says at once when a daemon is busy or away."""
    return Client(
        conf,
        audience,
        wait_s=NO_ANSWER_S,
        bearer=requester.credential,
        backs_off=False,
    )


class Daemons:
    """The cluster's daemons.

    Attributes:
        conf: the keys of slurm.conf that are needed to reach them.
    """

    def __init__(self, conf: Mapping[str, str], make: MakeClient = make_client) -> None:
        self.conf = conf
        self._make = make

    @classmethod
    def of_file(cls, path: str = "") -> Daemons:
        """Return those of slurm.conf.

        Raises:
            OSError: it cannot be read.
        """
        return cls(quick(path or find_conf(), CONF_KEYS))

    @property
    def cluster(self) -> str:
        """ClusterName."""
        return self.conf.get("ClusterName", "cluster").lower()

    @property
    def accounting_storage(self) -> str:
        """The kind of accounting, "" for none."""
        kind = self.conf.get("AccountingStorageType", "")
        return "" if kind == "accounting_storage/none" else kind

    @property
    def user_claim(self) -> str:
        """The claim that names a token's user, "" for the usual ones."""
        for word in self.conf.get("AuthAltParameters", "").split(","):
            name, _, value = word.strip().partition("=")
            if name.lower() == "userclaimfield":
                return value
        return ""

    def client(self, requester: Requester, audience: str = "slurmctld") -> DaemonClient:
        """Return a client that asks for a requester."""
        return self._make(self.conf, audience, requester)
