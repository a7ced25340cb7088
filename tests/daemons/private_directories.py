"""A cluster whose jobs have directories of their own, for the tests of these and of logins."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyslurm_ng.kernels.process import umount
from tests.daemons.faults import tracebacks
from tests.daemons.live import LiveCluster, start


@contextmanager
def private_directories(*lines: str) -> Iterator[LiveCluster]:
    """Run one node whose jobs' directories are in `base` beside the cluster.

    Args:
        lines: more of slurm.conf.
    """
    # Not below /tmp: that is what each job has for itself.
    directory = Path(tempfile.mkdtemp(prefix="psng-", dir="/var/tmp"))
    directory.chmod(0o755)
    etc = directory / "c" / "etc"
    etc.mkdir(parents=True)
    (directory / "c").chmod(0o755)
    (etc / "job_container.conf").write_text(f"AutoBasePath=true BasePath={directory}/base\n")
    extra = directory / "extra"
    contained = "NamespaceType=namespace/tmpfs", "PrologFlags=Contain"
    extra.write_text("\n".join((*contained, *lines, "")))
    options = ("--nodes", "1", "--cpus", "8", "--no-namespaces", "--conf", str(extra))
    made = start(directory / "c", *options)
    try:
        yield made
        assert tracebacks(made) == []
    finally:
        made.down()
        for pin in (directory / "base").glob("*/.ns"):
            if os.path.ismount(pin):
                umount(bytes(pin), 2)
        umount(bytes(directory / "base"), 2)
        shutil.rmtree(directory)
