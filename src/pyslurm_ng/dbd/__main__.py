"""The program slurmdbd."""

from __future__ import annotations

import sys

from pyslurm_ng import SLURM_VERSION
from pyslurm_ng.daemon.log import DaemonLog
from pyslurm_ng.daemon.process_settings import with_stack_room
from pyslurm_ng.dbd.daemon import CannotStart, Daemon, print_schema
from pyslurm_ng.dbd.options import USAGE, BadOptions, load_configuration, parse_options


def main(argv: list[str]) -> int:
    """Run slurmdbd with the arguments after the program's name; return its exit code."""
    log = DaemonLog("slurmdbd")
    try:
        options = parse_options(argv)
        if options.show_help:
            print(USAGE, end="")
            return 0
        if options.show_version:
            print(f"slurm {SLURM_VERSION}")
            return 0
        configuration = load_configuration(options)
        if options.show_schema:
            return print_schema(configuration)
        return with_stack_room(lambda: Daemon(options, configuration, log).run())
    except BadOptions as error:
        for line in error.lines[:-1]:
            print(f"slurmdbd: error: {line}", file=sys.stderr)
        log.fatal(error.lines[-1])
    except CannotStart as error:
        log.fatal(str(error))
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
