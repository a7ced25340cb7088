"""Dynamic nodes with live daemons: they come by slurmd -Z, run jobs, and go."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyslurm_ng.up.ports import free_row
from tests.daemons.faults import kill, open_directory, start_daemon
from tests.daemons.live import missing_programs, start

pytestmark = pytest.mark.skipif(bool(missing_programs()), reason="needs make build")

CONF = """\
MaxNodeCount=2
NodeSet=fast Feature=fast
PartitionName=debug Nodes=ALL Default=YES
PartitionName=fast Nodes=fast
"""


def test_a_node_comes_runs_a_job_outlives_the_controller_and_goes() -> None:
    """It is in no configuration; a node too many is refused by name in the controller's log."""
    with open_directory() as directory:
        _come_and_go(directory)


def _come_and_go(directory: Path) -> None:
    extra = directory / "extra.conf"
    extra.write_text(CONF)
    live = start(directory / "c", "--nodes", "1", "--cpus", "4", "--conf", str(extra))

    def states() -> str:
        return live.out("sinfo", "-h", "-N", "-p", "fast", "-o", "%N %T").strip()

    def join(name: str) -> None:
        own_keys = f"Feature=fast RealMemory=1000 Port={free_row(1)}"
        done = live.run("slurmd", "-Z", "-N", name, "--conf", own_keys)
        assert done.returncode == 0, done.stderr

    try:
        join("d1")
        live.wait_until("node", lambda: states() == "d1 idle")
        where = "printenv SLURMD_NODENAME"
        assert live.out("srun", "-p", "fast", "--mem=10", *where.split()) == "d1\n"
        join("d2")
        log = live.directory / "log" / "slurmctld.log"
        full = "Unable to add node, node table is full (d2)"
        live.wait_until("refusal", lambda: full in log.read_text())
        kill(live, "slurmd-d2")
        kill(live, "slurmctld")
        start_daemon(live, "slurmctld")
        live.wait_until("node again", lambda: states() == "d1 idle")
        kill(live, "slurmd-d1")
        live.out("scontrol", "delete", "nodename=d1")
        assert states() == ""
        report = live.out("sacct", "-n", "-X", "-o", "nodelist,state").split()
        assert report == ["d1", "COMPLETED"]
    finally:
        live.down()
