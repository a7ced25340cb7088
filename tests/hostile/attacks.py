"""What an attack is: a name, what an ordinary user does, and what must be seen.

After each attack another user's squeue and sbatch succeed, the daemons are the same processes, and
no log has a traceback; `arena` sees to that. `seen` is a pattern of what the attacker is told.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

REFUSED = r"refused|error|denied|[Ii]nvalid|not permitted|closed"
ANY = r"(?s).*"
SCRIPT = b"#!/bin/sh\ntrue\n"
NEW = b"id of a request!"
"""The actor makes another id of it each time."""


@dataclass(frozen=True)
class Attack:
    """One attack; exactly one of the fields after `unseen` says what is done.

    Attributes:
        seen: a pattern that what the attacker is told has to match.
        unseen: one that it may not match.
        words: a command.
        messages: (daemon, kind, body) on one connection each.
        sent: (daemon, bytes, connections) that are held open while others are served.
        load: an attack of bench/hostile_load.py, which has its own other user.
        test: a test that has the attack already, because it needs a cluster of its own.
    """

    name: str
    seen: str = REFUSED
    unseen: str = r"Traceback|internal error"
    words: tuple[str, ...] = ()
    messages: tuple[tuple[str, str, dict[str, Any]], ...] = ()
    sent: tuple[str, bytes, int] | None = None
    load: str = ""
    test: str = ""
    variables: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Many:
    """A long text or list in a message: the actor makes it."""

    what: Any
    times: int


def does(
    name: str, line: str, seen: str = REFUSED, unseen: str = "Traceback|internal", **variables: str
) -> Attack:
    """Return an attack that is a line for a shell, in a directory that all may write to."""
    return Attack(name, seen, unseen, words=("sh", "-c", line), variables=variables)


def runs(
    name: str,
    script: str,
    seen: str = ANY,
    unseen: str = "Traceback|internal|ESCAPED",
    options: str = "",
) -> Attack:
    """Return an attack from inside a job: it says ESCAPED if it has succeeded."""
    words = ("srun", "-t1", *options.split(), "sh", "-c", script)
    return Attack(name, seen, unseen, words=("timeout", "40", *words))


def tells(
    name: str, kind: str, fields: dict[str, Any], seen: str = REFUSED, to: str = "slurmctld"
) -> Attack:
    """Return an attack that is a message of the wire."""
    return Attack(name, seen, messages=((to, kind, fields),))


def submits(title: str, seen: str = REFUSED, /, **request: Any) -> Attack:
    """Return a submission that no command would send."""
    return tells(title, "SubmitJob", submission(**request), seen)


def submission(**request: Any) -> dict[str, Any]:
    return {"request_id": NEW, "request": {"nodes_min": 1, **request}, "script": SCRIPT}


def sends(name: str, to: str, data: bytes, connections: int = 1, seen: str = ANY) -> Attack:
    """Return bytes that are no message, or the beginning of one."""
    return Attack(name, seen, sent=(to, data, connections))


def loads(name: str, load: str) -> Attack:
    return Attack(name, load=load)


def tested(name: str, test: str) -> Attack:
    return Attack(name, test=test)
