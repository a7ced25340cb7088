"""Requests as the Cluster keeps them: the part that jobs of a queue share is held once.

A `JobRequest` has more than a hundred fields, each a word of memory. But successive jobs mostly
differ only in their names and files. The Cluster holds a `KeptRequest` for each job: those few
fields, and one JobRequest that all similar jobs point to. It reads like the JobRequest that it
replaces and is typed as one. Messages, events and checkpoints take the whole request,
`whole_request`, so no stored or sent form shows any of this.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any

from msgspec import defstruct
from msgspec.structs import fields, force_setattr, replace

from .job import JobRequest

OWN_FIELDS = (
    "name", "comment", "extra", "dependency", "begin_us", "work_dir", "std_in", "std_out",
    "std_err", "command", "submit_line", "argv", "alloc_sid",
)  # fmt: skip
"""The fields in which similar jobs may differ. Passes never look at them."""

_own_values = attrgetter(*OWN_FIELDS)
_shared: Callable[[JobRequest], JobRequest] = attrgetter("shared")
# Fields of the shared part that are equal in many requests whose other fields differ.
_OFTEN_EQUAL = ("account", "partition", "qos", "alloc_node", "rlimits")

_by_name = {field.name: field for field in fields(JobRequest)}
_NO_OWN = {name: _by_name[name].default for name in OWN_FIELDS}

KeptRequest: Any = defstruct(
    "KeptRequest",
    [("shared", JobRequest), *((name, _by_name[name].type) for name in OWN_FIELDS)],
    namespace={
        "__doc__": "A JobRequest whose fields but for its own are those of `shared`.",
        **{
            name: property(attrgetter(f"shared.{name}")) for name in _by_name if name not in _NO_OWN
        },
    },
    module=__name__,
    frozen=True,
    gc=False,
)


Known = dict[JobRequest, list[JobRequest]]
"""By shared part, the newest request that was kept with it, as the only item of a list."""


def kept_request(request: JobRequest, known: Known, words: dict[Any, Any]) -> JobRequest:
    """Return the form in which a job holds its request.

    Args:
        known: gains the shared part of `request`.
        words: often equal values by themselves; gains those of `request`.
    """
    if type(request) is KeptRequest:
        return request
    share = words.setdefault
    shared = replace(request, **_NO_OWN)
    newest = known.get(shared)
    if newest is None:
        for name in _OFTEN_EQUAL:
            value = getattr(shared, name)
            if value:
                force_setattr(shared, name, share(value, value))
        newest = known[shared] = [shared]
    name, *others = _own_values(request)
    own = (share(value, value) if value else value for value in others)
    kept: JobRequest = KeptRequest(shared_part(newest[0]), name, *own)
    if kept != newest[0]:
        newest[0] = kept
    return newest[0]


def shared_part(request: JobRequest) -> JobRequest:
    """Return a request without the job's own fields: one object for similar jobs of the Cluster."""
    return _shared(request) if type(request) is KeptRequest else request


def whole_request(request: JobRequest) -> JobRequest:
    """Return a request as it was asked for, from either form."""
    if type(request) is not KeptRequest:
        return request
    own = dict(zip(OWN_FIELDS, _own_values(request), strict=True))
    return replace(_shared(request), **own)


def changed_request(request: JobRequest, **changed: object) -> JobRequest:
    """Return a whole request with some fields changed."""
    return replace(whole_request(request), **changed)
