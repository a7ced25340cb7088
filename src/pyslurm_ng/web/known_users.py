"""Whom the daemons believe: a token is shown to one of them before anything is done for it.

slurmrestd has no key, so whose a token is is known once a daemon has accepted it. Until then
nothing is read or looked up for it, and all such requests wait in one short line.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, replace
from hashlib import blake2b

import anyio
from starlette.requests import Request

from pyslurm_ng.base.faults import Faults
from pyslurm_ng.web.call import Call
from pyslurm_ng.web.daemons import Daemons
from pyslurm_ng.web.refusal import TOO_MANY, Refusal, is_away, refusal_of
from pyslurm_ng.web.requester import Requester, group_name_of
from pyslurm_ng.wire.daemon_link import SlurmError

BELIEVED_S = 300.0
"""At most, and no longer than the token holds. The daemon that a request reaches verifies it again;
this decides about room here, and about what needs no daemon."""
MOST_KEPT = 20_000
ASKING = 8
"""Of each daemon, so that one that hangs keeps nobody from the other."""
ASKED_S = 5.0
WAITING_OF_ONE = 64
MOST_WAITING = 512


@dataclass(frozen=True)
class _Belief:
    until: float
    group: str


class KnownUsers:
    """Requesters whose tokens a daemon has accepted within five minutes."""

    def __init__(self, daemons: Daemons, faults: Faults) -> None:
        self._daemons = daemons
        self._faults = faults
        self._known: dict[bytes, _Belief] = {}
        self._waiting: dict[str, Counter[str]] = {"slurm": Counter(), "slurmdb": Counter()}
        self._asking: dict[str, anyio.CapacityLimiter] = {}

    async def check(self, requester: Requester, request: Request, tag: str) -> Requester:
        """Return a requester that a daemon believes; as it was if no daemon can be asked.

        Args:
            tag: whose interface is asked for; slurmdb's tokens are shown to slurmdbd.

        Raises:
            Refusal: it is not believed, or too many wait.
        """
        if requester.is_known:
            return requester
        tag = "slurmdb" if tag == "slurmdb" else "slurm"
        key = blake2b(tag.encode() + b"\0" + requester.credential, digest_size=16).digest()
        belief = self._known.get(key)
        if belief is None or belief.until < time.monotonic():
            belief = await self._ask(requester, request, tag)
            if belief is None:
                return requester
            if len(self._known) >= MOST_KEPT:
                self._known.clear()
            self._known[key] = belief
        return replace(requester, group=belief.group, is_known=True)

    async def _ask(self, requester: Requester, request: Request, tag: str) -> _Belief | None:
        asking = self._asking.setdefault(tag, anyio.CapacityLimiter(ASKING))
        waiting = self._waiting[tag]
        address = request.client.host if request.client is not None else ""
        if waiting[address] >= WAITING_OF_ONE or waiting.total() >= MOST_WAITING:
            raise Refusal(TOO_MANY, "slurmrestd is busy: too many new tokens", source="slurmrestd")
        waiting[address] += 1
        try:
            return await anyio.to_thread.run_sync(
                lambda: self._asked(requester, tag), limiter=asking
            )
        finally:
            waiting[address] -= 1
            if not waiting[address]:
                del waiting[address]

    def _asked(self, requester: Requester, tag: str) -> _Belief | None:
        """Show the token to a daemon; return None if there is none."""
        call = Call(tag, "", requester, self._daemons)
        try:
            client = call.database if tag == "slurmdb" else call.controller
            client.call("Ping", {}, ASKED_S)
        except SlurmError as error:
            if is_away(error):
                return None
            raise refusal_of(error, "Authentication failure", "slurmrestd") from None
        except Refusal:
            raise
        except Exception as error:  # noqa: BLE001 - it costs this request only
            self._faults.note("request", "a token could not be shown to a daemon", error)
            raise Refusal(500, "internal error", source="slurmrestd") from None
        finally:
            call.close()
        left_s = min(BELIEVED_S, requester.until_s - time.time())
        return _Belief(time.monotonic() + left_s, group_name_of(requester.name))
