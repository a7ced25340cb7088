"""Answers HTTP on the controller's port: `/livez`, `/readyz`, `/healthz` and `/metrics`.

A page is made in slices of the loop when it is asked for and kept for some seconds, so that many
scrapers cost as much as one. Who may read it: everybody, unless PrivateData says otherwise or
MetricsAuthUsers names the users, as in Slurm 26.11.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Mapping
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from pyslurm_ng.base.faults import Faults
from pyslurm_ng.base.numbers import SECOND_US
from pyslurm_ng.ctld.clock import Clock
from pyslurm_ng.ctld.metrics import pages
from pyslurm_ng.ctld.queries.diagnostics import counters_of
from pyslurm_ng.ctld.service import Service
from pyslurm_ng.ctld.soft import Soft
from pyslurm_ng.ctld.users.identities import Identities, Person
from pyslurm_ng.ctld.writer import Writer
from pyslurm_ng.wire.auth import AuthError
from pyslurm_ng.wire.daemon_pages import NO_METRICS, NO_PAGE
from pyslurm_ng.wire.http import HttpAnswer, HttpRequest
from pyslurm_ng.wire.user_ids import NotKnownYet

if TYPE_CHECKING:
    from pyslurm_ng.wire.auth import Peer
    from pyslurm_ng.wire.auth_jwt import JwtVerifier

KEPT_US = 5 * SECOND_US
"""A page is made again when it is older."""
INDEX = (
    ("/metrics/jobs", "get job metrics"),
    ("/metrics/nodes", "get node metrics"),
    ("/metrics/partitions", "get partition metrics"),
    ("/metrics/jobs-users-accts", "get user and account jobs metrics"),
    ("/metrics/scheduler", "get scheduler metrics"),
)
_LATE_KEPT = 60
_ASKS = ('WWW-Authenticate: Bearer realm="slurmctld"',)

Answer: TypeAlias = Callable[[HttpAnswer], None]
Work: TypeAlias = Generator[None, None, list[str]]


class Endpoint:
    """The controller's pages.

    Args:
        tokens: verifies the tokens of AuthAltTypes=auth/jwt; None without them.
    """

    def __init__(
        self,
        writer: Writer,
        soft: Soft,
        service: Service,
        identities: Identities,
        clock: Clock,
        faults: Faults,
        tokens: JwtVerifier | None,
    ) -> None:
        self._writer = writer
        self._soft = soft
        self._service = service
        self._identities = identities
        self._clock = clock
        self._faults = faults
        self._late_us: deque[int] = deque([0], _LATE_KEPT)
        self._tokens = tokens
        self._pages: dict[str, Callable[[], Work]] = {
            "/metrics": self._own_page,
            "/metrics/jobs": partial(pages.jobs_page, writer.cluster, soft),
            "/metrics/nodes": partial(pages.nodes_page, writer.cluster, soft),
            "/metrics/partitions": partial(pages.partitions_page, writer.cluster, soft),
            "/metrics/jobs-users-accts": partial(pages.users_page, writer.cluster, soft),
            "/metrics/scheduler": self._scheduler_page,
        }
        self._kept: dict[str, tuple[int, bytes]] = {}
        self._waiting: dict[str, list[Answer]] = {}

    def respond(self, request: HttpRequest, answer: Answer) -> None:
        """Answer a request, now or when its page is made."""
        path = request.path.rstrip("/") or "/"
        conf = self._service.configuration.conf
        if path in ("/livez", "/healthz"):
            answer(HttpAnswer(204))
        elif path == "/readyz":
            answer(self._readiness())
        elif path not in self._pages:
            answer(NO_PAGE)
        elif conf.metrics_type != "metrics/openmetrics":
            answer(NO_METRICS)
        elif not self._is_guarded():
            self._show(path, answer)
        else:
            try:
                peer = request.peer or self._token_peer(request.headers)
            except NotKnownYet as wait:
                wait.later(partial(self.respond, request, answer))
            except AuthError as error:
                answer(HttpAnswer(401, f"{error.text}\n".encode("ascii", "replace"), _ASKS))
            else:
                now_us = self._clock.now_us()
                self._identities.find(peer, now_us, partial(self._known, path, answer))

    def note_late(self, late_us: int) -> None:
        """Note once a second how late the loop is."""
        self._late_us.append(max(0, late_us))

    # Who may ask ------------------------------------------------------------------------------

    def _is_guarded(self) -> bool:
        conf = self._service.configuration.conf
        if conf.metrics_auth_users:
            return True
        words = [word.lower() for word in conf.metrics_parameters]
        return bool(conf.private_data) and "ignore_private_data" not in words

    def _token_peer(self, headers: Mapping[str, str]) -> Peer:
        """Return the user of a request that came by TCP.

        Raises:
            AuthError: it has no token, or none that is believed.
        """
        token = headers.get("x-slurm-user-token", "")
        scheme, _, bearer = headers.get("authorization", "").partition(" ")
        if not token and scheme.lower() == "bearer":
            token = bearer.strip()
        if self._tokens is None or not token:
            raise AuthError("missing", "metrics are for users that are named")
        return self._tokens.peer_of(token, headers.get("x-slurm-user-name", ""), "")

    def _known(self, path: str, answer: Answer, person: Person) -> None:
        conf = self._service.configuration.conf
        names = {"root", conf.slurm_user, *conf.metrics_auth_users}
        if person.user_name in names or person.uid == 0 or str(person.uid) in names:
            self._show(path, answer)
        else:
            answer(HttpAnswer(403, b"Access/permission denied\n"))

    # Pages ------------------------------------------------------------------------------------

    def _readiness(self) -> HttpAnswer:
        why_not = self._writer.refusal_now()
        if why_not is None:
            return HttpAnswer(204)
        return HttpAnswer(503, b"no new work is taken: the state file system is full\n")

    def _show(self, path: str, answer: Answer) -> None:
        made_us, page = self._kept.get(path, (-KEPT_US, b""))
        if self._clock.now_us() - made_us < KEPT_US:
            answer(HttpAnswer(200, page))
            return
        waiting = self._waiting.setdefault(path, [])
        waiting.append(answer)
        if len(waiting) == 1:
            self._service.slices.run(self._make(path))

    def _make(self, path: str) -> Generator[None, None, None]:
        try:
            lines = yield from self._pages[path]()
            page = "\n".join([*lines, ""]).encode()
            self._kept[path] = (self._clock.now_us(), page)
            result = HttpAnswer(200, page)
        except Exception as error:  # noqa: BLE001 - it costs this page only
            self._faults.note("request", f"HTTP {path}", error)
            result = HttpAnswer(500, b"Slurm internal error, contact system administrator\n")
        for answer in self._waiting.pop(path):
            answer(result)

    def _counters(self) -> dict[str, int]:
        counters = counters_of(self._writer.cluster, self._soft)
        counters["now_us"] = self._clock.now_us()
        counters["since_us"] = self._soft.reset_us or self._soft.started_us
        cut = counters["cut_by_start"] + counters["cut_by_test"]
        counters["whole_passes"] = counters["schedule_cycles"] - cut
        counters["threads"] = 1
        return counters

    def _scheduler_page(self) -> Work:
        yield
        return pages.scheduler_page(self._counters())

    def _own_page(self) -> Work:
        """The index of Slurm as comments, so that a scraper can read it, and our own families."""
        lines = ["# slurmctld index of metrics endpoints:"]
        lines += [f"#  '{path}': {purpose}" for path, purpose in INDEX]
        late_s = max(self._late_us) / SECOND_US
        purpose = "The longest time in a minute that work waited for the main loop"
        more = [("loop_late_seconds", purpose, "gauge", late_s)]
        lines += yield from pages.own_page(self._counters(), self._soft, more)
        return lines
