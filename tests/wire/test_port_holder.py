"""A daemon whose port another process has says whose it is."""

from __future__ import annotations

import os
import pwd
import socket
from pathlib import Path

import pytest
import zmq

from pyslurm_ng.web.listening import listeners
from pyslurm_ng.web.options import BadOptions
from pyslurm_ng.wire.listening import bind_tcp
from pyslurm_ng.wire.port_holder import port_in_use
from pyslurm_ng.wire.zmq_sockets import bind_router, router_socket


def test_every_daemon_names_the_process_and_user() -> None:
    """A user who takes the port before the daemon starts is found at once, and ended.

    RELIABILITY 46.
    """
    name = Path("/proc/self/comm").read_text().strip()
    user = pwd.getpwuid(os.getuid()).pw_name
    with socket.create_server(("127.0.0.1", 0)) as taken, zmq.Context() as context:
        port = taken.getsockname()[1]
        line = (
            f"port {port} is in use: process {os.getpid()} ({name}) of user {user}({os.getuid()})"
        )
        with pytest.raises(OSError, match="in use") as of_daemon:
            bind_tcp(None, port)
        assert of_daemon.value.strerror == f"{line} has it"
        with pytest.raises(BadOptions) as of_slurmrestd:
            listeners([f"127.0.0.1:{port}"])
        assert str(of_slurmrestd.value) == f"127.0.0.1:{port}: {line} has it"
        with router_socket(context, b"") as router:
            with pytest.raises(OSError, match="in use") as of_nodes:
                bind_router(router, "*", port)
            assert of_nodes.value.strerror == f"ZeroMQ {line} has it"


def test_a_connection_from_the_port_is_named_too() -> None:
    """The user need not listen: the near end of a connection keeps a port as well."""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as client:
        client.bind(("127.0.0.1", 0))
        client.connect(server.getsockname())
        assert f"process {os.getpid()} (" in port_in_use(client.getsockname()[1])


def test_a_socket_in_no_table_is_another_process() -> None:
    """Linux lists no socket that is only bound."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]
        assert port_in_use(port) == f"port {port} is in use: another process has it"
