"""What srun orders the nodes of its step to do: signal the tasks, end them."""

from pyslurm_ng.wire import step_io

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pyslurm_ng.cli.step.node_links import NodeLinks


class StepOrders:
    """Orders to all nodes of one step.

    Attributes:
        is_ending: whether the step ends because srun wants it to: what others say of its end is no
            news then.
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
