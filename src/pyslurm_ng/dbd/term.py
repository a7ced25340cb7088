"""Which of two slurmdbds serves a database: the one that it names.

DbdHost's takes the term when it starts. DbdBackupHost's watches the beat of the one that serves,
and takes the term when it has been missing for a while. Each transaction that writes asks first
whether the term is still its own (`Database.write`), so a process that was cut off, or stopped for
a while, cannot write over its successor's rows. No clock of another host is read.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Callable

import sqlalchemy as sa

from pyslurm_ng.dbd import schema
from pyslurm_ng.dbd.database import Database, SupersededError, error_text

BEAT_S = 2.0
STILL_S = 10.0
"""How long the beat must be missing before a backup takes over."""
_BEAT = "term_beat"


class Term:
    """This process's claim to serve a database.

    Args:
        say: writes a line to the log.
    """

    def __init__(self, database: Database, host: str, say: Callable[[str], None]) -> None:
        self._database = database
        self._name = f"{host}:{os.urandom(8).hex()}"
        self._say = say

    def take(self) -> None:
        """Serve from now on. Transactions of the one before are over when this returns."""
        self._database.term = ""
        with self._database.write() as connection:
            rows = [
                {"name": schema.TERM, "value": self._name},
                {"name": _BEAT, "value": "0"},
            ]
            self._database.upsert(connection, schema.store, ("name",), rows)
        self._database.term = self._name

    def beat(self) -> None:
        """Show that this process is alive.

        Raises:
            SupersededError: another one serves.
        """
        row = {"name": _BEAT, "value": os.urandom(8).hex()}
        with self._database.write() as connection:
            self._database.upsert(connection, schema.store, ("name",), [row])

    async def keep(self) -> None:
        """Beat until another process serves."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                await loop.run_in_executor(None, self.beat)
            except SupersededError as error:
                self._say(str(error))
                return
            except sa.exc.SQLAlchemyError as error:
                self._say(f"accounting database: {error_text(error)}")
            await asyncio.sleep(BEAT_S)

    async def await_turn(self, stop: asyncio.Event) -> bool:
        """Wait until no one else serves; return False if this process is to stop before."""
        loop = asyncio.get_running_loop()
        last: tuple[str, ...] | None = None
        since_s = time.monotonic()
        while not stop.is_set():
            seen = await loop.run_in_executor(None, self._seen)
            # While the database is away nothing is known of the one that serves.
            if seen is None or seen != last:
                last, since_s = seen, time.monotonic()
            elif time.monotonic() - since_s >= STILL_S:
                return True
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(stop.wait(), BEAT_S)
        return False

    def _seen(self) -> tuple[str, ...] | None:
        """Return who serves and its beat, () if there is nothing yet; None if that is unknown."""
        table = schema.store
        try:
            with self._database.read() as connection:
                if not sa.inspect(connection).has_table(table.name):
                    return ()
                query = (
                    sa.select(table.c.value)
                    .where(table.c.name.in_((schema.TERM, _BEAT)))
                    .order_by(table.c.name)
                )
                return tuple(connection.execute(query).scalars())
        except sa.exc.SQLAlchemyError:
            return None
