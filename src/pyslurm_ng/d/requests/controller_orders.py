"""Messages of controllers to this node: which orders are obeyed, and how."""

from __future__ import annotations

import time
from collections.abc import Iterable

import msgspec

from pyslurm_ng import __version__
from pyslurm_ng.base.errors import Errno
from pyslurm_ng.d.core.orders import obey, refuse
from pyslurm_ng.d.jobs.node_actions import NodeActions
from pyslurm_ng.d.node.credential_checks import CredentialChecks
from pyslurm_ng.d.node.local_node import INTERNAL, LocalNode, boot_clock_us
from pyslurm_ng.d.requests.administration import Administration
from pyslurm_ng.d.requests.output_reader import OutputReader
from pyslurm_ng.wire import node_messages as nm
from pyslurm_ng.wire.auth import AuthError
from pyslurm_ng.wire.endpoint import Answer
from pyslurm_ng.wire.messages import ErrorReply, Ping, Pong
from pyslurm_ng.wire.output_messages import ReadJobFile


class ControllerOrders:
    """Takes the messages of controllers."""

    def __init__(
        self,
        node: LocalNode,
        credentials: CredentialChecks,
        actions: NodeActions,
        administration: Administration,
        reader: OutputReader,
    ) -> None:
        self._node = node
        self._reader = reader
        self._credentials = credentials
        self._actions = actions
        self._administration = administration

    def take(self, message: msgspec.Struct, answer: Answer) -> None:
        """Do what a message says, if it is of a controller in command."""
        if isinstance(message, Ping):
            now_us = time.time_ns() // 1000
            answer(Pong(self._node.name, "node", f"slurm {__version__}", now_us))
            return
        epoch = getattr(message, "epoch", None)
        if epoch is None:
            answer(ErrorReply(Errno.SLURM_UNEXPECTED_MSG_ERROR, "Unexpected message received"))
            return
        if not self._accept(epoch):
            return
        if isinstance(message, nm.NodeOrders):
            self._obey_all(message.orders)
        elif isinstance(message, ReadJobFile):
            self._reader.read(message, answer)
        elif isinstance(message, nm.NodeRegisterAgain):
            self._administration.register()
        elif isinstance(message, nm.NodeReconfigure):
            self._administration.reconfigure()
        elif isinstance(message, nm.NodeShutdown):
            self._administration.terminate("Shutdown requested by the controller")

    def _accept(self, epoch: int) -> bool:
        """Return whether a controller of this epoch is in command; remember the epoch then."""
        node = self._node
        newest = node.core.epoch
        if not node.core.accept_epoch(epoch):
            node.log.error(f"orders of epoch {epoch} refused: epoch {newest} is in command")
            return False
        node.last_order_us = time.time_ns() // 1000
        if epoch > newest:
            self._keep_epoch(epoch)
        return True

    def _keep_epoch(self, epoch: int) -> None:
        """Let a restarted slurmd know the epoch; where that is impossible, obey all the same."""
        node = self._node
        try:
            node.spool.keep_epoch(epoch)
        except OSError as error:
            node.faults.note("epoch", f"epoch {epoch} cannot be kept in {node.spool.directory}: "
                             f"{error.strerror}")  # fmt: skip

    def _obey_all(self, orders: Iterable[nm.Order]) -> None:
        """Obey orders; one that raises does not keep the others back."""
        node = self._node
        for order in orders:
            try:
                self._obey(order)
            except Exception as error:  # noqa: BLE001 - the other jobs' orders are no worse
                node.faults.note("order", f"{type(order).__name__} {order.duty_id}", error)
        node.spool.keep_newest_job_id(node.core.newest_job_id)
        self._keep_suspended()
        self._actions.act([])

    def _keep_suspended(self) -> None:
        node = self._node
        try:
            node.suspended_jobs.keep(node.core.suspended)
        except OSError as error:
            node.faults.note("order", f"suspended jobs cannot be kept in {node.spool.directory}: "
                             f"{error.strerror}")  # fmt: skip

    def _obey(self, order: nm.Order) -> None:
        blob = getattr(order, "credential", b"")
        credential: nm.JobCredential | None = None
        if blob:
            try:
                credential = self._credentials.open(blob)
                self._credentials.check_order(order, credential)
            except AuthError as error:
                self._node.log.error(f"credential of duty {order.duty_id} refused: {error.text}")
                self._refuse(order, credential, error.text)
                return
        try:
            actions = obey(self._node.core, order, credential)
        except Exception:
            self._refuse(order, credential, INTERNAL)
            raise
        if credential is not None:
            self._node.core.arrived(credential.job_id, boot_clock_us())
        self._actions.act(actions)

    def _refuse(self, order: nm.Order, credential: nm.JobCredential | None, text: str) -> None:
        """Report that a job does not start, if it is known which."""
        if credential is not None and isinstance(order, (nm.LaunchBatch, nm.PrepareJob)):
            refuse(self._node.core, order, (credential.job_id, credential.attempt), text)
