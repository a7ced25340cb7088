"""A node as its configuration files make it, whose supervisors run real processes."""

from __future__ import annotations

import itertools
import os
from pathlib import Path
from typing import Any

from pyslurm_ng.base.faults import Faults
from pyslurm_ng.d.node.local_node import LocalNode
from pyslurm_ng.d.node.setup import Options, Setup, load_setup
from pyslurm_ng.d.spec.job_spec import batch_spec, step_spec
from pyslurm_ng.d.spec.node_setup import Account
from pyslurm_ng.d.spool.spool import Spool
from pyslurm_ng.d.spool.step_contract import StepSpec
from pyslurm_ng.daemon.log import DaemonLog
from pyslurm_ng.model.ids import STEP_BATCH
from pyslurm_ng.model.job import JobRequest, NodeAlloc
from pyslurm_ng.wire import node_messages as nm
from tests.d.stepd.supervised import Supervised, Template
from tests.world.waiting import wait_until

CONF = """
ClusterName=c
SlurmctldHost=localhost
AuthType=auth/slurm
CredType=cred/slurm
ProctrackType=proctrack/linuxproc
SlurmdSpoolDir={spool}
"""
NODES = "NodeName=n1 NodeAddr=localhost CPUs={cpus}{node}\nPartitionName=p Nodes=n1{partition}\n"
CPUS = len(os.sched_getaffinity(0))
_job_ids = itertools.count(1)


class Node:
    """What slurmd reads out of slurm.conf and its neighbours, and does by it.

    `node` and `partition` are more words of their lines.
    """

    def __init__(
        self, directory: Path, text: str = "", cgroup: str = "", node: str = "", partition: str = ""
    ) -> None:
        self.directory = directory
        path = directory / "slurm.conf"
        lines = NODES.format(cpus=CPUS, node=f" {node}", partition=f" {partition}")
        path.write_text(CONF.format(spool=directory) + f"{text}\n{lines}")
        (directory / "cgroup.conf").write_text(cgroup)
        self.options = Options(str(path), node_name="n1")
        self.setup: Setup = load_setup(self.options)

    def credential(self, step_id: int = STEP_BATCH, **request: object) -> nm.JobCredential:
        """Return that of a job of one CPU and 100 MiB here, of whoever runs the tests."""
        alloc = NodeAlloc(0, 1, b"\x01", 100, 1)
        return nm.JobCredential(
            cluster="c", epoch=1, attempt=0, job_id=next(_job_ids),
            uid=os.getuid(), gid=os.getgid(),
            user_name="u", group_name="g", request=JobRequest(**request),  # type: ignore[arg-type]
            nodes=("n1",), allocs=(alloc,), step_id=step_id, step_nodes=("n1",),
            step_allocs=(alloc,), step_tasks=((0,),), partition="p",
        )  # fmt: skip

    def batch(self, script: str, **request: object) -> StepSpec:
        """Return what the supervisor of a script is told; its output is in `out`."""
        request = {"work_dir": str(self.directory), "std_out": f"{self.directory}/out"} | request
        order = nm.LaunchBatch(5, b"", b"#!/bin/bash\n" + script.encode())
        account = Account((os.getgid(),))
        return batch_spec(self.setup.node, self.credential(**request), order, account)

    def step(self, **request: Any) -> StepSpec:
        """Return what the supervisor of a step of one task is told."""
        fields = {"credential": b"", "cwd": "/", "programs": [nm.Program(["true"])]}
        launch = nm.LaunchStep(**(fields | request))
        return step_spec(self.setup.node, self.credential(0), launch, Account((os.getgid(),)))

    def run(self, template: Template, script: str, **request: object) -> tuple[dict[str, Any], str]:
        """Run a script to its end; return the end's record and what it wrote."""
        end = template.start(self.batch(script, **request)).end()
        return end, (self.directory / "out").read_text()

    def started(self, template: Template, script: str, word: str) -> Supervised:
        """Start a script and wait until it has written a word."""
        step = template.start(self.batch(script))
        out = self.directory / "out"
        wait_until(lambda: out.exists() and word in out.read_text())
        return step

    def local(self, log: Any = None) -> LocalNode:
        """Return the node as the parts of slurmd know it."""
        log = log or DaemonLog("slurmd")
        return LocalNode(self.setup, Spool(self.setup.spool), log, Faults(log))
