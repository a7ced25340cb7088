"""Connections to node daemons."""

import os

from pyslurm_ng.base.numbers import SHOW_ALL
from pyslurm_ng.cli.command import Table, fail
from pyslurm_ng.wire.client import Client, SlurmError

_WAIT_S = 2.0


def node_clients(
    command: str, conf: "dict[str, str]", controller: Client, names: str
) -> "list[tuple[str, Client]]":
    """Return connections to the daemons of a host list, without one to all of this host.

    Exits with 1 if there is none.
    """
    try:
        request = {"nodes": names, "flags": SHOW_ALL, "addresses": True}
        reply = controller.call("ShowNodes", request)
    except SlurmError as error:
        fail(f"slurm_load_node error: {error.text.rpartition(chr(10))[2]}")
    host = os.uname().nodename
    own_names = {host, host.partition(".")[0], "localhost", "127.0.0.1", "::1"}
    rows = Table(reply["fields"], reply["records"], reply["fields"]).rows
    own_node = os.environ.get("SLURMD_NODENAME", "")
    if not names:
        rows = [row for row in rows if own_node == row[0]] or [
            row for row in rows if own_names & {row[0], row[1], row[2]}
        ]
    if not rows:
        fail(f"{command}: error: no node of this cluster runs on {host}")
    return [
        (node, Client(conf, f"slurmd:{node}", (address or hostname or node, port), wait_s=_WAIT_S))
        for node, address, hostname, port in rows
    ]
