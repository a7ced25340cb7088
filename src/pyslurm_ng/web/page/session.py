"""Who looks at the pages: a token in a cookie, checked by the daemons as any token is.

slurmrestd keeps no sessions. The cookie is the token that the user logged in with; it is gone when
the browser closes, and useless when the token expires. Forms carry a seal of the cookie, so that no
other site can send them.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl

from starlette.requests import Request
from starlette.responses import Response

from pyslurm_ng.web.app import Service
from pyslurm_ng.web.bodies import read_body
from pyslurm_ng.web.refusal import BAD_REQUEST, Refusal
from pyslurm_ng.web.request_site import OTHER_SITE, check_site
from pyslurm_ng.web.requester import Requester

COOKIE = "pyslurm_token"
MOST_FIELDS = 50
_KEY = secrets.token_bytes(32)
"""Of this process: forms that were open during a restart have to be sent again."""


@dataclass(frozen=True)
class Visitor:
    """Who looks, and the seal of their forms."""

    requester: Requester
    seal: str


async def visitor_of(service: Service, request: Request) -> Visitor:
    """Return who looks.

    Raises:
        Refusal: nobody who is logged in.
    """
    token = request.cookies.get(COOKIE, "")
    headers: Mapping[str, str] = {"x-slurm-user-token": token} if token else request.headers
    requester = await service.believe(service.asker(request, headers), request, "slurm")
    return Visitor(requester, _seal(token or requester.name))


def _seal(text: str) -> str:
    return hmac.digest(_KEY, text.encode("utf-8", "replace"), "sha256").hex()


async def form_of(request: Request, most_bytes: int = 0) -> dict[str, str]:
    """Return the fields of a form.

    Raises:
        Refusal: it is none, or a page of another site sent it.
    """
    check_site(request)
    content = await read_body(request, most_bytes)
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise Refusal(BAD_REQUEST, "a form was expected", source="slurmrestd")
    try:
        text = content.decode("ascii")
        return dict(parse_qsl(text, keep_blank_values=True, max_num_fields=MOST_FIELDS,
                              errors="strict"))  # fmt: skip
    except ValueError:
        raise Refusal(BAD_REQUEST, "a form was expected", source="slurmrestd") from None


def check_seal(visitor: Visitor, form: Mapping[str, str]) -> None:
    """Refuse a form that was not made for this visitor.

    Raises:
        Refusal: it was not.
    """
    if not hmac.compare_digest(form.get("seal", "").encode(), visitor.seal.encode()):
        raise Refusal(403, OTHER_SITE, source="slurmrestd")


def log_in(response: Response, token: str, *, is_secure: bool) -> None:
    """Let the browser keep a token until it closes."""
    response.set_cookie(COOKIE, token, httponly=True, samesite="strict", secure=is_secure, path="/")


def log_out(response: Response) -> None:
    """Let the browser forget the token."""
    response.delete_cookie(COOKIE, path="/", httponly=True, samesite="strict")
