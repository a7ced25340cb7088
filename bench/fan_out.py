#!/usr/bin/env python3
"""What it costs srun to launch on many nodes at once, in a star: pretended node daemons answer.

The nodes are stream servers of one other process, each with a name and a port of its own. They
check credentials as slurmd does. CPU time is srun's alone.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import resource
import sys
import time
from pathlib import Path

from pyslurm_ng.base.faults import Faults
from pyslurm_ng.cli.command import read_conf
from pyslurm_ng.cli.step.launch import Launch
from pyslurm_ng.daemon.log import DaemonLog
from pyslurm_ng.wire import node_messages as nm
from pyslurm_ng.wire.call import Call
from pyslurm_ng.wire.identity import load_identity
from pyslurm_ng.wire.stream import StreamServer

HOST = "127.0.0.2"  # not by Unix sockets: as on another host
CREDENTIAL_BYTES, ENVIRONMENT_BYTES = 40_000, 8_000


async def pretend(conf: dict[str, str], first_port: int, count: int, ready: int) -> None:
    """Serve as `count` node daemons until the other process ends."""
    own = os.uname().nodename.partition(".")[0]
    identity = load_identity(
        role="node", name="n1", auth_type=conf["AuthType"], auth_info=conf.get("AuthInfo", ""),
        key_path=str(Path(os.environ["SLURM_CONF"]).parent / "slurm.key"),
        cluster=conf.get("ClusterName", "cluster"), host=own, service_uid=0,
        clock_us=lambda: time.time_ns() // 1000, admin_hosts=None,
    )  # fmt: skip

    def answer(call: Call) -> None:
        assert isinstance(call.request, nm.LaunchStep), call.request
        call.reply(nm.StepLaunched(call.peer.name, 0))

    for number in range(count):
        server = StreamServer(
            answer, audience=f"slurmd:p{number}", host=own, service_uid=0,
            authenticator=identity.authenticator, faults=Faults(DaemonLog("fan_out")),
        )  # fmt: skip
        await server.listen_tcp(HOST, first_port + number)
    os.write(ready, b"r")
    await asyncio.Event().wait()


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--nodes", type=int, default=1000)
    options.add_argument("--port", type=int, default=21000)
    options.add_argument("--rounds", type=int, default=3)
    chosen = options.parse_args()
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    conf = read_conf("srun", "AuthType", "AuthInfo", "ClusterName", "SlurmdPidFile", "SlurmUser")
    ready, theirs = os.pipe()
    child = os.fork()
    if not child:
        asyncio.run(pretend(conf, chosen.port, chosen.nodes, theirs))
    os.close(theirs)
    try:
        if not os.read(ready, 1):
            sys.exit("the pretended nodes did not begin")
        granted = {
            "nodes": [f"p{number}" for number in range(chosen.nodes)],
            "addresses": [(HOST, chosen.port + number) for number in range(chosen.nodes)],
        }
        fields = {
            "credential": bytes(CREDENTIAL_BYTES),
            "programs": [{"argv": ["true"]}],
            "environment": b"A=" + bytes(ENVIRONMENT_BYTES),
        }
        for _ in range(chosen.rounds):
            before, begun = resource.getrusage(resource.RUSAGE_SELF), time.monotonic()
            failed = Launch(conf, granted, dict(fields), 60.0).run(12345, bytes(32))
            took_s = time.monotonic() - begun
            after = resource.getrusage(resource.RUSAGE_SELF)
            cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            print(
                f"{chosen.nodes} nodes: {cpu_s:.2f} s of CPU, {took_s:.2f} s, {len(failed)} failed",
                *list(failed.values())[:1],
            )
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)


if __name__ == "__main__":
    main()
