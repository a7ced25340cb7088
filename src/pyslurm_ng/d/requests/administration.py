"""What may be done to a whole slurmd: a new configuration, and its end."""

from __future__ import annotations

import os
from collections.abc import Callable

from pyslurm_ng.conf import node_loss
from pyslurm_ng.conf.namespaces import FILE_OF, Namespaces
from pyslurm_ng.conf.slurm_conf import SlurmConf
from pyslurm_ng.d.controllers.connections import Controllers
from pyslurm_ng.d.controllers.lease import Lease
from pyslurm_ng.d.jobs.job_namespaces import prepare
from pyslurm_ng.d.node.accounts import Accounts
from pyslurm_ng.d.node.bad_setup import BadSetup
from pyslurm_ng.d.node.local_node import LocalNode
from pyslurm_ng.d.node.setup import Options, load_setup


class Administration:
    """Does what administrators ask for by signals, commands and through the controller.

    Args:
        terminate: ends slurmd.
        reconfigured: called when another configuration is in force.
    """

    def __init__(
        self,
        options: Options,
        node: LocalNode,
        lease: Lease,
        accounts: Accounts,
        controllers: Controllers,
        terminate: Callable[[], None],
        reconfigured: Callable[[], None],
    ) -> None:
        self._options = options
        self._node = node
        self._lease = lease
        self._accounts = accounts
        self._controllers = controllers
        self._terminate = terminate
        self._reconfigured = reconfigured

    def register(self) -> None:
        """Tell the controller again what this node is and what runs here."""
        self._controllers.register()

    def reconfigure(self) -> None:
        """Read the files again; with bad ones everything stays as it is."""
        log = self._node.log
        try:
            setup = load_setup(self._options)
            if setup.node.namespaces is not None:
                _prepare(setup.node.conf, setup.node.namespaces)
        except BadSetup as error:
            for line in error.lines:
                log.error(line)
            log.error("the configuration in force stays")
            return
        conf = setup.node.conf
        self._node.use(setup)
        self._accounts.forget()
        self._reconfigured()
        self._lease.is_kept = node_loss.policy(conf) == node_loss.LEASE
        self._lease.lease_s = node_loss.lease_s(conf)
        self._controllers.register()

    def terminate(self, why: str = "Terminate signal (SIGINT or SIGTERM) received") -> None:
        """End slurmd; its steps go on."""
        self._node.log.info(why)
        self._terminate()


def _prepare(conf: SlurmConf, namespaces: Namespaces) -> None:
    """Make a BasePath ready that may be another than at the start; raises BadSetup."""
    try:
        prepare(namespaces)
    except OSError as error:
        file = f"{os.path.dirname(conf.path)}/{FILE_OF[conf.namespace_type]}"
        raise BadSetup([f"{file}: BasePath={error.filename}: {error.strerror}"]) from None
