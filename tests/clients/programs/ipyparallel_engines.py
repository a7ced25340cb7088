"""IPython's engines as one Slurm job of four tasks, and a map over them."""

import socket
from importlib.metadata import version

import ipyparallel


def where(number):
    import os

    return number * number, os.environ["SLURM_JOB_ID"]


cluster = ipyparallel.Cluster(
    n=4, engines="slurm", controller_ip="127.0.0.1", controller_location=socket.gethostname()
)
with cluster as client:
    client.wait_for_engines(4, timeout=120)
    answers = client[:].map_sync(where, range(8))
assert [answer for answer, _ in answers] == [number * number for number in range(8)]
assert len({job for _, job in answers}) == 1
print("ipyparallel", version("ipyparallel"), "ok")
