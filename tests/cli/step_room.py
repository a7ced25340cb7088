"""srun's side of a step in a process of its own; the test plays the nodes."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

from pyslurm_ng.kernels.records import pack
from pyslurm_ng.wire import step_io

SOURCE = Path(__file__).resolve().parents[2] / "src"
LIMIT_S = 20.0
PROGRAM = """
import os, sys
from pyslurm_ng.cli.step import client as client_module
from pyslurm_ng.cli.step.client import StepClient
from pyslurm_ng.cli.signals import Signals
from pyslurm_ng.cli.step.streams import Labels, Sink, StepIo
from pyslurm_ng.cli.step.tasks import StepTasks
nodes, tasks, settings = eval(sys.argv[1])
signals = Signals()
table = StepTasks("StepId=5.0", nodes, tasks)
err_path = settings.pop("err_path", "")
err = Sink(os.open(err_path, os.O_WRONLY), err_path) if err_path else Sink(2)
streams = StepIo(Sink(1), err)
if settings.pop("label", False):
    streams.labels = Labels(table.count)
streams.in_task = settings.pop("in_task", -1)
streams.out_task = settings.pop("out_task", -1)
teller = settings.pop("teller", -1)
client = StepClient(table, streams, signals, **settings)
if teller >= 0:
    client_module._KNOWN_S = 60.0
    client.also_watch(teller, lambda: os.read(teller, 1) and client.step_is_over())
words = (client.links.port, client.links.key.hex().encode())
os.write(int(os.environ["TELL"]), b"%d %s\\n" % words)
sys.exit(client.run())
"""


class Node:
    """One node's supervisor, as srun sees it."""

    def __init__(self, room: StepRoom, index: int, tasks: list[int], key: bytes = b"") -> None:
        self.tasks = tasks
        self.connection = room.connect()
        self._frames = step_io.Frames()
        self._waiting: list[tuple[int, int, bytes]] = []
        shown, _ = step_io.halves(key or room.key)
        hello = {"key": shown, "node": room.nodes[index], "node_index": index, "pid": 1}
        self.send(step_io.pack(step_io.HELLO, 0, pack(hello)))

    def send(self, frame: bytes) -> None:
        """Send a frame."""
        self.connection.sendall(frame)

    def started(self) -> None:
        """Say that all tasks run, and wait until srun has heard it."""
        self.send(step_io.pack(step_io.STARTED, 0, pack(dict.fromkeys(self.tasks, 1))))
        # srun answers in order, so then it knows.
        self.send(step_io.pack(step_io.PING))
        self.wait_for(step_io.PONG)

    def out(self, task: int, data: bytes, kind: int = step_io.STDOUT) -> None:
        """Send output."""
        self.send(step_io.pack(kind, task, data))

    def exit(self, task: int, status: int, flags: int = 0) -> None:
        """Report the end of a task."""
        self.send(step_io.pack_number(step_io.EXIT, task, status, flags))

    def done(self) -> None:
        """Say that all is over and leave."""
        self.send(step_io.pack(step_io.DONE))
        self.connection.shutdown(socket.SHUT_WR)

    def finish(self, status: int = 0) -> None:
        """End every task alike."""
        for task in self.tasks:
            self.exit(task, status)
        self.done()

    def receive(self) -> tuple[int, int, bytes]:
        """Return the next frame from srun."""
        while not self._waiting:
            data = self.connection.recv(1 << 20)
            if not data:
                raise EOFError
            self._waiting = self._frames.feed(data)
        return self._waiting.pop(0)

    def wait_for(self, kind: int) -> tuple[int, bytes]:
        """Return task and body of the next frame of a kind."""
        while True:
            got, task, body = self.receive()
            if got == kind:
                return task, body


class StepRoom:
    """One running client."""

    def __init__(
        self,
        nodes: list[str],
        tasks: list[list[int]],
        *,
        stdin: Any = subprocess.DEVNULL,
        stdout: Any = subprocess.PIPE,
        **settings: Any,
    ) -> None:
        """`teller` is a descriptor from which a byte comes when the controller knows the end."""
        self.nodes = nodes
        self.tasks = tasks
        self.connections: list[socket.socket] = []
        read, write = os.pipe()
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, repr((nodes, tasks, settings))],
            stdin=stdin,
            stdout=stdout,
            stderr=subprocess.PIPE,
            pass_fds=[write, settings["teller"]] if "teller" in settings else [write],
            env={**os.environ, "PYTHONPATH": str(SOURCE), "TELL": str(write)},
        )
        os.close(write)
        with os.fdopen(read) as stream:
            port, key = stream.readline().split()
        self.port, self.key = int(port), bytes.fromhex(key)

    def connect(self) -> socket.socket:
        """Connect to srun's port and say nothing."""
        connection = socket.create_connection(("127.0.0.1", self.port), LIMIT_S)
        connection.settimeout(LIMIT_S)
        self.connections.append(connection)
        return connection

    def node(self, index: int = 0) -> Node:
        """Connect as one of the nodes."""
        return Node(self, index, self.tasks[index])

    def end(self) -> tuple[bytes, str, int]:
        """Return stdout, stderr and exit code."""
        out, err = self.process.communicate(timeout=LIMIT_S)
        return out or b"", err.decode(), self.process.returncode

    def line(self) -> str:
        """Return the next line of stderr."""
        assert self.process.stderr is not None
        return self.process.stderr.readline().decode().rstrip("\n")

    def close(self) -> None:
        """Leave nothing behind."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()
        for connection in self.connections:
            connection.close()
