"""What srun does on its own host between the creation of a step and its launch."""

import os

from pyslurm_ng.cli.option_words import OptionError
from pyslurm_ng.cli.signals import Interrupted
from pyslurm_ng.cli.step.mpi_kinds import chosen
from pyslurm_ng.cli.step.program_path import located
from pyslurm_ng.cli.step.routes import Routes
from pyslurm_ng.cli.step.streams import Sink, StepIo

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from pyslurm_ng.cli.signals import Signals
    from pyslurm_ng.cli.submit.options import Options


class NotPrepared(Exception):
    """The step cannot be launched; the text is a line with its level (`error: `, `fatal: `)."""


class Preparation:
    """Programs, files and --prolog of one step.

    Attributes:
        programs: of the tasks, as LaunchStep takes them.
        fields: further fields of LaunchStep.
        streams: with the local files of the step.
    """

    def __init__(
        self,
        options: "Options",
        conf: "dict[str, str]",
        granted: "dict[str, Any]",
        signals: "Signals",
    ) -> None:
        self._options = options
        self._conf = conf
        self._granted = granted
        self._signals = signals
        self.programs: list[dict[str, Any]] = []
        self.fields: dict[str, Any] = {}
        self.streams = StepIo(Sink(1), Sink(2))

    def run(
        self,
        operands: "list[str]",
        count: int,
        ranks: "tuple[int, int]",
        variables: "dict[str, str]",
    ) -> "Preparation":
        """Prepare; a signal that ends programs ends this, too: a FIFO may never be opened.

        Args:
            operands: the program and its arguments.
            count, ranks: as in `Routes`.
            variables: those of --prolog.

        Raises:
            NotPrepared: something cannot be used, or a signal came.
        """
        from pyslurm_ng.cli.step.broadcast import BroadcastError
        from pyslurm_ng.cli.step.multi_prog import MultiProgError

        try:
            with self._signals.breaking():
                self._call_plugins(operands)
                self.programs = self._programs(operands, count)
                self.fields = self._send_program(operands[0])
                routes = Routes(self._options, self._granted, count, ranks, self._conf)
                self.fields |= routes.open(self.streams)
                status = run_beside(self._options, self._conf, "prolog", operands, variables)
        except MultiProgError as problem:
            raise NotPrepared(f"error: {problem}") from None
        except BroadcastError as problem:
            raise NotPrepared(f"fatal: {problem}") from None
        except OSError as problem:
            where = f"Could not open {problem.filename}: " if problem.filename else ""
            raise NotPrepared(f"error: {where}{problem.strerror}") from None
        except Interrupted as problem:
            raise NotPrepared(f"error: {self._step_name()}: {problem} before its launch") from None
        if status:
            raise NotPrepared(f"error: srun prolog failed rc = {status}. Aborting step.")
        return self

    def _step_name(self) -> str:
        return f"StepId={self._granted['job_id']}.{self._granted['step_id']}"

    def _programs(self, operands: "list[str]", count: int) -> "list[dict[str, Any]]":
        if "multi-prog" not in self._options.settings:
            return [{"argv": [located(self._options, operands[0]), *operands[1:]]}]
        from pyslurm_ng.cli.step.multi_prog import read_programs

        return read_programs(operands[0], count, operands[1:])

    def _send_program(self, program: str) -> "dict[str, Any]":
        """Send the program to the nodes with --bcast; return the fields that the nodes need."""
        if "bcast" not in self._options.settings:
            return {}
        from pyslurm_ng.cli.command import read_conf
        from pyslurm_ng.cli.step.program_broadcast import CONF_KEYS, send_program

        conf = self._conf | read_conf("srun", *CONF_KEYS)
        return send_program(self._options, conf, self._granted, program)

    def _call_plugins(self, operands: "list[str]") -> None:
        """Let plugins of plugstack.conf change what the tasks get. Raises NotPrepared."""
        plugins, granted = self._options.plugins, self._granted
        if plugins is None:
            return
        try:
            plugins.user_init(self._options, granted["job_id"], granted["step_id"], operands)
        except OptionError as problem:
            raise NotPrepared(f"error: {problem.text}") from None


def run_beside(
    options: "Options",
    conf: "dict[str, str]",
    option: str,
    operands: "list[str]",
    variables: "dict[str, str]",
) -> int:
    """Run the program of --prolog or --epilog here, before or after the step.

    It gets the command and arguments of the step as its own. A missing program is only reported,
    as in Slurm.

    Returns:
        Its exit code; 0 without one.

    Raises:
        Interrupted: a signal came, which the program was also sent if it still ran.
    """
    program = options.settings.get(option, conf.get(f"Srun{option.capitalize()}", ""))
    if not program or program.lower() == "none":
        return 0
    own = _variables_beside(options, conf) | {"SLURM_SCRIPT_CONTEXT": f"{option}_srun"}
    try:
        child = os.posix_spawn(program, [program, *operands], variables | own)
    except OSError as problem:
        from pyslurm_ng.cli.command import say

        say(f"srun: Access denied for {program}: {problem.strerror}")
        return 0
    try:
        # The number stays the child's: a signal may come right after its end.
        os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    except Interrupted as problem:
        os.kill(child, problem.number)
        raise
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _variables_beside(options: "Options", conf: "dict[str, str]") -> "dict[str, str]":
    """Return what programs beside srun read about its user and what it hands to the tasks."""
    from pyslurm_ng.cli.command import user_name
    from pyslurm_ng.cli.submit.submission import files_umask, limits

    rows = limits(options.settings.get("propagate", ""), conf)
    return {
        "SLURM_JOB_UID": str(os.getuid()),
        "SLURM_JOB_USER": user_name(os.getuid()),
        "SLURM_MPI_TYPE": chosen(options, conf.get("MpiDefault", "")) or "none",
        "SLURM_PRIO_PROCESS": str(os.getpriority(os.PRIO_PROCESS, 0)),
        "SLURM_UMASK": f"{files_umask():04o}",
        **{f"SLURM_RLIMIT_{name}": str(soft % (1 << 64)) for name, soft, _ in rows},
    }
