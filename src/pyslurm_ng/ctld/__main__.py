"""slurmctld's command line."""

from __future__ import annotations

import os
import sys

from pyslurm_ng.conf.check import check_here
from pyslurm_ng.conf.quick import find_conf
from pyslurm_ng.ctld.configuration import BadConfiguration, load_configuration
from pyslurm_ng.ctld.daemon import Daemon
from pyslurm_ng.ctld.start import CannotStart, Options, open_log
from pyslurm_ng.daemon.background import Background
from pyslurm_ng.daemon.log import DaemonLog
from pyslurm_ng.daemon.options import read_command_line
from pyslurm_ng.daemon.process_settings import with_stack_room

USAGE = """\
Usage: slurmctld [OPTIONS]
  -c              Clear all jobs, reservations and node states; job ids go on.
  --check [FILE]  Check the configuration, print every problem, and end.
  -D              Run in the foreground.
  -f FILE         Read configuration from FILE.
  -h, --help      Print this help message.
  -i              Go on behind damage in the state files instead of stopping.
  -L LOGFILE      Log messages to the file LOGFILE.
  -n VALUE        Run at this niceness.
  -q              Log less; may be repeated.
  -r, -R          Recover state as far as it goes (always done; accepted as Slurm does).
  -s              Change working directory to that of the log, or to StateSaveLocation.
  --systemd       Started by systemd: stay in the foreground and tell it when ready.
  -v              Log more; may be repeated.
  -V, --version   Print version information and end.
"""
_NO_NETWORK = "Failed to initialize topology plugin"
_NO_CONF = "Unable to process configuration file"
_SHORT = "cDf:hiL:n:qrRsvV"
_LONG = ["check", "help", "systemd", "version"]


def main(argv: list[str]) -> int:
    """Run slurmctld, or do what its options ask instead; return the exit code."""
    command_line = read_command_line("slurmctld", argv, _SHORT, _LONG, USAGE)
    if isinstance(command_line, int):
        return command_line
    names, values, operands = command_line
    is_check = "--check" in names
    if operands and not (is_check and len(operands) == 1):
        sys.stderr.write(f"slurmctld: unexpected argument '{operands[0]}'\n{USAGE}")
        return 1
    path = os.path.abspath(operands[0] if operands else values.get("-f") or find_conf())
    if is_check:
        return _check(path)
    nice = command_line.niceness()
    if nice is None:
        sys.stderr.write(f"slurmctld: -n {values['-n']}: a niceness from -20 to 19 is allowed\n")
        return 1
    options = Options(
        conf_path=path,
        foreground="-D" in names or "--systemd" in names,
        clear="-c" in names,
        ignore_errors="-i" in names,
        log_path=os.path.abspath(values["-L"]) if "-L" in values else "",
        verbose=names.count("-v"),
        quiet=names.count("-q"),
    )
    return with_stack_room(lambda: _run(options, nice=nice, changes_directory="-s" in names))


def _check(path: str) -> int:
    """Print all that is wrong with the configuration files; exit 1 if anything is."""
    problems, warnings = check_here(path)
    for line in problems or warnings:
        sys.stderr.write(line + "\n")
    if problems:
        return 1
    sys.stderr.flush()
    verdict = f"no errors, warnings: {len(warnings)}" if warnings else "no problems found"
    sys.stdout.write(f"{path}: {verdict}\n")
    return 0


def _run(options: Options, *, nice: int, changes_directory: bool) -> int:
    log = DaemonLog("slurmctld")
    try:
        configuration = load_configuration(options.conf_path)
    except BadConfiguration as error:
        for line in error.lines:
            log.error(line)
        if error.is_network:
            log.error("Failed to load topology.yaml")
        log.fatal(_NO_NETWORK if error.is_network else _NO_CONF)
        return 1
    host = os.uname().nodename.partition(".")[0]
    index = configuration.host_index(host)
    if index < 0:
        log.fatal(f"This host ({host}/{os.uname().nodename}) not a valid controller")
        return 1
    if index > 0:
        log.fatal(f"{host} is a backup controller (SlurmctldHost {index + 1}): not supported yet")
        return 1
    background = Background(foreground=options.foreground)
    try:
        open_log(log, options, configuration)
        if nice:
            os.nice(nice)
        if changes_directory:
            target = options.log_path or configuration.conf.slurmctld_log_file
            os.chdir(os.path.dirname(target) or configuration.conf.state_save_location)
        elif not options.foreground:
            os.chdir("/")
        return Daemon(options, configuration, log, host).start(background)
    except CannotStart as error:
        log.fatal(str(error))
    except OSError as error:
        log.fatal(f"{error.filename or 'slurmctld'}: {error.strerror}")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
