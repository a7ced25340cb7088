"""Whether a browser says that another site's page has sent a request."""

from __future__ import annotations

from starlette.requests import Request

from pyslurm_ng.web.refusal import Refusal

OTHER_SITE = "This form is too old, or comes from another site: open it again"


def check_site(request: Request) -> None:
    """Refuse what a browser says another site has sent; nobody logs others in as themselves.

    Raises:
        Refusal: another site's.
    """
    site = request.headers.get("sec-fetch-site", "")
    origin = request.headers.get("origin", "")
    host = request.headers.get("host", "")
    is_ours = (
        site in ("same-origin", "none")
        if site
        else not origin or (origin.partition("://")[2] == host != "")
    )
    if not is_ours:
        raise Refusal(403, OTHER_SITE, source="slurmrestd")
