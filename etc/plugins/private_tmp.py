"""A folder of its own for each step, in place of /tmp; it is removed when the step ends.

    # plugstack.conf
    required /etc/slurm/plugins/private_tmp.py /tmp /var/lib/slurm-tmp

The arguments are the folder that tasks see, and where the folders of steps really are. That one
belongs to root, and slurmd's own folders must not lie in the first.
"""

import ctypes
import os
import shutil

from pyslurm_ng.policy.spank import Spank, SpankError

CLONE_NEWNS = 0x20000
MS_BIND, MS_REC, MS_PRIVATE = 0x1000, 0x4000, 0x40000
places = {}


def init(spank: Spank, seen: str = "/tmp", base: str = "/var/lib/slurm-tmp") -> None:
    """Take the folders from plugstack.conf; on the node, make the step's."""
    if not spank.is_remote:
        return
    if os.geteuid():
        raise SpankError("only a slurmd of root can give steps a folder of their own")
    os.makedirs(base, mode=0o711, exist_ok=True)
    own = f"{base}/{spank.job_id}.{spank.step_id}.{spank.restart_count}.{spank.node_name}"
    os.mkdir(own, 0o700)
    os.chown(own, spank.uid, spank.gid)
    places.update(seen=seen, own=own)


def task_init_privileged(spank: Spank) -> None:
    """Give the task a view of the file system in which the folder is the step's."""
    libc = ctypes.CDLL(None, use_errno=True)
    seen, own = places["seen"].encode(), places["own"].encode()
    for what, result in (
        ("unshare", libc.unshare(CLONE_NEWNS)),
        ("make / private", libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None)),
        ("bind", libc.mount(own, seen, None, MS_BIND, None)),
    ):
        if result:
            raise SpankError(f"{what}: {os.strerror(ctypes.get_errno())}")


def exit(spank: Spank) -> None:
    """Remove the folder: nothing of the step runs any more."""
    if places:
        shutil.rmtree(places["own"], ignore_errors=True)
