"""Power saving with live daemons: programs of the site stop and start slurmds."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest

from pyslurm_ng.up.ports import free_row
from tests.daemons.faults import open_directory
from tests.daemons.live import missing_programs, start

pytestmark = pytest.mark.skipif(bool(missing_programs()), reason="needs make build")

CONF = """\
SuspendProgram={at}/off
ResumeProgram={at}/on
ResumeFailProgram={at}/failed
SuspendTime=1
SuspendTimeout=1
ResumeTimeout=30
SuspendExcNodes=n1
NodeName=c1 NodeAddr=127.0.0.1 Port={port} CPUs=2 RealMemory=1000 State=CLOUD
NodeName=c2 NodeAddr=127.0.0.1 Port={other} CPUs=2 RealMemory=1000 State=CLOUD
PartitionName=cloud Nodes=c1 DefMemPerCPU=100
PartitionName=broken Nodes=c2 DefMemPerCPU=100 ResumeTimeout=1
"""
ON = """\
#!/bin/sh
echo on $1 $(tr -d ' ' < $SLURM_RESUME_FILE) >> {at}/said
PATH={path}
[ $1 = c2 ] || slurmd -b -N $1
"""
OFF = """\
#!/bin/sh
echo off $1 >> {at}/said
kill $(cat {at}/c/run/slurmd-$1.pid)
"""


def test_a_job_wakes_its_node_which_sleeps_again_after_it() -> None:
    """One that does not wake is DOWN, and its job waits again."""
    with open_directory() as directory:
        _sleep_and_wake(directory)


def _sleep_and_wake(at: Path) -> None:
    port = free_row(2)
    said = at / "said"
    # SlurmUser runs the programs, and slurmd is to be root's where this test is.
    own = pwd.getpwuid(os.geteuid()).pw_name
    live = start(at / "c", "--nodes", "1", "--cpus", "4", "--slurm-user", own)
    conf = live.directory / "etc" / "slurm.conf"
    conf.write_text(conf.read_text() + CONF.format(at=at, port=port, other=port + 1))
    path = live.environment["PATH"]
    programs = (("on", ON), ("off", OFF), ("failed", "#!/bin/sh\necho failed $1 >> {at}/said\n"))
    for name, text in programs:
        (at / name).write_text(text.format(at=at, path=path))
        (at / name).chmod(0o755)

    def state(node: str) -> str:
        return live.out("sinfo", "-h", "-n", node, "-p", "debug", "-o", "%t").strip()

    try:
        live.out("scontrol", "reconfigure")
        assert state("c1") == state("c2") == "idle~"
        where = live.out("srun", "-p", "cloud", "printenv", "SLURMD_NODENAME")
        assert where == "c1\n"
        live.wait_until("sleep", lambda: state("c1") == "idle~")
        lines = said.read_text().splitlines()
        assert lines[0].startswith('on c1 {"all_nodes_resume":"c1","jobs":[{')
        assert lines[1:] == ["off c1"]
        job = live.submit("-p", "broken", "-o", "/dev/null", "--wrap", "hostname")
        live.wait_until("failure", lambda: state("c2") == "down~" and "failed" in said.read_text())
        assert live.out("squeue", "-h", "-j", str(job), "-o", "%T").strip() == "PENDING"
        live.out("scontrol", "power", "up", "c1")
        live.wait_until("power", lambda: state("c1") in ("idle", "idle%"))
    finally:
        live.down()
