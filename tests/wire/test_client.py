from __future__ import annotations

import hashlib
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from pyslurm_ng.data_parser.records import OlderDaemonError
from pyslurm_ng.wire import client as client_module, stream, table
from pyslurm_ng.wire.client import Client, SlurmError, packed
from pyslurm_ng.wire.client_credentials import body_digest
from pyslurm_ng.wire.daemon_link import controller_hosts, run_directory, socket_file, socket_path
from pyslurm_ng.wire.frame import pack_frame
from pyslurm_ng.wire.messages import Ping, Pong, Reconfigure
from pyslurm_ng.wire.stream import Call
from tests.wire.wire_room import Room, handle

NOBODY = {"ClusterName": "c1", "SlurmctldHost": "localhost(127.0.0.1)", "SlurmctldPort": "1",
          "AuthType": "auth/slurm", "MessageTimeout": "5"}  # fmt: skip


def test_bytes_that_are_no_text_are_named() -> None:
    """A word of a command line in another encoding; no text of a codec."""
    with pytest.raises(SlurmError) as refused:
        packed({"partitions": ["debug", "caf\udce9"]})
    assert refused.value.text == r"'caf\xe9' is no UTF-8 text"


def test_a_command_loads_no_slow_module() -> None:
    """Start-up is part of the interface."""
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import pyslurm_ng.wire.client;"
        "print(*sys.modules)"
    )
    source = str(Path(client_module.__file__).parents[2])
    loaded = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, source],
        check=True, capture_output=True, text=True,
    ).stdout.split()  # fmt: skip
    slow = (
        "re typing json asyncio msgspec enum socket os dataclasses collections functools hashlib "
        "msgpack zmq __future__ ctypes"
    ).split()
    assert not set(slow) & set(loaded)


def test_a_connection_to_another_host_loads_no_codec_of_host_names() -> None:
    """Python imports stringprep, re and enum for a name that is no bytes: 8 ms beside 9 in all."""
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from pyslurm_ng.wire.daemon_link import connect_tcp\n"
        "from pyslurm_ng.d.stepd.step_streams import SrunLink\n"
        "class Loop:\n"
        "    def watch(self, *_): pass\n"
        "    forget = unwatch = watch\n"
        "route = {'host': '127.0.0.1', 'port': 1, 'key': bytes(64)}\n"
        "for connect in (lambda: connect_tcp('localhost', 1, 0.0),\n"
        "                lambda: SrunLink(Loop(), route, print, print, print)):\n"
        "    try: connect()\n"
        "    except OSError: pass\n"
        "print(*sys.modules)"
    )
    source = str(Path(client_module.__file__).parents[2])
    loaded = subprocess.run(
        [sys.executable, "-I", "-c", code, source], check=True, capture_output=True, text=True
    ).stdout.split()
    assert "pyslurm_ng.d.stepd.step_streams" in loaded
    assert "encodings.idna" not in loaded


@pytest.mark.parametrize(
    ("pid_file", "directory"),
    [
        ("/var/run/slurmctld.pid", "/run/slurm"),
        ("/run/slurmctld.pid", "/run/slurm"),
        ("", "/run/slurm"),
        ("/srv/%n/slurmd.pid", "/run/slurm"),
        ("/srv/c1/run/slurmctld.pid", "/srv/c1/run"),
    ],
)
def test_sockets_lie_beside_the_pid_file(pid_file: str, directory: str) -> None:
    """Both sides compute the same path from slurm.conf alone."""
    assert run_directory(pid_file) == directory
    conf = {"slurmctldpidfile": pid_file, "SLURMCTLDPORT": "7000-7003"}
    assert socket_path(conf) == f"{directory}/slurmctld-7000.sock"
    assert socket_file("slurmd", pid_file, 9, 7000) == f"{directory}/slurmd-7000-9.sock"


def test_controllers_are_named_in_order() -> None:
    """SlurmctldHost=name(address), repeated for backups."""
    assert controller_hosts("a(10.0.0.1),b, c(fe80::1)") == [
        ("a", "10.0.0.1"), ("b", "b"), ("c", "fe80::1"),
    ]  # fmt: skip


def test_the_digest_is_what_the_server_computes() -> None:
    """The two sides use different modules for it."""
    assert body_digest(b"abc") == hashlib.blake2b(b"abc", digest_size=32).digest()


def test_unix_first(room: Room) -> None:
    """On the controller's host the kernel says which user asks."""
    client = room.client()
    assert client.call("Ping", {})["role"] == "unix"
    assert client.call("Ping", {})["version"] == str(os.getuid())


def test_tcp_with_a_token_of_the_local_daemon(room: Room) -> None:
    """On another host: slurmd's socket issues the token, TCP carries it."""
    assert room.tcp_client().call("Ping", {})["role"] == "slurm"
    assert room.server.requests["IssueToken"] == 1


def test_no_local_daemon_no_token(room: Room) -> None:
    """The reason is named, not a time-out."""
    conf = dict(room.conf, SlurmctldPort=str(room.port))
    client = Client(conf)
    with pytest.raises(SlurmError, match="Protocol authentication error") as caught:
        client.call("Ping", {})
    assert caught.value.code == 1007
    client.close()


def test_no_controller_is_reported_as_in_slurm() -> None:
    """The text is part of the interface."""
    with pytest.raises(SlurmError) as caught:
        Client(NOBODY, wait_s=0).call("Ping", {})
    assert caught.value.code == 1800
    assert caught.value.text == "Unable to contact slurm controller (connect failure)"
    assert caught.value.detail == "Connection refused"
    with pytest.raises(SlurmError) as caught:
        Client(NOBODY, "slurmd:n1", ("127.0.0.1", 1), wait_s=0).call("Ping", {})
    assert (caught.value.code, caught.value.text) == (1001, "Communication connection failure")


def test_a_refusal_is_an_error_and_the_connection_lives(room: Room) -> None:
    """One connection serves a command that goes on after an error."""
    room.server.handler = lambda call: call.error(2017, "Invalid job id specified")
    client = room.client()
    for _ in range(2):
        with pytest.raises(SlurmError, match="Invalid job id specified") as caught:
            client.call("Ping", {})
        assert caught.value.code == 2017
    assert len(room.server.connections) == 1


def test_no_answer_in_time(room: Room) -> None:
    """Slurm's words for it."""
    room.server.handler = lambda call: None
    with pytest.raises(SlurmError) as caught:
        room.client(wait_s=0).call("Ping", {}, timeout_s=0.1)
    assert (caught.value.code, caught.value.text) == (
        5004, "Socket timed out on send/recv operation",
    )  # fmt: skip


def test_a_daemon_that_is_at_work_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RELIABILITY 45: MessageTimeout is for daemons that say nothing."""
    monkeypatch.setattr("pyslurm_ng.wire.waiting_calls.SAID_EACH_S", 0.1)
    calls: list[Call] = []

    def hold(call: Call) -> None:
        calls.append(call)
        room.loop.call_later(2.0, lambda: call.reply(Pong("d1", "late", "1", 1)))

    with Room(tmp_path, stream.StreamLimits(handshake_s=0.4), hold) as room:
        client = Client({**room.conf, "MessageTimeout": "1"})
        assert client.call("Ping", {})["role"] == "late"
        with pytest.raises(SlurmError) as caught:
            client.call("Ping", {}, timeout_s=0.5)  # who sets a limit gets it
        assert caught.value.code == 5004
        assert len(calls) == 2
        client.close()


def test_a_field_that_an_older_daemon_does_not_send_is_named(room: Room) -> None:
    """RELIABILITY 47: a srun from after an upgrade ended with KeyError: 'step_manager'."""
    answer = room.client().change("Reconfigure", {})
    assert answer == {"part": 3}
    with pytest.raises(OlderDaemonError, match=r"'step_manager'.*then slurmctld"):
        answer["step_manager"]


def test_a_lost_answer_is_asked_for_again_with_the_same_id(room: Room) -> None:
    """RELIABILITY 38b: the daemon sees the same request id and answers what it did before."""
    seen: list[bytes] = []

    def lose_two(call: Call) -> None:
        assert isinstance(call.request, Reconfigure)
        seen.append(call.request.request_id)
        if len(seen) < 3:
            next(
                connection for connection in room.server.connections if connection.awaits(call)
            ).cut()
        else:
            call.reply({"job_id": 7})

    room.server.handler = lose_two
    assert room.client().change("Reconfigure", {}) == {"job_id": 7}
    assert len(seen) == 3
    assert len(set(seen)) == 1
    assert len(seen[0]) == 16


def test_a_change_without_an_answer_may_have_been_done(room: Room) -> None:
    """RELIABILITY 38b: sbatch said that it failed, and its job was in the queue."""
    room.server.handler = lambda call: None
    client = Client({**room.conf, "MessageTimeout": "1"}, wait_s=0.5)
    with pytest.raises(SlurmError) as caught:
        client.change("Reconfigure", {}, timeout_s=0.5)
    assert caught.value.code == 5004
    assert caught.value.text == (
        "Socket timed out on send/recv operation: it may have been done all the same, "
        "so look before you repeat it"
    )
    with pytest.raises(SlurmError) as caught:
        client.call("Ping", {}, timeout_s=0.5)  # changes nothing
    assert caught.value.text == "Socket timed out on send/recv operation"
    client.close()


def test_a_change_that_nobody_took_is_not_called_unknown(tmp_path: Path) -> None:
    """No daemon listens, so nothing was done."""
    client = Client(Room(tmp_path).conf, wait_s=0.1)
    with pytest.raises(SlurmError) as caught:
        client.change("Reconfigure", {}, timeout_s=0.5)
    assert "all the same" not in caught.value.text
    client.close()


def test_a_controller_that_comes_late_is_waited_for(tmp_path: Path) -> None:
    """A restart of the daemon is not an error of the command."""
    late = Room(tmp_path)
    answers: list[object] = []
    client = Client(late.conf)
    thread = threading.Thread(target=lambda: answers.append(client.call("Ping", {})["role"]))
    thread.start()
    with late:
        thread.join(10)
        client.close()
    assert answers == ["unix"]


def test_a_standby_sends_to_the_next(tmp_path: Path, room: Room) -> None:
    """The backup on this host says so, and the controller is asked by TCP."""
    room.server.handler = lambda call: (
        call.error(2131, "Controller is in standby mode, try a different controller")
        if call.peer.via == "unix"
        else handle(call)
    )
    client = room.tcp_client()
    client._places.insert(0, (room.path, 0))
    assert client.call("Ping", {})["role"] == "slurm"


def test_answers_in_parts(room: Room) -> None:
    """Followers and allocations."""
    answers = room.client().stream("Reconfigure", {"request_id": b"i" * 16})
    assert [answer["part"] for answer in answers] == [1, 2, 3]


def test_many_requests_before_the_first_answer(room: Room) -> None:
    """Pipelining for those that submit in bulk."""
    client = room.client()
    sent = [client.begin("Ping", {}) for _ in range(256)]
    got = [client.receive(5.0) for _ in sent]
    assert [answer[0] for answer in got] == sent
    assert all(is_last for _, _, is_last in got)


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs to be another user")
def test_a_strangers_socket_is_not_believed(tmp_path: Path) -> None:
    """Only root, SlurmUser and oneself may answer on the Unix socket."""
    tmp_path.chmod(0o755)
    path = str(tmp_path / "slurmctld-16817.sock")
    code = (
        "import os, socket, sys; s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]);"
        "os.chmod(sys.argv[1], 0o666); os.setuid(4242); s.listen(); print('up', flush=True);"
        "sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as stranger:
        assert stranger.stdout is not None
        assert stranger.stdin is not None
        assert stranger.stdout.readline() == b"up\n"
        conf = {"SlurmctldPidFile": str(tmp_path / "x.pid"), "SlurmctldPort": "16817"}
        with pytest.raises(SlurmError) as caught:
            Client(conf, wait_s=0).call("Ping", {})
        assert caught.value.code == 1800
        assert caught.value.detail == f"{path}: a process of uid 4242 answers there"
        stranger.stdin.close()


def test_nonsense_from_the_daemon_is_an_error_not_a_traceback(tmp_path: Path) -> None:
    """RELIABILITY K8, from the other side."""
    conf = {"SlurmctldPidFile": str(tmp_path / "slurmctld.pid"), "MessageTimeout": "2"}
    pong = table.encode(Pong("x", "y", "z", 0))
    for nonsense in (
        b"HTTP/1.0 400 Bad Request\r\n\r\n",
        pack_frame("Pong", 1, pong, 0),
        pack_frame("Pong", 1, b"\xc1", 1),
        pack_frame("ErrorReply", 1, b"\x80", 5),
        pack_frame("Pong", 1, pong, 1)[:-3],
    ):
        listener = stream.bind_unix(socket_path(conf), 0o600)
        listener.setblocking(True)
        listener.listen()

        def serve(listener: socket.socket = listener, nonsense: bytes = nonsense) -> None:
            connection, _ = listener.accept()
            connection.recv(4096)
            connection.sendall(nonsense)
            connection.close()

        thread = threading.Thread(target=serve)
        thread.start()
        client = Client(conf, wait_s=0)
        with pytest.raises(SlurmError):
            client.call("Ping", {})
        client.close()
        thread.join()
        listener.close()
        os.unlink(socket_path(conf))


def test_big_bodies_both_ways(room: Room) -> None:
    """A bulk reply of tens of megabytes arrives whole."""
    blob = os.urandom(1 << 20) * 30
    room.server.handler = lambda call: call.reply({"records": blob})
    assert room.client().call("Ping", {}) == {"records": blob}
    assert table.kind_of(Ping()) == "Ping"


IMPOSTOR = """
import os, socket, sys
os.setuid(65534)
server = socket.create_server((sys.argv[1], 0))
print(server.getsockname()[1], flush=True)
connection, _ = server.accept()
print(connection.recv(64), flush=True)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.1.1"])
def test_a_user_at_a_daemons_port_is_told_nothing(address: str) -> None:
    """While slurmctld is away any user may listen there, and would learn tokens and scripts.

    A host has addresses from which it does not connect to itself: 127.0.1.1 is that of its name on
    Debian, and an address that follows the controller in charge is another. RELIABILITY 55.
    """
    words = [sys.executable, "-c", IMPOSTOR, address]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        port = child.stdout.readline().strip()
        conf = {"SlurmctldHost": f"ctl({address})", "SlurmctldPort": port, "SlurmUser": "root"}
        asked = Client(conf, bearer=b"secret", wait_s=0.0)
        with pytest.raises(SlurmError) as caught:
            asked.call("Ping", {})
        assert caught.value.detail == "a process of uid 65534 answers at port " + port
        assert child.stdout.readline() == "b''\n"
