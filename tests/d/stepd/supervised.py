"""A real template and real supervisors for tests, driven as slurmd drives them."""

from __future__ import annotations

import array
import os
import select
import socket
import subprocess
from pathlib import Path
from typing import Any

from pyslurm_ng.d.spool import step_record
from pyslurm_ng.d.spool.step_contract import StepSpec
from pyslurm_ng.d.stepd.stepd_command import stepd_command
from pyslurm_ng.d.stepd.template import READY
from pyslurm_ng.kernels.records import pack, unpack
from pyslurm_ng.model.ids import STEP_BATCH
from pyslurm_ng.wire import step_io
from tests.world.waiting import wait_until

LIMIT_S = 30.0
KEY = b"k" * 16 + b"w" * 16
PLAIN = {
    "in": "/dev/null", "cpus": b"", "memory_mode": -1, "memory_nodes": b"", "report": "",
    "problem": "", "env": [], "program": 0,
}  # fmt: skip


class Supervised:
    """One step that was started."""

    def __init__(self, path: str, channel: socket.socket) -> None:
        self.path = path
        self.channel = channel

    def tell(self, **words: object) -> None:
        self.channel.send(pack(words))

    def hear(self) -> dict[str, Any]:
        """Return the next thing the supervisor says; {} when it has gone."""
        assert select.select([self.channel], [], [], LIMIT_S)[0], "the supervisor is silent"
        try:
            body = self.channel.recv(1 << 20)
        except ConnectionResetError:
            body = b""  # it has gone, and left something unread
        return unpack(body) if body else {}

    def end(self) -> dict[str, Any]:
        """Wait until the supervisor has gone and return its last record."""
        while self.hear():
            pass
        self.channel.close()
        return step_record.read(self.path)["end"]


class Template:
    """A template process in a directory of its own; `before` are words that start it."""

    def __init__(self, directory: Path, *before: str) -> None:
        directory.chmod(0o755)
        self.directory = directory
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        words = [str(theirs.fileno()), str(directory), " " * 64]
        command = [*before, *stepd_command(), *words]
        self.process = subprocess.Popen(command, pass_fds=[theirs.fileno()])
        theirs.close()
        assert select.select([self.control], [], [], LIMIT_S)[0], "the template does not start"
        assert self.control.recv(64) == READY
        self._job = 0

    def close(self) -> None:
        self.control.close()
        self.process.wait(LIMIT_S)

    def spec(self, script: str = "", **more: Any) -> dict[str, Any]:
        """Return the specification of a script of this user; `more` replaces parts of it."""
        self._job += 1
        out = str(self.directory / f"{self._job}.out")
        base: StepSpec = {
            "duty": 0, "since_us": 0, "credential": b"", "login": None,
            "name": f"{self._job}.batch", "job": self._job, "attempt": 0, "step": STEP_BATCH,
            "node": "n1", "node_index": 0, "uid": os.getuid(), "gid": os.getgid(),
            "groups": [os.getgid()], "cwd": str(self.directory), "umask": 0o22, "rlimits": [],
            "env": [b"PATH=/usr/bin:/bin"], "nice": 100, "script": script.encode(),
            "spool": str(self.directory / f"job{self._job:05d}"), "append": False, "route": None,
            "label": False, "label_width": 1, "kill_wait": 1, "unkillable_s": 10, "cgroup": None,
            "acct": True, "acct_every": 30, "pam": "", "memory_limit_kib": 0, "meter": None,
            "counts_shared": True,
            "task_prologs": [],
            "task_epilogs": [], "pty": False, "rows": 0, "columns": 0, "is_batch": True,
            "no_kill": False,
            "oom_kill_step": False, "waits_for_children": False,
            "programs": [["x"]],
            "mpi": None, "x11": None, "plugins": None, "frequency": None, "clocks": None,
            "profile": None,
            "namespace": None, "script_word": 0,
            "tasks": [{**PLAIN, "task": 0, "local": 0, "out": out, "err": out}],
        }  # fmt: skip
        return {**base, **more}

    def start(self, spec: dict[str, Any]) -> Supervised:
        path = str(self.directory / step_record.file_name(spec["job"], spec["step"], 0))
        step_record.create(path, spec)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        rights = array.array("i", [theirs.fileno()])
        request = f"{spec['uid']} {path}".encode()
        self.control.sendmsg([request], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
        theirs.close()
        return Supervised(path, ours)

    def run(self, script: str, **more: Any) -> tuple[dict[str, Any], str]:
        """Run a script to its end; return the end record and what it wrote."""
        spec = self.spec("#!/bin/bash\n" + script, **more)
        end = self.start(spec).end()
        out = Path(spec["tasks"][0]["out"])
        return end, out.read_text() if out.exists() else ""


class Peer:
    """The other end of a step's connection."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.settimeout(30)
        self.route = {"host": "127.0.0.1", "port": self.listener.getsockname()[1], "key": KEY}
        self.frames = step_io.Frames()
        self.out: dict[tuple[int, int], bytearray] = {}
        self.exits: dict[int, int] = {}
        self.notices = b""
        self.credit = step_io.STDIN_WINDOW
        self.hello: dict[str, object] = {}
        self.done = False

    def accept(self, *, is_srun: bool = True) -> None:
        """Take the connection, and show the key unless it is not known here."""
        self.connection, _ = self.listener.accept()
        self.connection.settimeout(30)
        if is_srun:
            self.send(step_io.WELCOME, body=step_io.halves(KEY)[1])

    def pump(self) -> bool:
        """Take one portion; return whether the connection goes on."""
        data = self.connection.recv(65536)
        for kind, task, body in self.frames.feed(data):
            if kind in (step_io.STDOUT, step_io.STDERR):
                self.out.setdefault((task, kind), bytearray()).extend(body)
            elif kind == step_io.EXIT:
                self.exits[task] = step_io.numbers(body)[0]
            elif kind == step_io.CREDIT:
                self.credit += step_io.numbers(body)[0]
            elif kind == step_io.NOTICE:
                self.notices += body
            elif kind == step_io.MPI:
                self.on_mpi(body)
            elif kind == step_io.HELLO:
                self.hello = unpack(body)
            elif kind == step_io.DONE:
                self.done = True
        return bool(data)

    def on_mpi(self, body: bytes) -> None:
        """Take a message of MPI; tests that have MPI replace this."""

    def read_all(self) -> None:
        """Take everything up to the end of the connection."""
        try:
            while self.pump():
                pass
        finally:
            self.close()

    def close(self) -> None:
        self.connection.close()
        self.listener.close()

    def send(self, kind: int, task: int = step_io.ALL, body: bytes = b"") -> None:
        self.connection.sendall(step_io.pack(kind, task, body))


class Srun(Peer):
    """srun's end of a step's connection."""

    def __init__(
        self,
        template: Template,
        argv: list[str],
        count: int = 2,
        *,
        is_srun: bool = True,
        **more: object,
    ) -> None:
        super().__init__()
        tasks = [
            {**PLAIN, "in": None, "task": task, "local": task, "out": None,
             "err": None, "env": [b"SLURM_PROCID=%d" % task]}
            for task in range(count)
        ]  # fmt: skip
        spec = template.spec(
            "", route=self.route, programs=[argv], tasks=tasks, is_batch=False, step=0, **more
        )
        spec["name"] = f"{spec['job']}.0"
        self.step = template.start(spec)
        self.accept(is_srun=is_srun)

    def finish(self) -> None:
        self.read_all()
        self.step.end()


class Reader(Peer):
    """sattach's end of a step's connection."""

    def __init__(self, step: Supervised, *, is_known: bool = True) -> None:
        super().__init__()
        step.tell(do="reader", tag=7, route=self.route)
        answer = step.hear()
        while answer.get("did") != "reader":
            answer = step.hear()
        self.problem = answer["problem"]
        if self.problem:
            self.listener.close()
        else:
            self.accept(is_srun=is_known)


def until_written(path: str, text: str) -> None:
    wait_until(lambda: os.path.exists(path) and text in Path(path).read_text())


def until_started(step: Supervised) -> None:
    """Wait until the supervisor itself knows that its tasks run, which they may show earlier."""
    said = step.hear()
    while said["did"] != "start":
        said = step.hear()
