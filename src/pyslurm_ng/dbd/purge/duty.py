"""The thread that removes old records, and what `sacctmgr archive` asks it to do.

A few rows are found, archived and deleted in one transaction of the writing thread, behind the
calls that wait. So neither journals nor queries wait for more than that. A kill between the archive
and the end of the transaction leaves rows in both places, and the next run archives them again.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError
from contextlib import closing

import sqlalchemy as sa

from pyslurm_ng.base.faults import Faults
from pyslurm_ng.base.numbers import SECOND_US
from pyslurm_ng.dbd import schema
from pyslurm_ng.dbd.database import Database
from pyslurm_ng.dbd.purge import old_rows
from pyslurm_ng.dbd.purge.archive import ArchiveError, ArchiveFile
from pyslurm_ng.dbd.purge.loading import load
from pyslurm_ng.dbd.purge.rules import KINDS, Policy, Rule
from pyslurm_ng.dbd.purge.step_size import StepSize
from pyslurm_ng.dbd.repeat import PAUSE_S, RepeatedWork
from pyslurm_ng.dbd.rollup.periods import hour_of
from pyslurm_ng.dbd.updates import store_value

_SCRIPT_S = 3600
"""How long ArchiveScript may run."""
_SCRIPT_NAMES = {
    "event": ("EVENTS", "EVENT"),
    "job": ("JOBS", "JOB"),
    "resv": ("RESVS", "RESV"),
    "step": ("STEPS", "STEP"),
    "suspend": ("SUSPEND", "SUSPEND"),
    "txn": ("TXN", "TXN"),
    "usage": ("USAGE", "USAGE"),
}
"""Of the variables SLURM_ARCHIVE_x and SLURM_ARCHIVE_LAST_y of ArchiveScript."""

Run = Callable[[Callable[[], int]], int]


class Purge:
    """Removes what is old, and takes back what was archived.

    Args:
        run: does a transaction in the writing thread, and returns what it returns.
        clock_s: the time in seconds.

    Attributes:
        policy: what slurmdbd.conf says.
        thread: purges when an hour is over.
    """

    def __init__(
        self,
        database: Database,
        run: Run,
        faults: Faults,
        policy: Policy,
        clock_s: Callable[[], int] = lambda: int(time.time()),
    ) -> None:
        self._database = database
        self._run = run
        self._faults = faults
        self._clock_s = clock_s
        self._one_at_a_time = threading.Lock()
        self._done_s = 0
        self.thread = RepeatedWork("purge", self._look, faults)
        self.policy = policy

    def _look(self) -> None:
        """Purge if an hour is over since the last time; the roll-up of that hour comes first."""
        hour_s = hour_of(self._clock_s() - 2 * int(PAUSE_S))
        if hour_s == self._done_s or not self.policy.is_needed:
            return
        try:
            self.purge(self.policy)
            self._done_s = hour_s
        except ArchiveError as error:
            self._faults.note("archive", f"nothing is purged: {error}")

    def purge(self, policy: Policy) -> int:
        """Remove what is old now, of all clusters; return how many rows.

        Raises:
            ArchiveError: rows cannot be archived; they stay.
            SQLAlchemyError: the database cannot be used; what was not removed stays.
        """
        with self._one_at_a_time:
            now_s = self._clock_s()
            with self._database.read() as connection:
                query = sa.select(schema.clusters.c.id, schema.clusters.c.name)
                clusters = [(row.id, row.name) for row in connection.execute(query)]
                store_id = store_value(connection, "store_id")
            if policy.script:
                self._run_script(policy, now_s)
            count = 0
            for kind in KINDS:
                rule = policy.rule(kind)
                before_us = rule.before_us(now_s)
                if not before_us:
                    continue
                places = [(0, "")] if kind in old_rows.OF_ALL_CLUSTERS else clusters
                for cluster_id, name in places:
                    is_archived = rule.is_archived and not policy.script
                    file = ArchiveFile(policy.directory, name, kind, store_id)
                    with closing(file):
                        count += self._purge_kind(
                            kind, cluster_id, before_us, policy, file if is_archived else None
                        )
            return count

    def _purge_kind(
        self, kind: str, cluster_id: int, before_us: int, policy: Policy, file: ArchiveFile | None
    ) -> int:
        """Remove old rows of a kind of a cluster, a few at a time."""
        size = StepSize(policy.most_rows)

        def transaction(most: int) -> int:
            with self._database.write() as connection:
                until_us = old_rows.until(connection, kind, cluster_id, before_us)
                keys = old_rows.find(connection, kind, cluster_id, until_us, most)
                if not keys:
                    return 0
                if file is not None:
                    file.write(old_rows.whole(connection, keys), until_us)
                old_rows.note_purge(connection, cluster_id, kind, until_us)
                return old_rows.remove(connection, keys)

        count = 0
        while not self.thread.is_stopping:
            gone = self._run(lambda: size.measured(transaction))
            if not gone:
                return count
            count += gone
        raise CancelledError

    def _run_script(self, policy: Policy, now_s: int) -> None:
        """Let the site's program archive what will be removed.

        Raises:
            ArchiveError: it fails; nothing is to be removed then.
        """
        words = dict(os.environ)
        for kind, (what, last) in _SCRIPT_NAMES.items():
            rule = policy.rule(kind)
            words[f"SLURM_ARCHIVE_{what}"] = str(int(rule.is_archived))
            if rule.amount:
                words[f"SLURM_ARCHIVE_LAST_{last}"] = str(rule.before_us(now_s) // SECOND_US)
        try:
            program = subprocess.Popen(
                [policy.script], env=words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE, start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            raise ArchiveError(f"ArchiveScript {policy.script}: {error.strerror}") from None
        told = self._wait_for(policy.script, program)
        if program.returncode:
            last_line = told.decode("utf-8", "replace").strip().rpartition("\n")[2][:200]
            raise ArchiveError(
                f"ArchiveScript {policy.script}: exit {program.returncode}: {last_line}"
            )

    def _wait_for(self, script: str, program: subprocess.Popen[bytes]) -> bytes:
        """Return what a program wrote to its stderr; it ends with the daemon."""
        until_s = time.monotonic() + _SCRIPT_S
        while True:
            try:
                return program.communicate(timeout=0.5)[1]
            except subprocess.TimeoutExpired:
                if not self.thread.is_stopping and time.monotonic() < until_s:
                    continue
            os.killpg(program.pid, signal.SIGKILL)
            program.wait()
            if self.thread.is_stopping:
                raise CancelledError
            raise ArchiveError(f"ArchiveScript {script}: it took longer than {_SCRIPT_S} s")

    def load(self, path: str) -> int:
        """Take back what a file holds; return how many rows were not there.

        Raises:
            OSError: it cannot be read.
            ArchiveError: it is no archive of this database.
        """
        with self._one_at_a_time:
            return load(self._database, path, self._run)


def changed(policy: Policy, rules: Mapping[str, Rule], directory: str, script: str) -> Policy:
    """Return a policy with some other words, as `archive dump` gives them."""
    return Policy(
        {**policy.rules, **rules},
        directory or policy.directory,
        script or policy.script,
        policy.most_rows,
        policy.is_for_users,
    )
