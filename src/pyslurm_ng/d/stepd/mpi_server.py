"""What serves the MPI libraries of a step's tasks; loaded only for steps that have some."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pyslurm_ng.base.poll_loop import PollLoop
    from pyslurm_ng.d.spool.step_contract import StepSpec
    from pyslurm_ng.d.stepd.pmi_server import PmiServer
    from pyslurm_ng.d.stepd.pmix_relay import PmixRelay
    from pyslurm_ng.d.stepd.srun_session import SrunSession
    from pyslurm_ng.d.stepd.step_ending import StepEnding
    from pyslurm_ng.d.stepd.step_notices import StepNotices
    from pyslurm_ng.d.stepd.step_processes import StepProcesses
    from pyslurm_ng.d.stepd.task import Tasks


def mpi_server(
    loop: "PollLoop",
    spec: "StepSpec",
    tasks: "Tasks",
    srun: "SrunSession",
    ending: "StepEnding",
    notices: "StepNotices",
    processes: "StepProcesses",
) -> "PmiServer | PmixRelay | None":
    """Return the server of a step, None if it has no MPI."""
    mpi = spec["mpi"]
    if mpi is None:
        return None
    from pyslurm_ng.d.stepd.mpi_ends import MpiEnds

    ends = MpiEnds(spec, ending, notices)
    if mpi["kind"] == "pmix":
        from pyslurm_ng.d.stepd.pmix_relay import PmixRelay

        return PmixRelay(loop, spec, mpi, processes, lambda: srun.link, ends)
    from pyslurm_ng.d.stepd.pmi_server import PmiServer

    return PmiServer(loop, mpi, len(tasks.all), lambda: srun.link, ends)
