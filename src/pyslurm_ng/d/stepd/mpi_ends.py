"""How the exchange of an MPI step ends the step: one line for the user, then all processes."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pyslurm_ng.d.spool.step_contract import StepSpec
    from pyslurm_ng.d.stepd.step_ending import StepEnding
    from pyslurm_ng.d.stepd.step_notices import StepNotices


class MpiEnds:
    """Ends a step once; srun ends it on the other nodes.

    Attributes:
        has_failed: whether the step was ended here.
    """

    def __init__(self, spec: "StepSpec", ending: "StepEnding", notices: "StepNotices") -> None:
        self.has_failed = False
        self._spec = spec
        self._ending = ending
        self._notices = notices

    def fail(self, text: str) -> None:
        """End the step because a task or the exchange cannot go on."""
        if self.has_failed:
            return
        self.has_failed = True
        if self._ending.is_dying:
            return
        kind = self._spec["mpi"]["kind"] if self._spec["mpi"] is not None else ""
        self._notices.say(f"mpi/{kind}: StepId={self._spec['name']}: {text}")
        self._ending.terminate("", float(self._spec["kill_wait"]))

    def aborted(self, rank: int) -> None:
        """End the step because a task says so: it has told the user why."""
        if not self.has_failed and not self._ending.is_dying:
            self.has_failed = True
            self._ending.terminate(f"DUE TO ABORT OF TASK {rank}", float(self._spec["kill_wait"]))
