"""The kernel says who has the other end of a connection."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import pytest

from pyslurm_ng.base.loopback_user import NOBODY, user_of_peer

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
