"""A browser of one user, without a browser."""

from __future__ import annotations

import re
from urllib.parse import urlencode

from pyslurm_ng.web.page.routes import routes
from pyslurm_ng.web.page.session import COOKIE
from tests.cli.reference_cluster import ReferenceCluster
from tests.web.front import Response, front, token_of


class Visitor:
    """A browser of one user."""

    def __init__(self, user: str, reference: ReferenceCluster | None = None) -> None:
        self.front = front(reference, "", more=routes)
        self.cookie = f"{COOKIE}={token_of(user)}"

    def get(self, path: str) -> Response:
        return self.front.get(path, Cookie=self.cookie)

    def post(self, path: str, *, seal: str | None = None, **fields: str) -> Response:
        if seal is None:
            seal = re.findall(r'name="seal" value="(\w+)"', self.get("/submit").content.decode())[0]
        return self.front.request(
            "POST", path, urlencode({"seal": seal, **fields}).encode(),
            {"Cookie": self.cookie, "Content-Type": "application/x-www-form-urlencoded"},
        )  # fmt: skip
