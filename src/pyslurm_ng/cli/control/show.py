"""scontrol show: finds the entity; licenses, config, topology and host lists are in this file."""

import os

from pyslurm_ng.base.numbers import SHOW_ALL
from pyslurm_ng.cli.command import Table, fail, printable, say
from pyslurm_ng.cli.listing.list_format import Dates
from pyslurm_ng.wire.client import SlurmError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pyslurm_ng.cli.control.session import Action, Session

ENTITIES = (
    "aliases assoc_mgr bbstat burstbuffer config daemons dwstat federation hostlist "
    "hostlistsorted hostnames jobs licenses nodes partitions reservations resources slurmd steps "
    "topology topoconf"
).split()
# Keys of update that show takes, too.
_OTHER_NAMES = {
    "cache": "assoc_mgr",
    "jobid": "jobs",
    "partitionname": "partitions",
    "reservationname": "reservations",
}
# How many letters of an entity Slurm requires; for the others one is enough.
_SHORTEST = {"hostlist": 5, "hostlistsorted": 9, "hostnames": 5} | dict.fromkeys(
    ("bbstat", "burstbuffer", "licenses", "partitions", "partitionname", "slurmd", "steps"), 2
)
REFUSED_ENTITIES = ("resources",)
_OF_BURST_BUFFERS = "bbstat burstbuffer dwstat".split()
_OF_CLUSTERS = "config jobs licenses nodes partitions reservations steps".split()
_WITH_JSON = "jobs licenses nodes partitions reservations steps".split()


def is_of_a_cluster(word: str) -> bool:
    """Return whether each cluster of a federation shows its own of what a word names."""
    return _find_entity(word.partition("=")[0].lower()) in _OF_CLUSTERS


def show(session: "Session", arguments: "list[str]") -> int:
    """Print one kind of entity."""
    word, rest = arguments[0], arguments[1:]
    entity, equals, value = word.partition("=")
    if equals and value:
        rest = [value, *rest]
    entity_name = _find_entity(entity.lower())
    if not entity_name:
        session.complain(f"invalid entity:{word} for keyword:show ")
        return 1
    if entity_name in REFUSED_ENTITIES:
        say(f"scontrol: error: show {entity_name} is not supported yet")
        return 1
    if session.json and entity_name not in _WITH_JSON:
        say(f"scontrol: error: --json is not available for show {entity_name}")
        return 1
    if entity_name in _OF_BURST_BUFFERS:
        from pyslurm_ng.cli.control import burst_buffers

        return burst_buffers.show(session, entity_name, rest)
    is_list = entity_name in ("assoc_mgr", "topology")
    if len(rest) > (0 if entity_name == "daemons" else 1) and not is_list:
        fail("too many arguments for keyword:show")
    return _action(entity_name)(session, rest)


def _find_entity(word: str) -> str:
    """Return the entity that a word in lower case names, abbreviated or not, or ""."""
    for name in (*ENTITIES, *_OTHER_NAMES):
        if name.startswith(word) and len(word) >= _SHORTEST.get(name, 1):
            return _OTHER_NAMES.get(name, name)
    return ""


def _action(entity: str) -> "Action":
    """Return the function that prints an entity; its module is loaded when it is used."""
    if entity in _HERE:
        return _HERE[entity]
    if entity == "assoc_mgr":
        from pyslurm_ng.cli.control import assoc_mgr

        return assoc_mgr.show_assoc_mgr
    if entity in ("jobs", "steps"):
        from pyslurm_ng.cli.control import show_jobs

        return show_jobs.show_job if entity == "jobs" else show_jobs.show_step
    if entity in ("nodes", "partitions"):
        from pyslurm_ng.cli.control import show_nodes

        return show_nodes.show_node if entity == "nodes" else show_nodes.show_partition
    if entity == "reservations":
        from pyslurm_ng.cli.control import reservations

        return reservations.show
    from pyslurm_ng.cli.control import daemons

    return daemons.show_slurmd if entity == "slurmd" else daemons.show_daemons


def show_licenses(session: "Session", words: "list[str]") -> int:
    """Print licences."""
    try:
        reply = session.client.call("ShowLicenses", {"names": words})
    except SlurmError as error:
        session.complain(f"slurm_load_licenses error: {error.text}")
        return 1
    rows = Table(reply["fields"], reply["records"], reply["fields"]).dicts()
    if session.json:
        from pyslurm_ng.cli.documents import print_records
        from pyslurm_ng.data_parser.nodes import license_object

        return print_records(session.json, "licenses", map(license_object, rows), reply)
    if not rows:
        if words:
            print(f"License {words[0]} not found")
            return 0  # as in Slurm, unlike for jobs and nodes
        print("No licenses configured in Slurm.")
    dates = Dates(reply["now_us"])
    for row in rows:
        lines = [
            f"LicenseName={row['name']}",
            f"Total={row['total']} Used={row['used']} Free={row['free']}"
            f" Reserved={row['reserved']} Remote={'yes' if row['remote'] else 'no'}",
        ]
        if row["remote"]:
            lines.append(
                f"LastConsumed={row['last_consumed']} LastDeficit={row['last_deficit']}"
                f" LastUpdate={dates.text(row['last_update_us'])}"
            )
        print((" " if session.oneliner else "\n    ").join(map(printable, lines)))
    return 0


def show_config(session: "Session", words: "list[str]") -> int:
    """Print the running configuration."""
    lines = config_lines(session)
    if isinstance(lines, int):
        return lines
    print("\n".join(lines))
    print()
    return session.ping()


def config_lines(session: "Session") -> "list[str] | int":
    """Return the configuration as `show config` prints it, or an exit code."""
    try:
        reply = session.client.call("ShowConfig", {})
    except SlurmError as error:
        say(f"slurm_load_ctl_conf error: {error.text}")
        return 1
    moment = Dates(reply["now_us"]).text(reply["now_us"])
    return [f"Configuration data as of {moment}", *reply["lines"]]


def show_topology(session: "Session", words: "list[str]") -> int:
    """Print the network topology, of all or of one node or switch."""
    request = {"node": "", "unit": ""}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals:
            request["unit"] = key
        elif key.lower() == "node":
            request["node"] = value
        elif key.lower() in ("switch", "unit", "block", "ring", "torus"):
            request["unit"] = value
        else:
            fail(f"invalid entity:{word} for keyword:show topology")
    try:
        reply = session.client.call("ShowTopology", request)
    except SlurmError as error:
        say(f"slurm_load_topo error: {error.text.rpartition(chr(10))[2]}")
        return 1
    for line in reply["lines"]:
        print(printable(line))
    if not reply["lines"]:
        unit = request["node"] or request["unit"]
        if unit:
            say(f"scontrol: error: Topology information contains no switch or node named {unit}")
        else:
            say("scontrol: error: No topology information available")
    return 0  # as in Slurm


def show_topoconf(session: "Session", words: "list[str]") -> int:
    """Print the network topology as a topology.yaml."""
    try:
        reply = session.client.call("ShowTopology", {"as_yaml": True})
    except SlurmError as error:
        say(f"slurm_load_topo error: {error.text}")
        return 1
    print("\n".join(reply["lines"]))
    return 0


def show_aliases(session: "Session", words: "list[str]") -> int:
    """Print the nodes of a host, by default of this one; several slurmd may run on it."""
    host = words[0] if words else os.uname().nodename.partition(".")[0]
    try:
        reply = session.client.call("ShowNodes", {"flags": SHOW_ALL})
    except SlurmError as error:
        say(f"slurm_load_node error: {error.text}")
        return 1
    rows = Table(reply["fields"], reply["records"], ["name", "hostname"]).rows
    names = [name for name, hostname in rows if hostname == host]
    if names:
        print(" ".join(names))
    return 0


def show_hostnames(session: "Session", words: "list[str]") -> int:
    """Print the names of a host list, by default those of the job that we run in."""
    from pyslurm_ng.base.hostlist import HostlistError, expand

    text = words[0] if words else os.environ.get("SLURM_JOB_NODELIST", "")
    if not text:
        text = os.environ.get("SLURM_NODELIST", "")
    if not text:
        say("SLURM_JOB_NODELIST environment variable not set and no hostlist provided")
        return 0
    try:
        names = expand(text)
    except HostlistError as problem:
        say(str(problem))
        return 1
    if names:
        print("\n".join(names))
    return 0


def show_hostlist(session: "Session", words: "list[str]", *, in_order: bool = False) -> int:
    """Print names as one list; a word that begins with / names a file of them."""
    from pyslurm_ng.base.hostlist import HostlistError, expand, fold, fold_sorted
    from pyslurm_ng.base.input_files import read_whole

    if not words:
        fail("too few arguments for keyword:show")
    text = words[0]
    if text.startswith("/"):
        try:
            with open(text, encoding="utf-8") as stream:
                text = ",".join(read_whole(stream).split())
        except (OSError, UnicodeDecodeError) as problem:
            why = getattr(problem, "strerror", None) or "it is not a text file"
            fail(f"scontrol: error: {text}: {why}")
    try:
        names = expand(text)
    except HostlistError as problem:
        say(str(problem))
        return 1
    print(fold_sorted(names) if in_order else fold(names))
    return 0


def show_federation(session: "Session", words: "list[str]") -> int:
    """Print the clusters of this one's federation, itself first; nothing if it is in none."""
    from pyslurm_ng.cli.clusters import members_of_federation

    conf = session.conf
    own = conf.get("ClusterName", "cluster").lower()
    members = members_of_federation("scontrol", conf)
    for member in sorted(members, key=lambda row: (row["Cluster"] != own, row["Cluster"])):
        if member["Cluster"] == own:
            print(f"Federation: {member['Federation']}")
        print(
            f"{'Self' if member['Cluster'] == own else 'Sibling'}:".ljust(11),
            f"{member['Cluster']}:{member['ControlHost']}:{member['ControlPort']} "
            f"ID:{member['ID']} FedState:{member['FedState']} Features:{member['Features']}"
            # Controllers do not talk to each other here.
            + ("" if member["Cluster"] == own else " PersistConnSend/Recv:No/No Synced:No"),
        )
    return 0


_HERE: "dict[str, Action]" = {
    "aliases": show_aliases,
    "config": show_config,
    "federation": show_federation,
    "hostlist": show_hostlist,
    "hostlistsorted": lambda session, words: show_hostlist(session, words, in_order=True),
    "hostnames": show_hostnames,
    "licenses": show_licenses,
    "topoconf": show_topoconf,
    "topology": show_topology,
}
