"""The program slurmrestd."""

from __future__ import annotations

import os
import sys

from pyslurm_ng.daemon.log import DaemonLog
from pyslurm_ng.web.options import BadOptions, Listing, Options, parse_options


def main(argv: list[str]) -> int:
    """Run slurmrestd with the arguments after the program's name; return its exit code."""
    log = DaemonLog("slurmrestd")
    try:
        options = parse_options(argv)
        if isinstance(options, int):
            return options
        return _run(options, log)
    except Listing as listing:
        sys.stdout.write(str(listing))
        return listing.code
    except BadOptions as error:
        log.fatal(str(error))
        return 1


def _run(options: Options, log: DaemonLog) -> int:
    # A user that starts it with a token would lend that token to everybody.
    os.environ.pop("SLURM_JWT", None)
    if options.conf_path:
        os.environ["SLURM_CONF"] = options.conf_path
    log.set_level(options.log_level)
    try:
        from pyslurm_ng.web.program import run
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("pyslurm_ng"):
            raise
        raise BadOptions(f"{error.name} is not installed: pip install 'pyslurm-ng[web]'") from None
    return run(options, log)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
