"""`/livez`, `/readyz` and `/metrics` of slurmrestd."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from starlette.requests import Request

from pyslurm_ng.web.app import Service
from pyslurm_ng.web.daemons import Daemons
from pyslurm_ng.web.events.feeds import Feeds
from pyslurm_ng.web.own_pages import OwnPages
from pyslurm_ng.web.sending import ANSWERED
from pyslurm_ng.wire.daemon_link import SlurmError
from tests.web.front import CONF, Front, front


def pages(service: Service) -> list[Any]:
    feeds = Feeds(service.daemons, service.faults)
    return [*OwnPages(service, feeds, None, lambda: 7).routes()]


def client(user: str = "", **conf: str) -> Front:
    """Return a client of a slurmrestd with such a slurm.conf."""

    def more(service: Service) -> list[Any]:
        service.daemons.conf = {**CONF, "SlurmUser": "slurm", **conf}
        return pages(service)

    return front(None, user, more=more)


def test_health_needs_no_token() -> None:
    """Probes have none."""
    assert client().get("/livez").status == 204
    assert client().get("/readyz").status == 204


def test_slurmctld_that_answers_makes_it_ready() -> None:
    """It is asked once for many probes."""
    asked: list[str] = []

    class Answers:
        def call(self, kind: str, fields: Any, timeout_s: float = 0) -> dict[str, Any]:
            asked.append(kind)
            return {}

        def close(self) -> None:
            """End."""

    service = Service(Daemons(CONF, lambda *_: Answers()))  # type: ignore[arg-type,return-value]
    from pyslurm_ng.web.app import build_app

    probe = Front(build_app(service, pages(service)), "")
    assert [probe.get("/readyz").status for _ in range(3)] == [204, 204, 204]
    assert asked == ["Ping"]


def test_probes_that_come_together_are_answered_together() -> None:
    """The second one right after the start is not told of an answer that is still to come."""
    asked: list[str] = []
    all_asked = threading.Event()

    class Slow:
        def call(self, kind: str, fields: Any, timeout_s: float = 0) -> dict[str, Any]:
            asked.append(kind)
            assert all_asked.wait(60)
            return {}

        def close(self) -> None:
            """End."""

    service = Service(Daemons(CONF, lambda *_: Slow()))  # type: ignore[arg-type,return-value]
    own = OwnPages(service, Feeds(service.daemons, service.faults), None, lambda: 7)

    async def probe() -> list[int]:
        request = Request({"type": "http", "headers": []})
        probes = [asyncio.create_task(own.readyz(request)) for _ in range(3)]
        await asyncio.sleep(0)  # all three have begun now
        all_asked.set()
        answers = await asyncio.gather(*probes)
        return [answer.status_code for answer in answers]

    assert asyncio.run(probe()) == [204, 204, 204] and asked == ["Ping"]


@pytest.mark.parametrize(
    ("user", "conf", "status"),
    [
        ("", {}, 404),
        ("", {"MetricsType": "metrics/openmetrics"}, 200),
        ("", {"MetricsType": "metrics/openmetrics", "PrivateData": "jobs"}, 401),
        (
            "",
            {
                "MetricsType": "metrics/openmetrics",
                "PrivateData": "jobs",
                "MetricsParameters": "ignore_private_data",
            },
            200,
        ),
        ("alice", {"MetricsType": "metrics/openmetrics", "MetricsAuthUsers": "bob"}, 403),
        ("alice", {"MetricsType": "metrics/openmetrics", "MetricsAuthUsers": "bob,alice"}, 200),
    ],
)
def test_who_reads_metrics(user: str, conf: dict[str, str], status: int) -> None:
    """As with slurmctld's."""
    ANSWERED[418] = 3
    answer = client(user, **conf).get("/metrics")
    assert answer.status == status
    if status == 200:
        assert b"\npyslurm_rest_connections 7\n" in answer.content
        assert b'\npyslurm_rest_answers_total{status="418"} 3\n' in answer.content


def test_a_client_that_raises_is_not_ready() -> None:
    """A controller that is away is said to be."""

    class Away:
        def call(self, *_: Any) -> dict[str, Any]:
            raise SlurmError(1800, "away")

        def close(self) -> None:
            """End."""

    service = Service(Daemons(CONF, lambda *_: Away()))  # type: ignore[arg-type,return-value]
    from pyslurm_ng.web.app import build_app

    answer = Front(build_app(service, pages(service)), "").get("/readyz")
    assert (answer.status, answer.content) == (503, b"slurmctld does not answer\n")
