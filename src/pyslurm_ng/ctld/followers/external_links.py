"""AccountingStorageExternalHost: other slurmdbds learn where this cluster's controller is.

They keep no accounting of the cluster. Commands on other clusters ask them where -M leads.
"""

from __future__ import annotations

import asyncio

from pyslurm_ng.base.address import host_and_port
from pyslurm_ng.conf.slurm_conf import SlurmConf
from pyslurm_ng.daemon.log import DaemonLog
from pyslurm_ng.wire.daemon_link import slurmdbd_places
from pyslurm_ng.wire.dbd_messages import RegisterExternal
from pyslurm_ng.wire.identity import Identity
from pyslurm_ng.wire.stream_client import LinkError, connect_first

AGAIN_S = 600.0
"""A slurmdbd that was set up anew learns of the cluster after so long."""
RETRY_S = 30.0
_DEADLINE_S = 30.0


class ExternalLinks:
    """Registers the cluster with each external slurmdbd, again and again."""

    def __init__(self, identity: Identity, log: DaemonLog) -> None:
        self._identity = identity
        self._log = log
        self._pid_file = ""
        self._tasks: dict[tuple[str, int, RegisterExternal], asyncio.Task[None]] = {}

    def adopt(self, conf: SlurmConf, control_host: str) -> None:
        """Register where the configuration says, on the running loop, and nowhere else."""
        self._pid_file = conf.slurmctld_pid_file
        registration = RegisterExternal(conf.cluster_name, control_host, conf.slurmctld_port[0])
        targets = {
            (*host_and_port(word, conf.accounting_storage_port), registration)
            for word in conf.accounting_storage_external_host
        }
        for target in self._tasks.keys() - targets:
            self._tasks.pop(target).cancel()
        for target in targets - self._tasks.keys():
            self._tasks[target] = asyncio.get_running_loop().create_task(self._keep(*target))

    def close(self) -> None:
        """Stop registering."""
        for task in self._tasks.values():
            task.cancel()
        self._tasks.clear()

    async def _keep(self, host: str, port: int, registration: RegisterExternal) -> None:
        told = ""
        while True:
            text = await self._register(host, port, registration)
            if text and text != told:
                self._log.error(f"external slurmdbd {host}:{port}: {text}")
            elif not text and told:
                self._log.info(f"external slurmdbd {host}:{port}: registered")
            told = text
            await asyncio.sleep(RETRY_S if text else AGAIN_S)

    async def _register(self, host: str, port: int, registration: RegisterExternal) -> str:
        """Return what went wrong, "" for nothing."""
        try:
            places = slurmdbd_places(host, "", port, self._pid_file)
            link = await connect_first(self._identity, "slurmdbd", places)
        except LinkError as error:
            return error.text
        try:
            await link.request(registration, _DEADLINE_S)
        except LinkError as error:
            return error.text
        finally:
            link.close()
        return ""
