"""The start of a command server, by a command that has ended (ADR 0086)."""

import os
import sys

OFF = "no_command_server"
"""The word of SlurmctldParameters with which a site turns servers off."""


def start(lock: int) -> None:
    """Start a server in the background, for the socket beside the file that `lock` has locked.

    The lock goes on to the server and ends with it. A server that cannot be started is no error:
    commands start directly then.
    """
    from pyslurm_ng.conf.quick import find_conf, quick

    try:
        words = quick(find_conf(), ("SlurmctldParameters",)).get("SlurmctldParameters", "")
        if OFF in words.lower().split(","):
            return
        name = os.readlink(f"/proc/self/fd/{lock}")
        if not name.endswith(".lock"):  # removed meanwhile
            return
        path = name.removesuffix(".lock") + ".socket"
        program = os.path.join(os.path.dirname(sys.executable), "pyslurm-command-server")
        os.set_inheritable(lock, True)
        os.posix_spawn(
            program,
            [program, str(lock), path],
            # The command that starts it tells what commands need: many may begin at once now.
            {"PATH": os.defpath, "MODULES": " ".join(sys.modules)},
            file_actions=[
                (os.POSIX_SPAWN_OPEN, number, "/dev/null", os.O_RDWR, 0) for number in (0, 1, 2)
            ],
            setsid=True,
            setsigmask=[],
            setsigdef=[number for number in range(1, 32) if number not in (9, 19)],
        )
    except OSError:
        return
