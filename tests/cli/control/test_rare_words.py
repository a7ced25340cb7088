"""scontrol reboot, power, takeover, token and getaddrs, compared with Slurm 22.05."""

from __future__ import annotations

import pytest

from tests.cli.reference_cluster import queue
from tests.cli.run_command import Printed, run_command

_NO_PROGRAM = (
    "scontrol: error: RebootProgram isn't defined\nscontrol_reboot_nodes error: Unspecified error\n"
)
_NO_NODES = "Missing node list. Specify ALL|<NodeList>\n"
_UNREACHABLE = "slurm_takeover error: Unable to contact slurm controller (connect failure)\n"


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("reboot", _NO_NODES),
        ("reboot asap", _NO_NODES),
        ("reboot a b", "too many arguments for keyword:reboot\n"),
        ("reboot reason= n1", "missing reason\n"),
        ("reboot nextstate=foo n1", "Invalid state: foo\nValid states: DOWN, RESUME\n"),
        ("reboot n1", _NO_PROGRAM),
        ("reboot ASAP nextstate=resume reason=x n1", _NO_PROGRAM),
        ("reboot force ALL", _NO_PROGRAM),
        ("power", "too few arguments for keyword:power\n"),
        ("power asap down n1", "Invalid power action\n"),
        ("power up force n1", "Invalid power action\n"),
        ("power down", _NO_NODES),
        ("power up n1", "scontrol_power_nodes error: Invalid power action\n"),
        ("power down asap n1", "scontrol_power_nodes error: Invalid power action\n"),
        ("power down n99", "scontrol_power_nodes error: Invalid node name specified\n"),
        ("takeover", _UNREACHABLE),
        ("takeover 1", "takeover: invalid backup controller index (1)\n"),
        ("takeover a", "takeover: invalid backup controller index (0)\n"),
        ("takeover 1 2", "takeover: too many arguments\n"),
        ("takeove", "invalid keyword: takeove\n"),
        ("token", "Error fetching token\n"),
        ("token lifespan=60 username=alice", "Error fetching token\n"),
        ("token bogus", "Invalid option: `bogus`\n"),
        ("getaddrs", "too few arguments for keyword:getaddrs\n"),
        ("getaddrs n1 n2", "too many arguments for keyword:getaddrs\n"),
        ("getaddrs n99", "slurm_controller_get_node_addrs error: Invalid node name specified\n"),
        ("fsdampeningfactor", "too few arguments for keyword:fsdampeningfactor\n"),
        ("fsdampeningfactor 1 2", "too many arguments for keyword:fsdampeningfactor\n"),
        ("fsdampeningfactor 0", "invalid dampening factor: 0\n"),
        ("fsdampeningfactor 65536", "invalid dampening factor: 65536\n"),
        ("fsdampeningfactor x", "invalid dampening factor: x\n"),
        ("pidinfo abc", "Failed to locate job for requested pid\n"),
    ],
)
def test_what_is_refused(line: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In Slurm's words, with 1."""
    printed = run_command(monkeypatch, queue(), "root", ["scontrol", *line.split()])
    assert printed == Printed("", text, 1)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("force n1", "scontrol: error: reboot force is not supported yet\n"),
        ("action=kexec n1", "scontrol: error: reboot action= is not supported yet\n"),
        ("nosuch", "scontrol_reboot_nodes error: Invalid node name specified\n"),
        # The program is known to the command, but not to this controller.
        ("n1", "scontrol_reboot_nodes error: Unspecified error\n"),
    ],
)
def test_reboots_that_are_refused(words: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    conf = {"SlurmctldHost": "ctl", "RebootProgram": "/sbin/reboot"}
    monkeypatch.setattr("pyslurm_ng.cli.control.session.Session.conf", conf)
    printed = run_command(monkeypatch, queue(), "root", ["scontrol", "reboot", *words.split()])
    assert printed == Printed("", text, 1)


def test_where_the_controller_reaches_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """One line a node: its address and port."""
    reference = queue()
    shown = run_command(monkeypatch, reference, "root", "scontrol show node n2".split()).stdout
    port = shown.partition("Port=")[2].split()[0]
    address = shown.partition("NodeAddr=")[2].split()[0]
    printed = run_command(monkeypatch, reference, "root", "scontrol getaddrs n[1-2]".split())
    assert printed.code == 0 and len(printed.stdout.splitlines()) == 2
    assert printed.stdout.splitlines()[1] == f"n2: {address}:{port}"


@pytest.mark.parametrize("line", ["hold jobname=nosuch", "release name=nosuch", "uhold name=no"])
def test_no_job_of_a_name_is_no_error(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """To hold or to release, as in Slurm 22.05; an unknown id is one."""
    printed = run_command(monkeypatch, queue(), "root", ["scontrol", *line.split()])
    assert printed == Printed("", "", 0)


@pytest.mark.parametrize(
    ("words", "request_fields"),
    [
        ("", {}),
        ("username=bob lifespan=60", {"user": "bob", "life_s": 60}),
        ("lifespan=infinite", {"life_s": 0}),
    ],
)
def test_tokens_are_printed(
    words: str, request_fields: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a shell takes it: `export $(scontrol token)`."""
    asked = []

    def create(self: object, kind: str, fields: dict[str, object], *more: object) -> object:
        asked.append((kind, fields))
        return {"token": "a.b.c"}

    monkeypatch.setattr("tests.cli.reference_cluster.LocalClient.call", create)
    printed = run_command(monkeypatch, queue(), "root", ["scontrol", "token", *words.split()])
    assert printed == Printed("SLURM_JWT=a.b.c\n", "", 0)
    assert asked == [("CreateToken", request_fields)]
