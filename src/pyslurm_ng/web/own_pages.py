"""`/livez`, `/readyz` and `/metrics` of slurmrestd itself."""

from __future__ import annotations

import time
from collections.abc import Callable

import anyio
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from pyslurm_ng.base.error_numbers import is_unreachable
from pyslurm_ng.daemon.metrics_text import family
from pyslurm_ng.web.app import Service
from pyslurm_ng.web.events.feeds import Feeds
from pyslurm_ng.web.events.webhooks import Webhooks
from pyslurm_ng.web.refusal import NOT_FOUND, Refusal
from pyslurm_ng.web.requester import LOCAL, Requester
from pyslurm_ng.web.sending import ANSWERED
from pyslurm_ng.wire.daemon_link import SlurmError

KEPT_S = 5.0
AWAY_KEPT_S = 1.0
"""A slurmctld that was away is asked again soon: it may just have started."""
_OPEN = "metrics/openmetrics"


class OwnPages:
    """What probes and Prometheus ask; slurmctld is asked once in five seconds for all of them.

    Args:
        connections: counts the open connections.
    """

    def __init__(
        self,
        service: Service,
        feeds: Feeds,
        webhooks: Webhooks | None,
        connections: Callable[[], int],
    ) -> None:
        self._service = service
        self._feeds = feeds
        self._webhooks = webhooks
        self._connections = connections
        self._until_s = 0.0
        self._is_ready = False
        self._asking: anyio.Lock | None = None

    async def livez(self, request: Request) -> Response:
        """Answer that it lives."""
        return Response(status_code=204)

    async def readyz(self, request: Request) -> Response:
        """Answer whether slurmctld answers."""
        if time.monotonic() >= self._until_s:
            await self._ask()
        if self._is_ready:
            return Response(status_code=204)
        return PlainTextResponse("slurmctld does not answer\n", 503)

    async def _ask(self) -> None:
        """Ask slurmctld, once for all who wait for that."""
        self._asking = self._asking or anyio.Lock()
        async with self._asking:
            if time.monotonic() < self._until_s:
                return  # another one has asked meanwhile
            self._is_ready = await anyio.to_thread.run_sync(self._ping)
            self._until_s = time.monotonic() + (KEPT_S if self._is_ready else AWAY_KEPT_S)

    def _ping(self) -> bool:
        client = self._service.daemons.client(Requester(LOCAL, "", is_known=True))
        try:
            client.call("Ping", {}, 2.0)
        except SlurmError as error:
            # One that refuses this process's user lives all the same.
            return not is_unreachable(error.code)
        except OSError:
            return False
        finally:
            client.close()
        return True

    async def metrics(self, request: Request) -> Response:
        """Answer with numbers about this process; who may read them is MetricsType's matter."""
        conf = self._service.daemons.conf
        if conf.get("MetricsType", "") != _OPEN:
            raise Refusal(NOT_FOUND, "MetricsType is not set", source="slurmrestd")
        named = [word for word in conf.get("MetricsAuthUsers", "").split(",") if word]
        is_open = not conf.get("PrivateData", "") or "ignore_private_data" in conf.get(
            "MetricsParameters", ""
        )
        if named or not is_open:
            requester = self._service.requester(request)
            requester = await self._service.believe(requester, request, "slurm")
            users = {"root", conf.get("SlurmUser", "root"), *named}
            if not requester.is_known or requester.name not in users:
                raise Refusal(403, "Access/permission denied", source="slurmrestd")
        return PlainTextResponse("\n".join([*self._lines(), ""]))

    def _lines(self) -> list[str]:
        feeds, listeners = self._feeds.counts
        open_requests, held_bytes = self._service.rooms.counts
        lines: list[str] = []
        for name, purpose, count in (
            ("connections", "Open connections", self._connections()),
            ("requests", "Requests that are being answered", open_requests),
            ("bytes_held", "Bytes of requests and answers that are held", held_bytes),
            ("event_feeds", "Subscriptions at slurmctld", feeds),
            ("event_listeners", "Listeners to events", listeners),
        ):
            lines += family(f"pyslurm_rest_{name}", purpose, [("", count)])
        deliveries = self._webhooks.deliveries if self._webhooks is not None else []
        for name in ("sent", "failed", "dropped"):
            rows = [(delivery.hook.name, getattr(delivery, name)) for delivery in deliveries]
            lines += family(
                f"pyslurm_rest_webhook_{name}_total", f"Events of webhooks that were {name}", rows,
                "webhook", "counter",
            )  # fmt: skip
        answered = [(str(status), count) for status, count in sorted(ANSWERED.items())]
        lines += family(
            "pyslurm_rest_answers_total", "Answers by their status", answered, "status", "counter"
        )
        faults = sorted(self._service.faults.counts.items())
        return lines + family(
            "pyslurm_rest_faults_total", "Errors that cost one request", faults, "kind", "counter"
        )

    def routes(self) -> list[Route]:
        """Return the routes."""
        return [
            Route("/livez", self.livez),
            Route("/healthz", self.livez),
            Route("/readyz", self.readyz),
            Route("/metrics", self.metrics),
        ]
