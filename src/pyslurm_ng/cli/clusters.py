"""What -M/--clusters answers: one cluster is served; the database knows some of the others."""

from pyslurm_ng.cli.command import fail, read_conf, say, split_list


def check_clusters(command: str, cluster_names: str, own: str, origin: str = "--cluster") -> None:
    """Exit with Slurm's text if a list of clusters does not hold this one, `own`.

    A name that the database does not know costs one line if this cluster is in the list too. A
    cluster that the database knows is refused: no command reaches it.
    """
    here = (own.lower(), "all")
    names = split_list(cluster_names) or [""]
    foreign = [name for name in names if name.lower() not in here]
    if not foreign:
        return
    known = _known_clusters(command)
    for name in foreign:
        if name.lower() in known:
            fail(f"{command}: error: --clusters={name}: other clusters are not supported yet")
        say(f"{command}: error: No cluster '{name}' known by database.")
    if len(foreign) == len(names):
        fail(
            f"{command}: error: '{cluster_names}' can't be reached now, or it is an invalid entry "
            f"for {origin}.  Use 'sacctmgr list clusters' to see available clusters."
        )


def _known_clusters(command: str) -> "set[str]":
    """Return the names of slurmdbd's clusters; none if there is no slurmdbd, or it is silent."""
    conf = read_conf(command, "AccountingStorageType")
    if not conf.get("AccountingStorageType", "").endswith("slurmdbd"):
        return set()
    from pyslurm_ng.kernels.records import project
    from pyslurm_ng.wire.client import Client, SlurmError

    client = Client(conf, "slurmdbd", wait_s=0.5)
    try:
        answer = client.call("ListEntities", {"entity": "cluster", "where": [], "flags": []})
    except SlurmError as error:
        say(f"{command}: error: Problem talking to the database: {error.detail or error.text}")
        return set()
    finally:
        client.close()
    column = answer["fields"].index("Cluster")
    return {str(name).lower() for (name,) in project(answer["records"], [column])}
