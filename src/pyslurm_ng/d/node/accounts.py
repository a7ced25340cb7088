"""Users as this node's databases know them: groups, home, shell; asked in a thread, kept a while.

A user database over the network may hang; then only the launches of that user wait.
"""

from __future__ import annotations

import asyncio
import os
import pwd
import time
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor

from pyslurm_ng.d.spec.node_setup import Account
from pyslurm_ng.wire.node_messages import JobCredential

_KEPT_S = 300.0
_MOST_AT_ONCE = 4


class Accounts:
    """A cache of look-ups, which belongs to a loop. `find` may block; the other methods never do.

    Args:
        threads: where `find` is called; some of our own without it.
    """

    def __init__(self, threads: Executor | None = None) -> None:
        self._threads = threads or ThreadPoolExecutor(_MOST_AT_ONCE, "lookup")
        self._found: dict[tuple[int, int, str], tuple[float, Account]] = {}

    def known(self, credential: JobCredential) -> Account | None:
        """Return what is known of a credential's user, None if it has to be asked for."""
        kept = self._found.get(self._key(credential))
        if kept is None or time.monotonic() - kept[0] > _KEPT_S:
            return None
        return kept[1]

    def call(
        self,
        credential: JobCredential,
        go_on: Callable[[Account], object],
        failed: Callable[[BaseException], object],
    ) -> None:
        """Call with the user's groups and home, now or when the databases have answered.

        Args:
            failed: called with the exception instead of an answer.
        """
        account = self.known(credential)
        if account is not None:
            go_on(account)
            return

        def answered(ended: asyncio.Future[Account]) -> None:
            error = ended.exception()
            failed(error) if error is not None else go_on(ended.result())

        try:
            loop = asyncio.get_running_loop()
            future = loop.run_in_executor(self._threads, self.find, credential)
        except RuntimeError as error:
            failed(error)  # a job has taken all threads that there can be
        else:
            future.add_done_callback(answered)

    def find(self, credential: JobCredential) -> Account:
        """Ask the databases; a user that they do not know gets a group of the same number and `/`
        as home."""
        home, shell = "/", ""
        groups = credential.gids
        try:
            entry = pwd.getpwuid(credential.uid)
            home, shell = entry.pw_dir, entry.pw_shell
            name = entry.pw_name
        except KeyError:
            name = credential.user_name
        if not groups:
            try:
                groups = tuple(os.getgrouplist(name, credential.gid))
            except (OSError, KeyError):
                groups = (credential.gid,)
        account = Account(groups, home, shell)
        self._found[self._key(credential)] = (time.monotonic(), account)
        return account

    @staticmethod
    def _key(credential: JobCredential) -> tuple[int, int, str]:
        return credential.uid, credential.gid, credential.user_name

    def forget(self) -> None:
        """Ask again, after a reconfiguration."""
        self._found.clear()

    def close(self) -> None:
        """Look up no further users."""
        self._threads.shutdown(wait=False, cancel_futures=True)
