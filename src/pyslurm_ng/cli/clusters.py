"""-M/--clusters: where the controllers of other clusters are, and one command for several of them.

slurmdbd knows where each cluster's controller listens. A command asks that controller itself, over
TCP, with a credential that names its cluster.
"""

import os
import sys

from pyslurm_ng.cli.command import fail, read_conf, say, split_list
from pyslurm_ng.wire.daemon_link import HOME_PORT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Conf = dict[str, str]

_SOME_DAY_S = 1 << 62
"""The start of a job that a cluster takes, and that waits for jobs without an end."""


def confs_of(command: str, names: str, conf: "Conf", origin: str = "--cluster") -> "list[Conf]":
    """Return how to reach each cluster of a list, in its order; "all" means every one.

    A name that cannot be reached costs one line. Exits with Slurm's text if none can.
    """
    own = conf.get("ClusterName", "cluster").lower()
    asked = list(dict.fromkeys(name.lower() for name in split_list(names))) or [""]
    if asked == [own]:
        return [conf]
    places = _places(command, conf, asked)
    named = asked
    if "all" in asked:
        asked = list(places) or [own]
    confs = []
    for name in asked:
        if name == own:
            confs.append(conf)
        elif name not in places:
            say(f"{command}: error: No cluster '{name}' known by database.")
        elif not places[name][1]:
            if "all" in named:
                continue  # as in Slurm, which means all that there are
            say(f"{command}: error: Slurmctld on '{name}' hasn't registered yet.")
        else:
            confs.append(elsewhere(conf, name, *places[name]))
    if not confs:
        fail(
            f"{command}: error: '{names}' can't be reached now, or it is an invalid entry "
            f"for {origin}.  Use 'sacctmgr list clusters' to see available clusters."
        )
    return confs


def only_conf(command: str, names: str, conf: "Conf", origin: str = "--cluster") -> "Conf":
    """Return how to reach the one cluster of a command that asks a single one."""
    confs = confs_of(command, names, conf, origin)
    if len(confs) > 1:
        fail(f"{command}: fatal: Only one cluster can be used at a time with {command}")
    return confs[0]


def confs_of_federation(command: str, conf: "Conf", *, tells_all: bool) -> "list[Conf]":
    """Return how to reach each cluster of this one's federation; none if it is in none.

    Args:
        tells_all: whether clusters are named whose controller has never registered.
    """
    own = conf.get("ClusterName", "cluster").lower()
    confs = []
    for member in members_of_federation(command, conf):
        name, host, port = str(member["Cluster"]), str(member["ControlHost"]), member["ControlPort"]
        if name == own:
            confs.append(conf)
        elif port:
            confs.append(elsewhere(conf, name, host, int(port)))
        elif tells_all:
            say(f"{command}: error: Slurmctld on '{name}' hasn't registered yet.")
    return confs


def members_of_federation(command: str, conf: "Conf") -> "list[dict[str, Any]]":
    """Return slurmdbd's rows of all clusters of this one's federation, by name of cluster."""
    from pyslurm_ng.data_parser.records import rows_of
    from pyslurm_ng.wire.client import Client, SlurmError

    more = read_conf(command, "AccountingStorageType")
    if not more.get("AccountingStorageType", "").endswith("slurmdbd"):
        return []
    own = conf.get("ClusterName", "cluster").lower()
    client = Client({**conf, **more}, "slurmdbd", wait_s=0.5)
    question = {"entity": "federation", "where": [["Clusters", "=", own]], "flags": []}
    try:
        return rows_of(client.call("ListEntities", question))
    except SlurmError as error:
        say(f"{command}: error: Problem talking to the database: {error.detail or error.text}")
        return []
    finally:
        client.close()


def elsewhere(conf: "Conf", name: str, host: str, port: int) -> "Conf":
    """Return slurm.conf's words with those of another cluster's controller in their place."""
    return {
        **conf,
        "ClusterName": name,
        "SlurmctldHost": host,
        "SlurmctldAddr": "",
        "SlurmctldPort": str(port),
        HOME_PORT: conf.get("SlurmctldPort", ""),
    }


def of_allocation(command: str, conf: "Conf") -> "Conf":
    """Return how to reach the cluster of the allocation in which a command runs."""
    address = os.environ.get("SLURM_WORKING_CLUSTER", "")
    if not address:
        return conf
    name, _, rest = address.partition(":")
    host, _, port = rest.rpartition(":")[0].rpartition(":")
    if not (name and host and port.isdecimal() and len(port) <= 5):
        fail(
            f"{command}: error: SLURM_WORKING_CLUSTER={address}: NAME:HOST:PORT:VERSION is allowed"
        )
    if name.lower() == conf.get("ClusterName", "cluster").lower():
        return conf
    return elsewhere(conf, name.lower(), host, int(port))


def on_each(confs: "list[Conf]", work: "Callable[[Conf], int]", *, is_apart: bool) -> int:
    """Do a command's work on each cluster and return the worst code.

    A cluster that fails does not keep back the others.

    Args:
        is_apart: whether an empty line is between two of them.
    """
    worst = 0
    for index, conf in enumerate(confs):
        if index and is_apart:
            print()
        try:
            code = work(conf)
        except SystemExit as stop:
            if len(confs) == 1:
                raise
            code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
        sys.stdout.flush()
        worst = max(worst, code)
    return worst


def first_to_start(command: str, confs: "list[Conf]", request: "dict[str, Any]") -> "Conf":
    """Return the cluster on which a job would start first; exit if none would take it.

    This cluster is taken before another where the job would start in the same second.
    """
    starts = []
    for index, conf in enumerate(confs):
        start_s = _start_s(command, conf, request)
        if start_s >= 0:
            starts.append((start_s, HOME_PORT in conf, index))
    if not starts:
        fail(f"{command}: error: Can't run on any of the specified clusters")
    return confs[min(starts)[2]]


def _start_s(command: str, conf: "Conf", request: "dict[str, Any]") -> int:
    """Return when a job would start on a cluster; say why it cannot and return -1."""
    from pyslurm_ng.base.error_numbers import Errno
    from pyslurm_ng.base.numbers import SECOND_US
    from pyslurm_ng.wire.client import Client, SlurmError

    client = Client(conf)
    try:
        return int(client.call("TestJob", {"request": request})["start_us"]) // SECOND_US
    except SlurmError as error:
        if error.code in (
            Errno.ESLURM_NODES_BUSY,
            Errno.ESLURM_REQUESTED_PART_CONFIG_UNAVAILABLE,
        ):
            return _SOME_DAY_S
        text = error.text.rpartition("\n")[2]
        say(f"{command}: error: Problem with submit to cluster {conf['ClusterName']}: {text}")
        return -1
    finally:
        client.close()


def _places(command: str, own: "Conf", asked: "list[str]") -> "dict[str, tuple[str, int]]":
    """Return name, host and port of slurmdbd's clusters; none if there is no slurmdbd.

    What it does not know is asked of AccountingStorageExternalHost.
    """
    more = read_conf(command, "AccountingStorageType", "AccountingStorageExternalHost")
    conf: dict[str, Any] = {**own, **more}
    if not conf.get("AccountingStorageType", "").endswith("slurmdbd"):
        return {}
    places = _places_of(command, conf)
    external = split_list(conf.get("AccountingStorageExternalHost", ""))
    if external and not places.keys() >= set(asked) - {own.get("ClusterName", "").lower()}:
        from pyslurm_ng.base.address import host_and_port
        from pyslurm_ng.wire.client import DEFAULT_DBD_PORT

        usual_port = int(conf.get("AccountingStoragePort") or DEFAULT_DBD_PORT)
        for word in external:
            try:
                host, port = host_and_port(word, usual_port)
            except ValueError as error:
                fail(f"{command}: error: AccountingStorageExternalHost: {error}")
            there = {
                "AccountingStorageHost": host,
                "AccountingStorageBackupHost": "",
                "AccountingStoragePort": str(port),
            }
            places = {**_places_of(command, {**conf, **there}), **places}
    return places


def _places_of(command: str, conf: "dict[str, Any]") -> "dict[str, tuple[str, int]]":
    """Return name, host and port of the clusters that one slurmdbd knows."""
    from pyslurm_ng.kernels.records import project
    from pyslurm_ng.wire.client import Client, SlurmError

    client = Client(conf, "slurmdbd", wait_s=0.5)
    try:
        answer = client.call("ListEntities", {"entity": "cluster", "where": [], "flags": []})
    except SlurmError as error:
        say(f"{command}: error: Problem talking to the database: {error.detail or error.text}")
        return {}
    finally:
        client.close()
    columns = [answer["fields"].index(name) for name in ("Cluster", "ControlHost", "ControlPort")]
    rows = project(answer["records"], columns)
    return {str(name).lower(): (str(host), int(port)) for name, host, port in rows}
