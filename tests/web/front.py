"""slurmrestd's application over the reference cluster, without sockets."""

from __future__ import annotations

import asyncio
import json
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from starlette.applications import Starlette
from starlette.routing import BaseRoute

from pyslurm_ng.base.error_numbers import Errno
from pyslurm_ng.web.app import Service, build_app
from pyslurm_ng.web.daemons import Daemons
from pyslurm_ng.web.requester import Requester
from pyslurm_ng.wire.client import SlurmError, packed
from pyslurm_ng.wire.table import MessageError
from tests.cli.reference_cluster import GOLDEN, NOW_US, ReferenceCluster, queue

CONF = {
    "ClusterName": "demo",
    "SlurmctldHost": "ctl(127.0.0.1)",
    "AccountingStorageType": "accounting_storage/slurmdbd",
}


class FrontClient:
    """Asks the reference cluster for one requester.

    Attributes:
        audience: the daemon that is asked.
        is_away: no daemon answers a ping.
    """

    is_away = False

    def __init__(
        self, reference: ReferenceCluster, requester: Requester, audience: str = "slurmctld"
    ) -> None:
        self.audience = audience
        self._reference, self._name = reference, requester.name

    def call(
        self, kind: str, fields: dict[str, Any], timeout_s: float | None = None
    ) -> dict[str, Any]:
        """Ask; of slurm.conf the recorded cluster's lines are shown."""
        if kind == "Ping" and not self.is_away:
            return {"name": "ctl", "role": "primary", "version": ""}
        if kind == "ShowConfig":
            return {"lines": _config_lines(), "now_us": NOW_US}
        return self._ask("call", kind, fields)

    def change(
        self, kind: str, fields: dict[str, Any], timeout_s: float | None = None
    ) -> dict[str, Any]:
        """Change."""
        return self._ask("change", kind, fields)

    def _ask(self, how: str, kind: str, fields: dict[str, Any]) -> dict[str, Any]:
        """Ask; what no message holds is refused, as by the client and the daemons."""
        packed(fields)
        try:
            client = self._reference.client(self._name)
            answer: dict[str, Any] = getattr(client, how)(kind, fields)
        except MessageError as error:
            number = Errno.SLURM_PROTOCOL_INSANE_MSG_LENGTH
            raise SlurmError(number, error.text) from None
        return answer

    def stream(self, kind: str, fields: dict[str, Any], timeout_s: float | None = None) -> Any:
        """Ask; the whole answer comes at once."""
        return iter([self._ask("call", kind, fields)])

    def close(self) -> None:
        """Do nothing: there is no connection."""


def _config_lines() -> list[str]:
    """Return what scontrol show config printed there."""
    text = (GOLDEN / "scontrol" / "config.txt").read_text()
    return text.split("----- stdout\n")[1].split("----- stderr")[0].splitlines()


def token_of(name: str, **more: Any) -> str:
    """Return a token of a user that only this application reads: it has no signature."""
    claims = urlsafe_b64encode(json.dumps({"sun": name, **more}).encode()).decode().rstrip("=")
    return f"e30.{claims}.x"


@dataclass
class Response:
    """An answer."""

    status: int
    headers: dict[str, str]
    content: bytes

    def json(self) -> Any:
        """Return the document."""
        return json.loads(self.content)

    @property
    def errors(self) -> list[dict[str, Any]]:
        """The error objects."""
        return list(self.json()["errors"])


class Front:
    """An HTTP client of the application, as one user."""

    def __init__(self, app: Starlette, user: str, state: Mapping[str, Any] | None = None) -> None:
        self._app = app
        self._user = user
        self._state = dict(state or {})

    def get(self, path: str, **headers: str) -> Response:
        """Read."""
        return self.request("GET", path, headers=headers)

    def delete(self, path: str, body: Any = None) -> Response:
        """Delete."""
        return self.request("DELETE", path, body)

    def post(self, path: str, body: Any = None) -> Response:
        """Change."""
        return self.request("POST", path, body)

    def request(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> Response:
        """Return the answer to one request; a body in bytes is sent as it is."""
        sent = {"x-slurm-user-token": token_of(self._user)} if self._user else {}
        sent.update(
            {name.lower().replace("_", "-"): text for name, text in (headers or {}).items()}
        )
        content = body if isinstance(body, bytes) else b"" if body is None else _json(body)
        return asyncio.run(self._run(method, path, content, sent))

    async def _run(
        self, method: str, path: str, content: bytes, headers: dict[str, str]
    ) -> Response:
        name, _, query = path.partition("?")
        scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method,
            "scheme": "http", "path": name, "raw_path": name.encode(), "root_path": "",
            "query_string": query.encode(), "state": dict(self._state),
            "headers": [(key.encode(), text.encode()) for key, text in headers.items()],
            "client": ("127.0.0.1", 4000), "server": ("127.0.0.1", 6820),
        }  # fmt: skip
        came = iter([{"type": "http.request", "body": content, "more_body": False}])
        messages: list[Any] = []

        async def receive() -> Any:
            message = next(came, None)
            if message is None:
                await asyncio.sleep(3600)
            return message

        async def send(message: Any) -> None:
            messages.append(message)

        await self._app(scope, receive, send)
        got = {key.decode(): text.decode() for key, text in messages[0].get("headers", ())}
        body = b"".join(message.get("body", b"") for message in messages[1:])
        return Response(messages[0]["status"], got, body)


def _json(body: Any) -> bytes:
    return json.dumps(body).encode()


def front(
    reference: ReferenceCluster | None = None,
    user: str = "alice",
    more: Callable[[Service], list[BaseRoute]] | None = None,
    **service: Any,
) -> Front:
    """Return a client of the application over a cluster; "" for no user.

    Args:
        more: makes further routes, such as those of the pages.
    """
    cluster = reference or queue()
    # The recorded cluster's associations are in its database only.
    cluster.conf = replace(cluster.conf, accounting_storage_enforce=())
    state = service.pop("state", None)

    def make(conf: Mapping[str, str], audience: str, requester: Requester) -> Any:
        return FrontClient(cluster, requester, audience)

    shared = Service(Daemons(CONF, make), **service)
    return Front(build_app(shared, more(shared) if more else None), user, state)
