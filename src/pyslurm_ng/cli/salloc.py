"""salloc: get an allocation and run a command, or a shell, beside it."""

import os
import sys
from time import monotonic

from pyslurm_ng.base.numbers import (
    JOB_TIMEOUT,
    SECOND_US,
    SIGHUP,
    SIGINT,
    SIGKILL,
    SIGQUIT,
    SIGTERM,
)
from pyslurm_ng.cli.command import connect, read_conf, say
from pyslurm_ng.cli.file_names import current_directory
from pyslurm_ng.cli.option_words import OptionError
from pyslurm_ng.cli.signals import Signals
from pyslurm_ng.cli.submit import container_words, option_values as ov, submission
from pyslurm_ng.cli.submit.allocation import Allocation, NotAtOnce, Revoked
from pyslurm_ng.cli.submit.option_state import COMMAND_LINE
from pyslurm_ng.cli.submit.options import Options
from pyslurm_ng.cli.submit.x11_words import NO_X11, X11_VARIABLE, allows_x11
from pyslurm_ng.wire.client import SlurmError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_LEAD = "Job submit/allocate failed"
_NOT_FOUND = 127
_LONG_WAIT_S = 10
CONF_KEYS = (
    "LaunchParameters", "InteractiveStepOptions", "PrologFlags", *submission.CONF_KEYS,
)  # fmt: skip
_INTERACTIVE = "--interactive --preserve-env --pty $SHELL"


def main(argv: "list[str]") -> int:
    """Run; return the exit code."""
    options = Options("salloc")
    return submission.outcome(options, lambda: _run(options, argv))


def _run(options: Options, argv: "list[str]") -> int:
    pairs, operands = options.split_words(argv)
    if submission.announce(options, pairs):
        return 0
    conf = submission.begin(options, operands, read_conf, CONF_KEYS)
    options.apply_environment(dict(os.environ))
    options.apply_all(pairs, COMMAND_LINE)
    further: list[Options] = []
    if operands[:1] == [":"]:
        from pyslurm_ng.cli.submit.het_options import further_components, split_groups

        groups, operands = split_groups(options, operands)
        further = further_components(options, [], groups, dict(os.environ))
    conf = conf or read_conf("salloc", *CONF_KEYS)
    for component in (options, *further):
        submission.finish(component, conf)
    _check_x11(options, conf)
    _check_bundle(options, conf)
    if operands:
        _check_image(options)
    command = operands or _default_command(options, conf)
    work = _Salloc(options, argv, conf, command, has_command=bool(operands))
    work.further = further
    return work.run()


def _check_x11(options: Options, conf: "dict[str, str]") -> None:
    """Refuse --x11 where steps could not forward X11. Raises OptionError."""
    if "x11" not in options.settings:
        return
    from pyslurm_ng.cli.step.x11 import NoX11, XServer

    if not allows_x11(conf):
        raise OptionError(NO_X11, 1)
    try:
        XServer(os.environ)
    except NoX11 as problem:
        raise OptionError(str(problem), 1) from None


def _check_bundle(options: Options, conf: "dict[str, str]") -> None:
    """Refuse --container where salloc starts no step. Raises OptionError."""
    if options.request.get("container") and not _has_interactive_step(conf):
        raise OptionError("--container requires LaunchParameters=use_interactive_step", 1)


def _has_interactive_step(conf: "dict[str, str]") -> bool:
    return "use_interactive_step" in conf.get("LaunchParameters", "").lower().split(",")


def _check_image(options: Options) -> None:
    """Refuse an image where nothing would run in it. Raises OptionError."""
    if container_words.has_image(options.request):
        text = "only salloc's shell is in an image, with LaunchParameters=use_interactive_step"
        raise OptionError(f"--container-image: {text}", 1)


def login_shell() -> str:
    """Return the shell that the user's account has, whatever SHELL says."""
    import pwd

    try:
        shell = pwd.getpwuid(os.getuid()).pw_shell
    except KeyError:
        shell = os.environ.get("SHELL", "")
    return shell or "/bin/sh"


def _default_command(options: Options, conf: "dict[str, str]") -> "list[str]":
    """Return what runs without a command: a shell here, or a step on the job's first node."""
    if not _has_interactive_step(conf) or "no-shell" in options.settings:
        _check_image(options)
        return [login_shell()]
    import shlex

    shell = os.environ.get("SHELL") or "/bin/sh"
    text = conf.get("InteractiveStepOptions") or _INTERACTIVE
    text = text.replace("${SHELL}", "$SHELL").replace("$SHELL", shlex.quote(shell))
    try:
        container = container_words.as_options(options.request)
        return ["srun", *container, *map(os.path.expandvars, shlex.split(text))]
    except ValueError as problem:
        raise OptionError(f"InteractiveStepOptions={text}: {problem}", 1) from None


def _find(name: str) -> str:
    """Return the path of a program, "" when there is none."""
    if "/" in name:
        return name if os.access(name, os.X_OK) and not os.path.isdir(name) else ""
    for directory in os.environ.get("PATH", "").split(":"):
        path = f"{directory or '.'}/{name}"
        if os.access(path, os.X_OK) and not os.path.isdir(path):
            return path
    return ""


def rings(settings: "Mapping[str, str]", waited_s: float) -> bool:
    """Return whether the terminal's bell shall ring: by default after a long wait."""
    return "no-bell" not in settings and ("bell" in settings or waited_s > _LONG_WAIT_S)


def _exit_code(status: int) -> int:
    """Return salloc's exit code for its command's wait status.

    The manual: 0 if one of these four signals ended the command. Slurm 22.05 says 1 of the others.
    """
    number = status & 0x7F
    if not number:
        return status >> 8 & 0xFF
    return 0 if number in (SIGHUP, SIGINT, SIGKILL, SIGQUIT) else 1


class _Salloc:
    """One run of salloc."""

    def __init__(
        self,
        options: Options,
        argv: "list[str]",
        conf: "dict[str, str]",
        command: "list[str]",
        *,
        has_command: bool,
    ) -> None:
        self.further: list[Options] = []  # components of a heterogeneous job but the first
        self._options = options
        self._argv = argv
        self._command = command
        self._path = _find(command[0])
        self._conf = conf
        self._quiet = "quiet" in options.settings
        self._signals = Signals()
        self._is_interactive = not has_command and os.isatty(0)
        self._has_hung_up = False

    def _info(self, text: str) -> None:
        if not self._quiet:
            say(f"salloc: {text}")

    def run(self) -> int:
        """Allocate, run the command, give the allocation back; return the command's code."""
        options, request = self._options, self._options.request
        submission.describe_origin(options, self._argv)
        if "chdir" in options.given:
            try:
                os.chdir(request["work_dir"])
            except OSError as problem:
                raise OptionError(f"chdir({request['work_dir']}): {problem.strerror}", 1) from None
        request.setdefault("name", self._command[0].rpartition("/")[2])
        if "job-name" not in options.given:
            # As in Slurm: neither the shell nor the command names the job.
            request["name"] = "no-shell" if "no-shell" in self._options.settings else "interactive"
        for component in self.further:
            submission.describe_origin(component, self._argv)
            component.request.setdefault("name", request["name"])
        submission.become(options)
        self._conf = submission.choose_cluster(options, self._conf)
        allocation = Allocation(connect(self._conf), options, self._signals, self.further)
        is_kept = "no-shell" in options.settings
        asked_s = monotonic()
        try:
            allocation.ask(is_kept=is_kept)
        except NotAtOnce as problem:
            lead = "Unable to allocate resources" if problem.is_busy else _LEAD
            code = submission.refusal("salloc", problem, lead)
            self._info(f"Job allocation {allocation.job_id} has been revoked.")
            return submission.immediate_code() if problem.is_busy else code
        except SlurmError as problem:
            return submission.refusal("salloc", problem, _LEAD)
        except Revoked:
            return 1
        granted = allocation.granted
        self._info(f"Granted job allocation {allocation.job_id}")
        self._info(f"Nodes {granted['nodes']} are ready for job")
        self._ring(monotonic() - asked_s)
        if options.verbose and granted["end_us"]:
            from pyslurm_ng.base.dates import format_date

            when = format_date(granted["end_us"] // SECOND_US)
            self._info(f"Job allocation time limit to be reached at {when}")
        if is_kept:
            return 0
        if self._path:
            status = self._attend(allocation)
        else:
            say(f'salloc: error: Unable to find command "{self._command[0]}"')
            status = 1 << 8
        if allocation.over is None:
            self._info(f"Relinquishing job allocation {allocation.job_id}")
            # As in Slurm: a job whose user has gone did not fail.
            allocation.give_back(0 if self._has_hung_up else status)
        return _exit_code(status)

    def _ring(self, waited_s: float) -> None:
        if rings(self._options.settings, waited_s) and os.isatty(1):
            sys.stdout.write("\a")
            sys.stdout.flush()

    # The command --------------------------------------------------------------------------------

    def _attend(self, allocation: Allocation) -> int:
        """Run the command to its end; return its wait status."""
        import select

        child = self._start(allocation)
        if child < 0:
            return _NOT_FOUND << 8
        watched = os.pidfd_open(child)
        poll = select.poll()
        poll.register(watched, select.POLLIN)
        poll.register(self._signals.descriptor, select.POLLIN)
        news = allocation.fileno()
        if news >= 0:
            poll.register(news, select.POLLIN)
        while True:
            ready = [descriptor for descriptor, _ in poll.poll()]
            if self._signals.descriptor in ready and self._hangs_up(child):
                self._has_hung_up = True
                os.close(watched)
                return 1 << 8
            if watched in ready:
                break
            if news in ready:
                allocation.receive()
                if allocation.over is not None or allocation.fileno() != news:
                    poll.unregister(news)
                    news = -1
                if allocation.over is not None:
                    self._revoked(allocation, child)
        os.close(watched)
        _, status = os.waitpid(child, 0)
        self._take_terminal(os.getpgrp())
        return status

    def _start(self, allocation: Allocation) -> int:
        environment = {
            name: value
            for name, value in os.environ.items()
            if not submission.is_of_outer_job(name)
        } | allocation.variables()
        for changed, text in self._options.plugin_changes.items():
            if text is None:
                environment.pop(changed, None)
            else:
                environment[changed] = text
        environment |= submission.working_cluster(self._conf)
        if "x11" in self._options.settings:
            environment[X11_VARIABLE] = self._options.settings["x11"]
        child = os.fork()
        if child:
            if self._is_interactive:
                try:
                    os.setpgid(child, child)
                except OSError:
                    pass  # it did so itself and has begun already
                self._take_terminal(child)
            return child
        try:
            if self._is_interactive:
                os.setpgid(0, 0)
                self._take_terminal(os.getpid())
            self._signals.restore()
            first = self._command[0]
            if "/" in first and not first.startswith("/"):
                first = f"{current_directory()}/{first}"  # the whole path, as in Slurm
            os.execve(self._path, [first, *self._command[1:]], environment)
        except OSError as problem:
            say(f"salloc: error: Unable to exec command \"{self._command[0]}\": "
                f"{problem.strerror}")  # fmt: skip
        os._exit(_NOT_FOUND)

    def _take_terminal(self, group: int) -> None:
        """Let a process group have the terminal, as a shell does with its jobs."""
        if self._is_interactive:
            try:
                os.tcsetpgrp(0, group)
            except OSError:
                self._is_interactive = False

    def _hangs_up(self, child: int) -> bool:
        """Pass signals on; return whether one says to go without waiting for the command.

        As the manual says: SIGHUP does, SIGTERM is for the command, others are ignored. Ctrl-C
        reaches the command through the terminal.
        """
        numbers = self._signals.take()
        for number in numbers:
            if number in (SIGHUP, SIGTERM):
                self._kill(child, number)
        return SIGHUP in numbers

    def _kill(self, child: int, number: int) -> None:
        try:
            os.kill(child, number)
        except ProcessLookupError:
            return

    def _revoked(self, allocation: Allocation, child: int) -> None:
        assert allocation.over is not None
        job_id = allocation.job_id
        if allocation.over["state"] == JOB_TIMEOUT:
            self._info(
                f"Job {job_id} has exceeded its time limit and its allocation has been revoked."
            )
        else:
            self._info(f"Job allocation {job_id} has been revoked.")
        number = self._kill_number()
        if number:
            self._kill(child, number)
        elif self._is_interactive:
            self._kill(child, SIGHUP)

    def _kill_number(self) -> int:
        """Return the signal of --kill-command, 0 when it was not given."""
        value = self._options.settings.get("kill-command")
        if value is None:
            return 0
        return ov.signal_number(value) if value else SIGTERM


__all__ = ["main"]
