"""The controller's link to slurmdbd, if the configuration wants one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from pyslurm_ng.base.faults import Faults
from pyslurm_ng.conf.slurm_conf import SlurmConf
from pyslurm_ng.conf.values import option_text
from pyslurm_ng.ctld.followers.dbd_link import DbdLink, PastUsage
from pyslurm_ng.ctld.followers.external_links import ExternalLinks
from pyslurm_ng.ctld.followers.usage_index import UsageIndex
from pyslurm_ng.ctld.history import History
from pyslurm_ng.ctld.local_calendar import LOCAL
from pyslurm_ng.ctld.rules.assoc import mirror, unknown_qos, usage_resets
from pyslurm_ng.ctld.rules.calendar import last_reset_us
from pyslurm_ng.ctld.rules.submission.account import enforced
from pyslurm_ng.ctld.start import Beginning
from pyslurm_ng.ctld.writer import Writer
from pyslurm_ng.daemon.log import DaemonLog
from pyslurm_ng.wire.daemon_link import slurmdbd_places
from pyslurm_ng.wire.dbd_messages import AssociationUpdate, ReadUsage, RegisterCluster, StoredUsage


def control_host(conf: SlurmConf, host: str) -> str:
    """Return where a controller on `host` is reached: the address that SlurmctldHost gives it."""
    addresses = (
        controller.address for controller in conf.slurmctld_host if controller.name == host
    )
    return next(addresses, "") or host


def stored_words(conf: SlurmConf) -> list[str]:
    """Return words for what slurmdbd is to store: texts and wckeys of jobs, how many steps."""
    words = [*conf.accounting_store_flags]
    if conf.track_wckey or "wckeys" in enforced(conf):
        words.append("track_wckey")
    most = option_text(conf.accounting_storage_parameters, "max_step_records")
    return [*words, f"max_step_records={most}"] if most else words


class AccountingLink:
    """Keeps slurmdbd up to date with the journal, and the Cluster with what slurmdbd says.

    Args:
        usage: knows what associations and QOS have used.

    Attributes:
        link: the follower of the journal that sends; None without slurmdbd.
    """

    def __init__(
        self,
        beginning: Beginning,
        writer: Writer,
        history: History,
        usage: UsageIndex,
        now_us: Callable[[], int],
        log: DaemonLog,
        faults: Faults,
    ) -> None:
        self._beginning = beginning
        self._writer = writer
        self._history = history
        self._usage = usage
        self._now_us = now_us
        self._log = log
        self._faults = faults
        self._external = ExternalLinks(beginning.identity, log)
        self.link: DbdLink | None = None
        self._task: asyncio.Task[None] | None = None

    def connect(self, conf: SlurmConf) -> None:
        """Begin to send, on the running loop, if the configuration wants slurmdbd."""
        if not conf.accounting_storage_type.endswith("/slurmdbd"):
            return
        begun, writer = self._beginning, self._writer
        self.link = DbdLink(
            identity=begun.identity,
            places=slurmdbd_places(
                conf.accounting_storage_host,
                conf.accounting_storage_backup_host,
                conf.accounting_storage_port,
                conf.slurmctld_pid_file,
            ),
            registration=RegisterCluster(
                cluster=conf.cluster_name,
                control_host=control_host(conf, begun.host),
                control_port=conf.slurmctld_port[0],
                journal_id=begun.recovery.journal_id.hex(),
                tres=list(conf.tracked_tres()),
                store_flags=stored_words(conf),
            ),
            journal=begun.layout.journal,
            durable=lambda: writer.durable,
            on_update=self._take,
            log=self._log,
            faults=self._faults,
            history=self._history,
            past=None if begun.recovery.position.sequence else self._past_usage(conf),
            start=begun.recovery.position.sequence,
        )
        writer.follow(self.link.wake)
        self._task = asyncio.get_running_loop().create_task(self.link.run())
        self.adopt(conf)

    def adopt(self, conf: SlurmConf) -> None:
        """Tell the slurmdbds of AccountingStorageExternalHost where this controller is."""
        if self.link is not None:
            self._external.adopt(conf, control_host(conf, self._beginning.host))

    def _past_usage(self, conf: SlurmConf) -> PastUsage:
        """Return how earlier usage is learned: this state is new; the database still knows it."""
        until_us, cluster, calendar = self._now_us(), self._writer.cluster, LOCAL

        def question() -> ReadUsage | None:
            period = conf.priority_usage_reset_period
            if cluster.usage_until_us or period == "NOW":
                return None
            since_us = last_reset_us(period, until_us, calendar)
            return ReadUsage(conf.cluster_name, since_us, until_us, conf.priority_decay_half_life)

        def take(stored: StoredUsage) -> None:
            self._writer.record(self._usage.restored(stored.owners, self._now_us()))
            self._log.info(f"usage of before is taken from slurmdbd: {len(stored.owners)} owners")

        return PastUsage(question, take)

    def _take(self, update: AssociationUpdate) -> None:
        """Record what slurmdbd says."""
        cluster, now_us = self._writer.cluster, self._now_us()
        events = mirror(cluster, update, now_us)
        assoc_ids, qos = usage_resets(cluster, update)
        if assoc_ids or qos:
            # The reset comes first: it needs the accounts above as they were before the update.
            events = [*self._usage.reset(assoc_ids, qos, now_us), *events]
        self._writer.record(events)
        if update.is_full:
            for line in unknown_qos(cluster):
                self._log.error(line)

    async def hear(self, most_s: float) -> None:
        """Wait until slurmdbd has said which job ids it knows, `most_s` seconds at most."""
        if self.link is None:
            return
        try:
            await asyncio.wait_for(self.link.contact.wait(), most_s)
        except asyncio.TimeoutError:
            self._log.info(
                f"slurmdbd has not answered within {most_s:g} s; going on, job ids by this state"
            )

    def keep_after(self, durable: int) -> int:
        """Return the last record that may be deleted: slurmdbd has stored all up to it."""
        return durable if self.link is None else min(durable, self.link.acknowledged)

    def close(self) -> None:
        """Stop sending."""
        if self._task is not None:
            self._task.cancel()
        self._external.close()
