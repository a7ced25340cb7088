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
from typing import Any, cast

from msgspec import defstruct
from msgspec.structs import fields, force_setattr, replace

from .job import JobRequest

_PLAIN_OWN_FIELDS = (
    "name", "comment", "extra", "dependency", "begin_us", "work_dir", "std_in", "std_out",
    "std_err", "command", "submit_line", "alloc_sid",
)  # fmt: skip
OWN_FIELDS = (*_PLAIN_OWN_FIELDS, "argv")
"""The fields in which similar jobs may differ. Passes never look at them."""

LONG = 4096
"""Longer texts are not kept to be shared: nothing counts them once their job is over."""

_TEXTS = [
    name for name in JobRequest.__struct_fields__ if isinstance(getattr(JobRequest(), name), str)
]
# Nearly all texts are empty, and each submission asks: to join them takes half as long as a sum of
# their lengths.
_own_texts = attrgetter(*(name for name in _TEXTS if name in OWN_FIELDS))
_shared_texts = attrgetter(*(name for name in _TEXTS if name not in OWN_FIELDS))
_plain_own_values = attrgetter(*_PLAIN_OWN_FIELDS)
_shared: Callable[[JobRequest], JobRequest] = attrgetter("shared")
# Fields of the shared part that are equal in many requests whose other fields differ.
_OFTEN_EQUAL = ("account", "partition", "qos", "alloc_node", "rlimits")

_by_name = {field.name: field for field in fields(JobRequest)}
_NO_OWN = {name: _by_name[name].default for name in OWN_FIELDS}

_WORD_END = "\0"  # no word of a message has one


def words_text(argv: tuple[str, ...]) -> str:
    """Return words as one text, each with its end: an object for each takes 60 bytes more."""
    return "".join([word + _WORD_END for word in argv])


def _argv(kept: Any) -> tuple[str, ...]:
    return tuple(kept.words.split(_WORD_END)[:-1])


KeptRequest: Any = defstruct(
    "KeptRequest",
    [
        ("shared", JobRequest),
        *((name, _by_name[name].type) for name in _PLAIN_OWN_FIELDS),
        ("words", str),
    ],
    namespace={
        "__doc__": "A JobRequest whose fields but for its own are those of `shared`.",
        "argv": property(_argv),
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


def kept_request(request: JobRequest, known: Known, often: dict[Any, Any]) -> JobRequest:
    """Return the form in which a job holds its request.

    Args:
        known: gains the shared part of `request`, unless that is long.
        often: often equal values by themselves; gains those of `request` that are not long.
    """
    if type(request) is KeptRequest:
        return request
    share = often.setdefault
    shared = replace(request, **_NO_OWN)
    newest = known.get(shared)
    if newest is None:
        for name in _OFTEN_EQUAL:
            value = getattr(shared, name)
            if value:
                force_setattr(shared, name, share(value, value))
        newest = [shared]
        if shared_length(shared) <= LONG:
            known[shared] = newest
    words = words_text(request.argv)
    own = [*_plain_own_values(request)[1:], words]
    # Each submission comes here, and hardly any is long.
    is_short = len("".join(_own_texts(request))) + len(words) <= LONG
    if is_short:
        own = [share(value, value) for value in own]
    else:
        own = [
            share(value, value) if type(value) is int or len(value) <= LONG else value
            for value in own
        ]
    kept: JobRequest = KeptRequest(shared_part(newest[0]), request.name, *own)
    if kept == newest[0]:
        return newest[0]
    if is_short:
        newest[0] = kept
    return kept


def shared_part(request: JobRequest) -> JobRequest:
    """Return a request without the job's own fields: one object for similar jobs of the Cluster."""
    return _shared(request) if type(request) is KeptRequest else request


def whole_request(request: JobRequest) -> JobRequest:
    """Return a request as it was asked for, from either form."""
    if type(request) is not KeptRequest:
        return request
    own = dict(zip(_PLAIN_OWN_FIELDS, _plain_own_values(request), strict=True))
    return replace(_shared(request), **own, argv=request.argv)


def changed_request(request: JobRequest, **changed: object) -> JobRequest:
    """Return a whole request with some fields changed."""
    return replace(whole_request(request), **changed)


def text_bytes(text: str) -> int:
    """Return what a text takes in a listing or record: a character may be four bytes."""
    return len(text) if text.isascii() else len(text.encode())


def argument_length(request: JobRequest) -> int:
    """Return the bytes of the arguments, the end of each word counted."""
    is_kept = type(request) is KeptRequest
    return text_bytes(cast(Any, request).words if is_kept else words_text(request.argv))


def own_length(request: JobRequest) -> int:
    """Return the bytes of the job's own fields."""
    if type(request) is KeptRequest:
        return text_bytes("".join((*_own_texts(request), cast(Any, request).words)))
    argv = request.argv
    return text_bytes("".join((*_own_texts(request), *argv))) + len(argv)


def shared_length(request: JobRequest) -> int:
    """Return the bytes of the other fields."""
    return text_bytes("".join(_shared_texts(shared_part(request))))
