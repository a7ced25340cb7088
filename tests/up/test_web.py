"""slurmrestd of a pretended cluster: whom its address and a token are told."""

from __future__ import annotations

import os
import pwd
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from pyslurm_ng.up import web
from pyslurm_ng.up.layout import Layout


def test_another_listener_is_not_slurmrestd(tmp_path: Path) -> None:
    """Who takes the port before slurmrestd does would be sent the token of the cluster's user."""
    layout = Layout(tmp_path)
    layout.log.mkdir(parents=True)
    layout.run.mkdir(parents=True)
    program = tmp_path / "slurmrestd"
    program.write_text("#!/bin/sh\necho slurmrestd: fatal: in use\nsleep 1\nexit 1\n")
    program.chmod(0o755)
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        assert "in use" in web.start(program, port, layout, {}, 5.0)
        assert not (layout.run / "slurmrestd.pid").exists()


def test_its_user_is_nobody_elses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs may be nobody's: they could read tokens in the memory of a process of their user."""
    user = web.own_user()
    if not user.isdecimal():
        assert pwd.getpwnam(user).pw_name == "slurmrestd"
        return
    with pytest.raises(KeyError):
        pwd.getpwuid(int(user))
    monkeypatch.setattr(psutil.Process, "uids", lambda self: (int(user), int(user), int(user)))
    assert int(web.own_user()) == int(user) + 1
    own = pwd.getpwuid(os.geteuid())
    monkeypatch.setattr(pwd, "getpwnam", lambda name: own)
    assert web.own_user() == own.pw_name


def test_a_process_listens_itself() -> None:
    """Not one that has only the same address, or another port."""
    code = (
        'import socket\nlistener = socket.create_server(("127.0.0.1", 0))\n'
        "print(listener.getsockname()[1], flush=True)\ninput()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        port = int(child.stdout.readline())
        process = psutil.Process(child.pid)
        assert web.listens(process, port) and not web.listens(process, port + 1)
        assert not web.listens(psutil.Process(), port)
        child.communicate("\n")
    assert not web.listens(process, port)
