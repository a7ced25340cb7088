"""A thread that does the same work again and again, a pause after each time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import CancelledError

import sqlalchemy as sa

from pyslurm_ng.base.faults import Faults
from pyslurm_ng.dbd.database import error_text

PAUSE_S = 30.0
"""Time between two times."""
_PATIENCE_S = 15
"""How long the end waits for work that has been told to stop."""


class RepeatedWork:
    """Work of slurmdbd's own, for as long as the daemon runs.

    Args:
        name: of the thread, and of what failed.
        work: what is done each time. It ends early with CancelledError when `is_stopping`; after
            any other error it is tried again.
    """

    def __init__(self, name: str, work: Callable[[], None], faults: Faults) -> None:
        self._name = name
        self._work = work
        self._faults = faults
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._repeat, name=name, daemon=True)

    @property
    def is_stopping(self) -> bool:
        """Whether the work is to end as soon as it can."""
        return self._stopping.is_set()

    def start(self) -> None:
        """Start the thread, which begins at once."""
        self._thread.start()

    def close(self) -> None:
        """Tell the work to stop."""
        self._stopping.set()

    def join(self) -> None:
        """Wait for the thread; the writing thread has been closed before."""
        if self._thread.is_alive():
            self._thread.join(_PATIENCE_S)

    def _repeat(self) -> None:
        while not self.is_stopping:
            try:
                self._work()
            except CancelledError:
                return
            except sa.exc.SQLAlchemyError as error:
                self._faults.note("database", f"{self._name}: {error_text(error)}")
            except Exception as bug:  # noqa: BLE001 - noted; it is tried again later
                self._faults.note("internal", f"{self._name}: internal error", bug)
            self._stopping.wait(PAUSE_S)
