"""Users as this node's databases know them: groups, home, shell; asked in a thread, kept a while.

A user database over the network may hang; then only the launches of that user wait.
"""

from __future__ import annotations

import os
import pwd
import time

from pyslurm_ng.d.job_spec import Account
from pyslurm_ng.wire.node_messages import JobCredential

_KEPT_S = 300.0


class Accounts:
    """A cache of look-ups. `find` may block; `known` never does."""

    def __init__(self) -> None:
        self._found: dict[tuple[int, int, str], tuple[float, Account]] = {}

    def known(self, credential: JobCredential) -> Account | None:
        """Return what is known of a credential's user, None if it has to be asked for."""
        kept = self._found.get(self._key(credential))
        if kept is None or time.monotonic() - kept[0] > _KEPT_S:
            return None
        return kept[1]

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
        """Ask anew, after a reconfiguration."""
        self._found.clear()
