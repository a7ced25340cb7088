"""The clocks of a step's GPUs, set by a process beside it; after the step the driver has them.

NVML may hang, so the process has a deadline, and the loop goes on while it runs.
"""

from pyslurm_ng.d.stepd.beside_process import BesideProcess

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pyslurm_ng.base.poll_loop import PollLoop
    from pyslurm_ng.d.spool.step_contract import ClocksSpec
    from pyslurm_ng.d.stepd.step_ending import StepEnding
    from pyslurm_ng.d.stepd.step_processes import StepProcesses

_LIMIT_S = 10.0


class StepClocks:
    """Sets what was asked for.

    Args:
        spec: None if the GPUs keep their clocks.
    """

    def __init__(
        self,
        loop: "PollLoop",
        spec: "ClocksSpec | None",
        processes: "StepProcesses",
        ending: "StepEnding",
    ) -> None:
        self._loop = loop
        self._spec = spec
        self._processes = processes
        self._ending = ending
        self._is_set = False

    def set(self) -> "tuple[list[str], list[str]]":
        """Set the clocks; return what the user is to be told: clocks, problems."""
        spec = self._spec
        shown: list[str] = []
        problems: list[str] = []
        if spec is None:
            return shown, problems
        self._is_set = True
        said = self._run(["set", spec["graphics"], spec["memory"]], is_start=True)
        for line in said.splitlines():
            if line.startswith("problem: "):
                if spec["is_asked"]:
                    problems.append(f"GPU frequency setting: {line.partition(': ')[2]}")
            elif spec["is_verbose"]:
                shown.append(_shown(line))
        return shown, problems

    def restore(self) -> None:
        """Let the driver choose the clocks again."""
        if self._is_set:
            self._is_set = False
            self._run(["reset"], is_start=False)

    def _run(self, words: "list[str]", *, is_start: bool) -> str:
        """Run the process, serving the step meanwhile; return what it has said by its deadline."""
        assert self._spec is not None
        command = self._spec["command"]
        gpus = ",".join(map(str, self._spec["gpus"]))
        argv = [*command, words[0], gpus, *words[1:]]
        try:
            process = BesideProcess(self._loop, self._processes, argv)
        except OSError as error:
            return f"problem: {argv[0]}: {error.strerror}"
        said = process.finish(_LIMIT_S, lambda: is_start and self._ending.is_dying)
        if said is None and is_start and self._ending.is_dying:
            return ""
        return f"problem: NVML did not answer within {_LIMIT_S:.0f} s" if said is None else said


def _shown(line: str) -> str:
    """Return a line of the process as Slurm's `verbose` shows clocks."""
    pairs = dict(word.partition("=")[::2] for word in line.split())
    clocks = [f"memory_freq:{pairs['memory']}"] if pairs.get("memory", "0") != "0" else []
    clocks += [f"graphics_freq:{pairs['graphics']}"] if pairs.get("graphics", "0") != "0" else []
    return f"GpuFreq={','.join(clocks)}"
