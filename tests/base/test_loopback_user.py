"""The kernel says who has the other end of a connection."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import pytest

from pyslurm_ng.base.loopback_user import NOBODY, is_of_this_host, user_of_peer, user_of_server

CONNECT = """
import os, socket, sys
os.setuid(int(sys.argv[1]))
connection = socket.create_connection(("127.0.0.1", int(sys.argv[2])))
print("connected", flush=True)
sys.stdin.read()
"""


def test_a_process_of_this_user_is_known_until_it_closes() -> None:
    """A closed end shows the user 0, and nobody may pass for root."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        client = socket.create_connection(server.getsockname())
        ours, peer = server.accept()
        with ours:
            assert user_of_peer(ours.getsockname(), peer) == os.getuid()
            client.close()
            assert user_of_peer(ours.getsockname(), peer) == NOBODY


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_a_process_of_another_user_is_known() -> None:
    """Whatever it says about itself."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        words = [sys.executable, "-c", CONNECT, "65534", str(server.getsockname()[1])]
        with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
            ours, peer = server.accept()
            with ours:
                assert child.stdout is not None and child.stdout.readline() == b"connected\n"
                assert user_of_peer(ours.getsockname(), peer) == 65534
            child.communicate(b"")


LISTEN = """
import os, socket, sys
os.setuid(int(sys.argv[1]))
server = socket.create_server((sys.argv[2], 0), family=getattr(socket, sys.argv[3]))
print(server.getsockname()[1], flush=True)
sys.stdin.readline()
connection = server.accept()
print("accepted", flush=True)
sys.stdin.readline()
connection = server = None
print("closed", flush=True)
sys.stdin.readline()
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
@pytest.mark.parametrize(("address", "family"), [("127.0.0.1", "AF_INET"), ("::1", "AF_INET6")])
def test_who_answers_at_a_port_is_known(address: str, family: str) -> None:
    """Before the connection is accepted and afterwards; a server that has gone is nobody."""
    words = [sys.executable, "-c", LISTEN, "65534", address, family]
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    ) as child:
        assert child.stdout is not None and child.stdin is not None
        with socket.create_connection((address, int(child.stdout.readline()))) as ours:
            ends = ours.getsockname()[:2], ours.getpeername()[:2]
            assert user_of_server(*ends) == 65534
            for step, user in (("accepted", 65534), ("closed", NOBODY)):
                child.stdin.write("\n")
                assert child.stdout.readline() == f"{step}\n"
                assert user_of_server(*ends) == user
        child.communicate("\n")


def test_a_server_of_both_families_is_known_by_its_ipv4_address() -> None:
    """Our daemons listen so."""
    with (
        socket.create_server(("", 0), family=socket.AF_INET6, dualstack_ipv6=True) as both,
        socket.create_connection(("127.0.0.1", both.getsockname()[1])) as ours,
    ):
        assert user_of_server(ours.getsockname(), ours.getpeername()) == os.getuid()


def test_an_address_of_one_link_is_understood() -> None:
    """It names an interface, and the daemon listens at all."""
    with socket.create_server(("", 0), family=socket.AF_INET6, dualstack_ipv6=True) as server:
        port = server.getsockname()[1]
        assert user_of_server(("fe80::1%lo", 1), ("fe80::1%lo", port)) == os.getuid()


@pytest.mark.parametrize(
    ("address", "is_here"),
    [
        ("127.0.0.1", True), ("127.0.1.1", True), ("::1", True), ("203.0.113.9", False),
        ("2001:db8::9", False), ("fe80::9%lo", False),
    ],
)  # fmt: skip
def test_addresses_of_this_host_are_known(address: str, is_here: bool) -> None:
    """Also those that no connection comes from; addresses of documents are nobody's."""
    assert is_of_this_host(address) is is_here
