"""slurmctld as a process: starting, being asked, being killed, starting again."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyslurm_ng import SLURM_VERSION, __version__
from pyslurm_ng.wire.client import SlurmError
from tests.ctld.controller import Controller
from tests.world.waiting import wait_until

pytestmark = pytest.mark.daemons


@pytest.fixture
def controller(tmp_path: Path) -> Iterator[Controller]:
    room = Controller(tmp_path)
    yield room
    room.stop()


def drain(controller: Controller, node: str, reason: str) -> None:
    controller.change("UpdateNodes", nodes=node, settings={"state": "DRAIN", "reason": reason})


def nodes_text(controller: Controller) -> bytes:
    return bytes(controller.call("ShowNodes")["records"])


def test_it_returns_when_it_answers(controller: Controller) -> None:
    """The next command of a script finds it ready; nothing is printed on the way."""
    ran = controller.run()
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")
    assert controller.call("Ping")["version"] == f"slurm {__version__}"
    assert f"slurmctld version {__version__} started on cluster test" in controller.log()


def test_one_runs_per_state_directory(controller: Controller) -> None:
    """The second names the process that holds it, and leaves the first one's pid file alone."""
    controller.start()
    pid = controller.pid()
    ran = controller.run("-D")
    assert ran.returncode == 1
    assert f"in use by another slurmctld (pid {pid}" in ran.stderr
    assert controller.pid() == pid
    assert controller.call("Ping")["role"] == "primary"


def test_what_was_acknowledged_survives_a_kill(controller: Controller) -> None:
    """No dump, no grace: the reply itself is the promise."""
    controller.start()
    drain(controller, "n3", "broken fan")
    controller.kill()
    controller.start()
    assert b"broken fan" in nodes_text(controller)
    assert "(2)" in controller.log()


def test_sigterm_ends_it_in_order(controller: Controller) -> None:
    """Exit, pid file and socket gone, nothing to cut at the next start."""
    controller.start()
    drain(controller, "n1", "x")
    controller.kill(signal.SIGTERM)
    assert "Terminate signal (SIGINT or SIGTERM) received" in controller.log()
    assert not controller.pid_file.exists()
    assert not list(controller.directory.glob("*.sock"))
    controller.start()
    assert "cut at offset" not in controller.log()


def test_shutdown_by_command_is_answered_first(controller: Controller) -> None:
    """`scontrol shutdown` gets its reply before the process ends."""
    controller.start()
    pid_file = controller.pid_file
    assert controller.change("Shutdown", controller_only=True) == {"notes": [], "refused": 0}
    wait_until(lambda: not pid_file.exists())


def test_a_bad_configuration_stops_the_start(controller: Controller) -> None:
    """Every problem with its file and line, `fatal:`, exit 1."""
    controller.conf_path.write_text(
        controller.text.replace("State=UP", "State=UPP") + "NoSuchKey=1\n"
    )
    ran = controller.run()
    assert ran.returncode == 1
    lines = ran.stderr.splitlines()
    assert [line for line in lines if "State" in line and str(controller.conf_path) in line]
    assert [line for line in lines if "NoSuchKey" in line]
    assert lines[-1] == "slurmctld: fatal: Unable to process configuration file"


def test_a_bad_reconfigure_changes_nothing(controller: Controller) -> None:
    """The old configuration stays, the command gets file and line; a good one is taken.

    RELIABILITY 16.
    """
    controller.start()
    good = controller.text
    controller.conf_path.write_text(good.replace("CPUs=4", "CPUs=four"))
    with pytest.raises(SlurmError, match=rf"{controller.conf_path}:\d+: "):
        controller.change("Reconfigure")
    assert controller.call("Ping")["role"] == "primary"
    controller.conf_path.write_text(good + "PartitionName=extra Nodes=n1\n")
    controller.change("Reconfigure")
    assert b"extra" in bytes(controller.call("ShowPartitions")["records"])


def test_a_bad_network_is_refused_at_every_door(controller: Controller) -> None:
    """At start, by --check and by a reconfigure, which leaves the old one in force.

    RELIABILITY 16.
    """
    controller.conf_path.write_text(controller.text + "TopologyPlugin=topology/tree\n")
    yaml = controller.conf_path.parent / "topology.yaml"
    yaml.write_text("- topology: pod\n  torus3d:\n    toruses: 7\n")
    ran = controller.run()
    assert ran.returncode == 1
    assert ran.stderr.splitlines() == [
        f"slurmctld: error: {yaml}:3: topology pod: toruses: expected a list",
        "slurmctld: error: Failed to load topology.yaml",
        "slurmctld: fatal: Failed to initialize topology plugin",
    ]
    yaml.unlink()
    network = controller.conf_path.parent / "topology.conf"
    good = "SwitchName=s1 Nodes=n[1-4]\n"
    network.write_text(good)
    controller.start()
    network.write_text(good + "SwitchName=s2 Switches=s2\n")
    problem = f"{network}:2: SwitchName: switch s2 is below itself"
    with pytest.raises(SlurmError, match=re.escape(problem)):
        controller.change("Reconfigure")
    shown = str(controller.call("ShowTopology"))
    assert "s1" in shown
    assert "s2" not in shown
    controller.kill(signal.SIGTERM)
    ran = controller.run()
    assert ran.returncode == 1
    assert any(problem in line for line in ran.stderr.splitlines())
    checked = controller.run("--check")
    assert checked.returncode == 1
    assert problem in checked.stderr + checked.stdout


def test_hang_up_reads_the_files_again(controller: Controller) -> None:
    """As init scripts do it."""
    controller.start()
    controller.conf_path.write_text(controller.text + "PartitionName=extra Nodes=n1\n")
    pid = controller.pid()
    controller_log = controller.log

    os.kill(pid, signal.SIGHUP)
    wait_until(lambda: "reconfigured from" in controller_log())
    assert b"extra" in bytes(controller.call("ShowPartitions")["records"])


def test_signals_that_slurm_ignores(controller: Controller) -> None:
    """Slurm's manual names them: a script that sends one must not end the controller."""
    controller.start()
    pid = controller.pid()

    for number in (signal.SIGUSR1, signal.SIGTSTP, signal.SIGXCPU, signal.SIGQUIT, signal.SIGALRM):
        os.kill(pid, number)
    assert controller.call("Ping")["role"] == "primary"
    assert controller.pid() == pid


def test_damage_is_refused_by_name_and_set_aside_on_request(controller: Controller) -> None:
    """File, offset and command in one line, exit 1; with -i it starts and keeps the file.

    RELIABILITY 5.
    """
    controller.start()
    for number in range(6):
        drain(controller, "n1", f"reason {number}")
    controller.kill()
    segment = next((controller.state / "journal").glob("*.journal"))
    raw = bytearray(segment.read_bytes())
    raw[raw.index(b"reason 2")] ^= 1
    segment.write_bytes(raw)
    ran = controller.run()
    assert ran.returncode == 1
    assert f"fatal: {segment}: damaged at offset" in ran.stderr
    assert "'slurmctld -i'" in ran.stderr
    assert segment.read_bytes() == raw
    controller.start("-i")
    assert b"reason 1" in nodes_text(controller)
    assert segment.with_name(segment.name + ".damaged").read_bytes() == raw


def test_a_torn_end_is_cut_with_a_line_in_the_log(controller: Controller) -> None:
    """Garbage behind the last record was never acknowledged."""
    controller.start()
    drain(controller, "n1", "kept")
    controller.kill(signal.SIGTERM)
    segment = next((controller.state / "journal").glob("*.journal"))
    with segment.open("ab") as file:
        file.write(b"PSJF torn")
    controller.start()
    assert b"kept" in nodes_text(controller)
    assert "cut at offset" in controller.log()


def test_clearing_forgets_node_states_but_not_the_history(controller: Controller) -> None:
    """`slurmctld -c`."""
    controller.start()
    drain(controller, "n1", "forget me")
    controller.kill(signal.SIGTERM)
    controller.start("-c")
    assert b"forget me" not in nodes_text(controller)


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (("-V",), 0, f"slurm {SLURM_VERSION}\n"),
        (("-h",), 0, "Usage: slurmctld [OPTIONS]"),
        (("-Z",), 1, "slurmctld: invalid option -- 'Z'"),
        (("-n", "low"), 1, "a niceness from -20 to 19 is allowed"),
        (("--check",), 0, "no problems found"),
    ],
)
def test_options_that_do_not_start_it(
    controller: Controller, options: tuple[str, ...], code: int, said: str
) -> None:
    """Version, help, mistakes and --check end at once with Slurm's exit codes."""
    ran = controller.run(*options)
    assert ran.returncode == code
    assert said in ran.stdout + ran.stderr
    assert not controller.pid_file.exists()


def test_state_of_slurm_in_the_directory_is_named(controller: Controller) -> None:
    """A site that moved found all waiting jobs gone, and no word about it."""
    (controller.state / "job_state").write_bytes(b"\x00\x07PROTOCOL_VERSION")
    controller.start()
    assert "has state of Slurm, too: no job of it is read" in controller.log()
