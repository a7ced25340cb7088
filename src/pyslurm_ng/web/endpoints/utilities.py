"""Host lists: from names to an expression and back."""

from __future__ import annotations

from pyslurm_ng.base.error_numbers import Errno
from pyslurm_ng.base.hostlist import HostlistError, expand_of_user, fold
from pyslurm_ng.web.call import Answer, Call
from pyslurm_ng.web.refusal import BAD_REQUEST, Refusal

MOST_NAMES = 65536
MOST_TEXT = 1 << 20


def hostlist(call: Call) -> Answer:
    """Return names as one expression."""
    names = (call.body or {}).get("hostnames") or []
    try:
        return {"hostlist": fold(_expanded(",".join(names)))}
    except HostlistError as error:
        raise _wrong(error, "#/hostnames/") from None


def hostnames(call: Call) -> Answer:
    """Return the names of an expression."""
    text = (call.body or {}).get("hostlist") or ""
    try:
        return {"hostnames": _expanded(text)}
    except HostlistError as error:
        raise _wrong(error, "#/hostlist/") from None


def _expanded(text: str) -> list[str]:
    if len(text) > MOST_TEXT:
        raise HostlistError(f"Invalid hostlist: longer than {MOST_TEXT} characters")
    return expand_of_user(text, MOST_NAMES)


def _wrong(error: Exception, where: str) -> Refusal:
    return Refusal(BAD_REQUEST, str(error), Errno.ESLURM_INVALID_NODE_NAME, where)


ROUTES = {
    ("post", "/util/{version}/hostlist"): hostlist,
    ("post", "/util/{version}/hostnames"): hostnames,
}
