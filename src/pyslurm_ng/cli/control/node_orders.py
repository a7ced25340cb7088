"""scontrol reboot, cancel_reboot and power."""

from pyslurm_ng.base.error_numbers import Errno
from pyslurm_ng.cli.command import fail, say
from pyslurm_ng.cli.control.update import update_nodes
from pyslurm_ng.wire.client import SlurmError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pyslurm_ng.cli.control.session import Action, Session

_NEXT_STATES = ("DOWN", "RESUME")
_POWER = {
    ("up", ""): "POWER_UP",
    ("down", ""): "POWER_DOWN",
    ("down", "asap"): "POWER_DOWN_ASAP",
    ("down", "force"): "POWER_DOWN_FORCE",
}
_BAD_POWER = "Invalid power action"


def reboot(session: "Session", words: "list[str]") -> int:
    """`reboot [ASAP] [force] [nextstate=] [reason=] [action=] NODES`."""
    nodes = ""
    refused = ""
    settings = {"state": "REBOOT"}
    for index, word in enumerate(words):
        key, equals, value = word.partition("=")
        name = key.lower()
        if not equals and name in ("asap", "force") and not nodes:
            if name == "force":
                refused = "force"
            settings["state"] = "REBOOT_ASAP"
            continue
        if equals and name == "nextstate":
            if value.upper() not in _NEXT_STATES:
                fail(f"Invalid state: {value}\nValid states: {', '.join(_NEXT_STATES)}")
            settings["nextstate"] = value.upper()
        elif equals and name in ("reason", "action"):
            if not value:
                fail(f"missing {name}")
            if name == "action":
                refused = "action="
            else:
                settings["reason"] = value
        elif index + 1 < len(words):
            fail("too many arguments for keyword:reboot")
        else:
            nodes = word
    if not nodes:
        fail("Missing node list. Specify ALL|<NodeList>")
    if not session.conf.get("RebootProgram"):
        fail(
            "scontrol: error: RebootProgram isn't defined\n"
            "scontrol_reboot_nodes error: Unspecified error"
        )
    if refused:
        fail(f"scontrol: error: reboot {refused} is not supported yet")
    return update_nodes(session, nodes, settings, "scontrol_reboot_nodes")


def cancel_reboot(session: "Session", words: "list[str]") -> int:
    """`cancel_reboot NODES`: a node without a pending reboot refuses it, as in Slurm."""
    if not words:
        fail("missing argument for keyword:cancel_reboot")
    return update_nodes(session, words[0], {"state": "CANCEL_REBOOT"})


def power(session: "Session", words: "list[str]") -> int:
    """`power up|down [asap|force] NODES [reason=] [action=]`: as the node states of those names."""
    settings: dict[str, str] = {}
    plain = []
    for word in words:
        key, equals, value = word.partition("=")
        if not equals:
            plain.append(word)
        elif key.lower() == "reason":
            settings["reason"] = value
        elif key.lower() != "action":
            fail(f"scontrol: error: Invalid input: {word}  Request aborted")
    how = plain[1].lower() if len(plain) > 2 else ""
    state = _POWER.get((plain[0].lower() if plain else "", how))
    if state is None or len(plain) > 3:
        fail(_BAD_POWER)
    if len(plain) < 2:
        fail("Missing node list. Specify ALL|<NodeList>")
    request = {"nodes": plain[-1], "settings": {"state": state, **settings}}
    try:
        session.client.change("UpdateNodes", request)
    except SlurmError as error:
        is_no_power = error.code == Errno.ESLURM_INVALID_NODE_STATE
        say(f"scontrol_power_nodes error: {_BAD_POWER if is_no_power else error.text}")
        return 1
    return 0


ACTIONS: "dict[str, Action]" = {
    "cancel_reboot": cancel_reboot,
    "power": power,
    "reboot": reboot,
}
