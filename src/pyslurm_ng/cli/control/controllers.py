"""scontrol takeover, token and getaddrs: about slurmctld itself and what it knows of hosts."""

from pyslurm_ng.base.error_numbers import is_unreachable
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
    """`token [lifespan=S] [username=U]`: print SLURM_JWT=, which needs AuthAltTypes=auth/jwt."""
    request: dict[str, str | int] = {}
    for word in words:
        key, equals, value = word.partition("=")
        name = key.lower()
        if not equals or name not in ("lifespan", "username"):
            fail(f"Invalid option: `{word}`")
        if name == "username":
            request["user"] = value
        elif value.lower() == "infinite":
            request["life_s"] = 0
        elif value.isascii() and value.isdigit() and 0 < int(value) <= 2**32:
            request["life_s"] = int(value)
        else:
            fail(f"lifespan={value}: seconds or infinite are allowed")
    try:
        reply = session.client.call("CreateToken", request)
    except SlurmError as error:
        if not is_unreachable(error.code):
            say(f"scontrol: error: {error.text}")
        fail("Error fetching token")
    print(f"SLURM_JWT={reply['token']}")
    return 0


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
