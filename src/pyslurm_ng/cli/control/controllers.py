"""scontrol takeover, token and getaddrs: about slurmctld itself and what it knows of hosts."""

from pyslurm_ng.base.numbers import SHOW_ALL
from pyslurm_ng.cli.command import Table, fail, say
from pyslurm_ng.wire.client import SlurmError
from pyslurm_ng.wire.daemon_link import controller_hosts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pyslurm_ng.cli.control.session import Action, Session


def take_over(session: "Session", words: "list[str]") -> int:
    """`takeover [INDEX]`: no backup controller answers, since slurmctld runs on one host only."""
    if len(words) > 1:
        fail("takeover: too many arguments")
    backups = len(controller_hosts(session.conf.get("SlurmctldHost", ""))) - 1
    if words:
        index = int(words[0]) if words[0].isdecimal() else 0
        if not 1 <= index <= backups:
            fail(f"takeover: invalid backup controller index ({index})")
    fail("slurm_takeover error: Unable to contact slurm controller (connect failure)")


def fetch_token(session: "Session", words: "list[str]") -> int:
    """`token [lifespan=S] [username=U]`: fails as in Slurm without AuthAltTypes=auth/jwt."""
    for word in words:
        if word.partition("=")[0].lower() not in ("lifespan", "username") or "=" not in word:
            fail(f"Invalid option: `{word}`")
    fail("Error fetching token")


def show_addresses(session: "Session", words: "list[str]") -> int:
    """`getaddrs NODES`: the address and port at which slurmctld reaches each node."""
    try:
        reply = session.client.call("ShowNodes", {"nodes": words[0], "flags": SHOW_ALL})
    except SlurmError as error:
        say(f"slurm_controller_get_node_addrs error: {error.text.rpartition(chr(10))[2]}")
        return 1
    fields = ["name", "address", "hostname", "port"]
    for name, address, host, port in Table(reply["fields"], reply["records"], fields).rows:
        print(f"{name}: {address or host or name}:{port}")
    return 0


ACTIONS: "dict[str, Action]" = {
    "getaddrs": show_addresses,
    "takeover": take_over,
    "token": fetch_token,
}
