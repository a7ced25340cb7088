"""srun's orders to the nodes of its step: signal the tasks, end them."""

from pyslurm_ng.wire import step_io

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pyslurm_ng.cli.step.node_links import NodeLinks


class StepOrders:
    """Orders to all nodes of one step.

    Attributes:
        is_ending: whether srun itself ends the step; then reports of its end are no news.
    """

    def __init__(self, links: "NodeLinks") -> None:
        self._links = links
        self.is_ending = False

    def signal(self, number: int) -> None:
        """Send a signal to every task."""
        self._links.send_all(step_io.pack_number(step_io.SIGNAL, step_io.ALL, number))

    def end_by(self, number: int) -> None:
        """Send every task a signal that is to end it."""
        self.is_ending = True
        self.signal(number)

    def terminate(self, why: str) -> None:
        """End the step: TERM now, KILL after KillWait."""
        self.is_ending = True
        self._links.send_all(step_io.pack(step_io.TERMINATE, step_io.ALL, why.encode()))
