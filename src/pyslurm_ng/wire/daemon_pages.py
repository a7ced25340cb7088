"""Health and metrics of slurmd and slurmdbd by HTTP on their own ports: one small page each.

slurmctld has its own (`ctld.metrics`), since its pages are long and its users are known by tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping

from pyslurm_ng.daemon.metrics_text import family
from pyslurm_ng.wire.http import HttpAnswer, HttpRequest

Lines = list[str]

NO_PAGE = HttpAnswer(404, b"there is no such page\n")
NO_METRICS = HttpAnswer(404, b"no metrics: slurm.conf has no MetricsType=metrics/openmetrics\n")


class DaemonPages:
    """Answers `/livez`, `/readyz`, `/healthz` and `/metrics`.

    Args:
        lines: makes the page of metrics.
        why_not_ready: returns why no work is taken, "" if it is.
        is_on: whether there are metrics; health is always told.
        is_private: whether only privileged users may read them, whom the kernel names on the Unix
            socket.
        privileged: uids of root and SlurmUser.
    """

    def __init__(
        self,
        lines: Callable[[], Lines],
        *,
        why_not_ready: Callable[[], str],
        is_on: Callable[[], bool],
        is_private: Callable[[], bool],
        privileged: Container[int],
    ) -> None:
        self._lines = lines
        self._why_not_ready = why_not_ready
        self._is_on = is_on
        self._is_private = is_private
        self._privileged = privileged

    def respond(self, request: HttpRequest, answer: Callable[[HttpAnswer], None]) -> None:
        """Answer a request at once."""
        path = request.path.rstrip("/")
        if path in ("/livez", "/healthz"):
            answer(HttpAnswer(204))
        elif path == "/readyz":
            why = self._why_not_ready()
            body = f"{why}\n".encode("ascii", "replace")
            answer(HttpAnswer(503, body) if why else HttpAnswer(204))
        elif path != "/metrics":
            answer(NO_PAGE)
        elif not self._is_on():
            answer(NO_METRICS)
        elif self._is_private() and not self._is_privileged(request):
            answer(HttpAnswer(403, b"Access/permission denied\n"))
        else:
            answer(HttpAnswer(200, "\n".join([*self._lines(), ""]).encode()))

    def _is_privileged(self, request: HttpRequest) -> bool:
        return request.peer is not None and request.peer.uid in self._privileged


def server_lines(
    prefix: str,
    counts: Mapping[str, int],
    refusals: Mapping[str, int],
    requests: Mapping[str, int],
    faults: Mapping[str, int],
) -> Lines:
    """Return the families that each daemon with a stream server has."""
    lines: Lines = []
    for name, count in sorted(counts.items()):
        lines += family(f"{prefix}_{name}", f"{name.replace('_', ' ').capitalize()} now",
                        [("", count)])  # fmt: skip
    for name, purpose, label, rows in (
        ("requests", "Requests since the start", "request", requests),
        ("requests_refused", "Requests refused by cause", "cause", refusals),
        ("faults", "Errors that cost one job, message or row", "kind", faults),
    ):
        lines += family(f"{prefix}_{name}_total", purpose, sorted(rows.items()), label, "counter")
    return lines
