"""slurmrestd of a pretended cluster: whom its address and a token are told."""

from __future__ import annotations

import grp
import pwd
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

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


def test_its_log_is_private(tmp_path: Path) -> None:
    """It names requests and jobs; one that an earlier version has left open to all, too."""
    layout = Layout(tmp_path)
    layout.log.mkdir()
    layout.run.mkdir()
    log = layout.log / "slurmrestd.log"
    log.write_text("of an earlier one")
    log.chmod(0o644)
    program = tmp_path / "slurmrestd"
    program.write_text("#!/bin/sh\necho slurmrestd: fatal: no\nexit 1\n")
    program.chmod(0o755)
    assert "fatal: no" in web.start(program, 1, layout, {}, 5.0)
    assert log.stat().st_mode & 0o777 == 0o600


class _Host:
    """Accounts, groups and processes in place of those of this host, which come and go."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.accounts: dict[str, int] = {"root": 0}
        self.groups: list[int] = [0]
        self.uids: list[tuple[int, int, int]] = [(0, 0, 0)]
        monkeypatch.setattr(web, "_FREE_IDS", range(61184, 61188))
        monkeypatch.setattr(pwd, "getpwnam", self._account)
        monkeypatch.setattr(pwd, "getpwall", self._accounts)
        monkeypatch.setattr(grp, "getgrall", self._groups)
        monkeypatch.setattr(psutil, "process_iter", self._processes)

    def _account(self, name: str) -> SimpleNamespace:
        return SimpleNamespace(pw_name=name, pw_uid=self.accounts[name])

    def _accounts(self) -> list[SimpleNamespace]:
        return [self._account(name) for name in self.accounts]

    def _groups(self) -> list[SimpleNamespace]:
        return [SimpleNamespace(gr_gid=number) for number in self.groups]

    def _processes(self) -> list[SimpleNamespace]:
        def gone() -> tuple[int, int, int]:
            raise psutil.NoSuchProcess(7)

        live = [SimpleNamespace(uids=lambda uids=uids: uids) for uids in self.uids]
        return [SimpleNamespace(uids=gone), *live]


def test_its_user_is_nobody_elses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs may be nobody's: they could read tokens in the memory of a process of their user."""
    host = _Host(monkeypatch)
    chosen = {web.own_user() for _ in range(200)}
    assert chosen == {"61184", "61185", "61186", "61187"}, "two `up` at once choose differently"
    host.accounts["alice"] = 61184
    host.groups.append(61185)
    host.uids.append((0, 61186, 0))  # of another cluster on this host
    assert {web.own_user() for _ in range(20)} == {"61187"}
    host.uids.append((61187, 61187, 61187))
    with pytest.raises(LookupError, match="61184 to 61187"):
        web.own_user()
    host.accounts["slurmrestd"] = 990
    assert web.own_user() == "slurmrestd"


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
