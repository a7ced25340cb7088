"""--renice=PRIORITY: the nice value of a job's tasks, within what the site allows.

    # plugstack.conf
    optional /etc/slurm/plugins/renice.py 0 19

The arguments are the lowest and the highest value that users may choose.
"""

import os

from pyslurm_ng.policy.spank import Option, Spank, SpankError

bounds = [0, 19]


def init(spank: Spank, lowest: str = "0", highest: str = "19") -> None:
    """Take the bounds from plugstack.conf, and bring the option."""
    bounds[:] = [int(lowest), int(highest)]
    purpose = f"nice value of the tasks, from {lowest} to {highest}"
    spank.register(Option("renice", "PRIORITY", purpose, callback=check))


def check(value: str, is_remote: bool) -> None:
    """Refuse a wrong value where the option is given, and again on the node."""
    digits = value.removeprefix("-")
    if not digits.isdigit() or len(digits) > 2 or not bounds[0] <= int(value) <= bounds[1]:
        raise SpankError(f"a number from {bounds[0]} to {bounds[1]} is allowed")


def task_post_fork(spank: Spank) -> None:
    """Set the value, as root: the task waits until this is over."""
    value = spank.option("renice")
    if value is not None:
        os.setpriority(os.PRIO_PROCESS, spank.task_pid, int(value))
        spank.log(f"task {spank.task_id} has nice value {value}")
