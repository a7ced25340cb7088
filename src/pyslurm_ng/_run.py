"""Run a command or daemon by its name; called by the native launcher (src/launcher) or a wheel.

Everything here is in the path of every command's start, hence the few imports.
"""

import errno
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

DAEMONS = {
    "slurmctld": "pyslurm_ng.ctld.__main__",
    "slurmd": "pyslurm_ng.d.__main__",
    "slurmdbd": "pyslurm_ng.dbd.__main__",
    "slurmrestd": "pyslurm_ng.web.__main__",
    "slurmstepd": "pyslurm_ng.d.stepd.template",
    "pam_pyslurm_adopt": "pyslurm_ng.cli.pam_adopt",
    "pyslurm-ng": "pyslurm_ng.up.__main__",
}

_WRITE_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)

report_end: "Callable[[bool, int], None] | None" = None
"""Told whether a command ends by a signal, and its exit code or that signal's number."""


def main() -> None:
    """Run what this program is called; the entry point of a wheel's scripts."""
    run(sys.argv[0].rpartition("/")[2])


def run(name: str, lock: int = -1) -> None:
    """Run a command or daemon and leave the process with its exit code.

    The interpreter is not taken down: at this point that would only cost time.

    Args:
        lock: the descriptor of the lock with which to start the user's command server; -1 where
            none is to be started.
    """
    status = finish(name)
    if lock >= 0 and not status:
        # The srun of a job that is being cancelled fails. A server that began then would miss the
        # job's SIGTERM, and the job would be COMPLETING for KillWait.
        # The module is loaded by its name like other programs: it runs commands by this module.
        __import__("pyslurm_ng.command_server_start", None, None, ["start"]).start(lock)
    if report_end is not None:
        report_end(False, status)
    os._exit(status)


def finish(name: str) -> int:
    """Run `main(argv)` of the module behind `name`, and return the exit code; 0 to 255.

    `argv` is without the program's name. A traceback is for developers (PYSLURM_DEBUG=1); a user
    sees one line. A command that ends by a signal leaves the process here.
    """
    sys.argv[0] = name
    if name not in DAEMONS and hasattr(sys, "set_int_max_str_digits"):
        # A number of thousands of digits is above its bound, as one of 20 is; only its user waits.
        sys.set_int_max_str_digits(0)
    if sys.stdout is None:  # closed by the caller, who wants no output
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    module_name = DAEMONS.get(name) or "pyslurm_ng.cli." + name.replace("-", "_")
    code: object = 1
    try:
        module = __import__(module_name, None, None, ["main"])
        code = module.main(sys.argv[1:])
    except SystemExit as stop:
        code = stop.code
    except KeyboardInterrupt:
        _die_by("SIGINT")
    except BrokenPipeError:
        _die_by("SIGPIPE")
    except BaseException as problem:  # noqa: BLE001 - the last resort, by design
        _report(name, problem)
        code = 1
    if name in DAEMONS:
        import atexit

        atexit._run_exitfuncs()
    return _flush(name, code)


def _flush(name: str, code: object) -> int:
    """Write out what is still buffered; an exit code of 0 must mean that it was written."""
    status = code if isinstance(code, int) else 0 if code is None else 1
    if isinstance(code, str):
        sys.stderr.write(code + "\n")
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        _die_by("SIGPIPE")
    except OSError as problem:
        _report_write_error(name, problem)
        status = status or 1
    try:
        if sys.stderr is not None:
            sys.stderr.flush()
    except BrokenPipeError:
        _die_by("SIGPIPE")
    except OSError:
        pass  # the terminal has gone: what the command did is what counts
    return status & 0xFF


def _report_write_error(name: str, problem: OSError) -> None:
    try:
        os.write(2, f"{name}: error: write error: {problem.strerror}\n".encode())
    except OSError:
        pass  # the terminal has gone


def _die_by(signal_name: str) -> None:
    """End as a program without a handler would, so that shells and pipelines see the same."""
    import signal  # imports enum, which takes longer than all of a squeue's own work

    number = signal.Signals[signal_name]
    if report_end is not None:
        report_end(True, number)
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    os._exit(128 + number)


def _report(name: str, problem: BaseException) -> None:
    """Report an unexpected error in one line."""
    if isinstance(problem, OSError) and not problem.filename and problem.errno in _WRITE_ERRORS:
        _report_write_error(name, problem)  # a command that prints much has written some of it
        sys.stdout = None  # the rest cannot be written either
        return
    if os.environ.get("PYSLURM_DEBUG"):
        import traceback

        traceback.print_exception(problem)
        return
    line = getattr(problem, "user_line", "")
    if line:  # it is about a daemon, not about this program
        sys.stderr.write(f"{name}: error: {line}\n")
        return
    if isinstance(problem, MemoryError):
        sys.stderr.write(f"{name}: error: out of memory (ulimit -v)\n")
        return
    text = " ".join(f"{type(problem).__name__}: {problem}".split())
    sys.stderr.write(f"{name}: error: internal: {text} (PYSLURM_DEBUG=1 shows where)\n")
