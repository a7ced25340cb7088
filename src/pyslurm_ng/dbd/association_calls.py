"""Calls of controllers that wait for changes of their associations.

Such a call is also the way to ask a controller for what its journal has (`held_queries`)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import msgspec
import sqlalchemy as sa

from pyslurm_ng.dbd.database import Database
from pyslurm_ng.dbd.held_queries import NewestRecords
from pyslurm_ng.dbd.readers import Query, Readers
from pyslurm_ng.dbd.updates import association_update
from pyslurm_ng.wire import dbd_messages as msg
from pyslurm_ng.wire.shares import PRIVILEGED
from pyslurm_ng.wire.stream import Call

LOOK_AGAIN_S = 2.0
LOOK_LATER_S = 0.1
"""A controller that was asked for its journal has just been told of all changes: a query waits for
its next message, which goes first."""


class AssociationCalls:
    """Parked calls, each answered when there is something that its controller lacks.

    Args:
        post: runs a function on the loop, from any thread.
        note_error: told of errors of the database.

    Attributes:
        newest: lets queries wait for what controllers have on disk.
    """

    def __init__(
        self,
        database: Database,
        readers: Readers,
        *,
        post: Callable[..., None],
        note_error: Callable[[BaseException], None],
    ) -> None:
        self._database = database
        self._readers = readers
        self._post = post
        self._note_error = note_error
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[Call, asyncio.TimerHandle] = {}
        self._changes = 0
        self._asked: dict[str, int] = {}  # changes when a cluster was asked for its journal
        self.newest = NewestRecords(self._ask_for_journal)

    def close(self) -> None:
        """Answer no call from now on."""
        for timer in self._waiting.values():
            timer.cancel()
        self._waiting.clear()

    def park(self, call: Call, request: msg.AwaitAssociations) -> None:
        """Park the call; answer at once if it lacks something."""
        timer = self._loop.call_later(request.wait_s, self._answer_empty, call)
        self._waiting[call] = timer
        call.on_gone(lambda: self._drop(call))
        if self._asked.pop(request.cluster, None) == self._changes:
            self._loop.call_later(LOOK_LATER_S, self._look_at_waiting, call)
        else:
            self._look_for(call)
        self.newest.told(request.cluster, request.durable)

    def tell_all(self) -> None:
        """Something changed: look for every controller whether it lacks it."""
        self._changes += 1
        for call in self._waiting:
            self._look_for(call)

    def _ask_for_journal(self, cluster: str) -> bool:
        """Answer a cluster's call so that its controller sends all it has; False without a call."""
        for call in self._waiting:
            request = call.request
            assert isinstance(request, msg.AwaitAssociations)
            if request.cluster == cluster:
                self._asked[cluster] = self._changes
                self._answer_empty(call, journal_wanted=True)
                return True
        return False

    def _look_for(self, call: Call) -> None:
        self._readers.submit(call, PRIVILEGED, self._look_for_update, lambda: None)

    def _look_for_update(self, asked: Query) -> Iterator[bool]:
        call = asked.call
        request = call.request
        assert isinstance(request, msg.AwaitAssociations)
        try:
            with self._database.read() as connection:
                update = association_update(
                    connection, request.cluster, request.store_id, request.version
                )
        except sa.exc.SQLAlchemyError as error:
            self._note_error(error)
            self._post(self._look_again, call)
            return
        if update is not None:
            self._post(self._answer_update, call, update)
        yield True

    def _look_again(self, call: Call) -> None:
        """After an error of the database; the controller itself waits for much longer."""
        if call in self._waiting:
            self._loop.call_later(LOOK_AGAIN_S, self._look_at_waiting, call)

    def _look_at_waiting(self, call: Call) -> None:
        if call in self._waiting:
            self._look_for(call)

    def _answer_update(self, call: Call, update: msg.AssociationUpdate) -> None:
        if self._forget(call):
            call.reply(update)

    def _answer_empty(self, call: Call, journal_wanted: bool = False) -> None:
        request = call.request
        assert isinstance(request, msg.AwaitAssociations)
        if self._forget(call):
            nothing = msg.AssociationUpdate(
                request.store_id, request.version, False, [], [], [], [], [], [], []
            )
            call.reply(msgspec.structs.replace(nothing, journal_wanted=journal_wanted))

    def _drop(self, call: Call) -> None:
        request = call.request
        assert isinstance(request, msg.AwaitAssociations)
        if self._forget(call):
            self.newest.gone(request.cluster)

    def _forget(self, call: Call) -> bool:
        timer = self._waiting.pop(call, None)
        if timer is None:
            return False
        timer.cancel()
        return True
